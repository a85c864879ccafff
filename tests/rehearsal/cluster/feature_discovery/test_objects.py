"""NodeFeature objects, and what NFD's master makes of them."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.kubeapi.watch import Event
from slicewright.rehearsal.cluster.feature_discovery import objects
from slicewright.rehearsal.cluster.feature_discovery.master import Master
from slicewright.rehearsal.cluster.node import os_release
from slicewright.rehearsal.cluster.node.operands import node_features
from slicewright.rehearsal.cluster.node.operands.node_features import labels

GPU, NETWORK, BRIDGE = ("0x030200", "0x10de"), ("0x020000", "0x1d0f"), ("0x060400", "0x8086")
PCI = "feature.node.kubernetes.io/pci-"
SYSTEM = "feature.node.kubernetes.io/system-os_release"


def feature(name: str, node: str, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "gpu-operator", "labels": {node_features.OF_NODE: node}}
    return {"metadata": metadata, "spec": {"labels": labels}}


def test_vendors_of_network_and_display_devices_become_labels() -> None:
    found = labels([GPU, NETWORK, BRIDGE], "")
    assert found == {f"{PCI}10de.present": "true", f"{PCI}1d0f.present": "true"}


@pytest.mark.parametrize(
    ("image", "system", "version"),
    [
        ("Amazon Linux 2023.9.20251110", "amzn", "2023"),
        ("Container-Optimized OS from Google", "cos", None),
        ("Ubuntu 24.04.3 LTS", "ubuntu", "24.04"),
    ],
)
def test_the_operating_system_is_labelled_as_the_operator_reads_it(
    image: str, system: str, version: str | None
) -> None:
    found = labels([], os_release.os_release(image))
    assert (found[f"{SYSTEM}.ID"], found.get(f"{SYSTEM}.VERSION_ID")) == (system, version)


def test_a_kernel_of_container_optimized_os_is_a_labels_value() -> None:
    found = labels([], "", "6.12.55+")
    assert found == {"feature.node.kubernetes.io/kernel-version.full": "6.12.55"}


def test_a_nodes_labels_are_those_of_all_its_objects() -> None:
    mine = feature("n1", "n1", a="1", b="2")
    assert objects.merged([feature("nvidia-features-for-n1", "n1", b="3"), mine]) == {
        "a": "1",
        "b": "3",
    }


def test_labels_of_deleted_features_are_removed_and_others_kept() -> None:
    node = {
        "metadata": {
            "labels": {"a": "1", "b": "2", "mine": "x"},
            "annotations": {objects.OWNED: "a,b"},
        }
    }
    assert objects.changes(node, {"a": "9", "c": "3"}) == {
        "labels": {"a": "9", "c": "3", "b": None},
        "annotations": {objects.OWNED: "a,c"},
    }
    node["metadata"] = {"labels": {"a": "9"}, "annotations": {objects.OWNED: "a"}}
    assert objects.changes(node, {"a": "9"}) == {}


def test_the_master_looks_at_the_nodes_whose_objects_have_changed() -> None:
    client: Any = None
    master = Master(client)
    one, two = feature("n1", "n1"), feature("n2", "n2")
    assert master.take(Event("LISTED", {}, (one, two))) == {"n1", "n2"}
    assert master.take(Event("DELETED", two)) == {"n2"}
    assert master.take(Event("LISTED", {}, ())) == {"n1"}, "gone while the watch was away"


def test_an_object_goes_with_its_pod_and_its_daemon_set() -> None:
    owner = {"kind": "DaemonSet", "name": "w", "uid": "d", "blockOwnerDeletion": True}
    metadata = {"name": "w-x", "namespace": "ns", "uid": "p", "ownerReferences": [owner]}
    made = node_features.node_feature("n1", {"metadata": metadata}, {"a": "1"})
    assert [one["uid"] for one in made["metadata"]["ownerReferences"]] == ["d", "p"]
    assert node_features.is_as_wanted(made, made)
    other = node_features.node_feature("n1", {"metadata": {**metadata, "uid": "q"}}, {"a": "1"})
    assert not node_features.is_as_wanted(made, other), "of another pod"
