"""A cluster compared object by object: what counts as a difference, and what does not."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from slicewright.kubeapi import ApiError
from slicewright.rehearsal.scenario.existing_cluster import record

NODE: dict[str, Any] = {
    "metadata": {
        "name": "gpu-1",
        "uid": "u1",
        "resourceVersion": "7",
        "labels": {"tier": "gpu"},
        "managedFields": [{"manager": "kubelet"}],
    },
    "spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]},
    "status": {"conditions": [{"type": "Ready"}], "capacity": {"cpu": "8"}},
}
CONFIG: dict[str, Any] = {
    "metadata": {"name": "mine", "namespace": "default", "uid": "u2", "generation": 1},
    "data": {"a": "1"},
}
LEASE: dict[str, Any] = {
    "metadata": {"name": "gpu-1", "namespace": "kube-node-lease", "uid": "u3"},
    "spec": {"renewTime": "now"},
}


class Cluster:
    """Answers as the API server does; a kind that is None is going."""

    def __init__(self) -> None:
        self.kinds: dict[str, list[dict[str, Any]] | None] = copy.deepcopy(
            {"nodes": [NODE], "configmaps": [CONFIG], "events": [CONFIG]}
        )
        self.leases = [copy.deepcopy(LEASE)]

    def get(self, path: str) -> dict[str, Any]:
        verbs = ["get", "list"]
        match path:
            case "/apis":
                version = {"groupVersion": "coordination.k8s.io/v1"}
                return {"groups": [{"name": "coordination.k8s.io", "preferredVersion": version}]}
            case "/api/v1":
                names = [*self.kinds, "nodes/status"]
                listed = [{"name": n, "verbs": verbs if "/" not in n else ["get"]} for n in names]
                return {"resources": listed}
            case "/apis/coordination.k8s.io/v1":
                return {"resources": [{"name": "leases", "verbs": verbs}]}
            case "/apis/coordination.k8s.io/v1/leases":
                return {"items": self.leases}
        items = self.kinds[path.removeprefix("/api/v1/")]
        if items is None:
            raise ApiError(404, {"reason": "NotFound"})
        return {"items": items}

    @property
    def node(self) -> dict[str, Any]:
        return self.kinds["nodes"][0]  # type: ignore[index]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def changes(cluster: Any) -> tuple[str, ...]:
    before: Any = Cluster()
    return record.compare(record.read(before), record.read(cluster))


def test_the_same_cluster_has_no_differences(cluster: Cluster) -> None:
    assert changes(cluster) == ()


def test_writes_of_components_are_no_difference(cluster: Cluster) -> None:
    cluster.node["metadata"] |= {"resourceVersion": "8", "managedFields": [], "generation": 3}
    cluster.node["status"]["capacity"]["nvidia.com/gpu"] = "0"
    cluster.leases[0]["spec"]["renewTime"] = "later"
    cluster.kinds["events"] = []
    assert changes(cluster) == ()


def test_a_label_a_taint_and_an_annotation_that_stayed_are_named_with_their_values(
    cluster: Cluster,
) -> None:
    cluster.node["metadata"]["labels"]["nvidia.com/mig.config"] = "all-1g.5gb"
    cluster.node["metadata"]["annotations"] = {"slicewright.io/verified-boot": "b"}
    cluster.node["spec"]["taints"] = []
    assert changes(cluster) == (
        "nodes/gpu-1: metadata.annotations is new: {'slicewright.io/verified-boot': 'b'}",
        "nodes/gpu-1: metadata.labels[nvidia.com/mig.config] is new: 'all-1g.5gb'",
        "nodes/gpu-1: spec.taints was [{'key': 'mine', 'effect': 'NoSchedule'}], is []",
    )


def test_a_condition_that_somebody_added_to_a_node_is_a_difference(cluster: Cluster) -> None:
    cluster.node["status"]["conditions"].append({"type": "slicewright.io/GPUPartitionsReady"})
    (only,) = changes(cluster)
    assert only.startswith("nodes/gpu-1: conditions was ['Ready']")


def test_an_object_that_is_gone_or_new_is_named(cluster: Cluster) -> None:
    other = copy.deepcopy(CONFIG)
    other["metadata"]["name"] = "left"
    cluster.kinds["configmaps"] = [other]
    assert changes(cluster) == (
        "configmaps/default/mine is gone",
        "configmaps/default/left is new",
    )


def test_an_object_that_was_made_again_is_not_the_same(cluster: Cluster) -> None:
    cluster.kinds["configmaps"][0]["metadata"]["uid"] = "u9"  # type: ignore[index]
    assert changes(cluster) == ("configmaps/default/mine: metadata.uid was 'u2', is 'u9'",)


def test_missing_field_is_named_with_its_old_value(cluster: Cluster) -> None:
    del cluster.kinds["configmaps"][0]["data"]["a"]  # type: ignore[index]
    assert changes(cluster) == ("configmaps/default/mine: data.a is gone; it was '1'",)


def test_a_lease_that_stayed_is_a_difference(cluster: Cluster) -> None:
    cluster.leases = []
    assert changes(cluster) == ("leases.coordination.k8s.io/kube-node-lease/gpu-1 is gone",)


def test_a_kind_whose_definition_is_just_going_has_no_objects(cluster: Cluster) -> None:
    cluster.kinds["gpupools"] = None
    assert changes(cluster) == ()


class Starting(Cluster):
    """Some kinds cannot be listed yet; then a controller makes another object."""

    def __init__(self, *refusals: int) -> None:
        super().__init__()
        self.refusals = [*refusals]
        self.lists = 0

    def get(self, path: str) -> dict[str, Any]:
        if path == "/api/v1/configmaps":
            self.lists += 1
            if self.refusals:
                raise ApiError(self.refusals.pop(0), {"message": "storage is (re)initializing"})
            if self.lists == 4:
                self.kinds["configmaps"] = [CONFIG, {**CONFIG, "metadata": {"name": "later"}}]
        return super().get(path)


def test_a_cluster_has_settled_once_all_kinds_are_listed_twice_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record, "_EVERY_S", 0.0)
    starting: Any = Starting(429, 503)
    found = record.settled(starting, timeout_s=60)
    assert {key for key in found if key.startswith("configmaps")} == {
        "configmaps/default/mine",
        "configmaps/later",
    }
    assert starting.lists == 5


def test_kind_that_cannot_be_listed_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record, "_EVERY_S", 0.0)
    for refusals, timeout_s in (([429] * 9, 0.0), ([403], 60.0)):
        starting: Any = Starting(*refusals)
        with pytest.raises(ApiError, match="initializing"):
            record.settled(starting, timeout_s=timeout_s)
