"""The agent's eyes over the fake NVML library, through the real binding."""

from __future__ import annotations

import _ctypes
import ctypes
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slicewright.apis.desired_state import Desired, DesiredGpu
from slicewright.node_agent.nvml import binding, observed, utilization
from slicewright.node_agent.nvml import probe as nvml
from slicewright.node_agent.verdict.instances import observed_instances
from slicewright.node_agent.verdict.verify import verify
from slicewright.rehearsal.cluster.silicon import models, state

MakeSilicon = Callable[..., Any]
NOBODY = 65532
MIG_MODELS = sorted(key for key, model in models.models().items() if model.slices)


def _desired(model: str, count: int, instances: dict[str, int] | None) -> Desired:
    return Desired(
        pool="p",
        partitioner="none",
        gpu_count=count,
        gpu_models=(models.model(model).name,),
        gpus=(DesiredGpu(index="all", mig=instances is not None, instances=instances or {}),),
        resources={},
    )


@pytest.mark.parametrize("user", [None, NOBODY], ids=["root", "unprivileged"])
@pytest.mark.parametrize("model", MIG_MODELS)
def test_every_profile_of_every_model_is_named_right(
    model: str, user: int | None, silicon: MakeSilicon
) -> None:
    profiles = [slice_.name for slice_ in models.model(model).slices]
    node = silicon(model, len(profiles))
    for index, name in enumerate(profiles):
        state.repartition(node.path, index, [name])
    node.path.chmod(0o644)
    observation = node.observe(user=user)
    assert observation.failure is None
    empty = _desired(model, len(profiles), {})
    assert [dict(observed_instances(gpu, empty)) for gpu in observation.gpus] == [
        {name: 1} for name in profiles
    ]


def test_an_observation_survives_the_pipe(silicon: MakeSilicon) -> None:
    node = silicon("A100-40", 2)
    state.repartition(node.path, 1, ["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"])
    observation = node.observe()
    assert observed.parse(observed.dump(observation)) == observation
    assert [len(gpu.devices) for gpu in observation.gpus] == [0, 4]
    assert observation.driver == "550.90.07"
    assert [gpu.model for gpu in observation.gpus] == ["NVIDIA A100-SXM4-40GB"] * 2


def test_placements_are_seen_with_privileges(silicon: MakeSilicon) -> None:
    node = silicon("H100-80", 1)
    state.repartition(node.path, 0, ["3g.40gb", "3g.40gb"])
    (gpu,) = node.observe().gpus
    assert sorted((i.start, i.size) for i in gpu.gpu_instances) == [(0, 4), (4, 4)]


def test_smaller_compute_instances_differ_from_whole_ones(silicon: MakeSilicon) -> None:
    node = silicon("H100-80", 1)
    state.repartition(node.path, 0, ["1c.3g.40gb", "2c.3g.40gb"])
    desired = _desired("H100-80", 1, {"3g.40gb": 1})
    observation = node.observe()
    assert dict(observed_instances(observation.gpus[0], desired)) == {
        "1c.3g.40gb": 1,
        "2c.3g.40gb": 1,
    }
    assert verify(desired, observation, None, silicon_only=True).reason == "WrongLayout"


def test_a_gpu_without_mig_is_no_failure(silicon: MakeSilicon) -> None:
    node = silicon("T4", 2)
    observation = node.observe()
    assert [gpu.mig for gpu in observation.gpus] == ["unsupported", "unsupported"]
    assert verify(_desired("T4", 2, None), observation, None, silicon_only=True).verdict == "Match"


def test_the_driver_and_the_verdict_agree_on_a_whole_node(silicon: MakeSilicon) -> None:
    layout = {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}
    node = silicon("A100-40", 8)
    desired = _desired("A100-40", 8, layout)
    assert verify(desired, node.observe(), None, silicon_only=True).reason == "NotPartitioned"
    for index in range(8):
        state.repartition(node.path, index, list(Counter(layout).elements()))
    assert verify(desired, node.observe(), None, silicon_only=True).verdict == "Match"
    state.repartition(node.path, 5, ["1g.5gb"] * 7)
    verdict = verify(desired, node.observe(), None, silicon_only=True)
    assert verdict.reason == "WrongLayout"
    assert verdict.message.startswith(
        "GPU 5 wanted 1g.5gb x2, 2g.10gb x1, 3g.20gb x1, found 1g.5gb x7:"
    )
    state.reboot(node.path)
    assert verify(desired, node.observe(), None, silicon_only=True).reason == "NotPartitioned"


def test_a_lost_gpu_does_not_hide_the_others(silicon: MakeSilicon) -> None:
    node = silicon("H100-80", 4)
    state.lose(node.path, 2)
    observation = node.observe()
    assert [gpu.failure.code if gpu.failure else None for gpu in observation.gpus] == [
        None,
        None,
        15,
        None,
    ]
    assert (
        verify(_desired("H100-80", 4, None), observation, None, silicon_only=True).reason
        == "GpuLost"
    )


@pytest.mark.parametrize(
    ("call", "code", "reason"),
    [
        ("nvmlInit", 9, "DriverNotLoaded"),
        ("nvmlInit", 18, "DriverVersionMismatch"),
        ("nvmlDeviceGetHandleByIndex", 4, "NoPermission"),
        ("nvmlDeviceGetMigMode", 16, "GpuResetRequired"),
        ("nvmlDeviceGetAttributes", 999, "DriverError"),
        ("nvmlDeviceGetMigDeviceHandleByIndex", 15, "GpuLost"),
        ("nvmlSystemGetDriverVersion", 999, "DriverError"),
    ],
)
def test_an_nvml_error_has_its_reason(
    call: str, code: int, reason: str, silicon: MakeSilicon
) -> None:
    node = silicon("H100-80", 1)
    state.repartition(node.path, 0, ["7g.80gb"])
    state.inject(node.path, state.Injection(call=call, code=code))
    verdict = verify(
        _desired("H100-80", 1, {"7g.80gb": 1}), node.observe(), None, silicon_only=True
    )
    assert verdict.reason == reason


