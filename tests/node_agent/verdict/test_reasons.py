"""One case per reason, on the same two GPUs: what is found, and what the message says."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pynvml
import pytest

from slicewright import node_agent
from slicewright.apis.desired_state import Desired, DesiredGpu, DesiredSharing
from slicewright.apis.reasons.agent import RANK, REASONS
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.nvml.errors import MEANINGS
from slicewright.node_agent.nvml.observed import (
    BROKEN,
    TIMED_OUT,
    Fabric,
    Failure,
    GpuInstance,
    MigDevice,
    Observation,
    ObservedGpu,
)
from slicewright.node_agent.verdict import reasons_page
from slicewright.node_agent.verdict.findings import Verdict
from slicewright.node_agent.verdict.verify import partitioning_in_progress, verify

Change = Callable[["Scene"], "Scene"]


@dataclass(frozen=True)
class Scene:
    desired: Desired
    observation: Observation
    node: NodeState | None

    def judged(self) -> Verdict:
        return partitioning_in_progress(self.desired, self.node) or verify(
            self.desired, self.observation, self.node
        )


@pytest.fixture
def scene(desired: Desired, right: Observation, node: NodeState) -> Scene:
    return Scene(desired, right, node)


def _failed(code: int, text: str = "broken", call: str = "nvmlInit") -> Change:
    return lambda s: replace(
        s, observation=Observation(failure=Failure(call=call, code=code, text=text))
    )


def _gpu(index: int, **facts: object) -> Change:
    def change(s: Scene) -> Scene:
        gpus = list(s.observation.gpus)
        gpus[index] = replace(gpus[index], **facts)  # type: ignore[arg-type]
        return replace(s, observation=replace(s.observation, gpus=tuple(gpus)))

    return change


def _devices(index: int, edit: Callable[[tuple[MigDevice, ...]], tuple[MigDevice, ...]]) -> Change:
    return lambda s: _gpu(index, devices=edit(s.observation.gpus[index].devices))(s)


def _whole(s: Scene) -> Scene:
    for index in range(2):
        s = _gpu(index, mig="disabled", mig_pending="disabled", devices=())(s)
    return s


def _wants_whole(s: Scene) -> Scene:
    return replace(s, desired=replace(s.desired, gpus=(DesiredGpu(index="all", mig=False),)))


def _fabric(fabric: Fabric) -> Change:
    def change(s: Scene) -> Scene:
        s = _wants_whole(_whole(s))
        for index in range(2):
            s = _gpu(index, fabric=fabric)(s)
        return s

    return change


def _compute_mode(mode: str) -> Change:
    return lambda s: _gpu(1, compute_mode=mode)(_wants_whole(_whole(s)))


def _resources(capacity: dict[str, int], allocatable: dict[str, int] | None = None) -> Change:
    def change(s: Scene) -> Scene:
        assert s.node is not None
        return replace(
            s,
            node=replace(
                s.node,
                capacity=capacity,
                allocatable=capacity if allocatable is None else allocatable,
            ),
        )

    return change


def _labelled(labels: dict[str, str]) -> Change:
    """On a node that must have the label of a T4 that pods share."""
    wanted = {"nvidia.com/gpu.product": ("Tesla-T4-SHARED",)}

    def change(s: Scene) -> Scene:
        assert s.node is not None
        return replace(
            s,
            desired=replace(s.desired, labels=wanted),
            node=replace(s.node, feature_labels=labels),
        )

    return change


def _small(devices: tuple[MigDevice, ...]) -> tuple[MigDevice, ...]:
    """Seven sevenths instead of two halves."""
    one = replace(
        devices[0],
        gpu_slices=1,
        compute_slices=1,
        memory_mib=9984,
        name="NVIDIA H100 80GB HBM3 MIG 1g.10gb",
    )
    return tuple(replace(one, gpu_instance=i) for i in range(7))


def _nameless(devices: tuple[MigDevice, ...]) -> tuple[MigDevice, ...]:
    return tuple(replace(d, name="") for d in devices)


CASES: dict[str, tuple[Change, str, str]] = {
    "PartitionsMatch": (
        lambda s: s,
        "Match",
        "2 GPUs as wanted (3g.40gb x2); advertised: nvidia.com/gpu 4.",
    ),
    "GpuLost": (
        _gpu(1, failure=Failure(call="nvmlDeviceGetUUID", code=15, text="GPU is lost")),
        "Mismatch",
        "GPU 1 wanted",
    ),
    "GpuResetRequired": (
        _gpu(0, failure=Failure(call="x", code=16, text="GPU requires restart")),
        "Mismatch",
        "GPU 0 wanted",
    ),
    "GpuResetRequested": (
        _gpu(0, repairs=("reset the GPU", "remap pending")),
        "Mismatch",
        "GPU 0 wanted no repair requested, found the driver asks to reset the GPU, a row remapping",
    ),
    "RowRemapFailed": (
        _gpu(1, repairs=("remap failed",)),
        "Mismatch",
        "GPU 1 wanted no repair requested, found a bad memory row without a spare row:",
    ),
    "WrongGpuCount": (
        lambda s: replace(s, observation=replace(s.observation, gpus=s.observation.gpus[:1])),
        "Mismatch",
        "node wanted 2 GPUs, found 1 GPU:",
    ),
    "WrongGpuModel": (
        _gpu(1, model="NVIDIA A100-SXM4-80GB"),
        "Mismatch",
        "GPU 1 wanted NVIDIA H100 80GB HBM3, found NVIDIA A100-SXM4-80GB:",
    ),
    "DriverTooOld": (
        lambda s: replace(s, desired=replace(s.desired, minimum_driver="560.1.2")),
        "Mismatch",
        "wanted driver 560.1.2 or newer, found driver 550.90.07",
    ),
    "MigUnsupported": (
        _gpu(0, mig="unsupported", mig_pending="unsupported", devices=()),
        "Mismatch",
        "GPU 0 wanted 3g.40gb x2, found a GPU without MIG:",
    ),
    "WrongLayout": (
        _devices(1, _small),
        "Mismatch",
        "GPU 1 wanted 3g.40gb x2, found 1g.10gb x7: GKE's node set-up",
    ),
    "FabricFailed": (
        _fabric(Fabric(state="completed", status=999, faults=("unhealthy route",))),
        "Mismatch",
        "GPUs 0-1 wanted an NVLink fabric that is set up, found completed, status 999, unhealthy "
        "route: Fabric Manager does not run or has another version than the driver",
    ),
    "ComputeModeWrong": (
        _compute_mode("exclusive process"),
        "Mismatch",
        "GPU 1 wanted compute mode default, found exclusive process:",
    ),
    "FabricNotReady": (
        _fabric(Fabric(state="not started")),
        "Mismatch",
        "GPUs 0-1 wanted an NVLink fabric that is set up, found not started:",
    ),
    "UnwantedMig": (_wants_whole, "Mismatch", "GPUs 0-1 wanted no MIG, found 3g.40gb x2:"),
    "ComputeInstanceMissing": (
        _gpu(
            0, gpu_instances=tuple(GpuInstance(id=i, profile=9, start=0, size=4) for i in (1, 2, 5))
        ),
        "Mismatch",
        "found none in GPU instance 5",
    ),
    "MigModePending": (
        _gpu(0, mig="disabled", mig_pending="enabled", devices=()),
        "Mismatch",
        "GPU 0 wanted 3g.40gb x2, found MIG off until the next reset, then on:",
    ),
    "NotPartitioned": (_whole, "Mismatch", "GPUs 0-1 wanted 3g.40gb x2, found no MIG:"),
    "LayoutIncomplete": (
        _devices(1, lambda d: d[:1]),
        "Mismatch",
        "GPU 1 wanted 3g.40gb x2, found 3g.40gb x1:",
    ),
    "ResourcesNotAdvertised": (_resources({}), "Mismatch", "nvidia.com/gpu wanted 4, found 0:"),
    "WrongResources": (
        _resources({"nvidia.com/gpu": 2}),
        "Mismatch",
        "nvidia.com/gpu wanted 4, found 2:",
    ),
    "UnexpectedResources": (
        _resources({"nvidia.com/gpu": 4, "nvidia.com/mig-1g.10gb": 7}),
        "Mismatch",
        "nvidia.com/mig-1g.10gb wanted 0, found 7:",
    ),
    "ResourcesWithheld": (
        _resources({"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 3}),
        "Mismatch",
        "nvidia.com/gpu wanted 4, found 3 allocatable of 4:",
    ),
    "WrongLabels": (
        _labelled({"nvidia.com/gpu.product": "Tesla-T4"}),
        "Mismatch",
        "nvidia.com/gpu.product wanted Tesla-T4-SHARED, found Tesla-T4: GPU feature discovery",
    ),
    "DriverHung": (
        _failed(TIMED_OUT, "no answer from the driver within 20 s", "probe"),
        "Unknown",
        "no answer from the driver",
    ),
    "DriverVersionMismatch": (_failed(18), "Unknown", "reboot the node"),
    "NoPermission": (_failed(4), "Unknown", "restart the node's agent pod"),
    "ProfileUnclear": (
        _devices(0, _nameless),
        "Unknown",
        "GPU 0 wanted 3g.40gb x2, found unknown x2:",
    ),
    "DriverError": (_failed(999, "Unknown Error"), "Unknown", "nvmlInit: Unknown Error"),
    "ProbeBroken": (
        _failed(BROKEN, "the probe's process ended with signal 11", "probe"),
        "Unknown",
        "signal 11",
    ),
    "DriverLibraryMissing": (_failed(12), "Unknown", "wait for the driver"),
    "DriverNotLoaded": (_failed(9), "Unknown", "kernel log"),
    "PartitioningUnderWay": (
        lambda s: replace(
            s,
            desired=replace(s.desired, partitioner="mig-manager"),
            node=replace(s.node, mig_state="pending"),  # type: ignore[type-var]
        ),
        "Unknown",
        "node wanted 2 GPUs, found nvidia.com/mig.config.state pending: mig-manager is "
        "changing the partitions;",
    ),
    "NodeUnreadable": (
        lambda s: replace(s, node=None),
        "Unknown",
        "wanted nvidia.com/gpu 4, found no answer from the API server",
    ),
}


def test_every_reason_has_a_case() -> None:
    # `verify` does not find these: test_stale_devices.py, test_layout_change.py,
    # test_compute_gate.py, test_share_checks.py.
    elsewhere = {
        "AnotherDevicePlugin",
        "CardUnhealthy",
        "CardsNotRegistered",
        "CardsRegisteredWrong",
        "DeviceNodesOutdated",
        "LayoutChangePending",
        "PartitionDoesNotCompute",
        "ComputeUntried",
    }
    assert set(CASES) == set(REASONS) - elsewhere


@pytest.mark.parametrize("reason", CASES)
def test_every_reason_has_its_finding(reason: str, scene: Scene) -> None:
    change, outcome, text = CASES[reason]
    if reason == "ProfileUnclear":
        # Without the driver's name, without offered profiles and without the total there is nothing
        # to tell it by.
        scene = _gpu(0, memory_mib=None)(scene)
    verdict = change(scene).judged()
    assert (verdict.verdict, verdict.reason) == (outcome, reason)
    assert text in verdict.message
    assert REASONS[reason].verdict == outcome


@pytest.mark.parametrize("partitioner", ["gke", "bottlerocket", "mig-manager", "none"])
@pytest.mark.parametrize(
    "reason", [code for code in CASES if code not in ("PartitionsMatch", "PartitioningUnderWay")]
)
def test_every_message_names_a_cause_and_a_next_step(
    reason: str, partitioner: str, scene: Scene
) -> None:
    desired = replace(scene.desired, partitioner=partitioner)  # type: ignore[arg-type]
    if reason == "ProfileUnclear":
        scene = _gpu(0, memory_mib=None)(scene)
    message = CASES[reason][0](replace(scene, desired=desired)).judged().message
    finding, _, rest = message.partition(": ")
    assert " wanted " in finding or " wanted " in message
    assert "; " in rest
    assert ": ;" not in message
    assert not message.endswith("; .")
    assert len(message) <= 700


@pytest.mark.parametrize(
    "reason",
    [
        code
        for code in CASES
        if code not in ("PartitionsMatch", "PartitioningUnderWay", "NodeUnreadable", "WrongLabels")
        and "Resources" not in code
    ],
)
def test_a_message_on_a_host_names_nothing_of_a_cluster(reason: str, scene: Scene) -> None:
    if reason == "ProfileUnclear":
        scene = _gpu(0, memory_mib=None)(scene)
    bad = CASES[reason][0](replace(scene, desired=replace(scene.desired, partitioner="none")))
    verdict = verify(bad.desired, bad.observation, None, silicon_only=True)
    assert verdict.reason == reason
    _, _, rest = verdict.message.partition(": ")
    assert not re.search(r"\b(pods?|pool|cordon|drain|stack file|node image)\b", rest), rest


def test_the_same_findings_give_the_same_message(scene: Scene) -> None:
    bad = _devices(1, _small)(scene)
    assert bad.judged().message == bad.judged().message


def test_gpus_with_the_same_finding_share_a_clause(scene: Scene) -> None:
    both = _devices(0, _small)(_devices(1, _small)(scene)).judged()
    assert both.message.startswith("GPUs 0-1 wanted 3g.40gb x2, found 1g.10gb x7:")


def test_mismatch_precedes_unknown(scene: Scene) -> None:
    no_permission = Failure(call="nvmlDeviceGetMigMode", code=4, text="Insufficient Permissions")
    verdict = _devices(1, _small)(_gpu(0, failure=no_permission)(scene)).judged()
    assert (verdict.verdict, verdict.reason) == ("Mismatch", "WrongLayout")
    assert "Also: NoPermission." in verdict.message


def test_lasting_mismatch_precedes_a_settling_one(scene: Scene) -> None:
    half_way = _gpu(0, mig="disabled", mig_pending="disabled", devices=())(
        _devices(1, _small)(scene)
    )
    assert half_way.judged().reason == "WrongLayout"


def test_reasons_are_ranked_as_the_table_says() -> None:
    """Definite before settling, wrong before unknown: the table is its own proof."""
    order = [
        (r.verdict == "Unknown", r.settles)
        for r in sorted(REASONS.values(), key=lambda r: RANK[r.code])
    ][1:]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("minimum", "reason"),
    [
        ("550.90.07", "PartitionsMatch"),
        ("550.90.08", "DriverTooOld"),
        ("550.90.6", "PartitionsMatch"),
        ("550.90", "PartitionsMatch"),
        ("550.100", "DriverTooOld"),
    ],
)
def test_the_minimum_driver_itself_is_new_enough(minimum: str, reason: str, scene: Scene) -> None:
    wanted = replace(scene, desired=replace(scene.desired, minimum_driver=minimum))
    assert wanted.judged().reason == reason


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ({"nvidia.com/gpu.product": "Tesla-T4-SHARED"}, "PartitionsMatch"),
        # Drivers before R470 leave out the vendor.
        ({"nvidia.com/gpu.product": "NVIDIA-Tesla-T4-SHARED"}, "PartitionsMatch"),
        ({"nvidia.com/gpu.product": "Tesla-T4"}, "WrongLabels"),
        ({}, "WrongLabels"),
    ],
)
def test_pods_can_choose_the_node_by_its_labels(
    found: dict[str, str], reason: str, scene: Scene
) -> None:
    assert _labelled(found)(scene).judged().reason == reason


def test_message_names_wrong_labels_and_empty_values(scene: Scene) -> None:
    wanted = {"nvidia.com/gpu.replicas": ("2",), "nvidia.com/gpu.product": ("Tesla-T4-SHARED",)}
    found = _labelled({"nvidia.com/gpu.replicas": ""})(scene)
    judged = replace(found, desired=replace(found.desired, labels=wanted)).judged()
    assert judged.reason == "WrongLabels"
    assert [(c.where, c.observed) for c in judged.checks if c.reason == "WrongLabels"] == [
        ("nvidia.com/gpu.product", "no label"),
        ("nvidia.com/gpu.replicas", "an empty label"),
    ]


@pytest.mark.parametrize(
    ("capacity", "allocatable", "reason"),
    [
        (4, 4, "PartitionsMatch"),
        (8, 4, "WrongResources"),
        (4, 8, "ResourcesWithheld"),
        (4, 0, "ResourcesWithheld"),
        (0, 4, "WrongResources"),
        (8, 0, "WrongResources"),
        (0, 0, "ResourcesNotAdvertised"),
    ],
)
def test_capacity_and_allocatable_must_both_be_as_wanted(
    capacity: int, allocatable: int, reason: str, scene: Scene
) -> None:
    node = _resources({"nvidia.com/gpu": capacity}, {"nvidia.com/gpu": allocatable})(scene)
    assert node.judged().reason == reason


def test_an_unclear_partition_beyond_the_wanted_ones_is_a_wrong_layout(scene: Scene) -> None:
    """It was not wanted, whatever its profile; in place of a wanted one it may be that one."""
    scene = _gpu(0, memory_mib=None)(scene)

    def with_unclear(clear: int) -> Scene:
        return _devices(
            0, lambda d: (*d[:clear], replace(d[0], gpu_instance=9, name="", memory_mib=1))
        )(scene)

    assert with_unclear(2).judged().reason == "WrongLayout"
    assert with_unclear(1).judged().reason == "ProfileUnclear"


@pytest.mark.parametrize(
    "resource", ["nvidia.com/gpu.shared", "nvidia.com/mig-3g.40gb.shared", "nvidia.com/mig-1g.10gb"]
)
def test_an_unexpected_gpu_resource_is_a_mismatch(resource: str, scene: Scene) -> None:
    verdict = _resources({"nvidia.com/gpu": 4, resource: 2})(scene).judged()
    assert (verdict.verdict, verdict.reason) == ("Mismatch", "UnexpectedResources")
    assert f"{resource} wanted 0, found 2:" in verdict.message


def test_without_a_driver_no_resource_is_checked(scene: Scene) -> None:
    silent = _failed(12)(_resources({})(scene)).judged()
    assert silent.reason == "DriverLibraryMissing"
    assert [check.where for check in silent.checks] == ["node"]


def test_a_resource_of_an_earlier_layout_with_0_is_absent(scene: Scene) -> None:
    assert (
        _resources({"nvidia.com/gpu": 4, "nvidia.com/mig-1g.10gb": 0})(scene).judged().verdict
        == "Match"
    )


def test_resources_other_than_gpus_are_ignored(scene: Scene) -> None:
    assert (
        _resources({"nvidia.com/gpu": 4, "nvidia.com/hostdev": 8, "amd.com/gpu": 1})(scene)
        .judged()
        .verdict
        == "Match"
    )


def test_unshared_devices_are_named_as_the_cause(scene: Scene) -> None:
    shared = replace(
        scene.desired,
        resources={"nvidia.com/gpu": 16},
        sharing=(DesiredSharing(resource="nvidia.com/gpu", strategy="time-slicing", replicas=4),),
    )
    verdict = replace(scene, desired=shared).judged()
    assert verdict.reason == "WrongResources"
    assert "does not share its devices (time-slicing, 4 replicas each)" in verdict.message


def test_a_host_that_is_not_a_node_is_judged_by_its_gpus(scene: Scene) -> None:
    verdict = verify(scene.desired, scene.observation, None, silicon_only=True)
    assert (verdict.verdict, verdict.message) == ("Match", "2 GPUs as wanted (3g.40gb x2).")


def test_the_vendors_name_may_be_missing(scene: Scene) -> None:
    assert _gpu(0, model="H100 80GB HBM3")(scene).judged().verdict == "Match"


def test_surplus_gpus_do_not_hide_or_crash(scene: Scene) -> None:
    extra = replace(
        scene.observation, gpus=(*scene.observation.gpus, ObservedGpu(index=2, model="x"))
    )
    assert replace(scene, observation=extra).judged().reason == "WrongGpuCount"


@pytest.mark.parametrize(
    ("partitioner", "label", "reason"),
    [
        ("mig-manager", "rebooting", "PartitioningUnderWay"),
        ("mig-manager", "success", "PartitionsMatch"),
        ("mig-manager", "failed", "PartitionsMatch"),
        ("mig-manager", "", "PartitionsMatch"),
        ("gke", "pending", "PartitionsMatch"),
    ],
)
def test_the_gpus_are_not_probed_while_mig_manager_works(
    partitioner: str, label: str, reason: str, scene: Scene
) -> None:
    assert scene.node is not None
    there = replace(
        scene,
        desired=replace(scene.desired, partitioner=partitioner),  # type: ignore[arg-type]
        node=replace(scene.node, mig_state=label),
    )
    assert there.judged().reason == reason


def test_the_page_of_reasons_is_current() -> None:
    page = Path(node_agent.__file__).resolve().parents[1] / "docs/reference/reasons.md"
    assert page.read_text() == reasons_page.page(), (
        f"run: python -m slicewright.node_agent.verdict.reasons_page > {page}"
    )


def test_every_error_that_nvml_knows_has_a_meaning_and_a_reason() -> None:
    known = {
        value: name.removeprefix("NVML_ERROR_")
        for name, value in vars(pynvml).items()
        if name.startswith("NVML_ERROR_")
    }
    assert {code: meaning.name for code, meaning in MEANINGS.items() if code > 0} == known
    assert {meaning.reason for meaning in MEANINGS.values()} <= REASONS.keys()
    assert all(meaning.text for meaning in MEANINGS.values())
