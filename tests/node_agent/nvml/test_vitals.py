"""Health as the driver tells it: all of it, some of it, or nothing; and drivers that lack a
function.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.apis.desired_state import Desired, DesiredGpu
from slicewright.node_agent.display import show
from slicewright.node_agent.nvml import observed
from slicewright.node_agent.nvml.observed import Observation, Vitals
from slicewright.node_agent.verdict.verify import verify
from slicewright.rehearsal.cluster.silicon import models, state

MakeSilicon = Callable[..., Any]


def _model(health: Iterable[str]) -> str:
    """One that has what is asked about: GPUs before Ampere retire pages, later ones remap rows."""
    return "T4" if any(key.startswith("retired") for key in health) else "H100-80"


def _absent(vitals: Vitals) -> set[str]:
    return {f.name for f in fields(Vitals) if getattr(vitals, f.name) is None}


def test_a_well_gpu_has_every_number_and_no_trouble(silicon: MakeSilicon) -> None:
    gpu, _ = silicon("H100-80", 2).observe(thorough=True).gpus
    assert gpu.vitals is not None
    assert _absent(gpu.vitals) == {"retired_single", "retired_double", "retired_pending"}
    read = {f.name: getattr(gpu.vitals, f.name) for f in fields(Vitals)}
    (single,) = silicon("H100-80", 1).observe(thorough=True).gpus
    assert single.vitals is not None
    assert _absent(single.vitals) - _absent(gpu.vitals) == {"nvlinks_up", "nvlinks_down"}, (
        "a machine with one GPU of a board has no links"
    )
    (before_ampere,) = silicon("T4", 1).observe(thorough=True).gpus
    assert before_ampere.vitals is not None
    assert before_ampere.vitals.retired_pending is False
    assert (
        read["recovery_action"],
        read["slowdowns"],
        read["nvlinks_up"],
        read["nvlinks_down"],
    ) == ("none", (), 18, 0)
    assert not any(
        line.startswith("  !")
        for line in show.gpus(Observation(driver="1", gpus=(gpu,))).splitlines()
    )


def test_an_observation_with_health_survives_the_pipe(silicon: MakeSilicon) -> None:
    node = silicon("H100-80", 2)
    state.repartition(node.path, 1, ["3g.40gb"])
    state.set_health(node.path, 0, throttle_reasons=0x48)
    state.run_process(node.path, state.Process(gpu=0, pid=5))
    observation = node.observe(thorough=True)
    assert observed.parse(observed.dump(observation)) == observation
    assert observation.cuda == "12.4"
    assert observation.gpus[0].processes == (5,)
    assert observation.gpus[0].vitals is not None
    assert observation.gpus[0].vitals.slowdowns == ("hardware slowdown", "hardware thermal")
    assert observation.gpus[1].devices[0].memory_used_mib is not None


@pytest.mark.parametrize(
    ("health", "fact", "value", "words"),
    [
        (
            {"ecc_uncorrected_volatile": 3},
            "ecc_uncorrected",
            3,
            "3 memory errors that ECC could not correct",
        ),
        ({"ecc_corrected_volatile": 9}, "ecc_corrected", 9, None),
        ({"remapped_uncorrectable": 2}, "remapped_uncorrectable", 2, "2 rows remapped"),
        ({"remap_pending": 1}, "remap_pending", True, "until the next reset"),
        ({"remap_failed": 1}, "remap_failed", True, "replace the GPU"),
        ({"retired_double": 1}, "retired_double", 1, "1 pages retired"),
        ({"retired_pending": 1}, "retired_pending", True, "until the next reset"),
        (
            {"recovery_action": 1},
            "recovery_action",
            "reset the GPU",
            "the driver asks to reset the GPU",
        ),
        ({"recovery_action": 9}, "recovery_action", "action 9", "the driver asks to action 9"),
        (
            {"throttle_reasons": 0x40},
            "slowdowns",
            ("hardware thermal",),
            "slowed down: hardware thermal",
        ),
        ({"nvlinks_down": 0b101}, "nvlinks_down", 2, "2 NVLinks down"),
        ({"temperature_c": 80}, "temperature_c", 80, "80 °C"),
        ({"power_mw": 700000}, "power_mw", 700000, "700 W"),
        ({"pcie_replays": 4}, "pcie_replays", 4, None),
    ],
)
def test_health_problem_is_in_the_observation_and_the_message(
    health: dict[str, int], fact: str, value: object, words: str | None, silicon: MakeSilicon
) -> None:
    node = silicon(_model(health), 2)
    state.set_health(node.path, 0, **health)
    observation = node.observe(thorough=True)
    assert getattr(observation.gpus[0].vitals, fact) == value
    if words:
        assert words in show.gpus(observation)


WHOLE = Desired(
    pool="p", partitioner="none", gpu_count=1, gpu_models=("NVIDIA H100 80GB HBM3", "Tesla T4"),
    gpus=(DesiredGpu(index="all", mig=False),), resources={},
)  # fmt: skip


@pytest.mark.parametrize(
    "health",
    [
        {"ecc_uncorrected_volatile": 7, "remapped_uncorrectable": 2},
        {"ecc_uncorrected_volatile": 7, "retired_double": 1},
        {"throttle_reasons": 0x48, "temperature_c": 95, "pcie_replays": 4, "nvlinks_down": 3},
        {"recovery_action": 3},  # drain peer-to-peer: neither a reset nor a reboot
    ],
)
def test_health_that_needs_no_reset_decides_no_verdict(
    health: dict[str, int], silicon: MakeSilicon
) -> None:
    node = silicon(_model(health), 1)
    state.set_health(node.path, 0, **health)
    assert verify(WHOLE, node.observe(), None, silicon_only=True).verdict == "Match"
    assert verify(WHOLE, node.observe(thorough=True), None, silicon_only=True).verdict == "Match"


ASKS_FOR_REPAIR = [
    ({"recovery_action": 1}, "GpuResetRequested", "found the driver asks to reset the GPU"),
    ({"recovery_action": 2}, "GpuResetRequested", "found the driver asks to reboot the node"),
    ({"recovery_action": 4}, "GpuResetRequested", "found the driver asks to drain and reset"),
    ({"recovery_action": 9}, "GpuResetRequested", "found the driver asks for recovery action 9"),
    ({"remap_pending": 1}, "GpuResetRequested", "found a row remapping that waits for a reset"),
    ({"retired_pending": 1}, "GpuResetRequested", "found a page retirement that waits for a"),
    ({"remap_failed": 1}, "RowRemapFailed", "found a bad memory row without a spare row"),
]


@pytest.mark.parametrize("thorough", [False, True])
@pytest.mark.parametrize(("health", "reason", "finding"), ASKS_FOR_REPAIR)
def test_a_driver_that_asks_for_a_repair_is_no_match(
    health: dict[str, int], reason: str, finding: str, thorough: bool, silicon: MakeSilicon
) -> None:
    node = silicon(_model(health), 1)
    state.set_health(node.path, 0, **health)
    observation = node.observe(thorough=True) if thorough else node.observe()
    verdict = verify(WHOLE, observation, None, silicon_only=True)
    assert (verdict.verdict, verdict.reason) == ("Mismatch", reason)
    assert finding in verdict.message
    state.heal(node.path)
    assert verify(WHOLE, node.observe(), None, silicon_only=True).verdict == "Match"


@pytest.mark.parametrize("health", ["recovery_action", "remap_pending", "retired_pending"])
def test_reboot_clears_the_recovery_action(health: str, silicon: MakeSilicon) -> None:
    node = silicon(_model([health]), 1)
    state.set_health(node.path, 0, **{health: 1})
    state.reboot(node.path)
    assert verify(WHOLE, node.observe(), None, silicon_only=True).verdict == "Match"


@pytest.mark.parametrize("code", [3, 4, 13])
def test_node_is_judged_without_repairs_that_the_driver_cannot_report(
    code: int, silicon: MakeSilicon
) -> None:
    node = silicon("H100-80", 1)
    state.set_health(node.path, 0, recovery_action=1, remap_failed=1)
    state.inject(node.path, state.Injection(call="nvmlDeviceGetFieldValues", code=code))
    assert verify(WHOLE, node.observe(), None, silicon_only=True).verdict == "Match"


_OPTIONAL = [
    "nvmlDeviceGetTemperature", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetEccMode", "nvmlDeviceGetMinorNumber", "nvmlSystemGetCudaDriverVersion",
    "nvmlDeviceGetMemoryInfo",
]  # fmt: skip


@pytest.mark.parametrize("code", [3, 4, 15, 999])
@pytest.mark.parametrize("call", _OPTIONAL)
def test_an_error_of_a_sensor_is_no_failure(call: str, code: int, silicon: MakeSilicon) -> None:
    node = silicon("H100-80", 1)
    state.repartition(node.path, 0, ["3g.40gb"])
    state.inject(node.path, state.Injection(call=call, code=code))
    (gpu,) = node.observe(thorough=True).gpus
    assert gpu.failure is None
    assert len(gpu.devices) == 1


@pytest.fixture(scope="session")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake without what came after R450: hidden symbols, as if they had never been there."""
    library = tmp_path_factory.mktemp("old-nvml") / "libnvidia-ml.so.1"
    newer = [
        "nvmlDeviceGetFieldValues", "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetGpuInstanceProfileInfoV",
        "nvmlDeviceGetGpuInstancePossiblePlacements_v2", "nvmlDeviceCreateGpuInstanceWithPlacement",
        "nvmlGpuInstanceGetComputeInstancePossiblePlacements",
        "nvmlGpuInstanceGetComputeInstanceProfileInfoV",
        "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3",
        "nvmlDeviceGetNvLinkState",
        "nvmlSystemGetCudaDriverVersion_v2", "nvmlDeviceGetEnforcedPowerLimit",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetPcieReplayCounter",
    ]  # fmt: skip
    script = library.with_name("exports")
    script.write_text("{ local: " + " ".join(f"{name};" for name in newer) + " };")
    sources = sorted(str(source) for source in models.LIBRARY.glob("*.c"))
    flags = [
        "-shared",
        "-fPIC",
        "-O1",
        "-pthread",
        "-Wl,-soname,libnvidia-ml.so.1",
        f"-Wl,--version-script={script}",
    ]
    subprocess.run(["cc", *flags, *sources, "-o", str(library)], check=True)
    return library