@pytest.mark.parametrize(
    "call", ["nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPciInfo", "nvmlDeviceGetGpuInstances"]
)
def test_facts_that_are_nice_to_have_do_not_decide(call: str, silicon: MakeSilicon) -> None:
    node = silicon("H100-80", 1)
    state.repartition(node.path, 0, ["7g.80gb"])
    state.inject(node.path, state.Injection(call=call, code=4))
    assert (
        verify(
            _desired("H100-80", 1, {"7g.80gb": 1}), node.observe(), None, silicon_only=True
        ).verdict
        == "Match"
    )


def test_without_offered_profiles_the_size_names_the_partition(silicon: MakeSilicon) -> None:
    """Drivers up to R535 tell profiles with MIG on only, and their names not at all."""
    node = silicon("H200", 1)
    state.repartition(node.path, 0, ["3g.71gb", "3g.71gb"])
    (gpu,) = node.observe().gpus
    bare = replace(
        gpu,
        offered=(),
        devices=tuple(replace(d, name=gpu.model) for d in gpu.devices),
        memory_mib=None,
    )
    desired = _desired("H200", 1, {"3g.71gb": 2})
    assert dict(observed_instances(bare, desired)) == {"unknown": 2}
    assert dict(observed_instances(bare, replace(desired, gpu_memory_mib=143771))) == {"3g.71gb": 2}


def test_a_hung_call_ends_at_the_deadline_and_the_next_probe_succeeds(silicon: MakeSilicon) -> None:
    node = silicon("H100-80", 1)
    state.inject(node.path, state.Injection(call="nvmlDeviceGetMigMode", delay_ms=60_000, times=1))
    prober = node.prober(deadline_s=2)
    try:
        hung = prober.probe()
        assert hung.failure is not None
        assert (
            verify(_desired("H100-80", 1, None), hung, None, silicon_only=True).reason
            == "DriverHung"
        )
        state.heal(node.path)
        assert prober.probe().failure is None
    finally:
        prober.close()


def test_privileged_facts_are_unknown_without_privileges_not_empty(silicon: MakeSilicon) -> None:
    node = silicon("H100-80", 1)
    state.repartition(node.path, 0, ["3g.40gb", "3g.40gb"])
    (gpu,) = node.observe(user=NOBODY).gpus
    assert gpu.gpu_instances is None
    assert len(gpu.devices) == 2


class _Older:
    """The library of a driver that does not have one function yet."""

    def __init__(self, library: ctypes.CDLL, missing: str) -> None:
        self._library, self._missing = library, missing

    def __getattr__(self, name: str) -> Any:
        if name == self._missing:
            raise AttributeError(f"undefined symbol: {name}")
        return getattr(self._library, name)


_VITAL = {
    "nvmlInit_v2": "nvmlInit",
    "nvmlSystemGetDriverVersion": "nvmlSystemGetDriverVersion",
    "nvmlDeviceGetCount_v2": "nvmlDeviceGetCount",
    "nvmlDeviceGetHandleByIndex_v2": "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetUUID": "nvmlDeviceGetUUID",
    "nvmlDeviceGetName": "nvmlDeviceGetName",
    "nvmlDeviceGetMaxMigDeviceCount": "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex": "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetAttributes_v2": "nvmlDeviceGetAttributes",
    "nvmlDeviceGetGpuInstanceId": "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId": "nvmlDeviceGetComputeInstanceId",
}
"""Symbol -> the question that cannot be asked without it and that no verdict can do without; every
driver with MIG has them.
"""


def test_no_missing_symbol_is_a_crash_or_a_wrong_verdict(
    silicon: MakeSilicon, in_this_process: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each function in turn: for a quick probe, a thorough one, and one with utilization."""
    node = silicon("H100-80", 1)
    state.repartition(node.path, 0, ["3g.40gb", "3g.40gb"])
    in_this_process(node.path)
    monkeypatch.setattr(utilization, "WINDOW_S", 0.001)
    desired = _desired("H100-80", 1, {"3g.40gb": 2})
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", node.library], capture_output=True, text=True, check=True
    ).stdout
    symbols = sorted(set(re.findall(r" T (nvml\w+)$", listed, re.MULTILINE)))
    assert len(symbols) > 110
    assert set(_VITAL) <= set(symbols)
    real = ctypes.CDLL(str(node.library))
    monkeypatch.setattr(_ctypes, "dlclose", lambda _: None)
    for symbol in symbols:
        older = binding.Nvml(_Older(real, symbol))  # type: ignore[arg-type]
        monkeypatch.setattr(binding, "load", lambda older=older: older)
        for options in ({}, {"thorough": True}, {"thorough": True, "with_utilization": True}):
            observation = nvml.probe(**options)
            verdict = verify(desired, observation, None, silicon_only=True)
            failure = observation.failure or observation.gpus[0].failure
            missed = failure and (failure.call, failure.code)
            assert missed == ((_VITAL[symbol], 13) if symbol in _VITAL else None), symbol
            expected = (
                "Unknown"
                if symbol in _VITAL
                else "Mismatch"
                if symbol == "nvmlDeviceGetMigMode"
                else "Match"
            )
            assert verdict.verdict == expected, (symbol, options, verdict.message)
