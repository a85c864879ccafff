"""A node group gets the nodes that it asks for."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeNodes
from slicewright.rehearsal.clouds.core.node_group import (
    DesiredNodes,
    GroupRecord,
    NoCapacity,
    NodeGroup,
    NodeRecord,
    NodeSettings,
)
from slicewright.rehearsal.clouds.core.store import Kind, Store

GROUPS = Kind[GroupRecord]("groups")


@dataclass(frozen=True)
class RecordedNodes(FakeNodes):
    """Fake nodes that record what is done to them."""

    done: list[str] = field(default_factory=list)
    """+NAME for each node added, -NAME for each removed."""

    def register(self, node: JsonObject) -> None:
        self.done.append(f"+{node['metadata']['name']}")
        super().register(node)

    def remove(self, name: str) -> None:
        self.done.append(f"-{name}")
        super().remove(name)


class Group:
    """One stored group, whose nodes are named LOCATION-0, LOCATION-1 and so on."""

    def __init__(self, root: Path) -> None:
        self.store = Store(root / "store")
        (root / "nodes").mkdir()
        self.nodes = RecordedNodes(root / "nodes")
        self.settings = NodeSettings(labels={}, taints=[])
        record = GroupRecord(generation=1, nodes=[], applied=self.settings)
        self.store.put(GROUPS, "g", record)
        self._numbers = itertools.count()

    def converge(self, counts: Mapping[str, int], *, full: str = "", **changes: Any) -> list[str]:
        """Returns what was done to nodes, in order."""

        def new_name(location: str, taken: object) -> str:
            if location == full:
                raise NoCapacity("Full", f"{location} is full")
            return f"{location}-{next(self._numbers)}"

        desired = {
            "counts": counts,
            "generation": 1,
            "settings": self.settings,
            "new_name": new_name,
            "manifest": self._manifest,
            **changes,
        }
        self.nodes.done.clear()
        NodeGroup(self.store, GROUPS, "g", self.nodes).converge(
            DesiredNodes(**desired), timeout_s=0.1
        )
        return list(self.nodes.done)

    def recorded(self) -> list[NodeRecord]:
        return self.store.get(GROUPS, "g")["nodes"]

    def _manifest(self, record: NodeRecord) -> JsonObject:
        return {"metadata": {"name": record["name"], "labels": {}}, "spec": {"taints": []}}


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path)


def test_with_surge_the_replacement_comes_before_the_old_node_goes(group: Group) -> None:
    group.converge({"a": 1})
    assert group.converge({"a": 1}, generation=2) == ["+a-1", "-a-0"]


def test_without_surge_the_old_node_goes_first(group: Group) -> None:
    group.converge({"a": 1})
    assert group.converge({"a": 1}, generation=2, surge=False) == ["-a-0", "+a-1"]


def test_nodes_are_replaced_one_after_the_other(group: Group) -> None:
    group.converge({"a": 2})
    assert group.converge({"a": 2}, generation=2) == ["+a-2", "-a-0", "+a-3", "-a-1"]


def test_a_converged_group_stays_as_it_is(group: Group) -> None:
    group.converge({"a": 2, "b": 1})
    assert group.converge({"a": 2, "b": 1}) == []


def test_a_full_location_does_not_keep_the_others_from_their_nodes(group: Group) -> None:
    with pytest.raises(NoCapacity) as caught:
        group.converge({"a": 1, "b": 1}, full="a")
    assert caught.value.code == "Full"
    assert [r["name"] for r in group.recorded()] == ["b-0"]


def test_a_free_index_is_used_again(group: Group) -> None:
    group.converge({"a": 1, "b": 1})
    group.converge({"b": 1})
    group.converge({"a": 1, "b": 1})
    assert sorted(r["index"] for r in group.recorded()) == [0, 1]


def test_a_node_is_on_record_until_it_is_gone(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    group.converge({"a": 1})

    def fail(_: RecordedNodes, name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(RecordedNodes, "remove", fail)
    with pytest.raises(OSError, match="a-0"):
        group.converge({})
    assert [r["name"] for r in group.recorded()] == ["a-0"]
