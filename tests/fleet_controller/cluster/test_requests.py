"""How many requests a node takes from its join to its release: the controller's own loop, at the
edge of its API client.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

from slicewright.apis import names as api
from slicewright.fleet_controller.app.loop import Loop
from slicewright.fleet_controller.cluster.observe import Cluster
from slicewright.fleet_controller.cluster.status_pace import StatusPace
from slicewright.fleet_controller.objects.bounds import stamp
from tests.fleet_controller import kubernetes_objects as objects
from tests.fleet_controller.api_edge import NODES, POOLS, REPORTS, ApiEdge

NOW = 1_800_000_000.0
LAYOUT = "all-1g.10gb-1234"


class Fleet:
    """Nodes that join at once, `of_a_pool` in each pool, and the loop that sees to them."""

    def __init__(self, *, pools: int, of_a_pool: int) -> None:
        self.now = NOW
        self.edge = ApiEdge()
        self.pools = [f"p{i}" for i in range(pools)]
        self.nodes = {
            f"{pool}-{i}": pool for pool, i in itertools.product(self.pools, range(of_a_pool))
        }
        for name in self.pools:
            self.edge.put(POOLS, _pool(name, of_a_pool))
        for name, pool in self.nodes.items():
            self.edge.put(NODES, _node(name, pool))
        self.cluster = Cluster.for_client(self.edge.as_client())
        self.loop = Loop(self.cluster, clock=lambda: self.now)
        self.loop._statuses = StatusPace(clock=lambda: self.now)

    def passes(self, seconds: int = 1) -> None:
        """One a second, until then."""
        for _ in range(seconds):
            self.edge.shown_to(self.cluster)
            self.loop.turn()
            assert self.loop.progress.error is None
            self.now += 1.0

    def mig_manager_says(self, state: str, *names: str) -> None:
        for name in names or self.nodes:
            labels = self.edge.objects[NODES][name]["metadata"]["labels"]
            assert labels[api.MIG_CONFIG_LABEL] == LAYOUT
            self.edge.change(NODES, name, {"metadata": {"labels": {api.MIG_STATE_LABEL: state}}})

    def agents_report(self, *names: str, **report: Any) -> None:
        for name in names or self.nodes:
            body = objects.report(self.edge.objects[NODES][name], self.nodes[name])
            body["report"] |= {"time": stamp(self.now), **report}
            self.edge.put(REPORTS, body)

    def settled(self) -> bool:
        """Every node is released, and every pool verified."""
        nodes, pools = self.cluster.nodes.all().values(), self.cluster.pools.all().values()
        return not any(node.held for node in nodes) and all(
            (said := pool.condition(api.SETTLED)) and said.status == "True" for pool in pools
        )

    def written(self) -> Counter[str]:
        """The requests until all has settled, but for lists and watches, which nodes share."""
        for _ in range(100):
            if self.settled():
                break
            self.passes()
        assert self.settled()
        counted = Counter({k: n for k, n in self.edge.requests.items() if not k.startswith("GET")})
        self.passes(3)
        assert sum(counted.values()) == sum(
            n for k, n in self.edge.requests.items() if not k.startswith("GET")
        ), "at rest nothing is written"
        assert not [kind for kind in self.loop.progress.done if kind[1] != "done"]
        return counted


def _pool(name: str, nodes: int) -> dict[str, Any]:
    body = objects.pool(name, fewest=nodes, migConfig=LAYOUT)
    body["metadata"] |= {"uid": f"uid-{name}", "generation": 1, "creationTimestamp": stamp(NOW)}
    return body


def _node(name: str, pool: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": stamp(NOW),
            "labels": {api.POOL_LABEL: pool},
        },
        "spec": {"taints": [{"key": "nvidia.com/gpu"}, dict(api.STARTUP_TAINT)]},
        "status": {
            "nodeInfo": {"bootID": f"boot-of-{name}"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def test_a_node_itself_takes_three_requests() -> None:
    """Layout and first condition in one; the last condition and its boot in one; the taint."""
    fleet = Fleet(pools=2, of_a_pool=3)
    fleet.passes(2)
    fleet.mig_manager_says("pending")
    fleet.passes(2)
    fleet.mig_manager_says("success")
    fleet.passes()
    fleet.agents_report()
    written = fleet.written()
    assert written["PATCH nodes"] == 3 * len(fleet.nodes)
    assert written["PATCH gpupools"] == 2 * len(fleet.pools)
    assert set(written) == {"PATCH nodes", "PATCH gpupools"}


def test_what_its_agent_finds_in_between_is_one_more() -> None:
    fleet = Fleet(pools=1, of_a_pool=3)
    fleet.passes()
    fleet.mig_manager_says("pending")
    fleet.agents_report(verdict="Mismatch", reason="NotPartitioned", message="no partitions yet")
    fleet.passes(3)
    fleet.mig_manager_says("success")
    fleet.agents_report()
    assert fleet.written()["PATCH nodes"] == 4 * len(fleet.nodes)


@pytest.mark.parametrize(("pools", "of_a_pool"), [(60, 2), (6, 20)])
def test_nodes_that_come_little_by_little_take_less_than_six_whatever_the_size_of_pools(
    pools: int, of_a_pool: int
) -> None:
    """Two a second, with a pass every second: the counts of a pool change with each node, and
    somebody waits for all of them.
    """
    fleet = Fleet(pools=pools, of_a_pool=of_a_pool)
    fleet.passes(5)
    fleet.mig_manager_says("success")
    # Of every pool some are early and some late.
    names = sorted(fleet.nodes, key=lambda name: name.rpartition("-")[2])
    for first in range(0, len(names), 2):
        fleet.agents_report(*names[first : first + 2])
        fleet.passes()
    written = fleet.written()
    assert written["PATCH nodes"] == 3 * len(names)
    assert sum(written.values()) <= 6 * len(names), written


def test_layout_of_a_node_that_changed_meanwhile_is_set_in_the_next_pass() -> None:
    """mig-manager may have begun: neither label nor condition is written then."""
    fleet = Fleet(pools=1, of_a_pool=1)
    (name,) = fleet.nodes
    fleet.edge.shown_to(fleet.cluster)
    busy = {"metadata": {"labels": {api.MIG_STATE_LABEL: "pending"}}}
    fleet.edge.change(NODES, name, busy)
    fleet.loop.turn()
    node = fleet.edge.objects[NODES][name]
    assert node["metadata"]["labels"][api.MIG_STATE_LABEL] == "pending"
    assert [one["type"] for one in node["status"]["conditions"]] == ["Ready"]
    fleet.passes()
    assert api.MIG_CONFIG_LABEL not in fleet.edge.objects[NODES][name]["metadata"]["labels"]
    fleet.edge.change(NODES, name, {"metadata": {"labels": {api.MIG_STATE_LABEL: "success"}}})
    fleet.passes()
    labels = fleet.edge.objects[NODES][name]["metadata"]["labels"]
    assert labels[api.MIG_CONFIG_LABEL] == LAYOUT
    assert api.MIG_STATE_LABEL not in labels
