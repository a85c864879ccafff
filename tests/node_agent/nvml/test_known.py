"""A look after other looks of the same worker: fewer calls, and the same answer as a first look's
after every change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slicewright.node_agent.nvml import binding
from slicewright.node_agent.nvml.cache import Cache
from slicewright.node_agent.nvml.observed import Engines, OfferedProfile
from slicewright.node_agent.nvml.probe import probe
from slicewright.node_agent.nvml.profiles import needs_device_names
from slicewright.rehearsal.cluster.silicon import models, state
from slicewright.rehearsal.cluster.silicon.node_silicon import Injection, NodeSilicon

MakeSilicon = Callable[..., Any]
Change = Callable[[Any], object]


def _edit(edit: Callable[[NodeSilicon], NodeSilicon]) -> Change:
    return lambda node: state.change(node.path, edit)


def _first_gpu(edit: Callable[[Any], Any]) -> Change:
    return _edit(lambda found: replace(found, gpus=(edit(found.gpus[0]), *found.gpus[1:])))


def _same_ids_other_profile(node: Any) -> None:
    """As where UUIDs are made out of ids: cut anew, every UUID and id as before."""
    before = state.load(node.path).gpus[0].instances
    state.repartition(node.path, 0, ["2g.20gb"] * 3)

    def renamed(gpu: Any) -> Any:
        instances = tuple(
            replace(
                new,
                id=old.id,
                compute_instances=tuple(
                    replace(compute, uuid=old.compute_instances[0].uuid)
                    for compute in new.compute_instances
                ),
            )
            for old, new in zip(before, gpu.instances, strict=False)
        )
        return replace(gpu, instances=instances)

    _first_gpu(renamed)(node)


def _moved(gpu: Any) -> Any:
    """The first instance at another place, with all that names it unchanged."""
    first, *rest = gpu.instances
    return replace(gpu, instances=(replace(first, start=first.start + 1), *rest))


def _one_without_device(node: Any) -> None:
    """Cut anew; the instance of the second profile has no compute instance."""
    state.repartition(node.path, 0, ["4g.40gb", "3g.40gb"])

    def emptied(gpu: Any) -> Any:
        large, small = gpu.instances
        return replace(gpu, instances=(large, replace(small, compute_instances=())))

    _first_gpu(emptied)(node)


CHANGES: dict[str, Change] = {
    "cut anew, one instance without a device": _one_without_device,
    "cut anew": lambda node: state.repartition(node.path, 0, ["3g.40gb", "3g.40gb"]),
    "cut anew with the same UUIDs and ids": _same_ids_other_profile,
    "an instance gone": _first_gpu(lambda gpu: replace(gpu, instances=gpu.instances[1:])),
    "an instance elsewhere": _first_gpu(_moved),
    "a compute instance gone": _first_gpu(
        lambda gpu: replace(
            gpu, instances=(replace(gpu.instances[0], compute_instances=()), *gpu.instances[1:])
        )
    ),
    "MIG off": lambda node: state.set_mig_mode(node.path, 0, enabled=False),
    "MIG on": lambda node: state.set_mig_mode(node.path, 1, enabled=True),
    "a reset asked for": lambda node: state.set_health(node.path, 0, recovery_action=1),
    "a row to remap": lambda node: state.set_health(node.path, 1, remap_pending=1),
    "a GPU lost": lambda node: state.lose(node.path, 1),
    "a GPU gone": _edit(lambda found: replace(found, gpus=found.gpus[:1])),
    "another GPU in its place": _first_gpu(
        lambda gpu: replace(gpu, uuid="GPU-00000000-0000-4000-8000-000000000001", pci="0000:aa:00")
    ),
    "another driver": _edit(lambda found: replace(found, driver_version="575.57.08")),
    "attributes refused": lambda node: state.inject(
        node.path, Injection(call="nvmlDeviceGetAttributes", code=999)
    ),
    "the mode refused": lambda node: state.inject(
        node.path, Injection(call="nvmlDeviceGetMigMode", code=16)
    ),
    "instances refused": lambda node: state.inject(
        node.path, Injection(call="nvmlDeviceGetGpuInstances", code=4)
    ),
}


@pytest.fixture
def node(silicon: MakeSilicon, in_this_process: Callable[..., None]) -> Any:
    """GPU 0 cut in seven, GPU 1 whole."""
    node = silicon("H100-80", 2)
    state.repartition(node.path, 0, ["1g.10gb"] * 7)
    in_this_process(node.path)
    return node


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("thorough", [False, True], ids=["quick", "thorough"])
def test_a_look_after_others_sees_every_change_as_a_first_one_does(
    change: str, thorough: bool, node: Any
) -> None:
    cache = Cache()
    before = [probe(cache=cache, thorough=thorough) for _ in range(2)]
    assert before[0] == before[1] == probe(thorough=thorough)
    CHANGES[change](node)
    seen = probe(cache=cache, thorough=thorough)
    assert seen == probe(thorough=thorough)
    assert seen != before[1]


def test_profiles_that_differ_in_nothing_but_the_name_stay_apart(
    silicon: MakeSilicon, in_this_process: Callable[..., None]
) -> None:
    """Cut anew from 1g.24gb to 1g.24gb+gfx, with the same UUID and ids."""
    node = silicon("RTX-PRO-6000", 1)
    state.repartition(node.path, 0, ["1g.24gb"])
    in_this_process(node.path)
    cache = Cache()
    before = probe(cache=cache)
    (old,) = state.load(node.path).gpus[0].instances
    state.repartition(node.path, 0, ["1g.24gb+gfx"])

    def renamed(gpu: Any) -> Any:
        (new,) = gpu.instances
        computes = tuple(
            replace(c, uuid=old.compute_instances[0].uuid) for c in new.compute_instances
        )
        return replace(gpu, instances=(replace(new, id=old.id, compute_instances=computes),))

    _first_gpu(renamed)(node)
    seen = probe(cache=cache)
    assert seen == probe()
    (was,), (now,) = before.gpus[0].devices, seen.gpus[0].devices
    assert (was.uuid, was.gpu_instance) == (now.uuid, now.gpu_instance)
    assert was.name.endswith("1g.24gb")
    assert now.name.endswith("1g.24gb+gfx")


def test_profiles_listed_in_part_are_asked_for_again(node: Any) -> None:
    state.inject(node.path, Injection(call="nvmlDeviceGetGpuInstanceProfileInfoV", code=999))
    cache = Cache()
    assert probe(cache=cache).gpus[0].offered == ()
    state.heal(node.path)
    assert probe(cache=cache) == probe()


def test_later_look_reads_only_facts_that_can_change(
    node: Any, calls: Callable[[], Counter[str]]
) -> None:
    cache = Cache()
    probe(cache=cache)
    first = calls()
    probe(cache=cache)
    quick = calls()
    unasked = {
        "nvmlDeviceGetName",
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetGpuInstanceProfileInfoV",
        "nvmlDeviceGetGpuInstanceId",
    }
    assert unasked <= set(first) - set(quick)
    assert quick["nvmlDeviceGetAttributes_v2"] == quick["nvmlDeviceGetMigDeviceHandleByIndex"] == 7
    assert quick["nvmlGpuInstanceGetInfo"] == 7
    assert quick["nvmlDeviceGetGpuInstances"] == 1, "its instances have all slices"
    assert quick["nvmlDeviceGetFieldValues"] == quick["nvmlDeviceGetMigMode"] == 2
    # Per MIG device three calls, and one per GPU instance.
    assert quick.total() < 7 * 4 + 2 * 4 + 16


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Counter[str]]:
    """`calls()`: how often each function was called since the last time that this was."""
    made: Counter[str] = Counter()
    real = binding.Nvml.function

    def function(self: binding.Nvml, symbol: str) -> Callable[..., int]:
        found = real(self, symbol)

        def counted(*arguments: Any) -> int:
            made[symbol] += 1
            return found(*arguments)

        return counted

    monkeypatch.setattr(binding.Nvml, "function", function)

    def since() -> Counter[str]:
        found = Counter(made)
        made.clear()
        return found

    return since


def _offered(name: str, slices: int, memory_mib: int, *, jpeg: int, ofa: int) -> OfferedProfile:
    return OfferedProfile(
        id=0,
        name=name,
        suffix="",
        slices=slices,
        memory_mib=memory_mib,
        multiprocessors=16,
        engines=Engines(decoders=1, encoders=0, jpeg=jpeg, ofa=ofa),
    )


def test_device_names_are_needed_if_profiles_are_equal_otherwise() -> None:
    one = _offered("1g.10gb", 1, 9984, jpeg=1, ofa=0)
    media = _offered("1g.10gb+me", 1, 9984, jpeg=1, ofa=1)
    larger = _offered("1g.20gb", 1, 19968, jpeg=1, ofa=0)
    graphics = _offered("1g.10gb+gfx", 1, 9984, jpeg=1, ofa=0)
    assert not needs_device_names((one, media, larger))
    assert needs_device_names((one, media, larger, graphics))
    assert needs_device_names(()), "a driver that lists none"


@pytest.mark.parametrize("model", sorted(k for k, m in models.models().items() if m.slices))
def test_names_are_asked_of_models_with_profiles_alike(
    model: str, silicon: MakeSilicon, in_this_process: Callable[..., None]
) -> None:
    node = silicon(model, 1)
    state.set_mig_mode(node.path, 0, enabled=True)
    state.reboot(node.path)
    in_this_process(node.path)
    (gpu,) = probe().gpus
    alike = any("gfx" in slice_.name for slice_ in models.model(model).slices)
    assert needs_device_names(gpu.offered) == alike
