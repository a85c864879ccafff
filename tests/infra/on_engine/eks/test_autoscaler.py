"""cluster-autoscaler's part of the account through the real engine: what it may do, and what `up`
keeps of what it did.
"""

from __future__ import annotations

import json
from typing import Any

from slicewright.infra import manifests
from slicewright.rehearsal.clouds.core.fake_control_planes import fake_nodes
from tests.infra.cloud_engine import REGION, CloudEngine

SLICE = "nvidia.com/mig-1g.5gb"


def fleet(*, autoscaler: str | None = "cluster-autoscaler", most: int = 3) -> dict[str, Any]:
    pool = {
        "name": "a",
        "machine_type": "p4d.24xlarge",
        "nodes": {"min": 0, "max": most},
        "partition": {"mode": "operator", "layout": {"1g.5gb": 7}},
        "labels": {"team": "ml"},
    }
    cluster = {"name": "c", "region": REGION, "version": "1.36", "autoscaler": autoscaler}
    return {
        "cloud": "eks",
        "cluster": {k: v for k, v in cluster.items() if v is not None},
        "node_pools": [pool],
    }


def put(engine: CloudEngine, path: str, objects: list[dict[str, Any]]) -> None:
    """In the cluster, in place of what was there under this path."""
    file = fake_nodes(engine.directory.parent, "c").directory / "objects"
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(known | {path: objects}))


def deployment() -> dict[str, Any]:
    """What the chart makes of the program's values, and runs."""
    tags = "k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/c"
    command = ["./cluster-autoscaler", f"--node-group-auto-discovery=asg:tag={tags}"]
    pod = {
        "serviceAccountName": manifests.AUTOSCALER_NAME,
        "containers": [{"command": command}],
    }
    return {
        "metadata": {"namespace": manifests.AUTOSCALER_NAMESPACE, "name": "cluster-autoscaler"},
        "spec": {"template": {"spec": pod}},
        "status": {"availableReplicas": 1},
    }


def waiting(name: str, *, slices: int) -> dict[str, Any]:
    """A pod as users write it: it selects a label of the pool, and tolerates the GPU's taint."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {
        "metadata": {"namespace": "default", "name": name},
        "spec": {
            "containers": [{"resources": {"limits": {SLICE: str(slices)}}}],
            "nodeSelector": {"team": "ml", "slicewright.io/pool": "a"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        },
        "status": {"phase": "Pending", "conditions": [condition]},
    }


def look(engine: CloudEngine, *pods: dict[str, Any]) -> int:
    """The pool's live size after the autoscaler has looked."""
    put(engine, "/api/v1/pods", list(pods))
    engine.cloud.look_around()
    assert engine.cloud.tasks.wait(120)
    return engine.count("c", "a")


def test_a_pool_grows_from_zero_and_the_next_up_keeps_its_nodes(engine: CloudEngine) -> None:
    engine.deploy(fleet())
    # Its role is there, and nothing runs with it yet.
    assert look(engine, waiting("one", slices=1)) == 0
    put(engine, "/apis/apps/v1/deployments", [deployment()])
    assert look(engine, waiting("one", slices=1)) == 1
    nodes = engine.provider_ids("c", "a")
    assert len(nodes) == 1
    engine.assert_no_changes(fleet())
    assert engine.provider_ids("c", "a") == nodes
    # Only the limit changes; the number of nodes is still the autoscaler's.
    engine.deploy(fleet(most=4))
    assert engine.group("c", "a")["scalingConfig"] == {
        "minSize": 0,
        "desiredSize": 1,
        "maxSize": 4,
    }
    assert engine.provider_ids("c", "a") == nodes
    assert look(engine, *(waiting(f"p{n}", slices=56) for n in range(9))) == 4
    engine.deploy(fleet(most=2))
    assert engine.count("c", "a") == 2
    drift = engine.refresh()
    assert drift.code == 0, drift.output
    # Without it, the pool stays as it is, and nothing of it is left in the account.
    engine.deploy(fleet(autoscaler=None, most=2))
    assert engine.count("c", "a") == 2
    assert not {k: v for k, v in engine.cloud.inventory().items() if "podIdentity" in k}
    assert "iam.rolePolicy" not in engine.cloud.inventory()
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    assert engine.cloud.inventory() == {}


def test_autoscaler_is_added_to_a_running_cluster_while_nodes_stay(engine: CloudEngine) -> None:
    before = fleet(autoscaler=None)
    before["node_pools"][0]["nodes"] = {"min": 1, "max": 3}
    engine.deploy(before)
    nodes = engine.provider_ids("c", "a")
    after = fleet()
    after["node_pools"][0]["nodes"] = {"min": 1, "max": 3}
    added = engine.deploy(after)
    assert {name for name, what in added.steps.items() if what == "created"} >= {
        "eks-autoscaler",
        "eks-autoscaler-rights",
        "eks-autoscaler-identity",
        "eks-eks-pod-identity-agent",
    }
    assert engine.provider_ids("c", "a") == nodes
    engine.assert_no_changes(after)