def test_a_driver_without_the_newer_functions_is_no_crash(
    old_library: Path, silicon: MakeSilicon
) -> None:
    node = replace(silicon("A100-40", 2, "450.80.02"), library=old_library)
    state.repartition(node.path, 0, ["3g.20gb", "2g.10gb"])
    observation = node.observe(thorough=True)
    assert observation.failure is None
    first, second = observation.gpus
    assert (first.failure, second.failure) == (None, None)
    assert len(first.devices) == 2
    assert first.vitals is not None
    assert first.vitals.temperature_c == 34
    assert (
        first.vitals.recovery_action,
        first.vitals.nvlinks_up,
        first.vitals.utilization_percent,
    ) == (None, None, None)
    assert first.vitals.slowdowns == (), "read under its older name"
    desired = Desired(
        pool="p", partitioner="none", gpu_count=2, gpu_models=("NVIDIA A100-SXM4-40GB",),
            resources={},
        gpus=(DesiredGpu(index=0, mig=True, instances={"3g.20gb": 1, "2g.10gb": 1}),
            DesiredGpu(index=1, mig=False)),
    )  # fmt: skip
    assert verify(desired, observation, None, silicon_only=True).verdict == "Match"


def test_a_driver_without_placements_is_refused_with_the_reason(
    old_library: Path, silicon: MakeSilicon, command: Any
) -> None:
    node = replace(silicon("A100-40", 1, "450.80.02"), library=old_library)
    state.repartition(node.path, 0, ["7g.40gb"])
    was = state.load(node.path)
    refused = command(node, "apply", "0:3g.20gb*2")
    assert refused.returncode == 2
    assert (
        "this driver does not report placements; partitioning needs R470 or newer" in refused.stderr
    )
    assert state.load(node.path) == was
