"""When a container's view is too small, and what says that a new container would see more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from slicewright.apis.desired_state import Desired, DesiredGpu, DesiredSharing
from slicewright.apis.reasons.agent import REASONS
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.nvml.observed import Failure, GpuInstance, MigDevice, Observation
from slicewright.node_agent.verdict import stale_devices
from slicewright.node_agent.verdict.findings import Check, Verdict
from slicewright.node_agent.verdict.verify import verify

NO_DRIVER = Observation(failure=Failure(call="nvmlInit", code=9, text="Driver Not Loaded"))
NO_LIBRARY = Observation(failure=Failure(call="nvmlInit", code=12, text="NVML Not Found"))
NO_PERMISSION = Observation(failure=Failure(call="nvmlInit", code=4, text="No Permission"))
OTHER_VERSION = Observation(failure=Failure(call="nvmlInit", code=18, text="Version mismatch"))


def _evidence(
    desired: Desired, observation: Observation, node: NodeState, *, driver_loaded: bool = False
) -> str | None:
    verdict = verify(desired, observation, node)
    return stale_devices.evidence(desired, verdict, observation, node, driver_loaded=driver_loaded)


def _gpus(observation: Observation, **facts: object) -> Observation:
    gpus = tuple(replace(gpu, **facts) for gpu in observation.gpus)  # type: ignore[arg-type]
    return replace(observation, gpus=gpus)


@pytest.fixture
def empty(right: Observation) -> Observation:
    """MIG mode on and no MIG device: the view of a container made before the partitioning."""
    return _gpus(right, devices=())


@pytest.fixture
def operator(desired: Desired) -> Desired:
    return replace(desired, partitioner="mig-manager")


def _advertising(node: NodeState, **counts: int) -> NodeState:
    resources = {f"nvidia.com/{name.replace('_', '-')}": n for name, n in counts.items()}
    return replace(node, capacity=resources, allocatable=resources)


def test_matching_view_is_not_too_small(desired: Desired, right: Observation) -> None:
    assert not stale_devices.sees_too_little(desired, right)


def test_missing_devices_gpus_and_drivers_make_it_too_small(
    desired: Desired, right: Observation, empty: Observation
) -> None:
    for observation in (
        empty,
        replace(right, gpus=right.gpus[:1]),
        replace(right, gpus=()),
        replace(right, gpus=(right.gpus[0], empty.gpus[1])),
        NO_DRIVER,
        NO_LIBRARY,
    ):
        assert stale_devices.sees_too_little(desired, observation)


@pytest.mark.parametrize(
    ("devices", "too_small"),
    [
        ("", True),
        ("3", True),
        ("33", False),
        ("333", False),
        ("1", False),  # made by somebody: the layout is wrong, not the view of it
        ("31", False),
        ("?", True),
        ("3?", False),
        ("??", False),
        ("1?", False),
    ],
)
def test_gpu_lacks_devices_if_it_has_only_expected_ones_and_too_few(
    devices: str,
    too_small: bool,
    desired: Desired,
    right: Observation,
    half: Callable[[int], MigDevice],
) -> None:
    """Wanted are two 3g; `?` is a device of an unknown profile, which may be one of them."""
    made = {
        "3": half(1),
        "1": replace(half(1), gpu_slices=1, compute_slices=1, name="NVIDIA H100 MIG 1g.10gb"),
        "?": replace(half(1), name=""),
    }
    seen = replace(right.gpus[1], memory_mib=None, devices=tuple(made[d] for d in devices))
    observation = replace(right, gpus=(right.gpus[0], seen))
    assert stale_devices.sees_too_little(desired, observation) is too_small


@pytest.mark.parametrize(
    "facts",
    [
        {"mig": "disabled", "mig_pending": "disabled", "devices": ()},
        {"mig": "disabled", "mig_pending": "enabled", "devices": ()},
        {"devices": (), "failure": Failure(call="x", code=15, text="GPU is lost")},
    ],
    ids=["MIG off", "MIG mode pending", "GPU lost"],
)
def test_facts_that_every_container_sees_are_no_sign_of_a_stale_container(
    facts: dict[str, object], desired: Desired, right: Observation, node: NodeState
) -> None:
    seen = _gpus(right, **facts)
    assert not stale_devices.sees_too_little(desired, seen)
    assert _evidence(desired, seen, node, driver_loaded=True) is None


def test_gpu_beyond_the_desired_count_lacks_no_device(desired: Desired, right: Observation) -> None:
    surplus = replace(right.gpus[0], index=2, uuid="GPU-2", devices=())
    observation = replace(right, gpus=(*right.gpus, surplus))
    assert not stale_devices.sees_too_little(desired, observation)


def test_a_wrong_layout_is_wrong_in_every_container(
    desired: Desired, right: Observation, node: NodeState, half: Callable[[int], MigDevice]
) -> None:
    small = replace(half(7), gpu_slices=1, compute_slices=1, name="NVIDIA H100 80GB MIG 1g.10gb")
    assert _evidence(desired, _gpus(right, devices=(small,)), node) is None


@pytest.mark.parametrize("observation", [NO_DRIVER, NO_LIBRARY, NO_PERMISSION, OTHER_VERSION])
def test_a_driver_that_no_container_has_is_waited_for(
    observation: Observation, desired: Desired, node: NodeState
) -> None:
    bare = _advertising(node)
    assert _evidence(desired, observation, bare) is None
    assert _evidence(desired, observation, bare, driver_loaded=True) == "finished"
    assert _evidence(desired, observation, node) == "advertised"


def test_partitions_are_waited_for_until_the_device_plugin_shows_them(
    desired: Desired, empty: Observation, node: NodeState
) -> None:
    assert _evidence(desired, empty, _advertising(node)) is None
    assert _evidence(desired, empty, node) == "advertised"


@pytest.mark.parametrize(
    ("mig_state", "found"),
    [
        ("", None),
        ("pending", None),
        ("rebooting", None),
        ("success", "finished"),
        ("failed", "finished"),
    ],
)
def test_mig_manager_says_when_it_is_done(
    mig_state: str,
    found: str | None,
    desired: Desired,
    operator: Desired,
    empty: Observation,
    node: NodeState,
) -> None:
    bare = replace(_advertising(node), mig_state=mig_state)
    assert _evidence(operator, empty, bare) == found
    assert _evidence(desired, empty, bare) is None, "a label of another installation's"


def test_a_gpu_with_some_of_its_devices_is_waited_for_like_one_without(
    desired: Desired, right: Observation, node: NodeState, half: Callable[[int], MigDevice]
) -> None:
    seen = _gpus(right, devices=(half(1),))
    assert verify(desired, seen, node).reason == "LayoutIncomplete"
    assert _evidence(desired, seen, _advertising(node, gpu=2)) is None
    assert _evidence(desired, seen, _advertising(node, gpu=3)) == "advertised"


def test_resources_that_are_not_gpus_count_for_nothing(
    desired: Desired, empty: Observation, node: NodeState
) -> None:
    others = {"cpu": 96, "nvidia.com/hostdev": 8, "ephemeral-storage": 7}
    assert _evidence(desired, empty, replace(node, allocatable=others)) is None
    busier = replace(node, allocatable={**node.allocatable, **others})
    signs = [stale_devices.signs_of(n, empty, driver_loaded=True) for n in (node, busier)]
    assert signs[0] == signs[1]


def test_gpu_instances_that_have_no_device_here_are_evidence(
    desired: Desired, empty: Observation, node: NodeState
) -> None:
    listed = _gpus(empty, gpu_instances=(GpuInstance(id=1, profile=9, start=0, size=4),))
    assert _evidence(desired, listed, _advertising(node)) == "finished"
    assert _evidence(desired, listed, node) == "advertised"


def test_whole_gpus_that_are_advertised_before_the_partitioning_prove_nothing(
    operator: Desired, right: Observation, node: NodeState
) -> None:
    whole = _gpus(right, mig="disabled", mig_pending="disabled", devices=())
    assert _evidence(operator, whole, _advertising(node, gpu=2)) is None


def test_a_device_plugin_that_sees_no_more_proves_nothing(
    desired: Desired, right: Observation, empty: Observation, node: NodeState
) -> None:
    one_of_two = replace(right, gpus=(right.gpus[0], empty.gpus[1]))
    assert _evidence(desired, one_of_two, _advertising(node, gpu=2)) is None
    assert _evidence(desired, one_of_two, _advertising(node, gpu=3)) == "advertised"


def test_replicas_of_a_shared_device_count_once(
    desired: Desired, right: Observation, empty: Observation, node: NodeState
) -> None:
    shared = replace(
        desired,
        resources={"nvidia.com/gpu": 16},
        sharing=(DesiredSharing(resource="nvidia.com/gpu", strategy="time-slicing", replicas=4),),
    )
    one_of_two = replace(right, gpus=(right.gpus[0], empty.gpus[1]))
    assert _evidence(shared, one_of_two, _advertising(node, gpu=8)) is None
    assert _evidence(shared, one_of_two, _advertising(node, gpu=16)) == "advertised"


def test_partitions_of_another_layout_are_evidence_too(
    operator: Desired, empty: Observation, node: NodeState
) -> None:
    """The new container will then see what is wrong."""
    mixed = replace(operator, resources={"nvidia.com/mig-3g.40gb": 4})
    sevenths = replace(node, allocatable={"nvidia.com/mig-1g.10gb": 14})
    assert _evidence(mixed, empty, sevenths) == "advertised"


def test_cdi_leaves_out_a_gpu_in_mig_mode_without_instances(
    operator: Desired, right: Observation, node: NodeState
) -> None:
    fewer = replace(right, gpus=())
    assert _evidence(operator, fewer, _advertising(node)) is None
    assert _evidence(operator, fewer, replace(node, mig_state="success")) == "advertised"


def test_missing_gpu_alone_is_no_evidence_of_a_stale_container(
    desired: Desired, right: Observation, node: NodeState
) -> None:
    assert (
        _evidence(desired, replace(right, gpus=right.gpus[:1]), _advertising(node, gpu=2)) is None
    )


def test_whole_gpus_wanted_and_left_out_of_the_container(
    desired: Desired, right: Observation, node: NodeState
) -> None:
    """CDI again: MIG was on when the container was made, and is off now."""
    whole = replace(
        desired, gpus=(DesiredGpu(index="all", mig=False),), resources={"nvidia.com/gpu": 2}
    )
    nothing = replace(right, gpus=())
    assert _evidence(whole, nothing, _advertising(node, gpu=2)) == "advertised"
    off = _gpus(right, mig="disabled", mig_pending="disabled", devices=())
    assert _evidence(whole, off, _advertising(node, gpu=2)) is None


def test_a_definite_finding_is_not_hidden(
    desired: Desired, right: Observation, empty: Observation, node: NodeState
) -> None:
    lost = replace(right.gpus[0], failure=Failure(call="x", code=15, text="GPU is lost"))
    assert _evidence(desired, replace(right, gpus=(lost, empty.gpus[1])), node) is None


def test_the_verdict_of_an_outdated_container(
    desired: Desired, right: Observation, empty: Observation, node: NodeState
) -> None:
    """It replaces every other finding, and counts a whole GPU as one device."""
    mixed = replace(
        desired,
        gpus=(
            DesiredGpu(index=0, mig=False),
            DesiredGpu(index=1, mig=True, instances={"3g.40gb": 2}),
        ),
    )
    one_whole = replace(right.gpus[0], mig="disabled", mig_pending="disabled", devices=())
    half_seen = replace(right.gpus[1], devices=right.gpus[1].devices[:1])
    stopped = replace(NO_DRIVER, failure=Failure(call="nvmlInit", code=9, text="Not Loaded."))
    for wanted, seen, advertised, shown in (
        (desired, empty, 4, "4 devices, found 0"),
        (mixed, replace(right, gpus=(one_whole, empty.gpus[1])), 3, "3 devices, found 1"),
        (mixed, replace(right, gpus=(one_whole, half_seen)), 3, "3 devices, found 2"),
        (mixed, stopped, 1, "3 devices, found 0 (Not Loaded)"),
    ):
        on = _advertising(node, gpu=advertised)
        before = verify(wanted, seen, on)
        number, _, found = shown.partition(", found ")
        found += f" in this container and {advertised} advertised by the kubelet"
        reason = REASONS["DeviceNodesOutdated"]
        assert stale_devices.outdated(wanted, before, seen, on) == Verdict(
            verdict="Unknown",
            reason="DeviceNodesOutdated",
            message=f"node wanted {number}, found {found}: {reason.cause}; {reason.advice}.",
            checks=(Check(reason=reason.code, where="node", expected=number, observed=found),),
            instances=before.instances,
        )


def test_signs_have_the_same_digest_in_every_process(right: Observation, node: NodeState) -> None:
    signs = stale_devices.signs_of(node, right, driver_loaded=True)
    assert signs.digest == "bafbec826e4d00d6"
    for other in (
        stale_devices.signs_of(replace(node, boot_id="b2"), right, driver_loaded=True),
        stale_devices.signs_of(replace(node, mig_state="success"), right, driver_loaded=True),
        stale_devices.signs_of(replace(node, mig_config="halves"), right, driver_loaded=True),
        stale_devices.signs_of(_advertising(node, gpu=3), right, driver_loaded=True),
        stale_devices.signs_of(node, right, driver_loaded=False),
    ):
        assert other.digest != signs.digest
        assert stale_devices.changes(signs, other)
    assert not stale_devices.changes(signs, signs)


def test_the_order_of_the_resources_is_no_sign(right: Observation, node: NodeState) -> None:
    counts = {"nvidia.com/mig-3g.40gb": 2, "nvidia.com/gpu": 1}
    either, other = (
        stale_devices.signs_of(replace(node, allocatable=dict(order)), right, driver_loaded=True)
        for order in (counts.items(), reversed(counts.items()))
    )
    assert either == other
    assert either.digest == other.digest


def test_mig_modes_are_signs_only_within_one_container(right: Observation, node: NodeState) -> None:
    signs = stale_devices.signs_of(node, right, driver_loaded=True)
    off = stale_devices.signs_of(node, _gpus(right, mig="disabled"), driver_loaded=True)
    assert stale_devices.changes(signs, off).startswith("mig_modes ")
    assert off.digest == signs.digest


def test_capacity_and_resources_that_are_gone_are_no_sign(
    right: Observation, node: NodeState
) -> None:
    signs = stale_devices.signs_of(node, right, driver_loaded=True)
    gone = replace(node, capacity={}, allocatable={**node.allocatable, "nvidia.com/mig-1g.10gb": 0})
    assert stale_devices.signs_of(gone, right, driver_loaded=True) == signs
