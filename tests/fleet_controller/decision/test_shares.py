"""The traps of engines that share GPUs by fractions: what the controller does and says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.apis.gpu_pool.rollout_policy import DEFAULT_POLICY
from slicewright.apis.names import POOL_LABEL, SCHEDULER_START_ANNOTATION
from slicewright.apis.shares.engines import EngineName
from slicewright.fleet_controller.cluster.node_patches import node_patch
from slicewright.fleet_controller.decision.actions import EmitEvent, TouchNode
from slicewright.fleet_controller.decision.decide import decide
from slicewright.fleet_controller.decision.facts import ShareFacts
from slicewright.fleet_controller.decision.shares import LOCKED_S, SESSION_S, starts_by_namespace
from slicewright.fleet_controller.objects.bounds import stamp
from slicewright.fleet_controller.objects.node import Node, read_node
from slicewright.fleet_controller.objects.node_pods import NodePod, read_pod
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.shares import PoolShares
from slicewright.fleet_controller.rollout.change_actions import EvictPod
from slicewright.fleet_controller.rollout.drain import Refusal
from tests.fleet_controller.builders import NOW, build_pool
from tests.properties import examples

REGISTERED = {
    "volcano": {
        "volcano.sh/node-vgpu-register": "GPU-0,10,16384,NVIDIA-Tesla T4,true,hami-core:"
        "GPU-1,10,16384,NVIDIA-Tesla T4,true,hami-core:"
    },
    "hami": {
        "hami.io/node-nvidia-register": '[{"id":"GPU-0","count":10,"devmem":16384,"devcore":100,'
        '"health":true},{"id":"GPU-1","count":10,"devmem":16384,"devcore":100,"health":true}]'
    },
}
CARDS = {"volcano": "volcano.sh/vgpu-number", "hami": "nvidia.com/gpu"}
ALLOCATION = {"volcano": "volcano.sh/vgpu-ids-new", "hami": "hami.io/vgpu-devices-allocated"}
BOTH = pytest.mark.parametrize("engine", ["hami", "volcano"])


def pool(engine: EngineName, **fields: Any) -> Pool:
    return build_pool(
        name="shared",
        selector={POOL_LABEL: "shared"},
        mig_config=None,
        shares=PoolShares(engine=engine, namespace=f"{engine}-system"),
        **fields,
    )


def node(engine: EngineName, notes: dict[str, str] | None = None) -> Node:
    return read_node(
        {
            "metadata": {
                "name": "n1",
                "uid": "node-uid",
                "labels": {POOL_LABEL: "shared"},
                "annotations": {**REGISTERED[engine], **(notes or {})},
            },
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
    )


def pod(
    engine: EngineName, allocation: str | None, name: str = "p", *, controlled: bool = True
) -> NodePod:
    owners = [{"kind": "ReplicaSet", "name": "r", "controller": True}] if controlled else []
    return read_pod(
        {
            "metadata": {
                "name": name,
                "namespace": "models",
                "uid": f"uid-{name}",
                "ownerReferences": owners,
                "annotations": {} if allocation is None else {ALLOCATION[engine]: allocation},
            },
            "spec": {
                "nodeName": "n1",
                "containers": [{"resources": {"requests": {CARDS[engine]: "1"}}}],
            },
        }
    )


def scheduler(started: float, namespace: str = "volcano-system") -> NodePod:
    return read_pod(
        {
            "metadata": {
                "name": "volcano-scheduler-1",
                "namespace": namespace,
                "uid": "s",
                "labels": {"app": "volcano-scheduler"},
            },
            "spec": {"nodeName": "system", "containers": [{}]},
            "status": {
                "containerStatuses": [{"state": {"running": {"startedAt": stamp(started)}}}]
            },
        }
    )


def decided(
    of: Pool,
    on: Node,
    *pods: NodePod,
    now: float = NOW,
    schedulers: tuple[NodePod, ...] = (),
    refusals: dict[str, Refusal] | None = None,
) -> tuple[Any, ...]:
    decision = decide(
        [of],
        [on],
        {},
        {},
        {},
        now,
        refusals=refusals or {},
        shares=ShareFacts(pods={"n1": pods}, schedulers=starts_by_namespace(schedulers)),
    )
    return decision.actions


def warnings(actions: tuple[Any, ...]) -> dict[str, str]:
    """Reason -> message, without the progress."""
    return {a.reason: a.message for a in actions if isinstance(a, EmitEvent)}


SHARE = "GPU-0,NVIDIA,2048,20:;"


@BOTH
def test_a_pod_with_its_share_stays(engine: EngineName) -> None:
    actions = decided(pool(engine), node(engine), pod(engine, SHARE))
    assert not [a for a in actions if isinstance(a, EvictPod)]
    assert "PodWithoutShare" not in warnings(actions)


@BOTH
@pytest.mark.parametrize("allocation", [None, "", ";", "garbage"])
def test_a_pod_bound_without_a_share_is_named_and_evicted(
    engine: EngineName, allocation: str | None
) -> None:
    actions = decided(pool(engine), node(engine), pod(engine, allocation))
    (evicted,) = (a for a in actions if isinstance(a, EvictPod))
    assert (evicted.namespace, evicted.pod, evicted.uid) == ("models", "p", "uid-p")
    message = warnings(actions)["PodWithoutShare"]
    assert "node n1: models/p: bound without a share" in message


def test_a_pod_that_the_policy_protects_is_named_and_stays() -> None:
    alone = pod("volcano", None, controlled=False)
    actions = decided(pool("volcano"), node("volcano"), alone)
    assert not [a for a in actions if isinstance(a, EvictPod)]
    assert "no controller would recreate it" in warnings(actions)["PodWithoutShare"]
    drain = replace(DEFAULT_POLICY.drain, pods="None")
    kept = pool("volcano", policy=replace(DEFAULT_POLICY, drain=drain))
    assert not [
        a for a in decided(kept, node("volcano"), pod("volcano", None)) if isinstance(a, EvictPod)
    ]


def test_a_refused_eviction_is_tried_again_later() -> None:
    refused = {"uid-p": Refusal(why="the budget allows none", retry_at=NOW + 30)}
    actions = decided(pool("volcano"), node("volcano"), pod("volcano", None), refusals=refused)
    assert not [a for a in actions if isinstance(a, EvictPod)]
    assert "the budget allows none" in warnings(actions)["PodWithoutShare"]


def test_a_pod_of_the_other_engine_or_a_pool_without_engine_is_left_alone() -> None:
    plain = replace(pool("volcano"), shares=None)
    assert not warnings(decided(plain, node("volcano"), pod("volcano", None))).keys() & {
        "PodWithoutShare"
    }
    actions = decided(pool("volcano"), node("volcano"), pod("hami", None))
    assert not [a for a in actions if isinstance(a, EvictPod)]


def test_nodes_are_touched_after_each_start_of_volcanos_scheduler() -> None:
    started = scheduler(NOW - SESSION_S)
    (touch,) = (
        a
        for a in decided(pool("volcano"), node("volcano"), schedulers=(started,))
        if isinstance(a, TouchNode)
    )
    patch = node_patch(touch).body
    assert patch == {
        "metadata": {"annotations": {SCHEDULER_START_ANNOTATION: stamp(NOW - SESSION_S)}}
    }
    touched = node("volcano", patch["metadata"]["annotations"])  # type: ignore[call-overload]
    assert not [
        a
        for a in decided(pool("volcano"), touched, schedulers=(started,))
        if isinstance(a, TouchNode)
    ]
    later = decided(
        pool("volcano"), touched, schedulers=(scheduler(NOW + 50),), now=NOW + 50 + SESSION_S
    )
    assert [a for a in later if isinstance(a, TouchNode)]


@pytest.mark.parametrize(
    ("engine", "pods"),
    [
        ("volcano", (scheduler(NOW - 1),)),  # it has not opened a session yet
        ("volcano", (scheduler(NOW - 60, "tenant"),)),  # anybody may give a pod that label
        ("volcano", ()),
        ("hami", (scheduler(NOW - 60, "hami-system"),)),
    ],
)
def test_nodes_are_not_touched_otherwise(engine: EngineName, pods: tuple[NodePod, ...]) -> None:
    actions = decided(pool(engine), node(engine), schedulers=pods)
    assert not [a for a in actions if isinstance(a, TouchNode)]


@BOTH
def test_a_card_with_more_shares_than_it_has_is_named(engine: EngineName) -> None:
    """18000 of 16384 MiB were on one card with Volcano 1.15.1."""
    pods = [pod(engine, f"GPU-0,NVIDIA,{mib},40:;", str(i)) for i, mib in enumerate((9000, 9000))]
    message = warnings(decided(pool(engine), node(engine), *pods))["CardOvercommitted"]
    assert "card GPU-0 has 18000 of 16384 units of memory and 80 of 100 % of compute" in message
    unknown = pod(engine, "GPU-gone,NVIDIA,1,1:;")
    message = warnings(decided(pool(engine), node(engine), unknown))["CardOvercommitted"]
    assert "card GPU-gone, which the node does not have" in message


def test_hamis_lock_is_watched() -> None:
    def held(since: float) -> Node:
        return node("hami", {"hami.io/mutex.lock": f"{stamp(since)},models,p"})

    message = warnings(decided(pool("hami"), held(NOW - LOCKED_S)))["NodeLockStuck"]
    assert "HAMi's lock for pod models/p is older than 60 s" in message
    assert "NodeLockStuck" not in warnings(decided(pool("hami"), held(NOW - LOCKED_S + 1)))
    assert "NodeLockStuck" not in warnings(decided(pool("hami"), node("hami")))
    odd = node("hami", {"hami.io/mutex.lock": "yesterday"})
    assert "NodeLockStuck" not in warnings(decided(pool("hami"), odd))


shares = st.tuples(st.sampled_from(["GPU-0", "GPU-1"]), st.integers(0, 9000), st.integers(0, 100))


@settings(max_examples=examples(200))
@given(st.lists(shares, max_size=12))
def test_a_warning_comes_exactly_if_a_card_has_more_than_it_has(
    placed: list[tuple[str, int, int]],
) -> None:
    pods = [
        pod("volcano", f"{uuid},NVIDIA,{mib},{percent}:;", str(i))
        for i, (uuid, mib, percent) in enumerate(placed)
    ]
    over = any(
        sum(mib for card, mib, _ in placed if card == uuid) > 16384
        or sum(percent for card, _, percent in placed if card == uuid) > 100
        for uuid in ("GPU-0", "GPU-1")
    )
    said = warnings(decided(pool("volcano"), node("volcano"), *pods))
    assert ("CardOvercommitted" in said) == over


@BOTH
def test_pods_with_shares_leave_before_a_layout_changes(engine: EngineName) -> None:
    """A pool that turns to MIG is drained of them, as of pods with whole GPUs."""
    assert pod(engine, SHARE).gpus
