"""The pod that proves a node: created, judged, noted, deleted, and tried again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.fleet_controller.decision.actions import (
    AddStartupTaint,
    RemoveStartupTaint,
)
from slicewright.fleet_controller.decision.decide import Decision, decide
from slicewright.fleet_controller.nodes.pod_proof import (
    RETRY_S,
    UNSCHEDULED_S,
    CreateProofPod,
    DeleteProofPod,
    NotePodProof,
)
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.proof_pod import ProofPod, ProofPodSettings
from slicewright.fleet_controller.objects.report import Report
from tests.properties import examples

SETTINGS = ProofPodSettings(
    image="python",
    pull_secrets=(),
    code="node-agent-1",
    code_directory="/opt/slicewright",
    command=("python", "prove"),
    devices=(("nvidia.com/mig-3g.40gb", "3g.40gb"),),
    environment={},
    tolerations=(),
)


@dataclass
class World:
    """One node, its report, and the pod that the controller creates for it."""

    node: Node
    pool: Pool
    report: Report
    now: float
    pod: ProofPod | None = None
    released: int = 0
    reasons: list[str] = field(default_factory=list)

    def decided(self) -> Decision:
        pods = {self.pod.node: self.pod} if self.pod else {}
        report = replace(self.report, time=self.now - 1)
        return decide([self.pool], [self.node], {"n1": report}, {}, {}, self.now, proof_pods=pods)

    def turn(self, seconds: float = 1.0) -> None:
        for action in self.decided().actions:
            match action:
                case CreateProofPod():
                    assert self.pod is None
                    assert self.node.held, "a pod beside tenants"
                    self.pod = ProofPod(
                        name=action.pod,
                        node=action.node,
                        key=action.key,
                        created=self.now,
                        progress="unscheduled",
                    )
                case DeleteProofPod():
                    assert self.pod is not None
                    assert action.pod == self.pod.name
                    self.pod = None
                case NotePodProof(key=key):
                    self.node = replace(self.node, pod_proof=key)
                case RemoveStartupTaint():
                    self.released += 1
                    self.node = replace(self.node, taint_keys=())
                case AddStartupTaint():
                    self.node = replace(self.node, taint_keys=(TAINT,))
                case _ if type(action).__name__ == "SetNodeCondition":
                    self._note(action)
        self.now += seconds

    def _note(self, action: object) -> None:
        if self.reasons[-1:] != [action.reason]:  # type: ignore[attr-defined]
            self.reasons.append(action.reason)  # type: ignore[attr-defined]
        boot = action.boot  # type: ignore[attr-defined]
        if boot:
            self.node = replace(self.node, verified_boot=boot.boot_id)

    def pod_is(self, progress: str, why: str = "", *codes: int) -> None:
        assert self.pod is not None
        self.pod = replace(self.pod, progress=progress, why=why, exit_codes=codes)  # type: ignore[arg-type]


TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/slicewright"


@pytest.fixture
def world(node: Node, pool: Pool, report: Report, now: float) -> World:
    assert node.held
    return World(replace(node, taint_keys=(TAINT,)), replace(pool, proof_pod=SETTINGS), report, now)


def test_a_node_is_released_once_its_pod_has_computed(world: World) -> None:
    world.turn()
    assert world.pod is not None
    world.pod_is("started")
    world.turn()
    assert (world.released, world.reasons) == (0, ["PodProofUnderWay"])
    world.pod_is("succeeded")
    for _ in range(3):
        world.turn()
    assert (world.released, world.pod) == (1, None)
    assert world.reasons == ["PodProofUnderWay", "PartitionsMatch"]


def test_without_the_key_no_pod_is_created(world: World) -> None:
    world.pool = replace(world.pool, proof_pod=None)
    world.turn()
    assert (world.pod, world.released) == (None, 1)


def test_a_node_that_does_not_match_gets_no_pod_and_loses_the_one_it_has(world: World) -> None:
    world.turn()
    world.report = replace(world.report, verdict="Mismatch", reason="WrongLayout")
    world.turn()
    assert world.pod is None
    world.turn()
    assert world.pod is None


def test_a_node_without_a_compute_proof_gets_no_pod_before_it(world: World) -> None:
    world.pool = replace(world.pool, computes=True)
    world.turn()
    assert (world.pod, world.reasons) == (None, ["ComputeNotProven"])
    world.report = replace(world.report, computed=True)
    world.turn()
    assert world.pod is not None


def test_a_node_in_service_gets_no_pod(world: World) -> None:
    world.node = replace(world.node, taint_keys=(), verified_boot="b1")
    world.turn()
    assert world.pod is None


def test_the_pod_of_a_node_that_an_administrator_has_released_is_deleted(world: World) -> None:
    world.turn()
    world.node = replace(world.node, taint_keys=(), verified_boot="b1")
    world.turn()
    assert world.pod is None
    assert world.reasons[-1] == "PartitionsMatch"


def test_a_pod_that_is_not_scheduled_is_a_reason_with_the_schedulers_words(world: World) -> None:
    world.turn()
    world.pod_is("unscheduled", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu")
    world.turn(UNSCHEDULED_S)
    world.turn()
    assert world.reasons == ["PodProofUnderWay", "PodNotScheduled"]
    world.pod_is("started")
    world.turn()
    assert world.reasons[-1] == "PodProofUnderWay"


@pytest.mark.parametrize(
    ("codes", "reason"),
    [
        ((1,), "PodDoesNotCompute"),
        ((0, 1), "PodDoesNotCompute"),
        ((4, 1), "WrongDeviceAllotted"),
        ((2,), "PodProofUntried"),
        ((), "PodNotServed"),
    ],
)
def test_a_failed_pod_is_a_reason_and_is_tried_again(
    codes: tuple[int, ...], reason: str, world: World
) -> None:
    world.turn()
    world.pod_is("failed", "UnexpectedAdmissionError", *codes)
    world.turn()
    assert (world.reasons[-1], world.released) == (reason, 0)
    failed = world.pod
    world.turn(RETRY_S)
    assert world.pod is failed, "its log can still be read"
    world.turn()
    world.turn()
    assert world.pod is not failed
    world.pod_is("succeeded")
    for _ in range(3):
        world.turn()
    assert world.released == 1


def test_after_a_reboot_another_pod_proves_the_node(world: World) -> None:
    world.turn()
    world.pod_is("succeeded")
    for _ in range(3):
        world.turn()
    world.node = replace(world.node, boot_id="b2", taint_keys=(TAINT,))
    world.report = replace(world.report, boot_id="b2")
    world.turn()
    assert world.pod is not None
    assert world.released == 1


def test_the_pod_of_an_earlier_boot_proves_nothing(world: World) -> None:
    world.turn()
    world.node = replace(world.node, boot_id="b2")
    world.report = replace(world.report, boot_id="b2")
    world.pod_is("succeeded")
    world.turn()
    assert (world.pod, world.released) == (None, 0)


steps = st.sampled_from(["unscheduled", "started", "succeeded", "failed", "reboot", "mismatch", ""])


@given(st.lists(steps, max_size=12))
@settings(max_examples=examples(300))
def test_no_node_is_released_without_a_pod_that_succeeded_in_its_boot(taken: list[str]) -> None:
    world = _world()
    succeeded = ""
    for step in taken:
        if step == "reboot":
            world.node = replace(world.node, boot_id=world.node.boot_id + "x")
            world.report = replace(world.report, boot_id=world.node.boot_id)
        elif step == "mismatch":
            verdict = "Mismatch" if world.report.verdict == "Match" else "Match"
            world.report = replace(world.report, verdict=verdict)
        elif step and world.pod is not None:
            world.pod_is(step, "", *((1,) if step == "failed" else ()))
            if step == "succeeded":
                succeeded = world.node.boot_id
        released = world.released
        world.turn()
        assert world.released == released or succeeded == world.node.boot_id


def _world() -> World:
    node = Node(
        name="n1",
        uid="u1",
        version="1",
        created=1000.0,
        boot_id="b",
        verified_boot="",
        ready=True,
        labels={"slicewright.io/pool": "p"},
        taint_keys=(TAINT,),
        condition=None,
        leaving=False,
    )
    pool = Pool(
        name="p",
        uid="pool",
        generation=1,
        created=1000.0,
        selector={"slicewright.io/pool": "p"},
        layout_hash="h",
        fewest=1,
        mig_config=None,
        status={},
        proof_pod=SETTINGS,
    )
    report = Report(
        name="n1",
        owner_uid="u1",
        verdict="Match",
        reason="PartitionsMatch",
        message="",
        pool="p",
        layout_hash="h",
        boot_id="b",
        time=1000.0,
    )
    return World(node, pool, report, 1001.0)
