"""What is proven to be a cluster's, and what only looks like it."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.teardown.sweep.aws_proofs import interface_leftovers
from slicewright.teardown.sweep.leftovers import (
    ORDER,
    GoogleNetwork,
    Leftover,
    disk_leftovers,
    in_order,
    marked_by,
    network_leftovers,
    snapshot_leftovers,
)
from slicewright.teardown.sweep.life import Life

OWN = frozenset({"projects/acme/global/networks/net"})
BEGUN = Life(begun="2026-11-01T10:00:00Z")
API = "https://www.googleapis.com/compute/v1/"
BALANCER = "a0a1b2c3d000040008000123456789ab"


@pytest.mark.parametrize(
    ("key", "value", "mine"),
    [
        ("kubernetes.io/cluster/ml", "owned", True),
        ("kubernetes.io/cluster/ml", "shared", False),
        ("kubernetes.io/cluster/ml-2", "owned", False),
        ("kubernetes.io/cluster/ML", "owned", False),
        ("elbv2.k8s.aws/cluster", "ml", True),
        ("elbv2.k8s.aws/cluster", "ml-2", False),
        ("cluster.k8s.amazonaws.com/name", "ml", True),
        ("ebs.csi.aws.com/cluster", "true", False),
        ("Name", "ml", False),
    ],
)
def test_a_tag_is_proof_only_if_key_and_value_are_exact(key: str, value: str, mine: bool) -> None:
    found = marked_by([{"Key": key, "Value": value}], "ml")
    assert found == (f"tag {key}={value}" if mine else "")


def test_an_interface_without_tag_is_the_clusters_by_its_security_group() -> None:
    def interface(identity: str, group: str, status: str = "available") -> dict[str, Any]:
        return {
            "NetworkInterfaceId": identity,
            "Groups": [{"GroupId": group}],
            "Status": status,
            "Description": "ELB a1",
        }

    found = interface_leftovers(
        [
            interface("eni-1", "sg-1"),
            interface("eni-2", "sg-2"),
            interface("eni-3", "sg-1", "in-use"),
        ],
        "ml",
        Life(),
        frozenset({"sg-1"}),
    )
    assert [bool(one.proof) for one in found] == [True, False, True]
    assert [one.held for one in found] == ["", "", "in-use: ELB a1"]


def test_a_disk_is_the_clusters_by_name_and_location() -> None:
    def disk(name: str, cluster: str, location: str) -> dict[str, Any]:
        labels = {"goog-k8s-cluster-name": cluster, "goog-k8s-cluster-location": location}
        return {"selfLink": f"{API}projects/acme/zones/z/disks/{name}", "labels": labels}

    found = disk_leftovers(
        [
            disk("mine", "ml", "us-central1"),
            disk("elsewhere", "ml", "us-east1"),
            disk("other", "ml-2", "us-central1"),
            {"selfLink": f"{API}projects/acme/zones/z/disks/a-persons"},
        ],
        "ml",
        "us-central1",
    )
    assert [one.id for one in found] == ["projects/acme/zones/z/disks/mine"]


def firewall(
    name: str, tag: str, network: str = "net", created: str = "2026-11-02T03:00:00.000-07:00"
) -> dict[str, Any]:
    link = f"{API}projects/acme/global"
    return {
        "name": name,
        "selfLink": f"{link}/firewalls/{name}",
        "network": f"{link}/networks/{network}",
        "targetTags": [tag] if tag else [],
        "creationTimestamp": created,
    }


def network(*firewalls: dict[str, Any], rules: tuple[str, ...] = ()) -> GoogleNetwork:
    link = f"{API}projects/acme/regions/us-central1"
    return GoogleNetwork(
        firewalls=firewalls,
        forwarding_rules=[{"name": n, "selfLink": f"{link}/forwardingRules/{n}"} for n in rules],
        target_pools=[],
        backend_services=[],
        endpoint_groups=[],
        addresses=[],
    )


def proven(
    found: GoogleNetwork,
    *,
    own: frozenset[str] = OWN,
    name_taken: bool = False,
    life: Life = BEGUN,
) -> dict[str, bool]:
    left = network_leftovers(
        found, "ml", stack_networks=own, name_taken=name_taken, is_of_this_life=life.precedes
    )
    return {one.id.rpartition("/")[2]: bool(one.proof) for one in left}


def test_a_firewall_rule_is_the_clusters_by_its_network_tag() -> None:
    found = network(
        firewall(f"k8s-fw-{BALANCER}", "gke-ml-0123abcd-node"),
        firewall("k8s-2", "gke-ml-2-0123abcd-node"),
        firewall("k8s-3", "gke-ml-0123abcd-nodes"),
        firewall("a-persons", ""),
        rules=(BALANCER, "a1111111111111111111111111111111"),
    )
    assert proven(found) == {
        f"k8s-fw-{BALANCER}": True,
        "k8s-2": False,
        "k8s-3": False,
        "a-persons": False,
        BALANCER: True,
    }


def test_in_a_network_of_others_a_name_that_is_used_twice_proves_nothing() -> None:
    found = network(firewall("k8s-1", "gke-ml-0123abcd-node", network="shared"))
    assert proven(found) == {"k8s-1": True}
    assert proven(found, name_taken=True) == {}
    assert proven(found, life=Life()) == {"k8s-1": False}
    inside = network(firewall("k8s-1", "gke-ml-0123abcd-node"))
    assert proven(inside, name_taken=True) == {"k8s-1": True}


def test_users_of_a_resource_are_deleted_before_it() -> None:
    left = [Leftover(kind=kind, id="x", proof="") for kind in reversed(ORDER)]
    kinds = [one.kind for one in in_order(left)]
    assert kinds == list(ORDER)
    for first, then in (
        ("forwarding rule", "target pool"),
        ("load balancer", "security group"),
        ("network interface", "security group"),
        ("forwarding rule", "firewall rule"),
    ):
        assert kinds.index(first) < kinds.index(then)


def test_a_snapshot_of_compute_engine_is_known_by_its_disk_only() -> None:
    disk = Leftover(kind="disk", id="projects/acme/zones/z/disks/pvc-1", proof="labels")

    def snapshot(name: str, source: str | None) -> dict[str, Any]:
        link = {"selfLink": f"{API}projects/acme/global/snapshots/{name}"}
        return link if source is None else {**link, "sourceDisk": f"{API}{source}"}

    found = [
        snapshot("mine", disk.id),
        snapshot("theirs", "projects/acme/zones/z/disks/pvc-10"),
        snapshot("imported", None),
    ]
    (mine,) = snapshot_leftovers(found, [disk], frozenset())
    assert mine.id == "projects/acme/global/snapshots/mine"
    assert disk.id in mine.mark
    # A backup of the cluster's disk is somebody's.
    assert not mine.proof
    assert snapshot_leftovers(found, [], frozenset()) == []
    named = frozenset({"projects/acme/global/snapshots/imported"})
    assert [one.id for one in snapshot_leftovers(found, [], named)] == [*named]
