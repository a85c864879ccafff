"""GKE's autoscaler: pools grow, from zero too, by the pods that wait for them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.fake_control_planes import fake_nodes
from slicewright.rehearsal.clouds.gcp.account import write_account

STARTUP = "startup-taint.cluster-autoscaler.kubernetes.io/slicewright"
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists"}
ONE_ZONE = ["us-central1-c"]


def waiting(name: str, *, gpus: int = 1, **spec: Any) -> JsonObject:
    resources = {"requests": {"nvidia.com/gpu": str(gpus)}}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {
        "metadata": {"namespace": "default", "name": name},
        "spec": {"containers": [{"resources": resources}], "tolerations": [TOLERATION], **spec},
        "status": {"phase": "Pending", "conditions": [condition]},
    }


def make_pool(gcp, config: JsonObject, zones: list[str] = ONE_ZONE, **scaling: Any) -> None:
    gcp.make_cluster()
    taint = {"key": STARTUP, "value": "unverified", "effect": "NO_SCHEDULE"}
    gcp.make_pool(
        initialNodeCount=0,
        locations=zones,
        config={**config, "taints": [taint]},
        autoscaling={"enabled": True, **(scaling or {"totalMaxNodeCount": 3})},
    )
    assert gcp.nodes("pool") == []


def look(gcp, *pods: JsonObject) -> list[JsonObject]:
    """The pool's nodes after the autoscaler has looked with these pods waiting."""
    nodes = fake_nodes(gcp.environment, "main")
    (nodes.directory / "objects").write_text(json.dumps({"/api/v1/pods": pods}))
    gcp.cloud.look_around()
    assert gcp.cloud.tasks.wait(120)
    found: list[JsonObject] = gcp.nodes("pool")
    return found


def bring_up(gcp) -> None:
    """The pool's nodes are Ready, verified and advertise their partitions."""
    nodes = fake_nodes(gcp.environment, "main")
    for node in gcp.nodes("pool"):
        node["spec"]["taints"] = [t for t in node["spec"]["taints"] if t["key"] != STARTUP]
        node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        node["status"]["allocatable"]["nvidia.com/gpu"] = "16"
        (nodes.directory / f"{node['metadata']['name']}.json").write_text(json.dumps(node))


def test_a_pool_of_no_nodes_grows_for_a_pod_that_asks_for_a_partition(gcp, h100) -> None:
    make_pool(gcp, h100)
    size = {"cloud.google.com/gke-gpu-partition-size": "3g.40gb"}
    assert len(look(gcp, waiting("a", nodeSelector=size))) == 1
    assert gcp.pool()["status"] == "RUNNING"
    # The node is on its way, and the pod waits for it.
    assert len(look(gcp, waiting("a", nodeSelector=size))) == 1


def events(gcp) -> list[JsonObject]:
    """The Events since the last look."""
    return fake_nodes(gcp.environment, "main").listed("/api/v1/namespaces/default/events")


def test_pods_for_which_a_node_is_added_have_the_autoscalers_event(gcp, h100) -> None:
    make_pool(gcp, h100)
    look(gcp, waiting("a"), waiting("b", nodeSelector={"kind": "other"}))
    (event,) = events(gcp)
    assert (event["involvedObject"]["name"], event["reason"]) == ("a", "TriggeredScaleUp")
    group = r"https://.*/zones/us-central1-c/instanceGroups/gke-pool-[0-9a-f]{8}-grp"
    message = re.escape("pod triggered scale-up: [{") + group + re.escape(" 0->1 (max: 3)}]")
    assert re.fullmatch(message, event["message"])


def test_pods_have_no_event_if_their_zone_has_no_stock(gcp, h100) -> None:
    make_pool(gcp, h100)
    (gcp.environment / "faults.json").write_text('[{"fault": "stock-out", "pool": "pool"}]')
    look(gcp, waiting("a"))
    assert events(gcp) == []


def test_a_node_counts_by_its_partitions(gcp, h100) -> None:
    """Eight H100 of two 3g.40gb each."""
    make_pool(gcp, h100)
    assert len(look(gcp, *(waiting(f"p{n}") for n in range(17)))) == 2


