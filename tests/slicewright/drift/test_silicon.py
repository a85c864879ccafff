"""What agents and controller say of a fleet, as drift or as what cannot be known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.apis.gpu_pool.rollout_policy import RolloutPolicy
from slicewright.apis.names import DEGRADED, POOL_LABEL, VERIFIED
from slicewright.drift.findings import Comparison
from slicewright.drift.silicon import silicon_drift
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.infra import plan
from slicewright.infra.plan import FleetPlan
from slicewright.live.reading import ClusterObjects

STACKS = Path(__file__).resolve().parents[3] / "stacks"
NOW = 1000.0


def fleet(stack: str) -> FleetPlan:
    return plan.read_file(STACKS / f"Pulumi.{stack}.yaml")


def condition(status: str, reason: str) -> Condition:
    return Condition(
        status=status,
        reason=reason,
        message=f"why: {reason}",
        changed=NOW,
        written=NOW,
        generation=1,
    )


def pool(planned: plan.PoolPlan, *, verified: str, degraded: str, reason: str) -> Pool:
    return Pool(
        name=planned.name,
        uid="pool",
        generation=1,
        created=0.0,
        selector={POOL_LABEL: planned.name},
        layout_hash=planned.offer.layout_hash,
        fewest=1,
        mig_config=planned.offer.mig_config,
        status={
            "conditions": [
                {
                    "type": kind,
                    "status": status,
                    "reason": reason,
                    "message": f"why: {reason}",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "observedGeneration": 1,
                }
                for kind, status in ((VERIFIED, verified), (DEGRADED, degraded))
            ]
        },
        policy=RolloutPolicy(),
    )


def node(planned: plan.PoolPlan, said: Condition | None) -> Node:
    return Node(
        name="n0",
        uid="n0",
        version="1",
        created=0.0,
        boot_id="b",
        verified_boot="b",
        ready=True,
        labels={
            POOL_LABEL: planned.name,
            "topology.kubernetes.io/zone": "us-central1-c",
            "nvidia.com/mig.config": planned.offer.mig_config or "",
        },
        taint_keys=(),
        condition=said,
        leaving=False,
        verified_layout=planned.offer.mig_config or "",
    )


def found(stack: str, said: Condition | None, **more: Any) -> ClusterObjects:
    (planned,) = fleet(stack).pools
    ok = said is not None and said.status == "True"
    settles = said is not None and said.status == "Unknown"
    facts: dict[str, Any] = {
        "pools": (
            pool(
                planned,
                verified="True" if ok else "False",
                degraded="False" if ok or settles else "True",
                reason=said.reason if said else "NotSeenYet",
            ),
        ),
        "most": {planned.name: 1},
        "nodes": (node(planned, said),),
        "reports": {},
        "gpus": {},
        "pods": {},
        "budgets": (),
        "controller": 1,
        "unread": (),
    }
    return ClusterObjects(**(facts | more))


@pytest.mark.parametrize("stack", ["gke-h100", "eks-a100"])
def test_a_verified_pool_has_not_drifted(stack: str) -> None:
    seen = found(stack, condition("True", "PartitionsMatch"))
    assert silicon_drift(seen, fleet(stack), stack, NOW) == ([], [])


@pytest.mark.parametrize(
    ("stack", "heal"),
    [
        ("gke-h100", "gcloud compute instances delete n0 --zone us-central1-c"),
        (
            "eks-a100",
            "kubectl -n gpu-operator delete pod -l app=nvidia-mig-manager "
            "--field-selector spec.nodeName=n0",
        ),
    ],
)
def test_a_wrong_layout_is_fixed_by_the_partitioner_of_the_node(stack: str, heal: str) -> None:
    seen = found(stack, condition("False", "WrongLayout"))
    (finding,), unseen = silicon_drift(seen, fleet(stack), stack, NOW)
    assert unseen == []
    assert (finding.comparison, finding.where) == (Comparison.SILICON, "node n0")
    assert finding.difference == "WrongLayout: why: WrongLayout"
    assert finding.heal == heal


def test_a_broken_gpu_is_not_healed_by_partitioning_again() -> None:
    seen = found("eks-a100", condition("False", "GpuLost"))
    ((finding,), _) = silicon_drift(seen, fleet("eks-a100"), "eks-a100", NOW)
    assert finding.heal == ""


@pytest.mark.parametrize("said", [condition("Unknown", "DriverHung"), None])
def test_a_node_without_readings_does_not_count_as_free_of_drift(said: Condition | None) -> None:
    findings, (unseen,) = silicon_drift(found("eks-a100", said), fleet("eks-a100"), "eks-a100", NOW)
    assert findings == []
    assert unseen.why.startswith("node n0: ")


def test_a_pool_that_the_cluster_lacks_is_drift() -> None:
    seen = found("eks-a100", condition("True", "PartitionsMatch"), pools=(), nodes=())
    ((finding,), _) = silicon_drift(seen, fleet("eks-a100"), "eks-a100", NOW)
    assert finding.where == "pool demo-gpu-workers"
    assert finding.heal == "pulumi up --refresh --stack eks-a100"


def test_drift_of_partitions_is_unseen_while_no_controller_runs() -> None:
    seen = found("eks-a100", condition("True", "PartitionsMatch"), controller=0)
    findings, (unseen,) = silicon_drift(seen, fleet("eks-a100"), "eks-a100", NOW)
    assert findings == []
    assert "fleet controller does not run" in unseen.why


def test_too_few_nodes_are_drift_of_the_pool() -> None:
    (planned,) = fleet("eks-a100").pools
    seen = found("eks-a100", condition("True", "PartitionsMatch"))
    short = pool(planned, verified="False", degraded="True", reason="TooFewNodes")
    ((finding,), _) = silicon_drift(
        replace(seen, pools=(short,)), fleet("eks-a100"), "eks-a100", NOW
    )
    assert finding.where == "pool demo-gpu-workers"
    assert "check why no node joins" in finding.heal