def test_shared_partitions_count_by_their_clients(gcp, h100) -> None:
    sharing = {"gpuSharingStrategy": "TIME_SHARING", "maxSharedClientsPerGpu": "4"}
    h100["accelerators"][0]["gpuSharingConfig"] = sharing
    make_pool(gcp, h100)
    assert len(look(gcp, *(waiting(f"p{n}") for n in range(64)))) == 1


def test_nodes_that_are_up_and_full_are_no_hope(gcp, h100) -> None:
    make_pool(gcp, h100)
    look(gcp, waiting("a"))
    bring_up(gcp)
    assert len(look(gcp, waiting("b"))) == 2


@pytest.mark.parametrize(
    "scaling", [{"totalMaxNodeCount": 2}, {"minNodeCount": 0, "maxNodeCount": 2}]
)
def test_a_pool_grows_up_to_its_limit(gcp, h100, scaling: dict[str, int]) -> None:
    make_pool(gcp, h100, **scaling)
    pods = [waiting(f"p{n}", gpus=16) for n in range(5)]
    assert len(look(gcp, *pods)) == 2
    assert len(look(gcp, *pods)) == 2


@pytest.mark.parametrize(
    "pod",
    [
        waiting("too-large", gpus=17),
        waiting("elsewhere", nodeSelector={"topology.kubernetes.io/zone": "us-central1-a"}),
        waiting("intolerant", tolerations=[]),
        waiting("bound", nodeName="somewhere"),
        {**waiting("new"), "status": {"phase": "Pending"}},
    ],
    ids=lambda pod: pod["metadata"]["name"],
)
def test_a_pod_that_a_node_would_not_help_is_no_reason(gcp, h100, pod: JsonObject) -> None:
    make_pool(gcp, h100)
    assert look(gcp, pod) == []


def test_pods_of_daemon_sets_are_no_reason(gcp, h100) -> None:
    make_pool(gcp, h100)
    pod = waiting("agent")
    pod["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "agent"}]
    assert look(gcp, pod) == []


def test_a_layout_of_the_gpu_operator_is_not_known_before_a_node_has_it(gcp, h100) -> None:
    """GKE's autoscaler knows GPUs, and partitions that GKE makes; see docs/reference/faults.md."""
    del h100["accelerators"][0]["gpuPartitionSize"]
    make_pool(gcp, h100)
    pod = waiting("a")
    pod["spec"]["containers"][0]["resources"]["requests"] = {"nvidia.com/mig-3g.40gb": "1"}
    assert look(gcp, pod) == []


def test_zones_are_filled_evenly_and_as_pods_ask(gcp, h100) -> None:
    zones = ["us-central1-a", "us-central1-c"]
    make_pool(gcp, h100, zones, totalMaxNodeCount=4)
    label = "topology.kubernetes.io/zone"
    here = {label: "us-central1-c"}
    pods = [waiting(f"p{n}", gpus=16) for n in range(2)]
    found = look(gcp, *pods, waiting("z", gpus=16, nodeSelector=here))
    assert sorted(n["metadata"]["labels"][label] for n in found) == [zones[0], zones[1], zones[1]]


def test_autoscaler_waits_without_stock_or_quota(gcp, h100) -> None:
    make_pool(gcp, h100)
    faults = gcp.environment / "faults.json"
    faults.write_text('[{"fault": "stock-out", "pool": "pool"}]')
    assert look(gcp, waiting("a")) == []
    faults.unlink()
    write_account(gcp.environment, {"quotas": {"PREEMPTIBLE_NVIDIA_H100_GPUS": 8}})
    assert len(look(gcp, waiting("a"))) == 1
    bring_up(gcp)
    assert len(look(gcp, waiting("b"))) == 1


def test_a_size_that_is_set_by_hand_replaces_the_autoscalers(gcp, h100) -> None:
    make_pool(gcp, h100)
    look(gcp, waiting("a"))
    gcp.wait(gcp.on_pool("setSize", nodeCount=2))
    assert len(gcp.nodes("pool")) == 2


def test_a_pool_that_is_not_autoscaled_stays_as_it_is(gcp, h100) -> None:
    gcp.make_cluster()
    gcp.make_pool(initialNodeCount=0, config=h100)
    assert look(gcp, waiting("a")) == []
