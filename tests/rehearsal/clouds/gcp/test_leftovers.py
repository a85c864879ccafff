"""What GKE leaves in a project, what it stands in the way of, and how it is deleted."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.fake_control_planes import fake_nodes
from slicewright.rehearsal.clouds.gcp.account import write_account

UID = "0a1b2c3d-0000-4000-8000-123456789abc"
BALANCER = "a0a1b2c3d000040008000123456789ab"
HERE = {"project": "acme", "region": "us-central1"}
SUBNETWORK = {**HERE, "subnetwork": "sub"}
NETWORK = {"project": "acme", "network": "net"}


def service(kind: str, **annotations: str) -> JsonObject:
    meta = {"uid": UID, "namespace": "default", "name": "triton", "annotations": annotations}
    return {"metadata": meta, "spec": {"type": kind, "ports": [{"port": 8000}]}}


def delete_cluster(
    gcp,
    *services: JsonObject,
    volumes: tuple[JsonObject, ...] = (),
    ingresses: tuple[JsonObject, ...] = (),
) -> None:
    gcp.make_cluster()
    nodes = fake_nodes(gcp.environment, "main")
    for each in ingresses:
        nodes.add_object("/apis/networking.k8s.io/v1/ingresses", each)
    for each in services:
        nodes.add_object("/api/v1/services", each)
    for each in volumes:
        nodes.add_object("/api/v1/persistentvolumes", {"spec": each})
    where = {"name": gcp.cluster}
    gcp.wait(gcp.call("container", "projects.locations.clusters.delete", where))


def refused(gcp, method: str, where: dict[str, Any]) -> str:
    with pytest.raises(CloudError) as caught:
        gcp.call("compute", method, where)
    assert caught.value.reason == "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"
    return caught.value.message


def test_firewall_rules_of_a_load_balancer_hold_the_network(gcp) -> None:
    delete_cluster(gcp, service("LoadBalancer"), service("ClusterIP"))
    inventory = gcp.cloud.inventory()
    assert inventory["compute.forwardingRule"] == [f"acme/us-central1/{BALANCER}"]
    assert inventory["compute.targetPool"] == [f"acme/us-central1/{BALANCER}"]
    assert len(inventory["compute.firewall"]) == 2
    # An external one is in no subnetwork.
    gcp.call("compute", "subnetworks.delete", SUBNETWORK)
    words = r"The network resource 'projects/acme/global/networks/net' is already being used by "
    said = refused(gcp, "networks.delete", NETWORK)
    assert said.startswith(words)
    assert "'projects/acme/global/firewalls/k8s-" in said
    # The remedy that Google has; the rule goes before the pool that it leads to.
    pool = {**HERE, "targetPool": BALANCER}
    assert "target_pool resource" in refused(gcp, "targetPools.delete", pool)
    gcp.call("compute", "forwardingRules.delete", {**HERE, "forwardingRule": BALANCER})
    gcp.call("compute", "targetPools.delete", pool)
    listed = gcp.call("compute", "firewalls.list", {"project": "acme"})["items"]
    for rule in listed:
        (tag,) = rule["targetTags"]
        assert re.fullmatch("gke-main-[0-9a-f]{8}-node", tag)
        where = {"project": "acme", "firewall": rule["name"]}
        gcp.call("compute", "firewalls.delete", where)
    gcp.call("compute", "networks.delete", NETWORK)
    # Nothing uses the address, and it holds nothing.
    gcp.call("compute", "addresses.delete", {**HERE, "address": BALANCER})
    assert gcp.cloud.inventory() == {}


def test_an_internal_load_balancer_holds_the_subnetwork_too(gcp) -> None:
    internal = {"networking.gke.io/load-balancer-type": "Internal"}
    delete_cluster(gcp, service("LoadBalancer", **internal))
    said = refused(gcp, "subnetworks.delete", SUBNETWORK)
    assert said.endswith(f"regions/us-central1/forwardingRules/{BALANCER}'")
    assert "compute.targetPool" not in gcp.cloud.inventory()
    gcp.call("compute", "forwardingRules.delete", {**HERE, "forwardingRule": BALANCER})
    where = {**HERE, "backendService": BALANCER}
    gcp.call("compute", "regionBackendServices.delete", where)
    gcp.call("compute", "subnetworks.delete", SUBNETWORK)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"ingress": True}, "k8s1-"),
        ({"exposed_ports": {"8000": {"name": "triton-group"}}}, "triton-group"),
    ],
)
def test_endpoint_groups_hold_the_subnetwork_until_google_removes_them(
    gcp, asked: JsonObject, name: str
) -> None:
    write_account(gcp.environment, {"leftovers_s": 3600})
    annotation = {"cloud.google.com/neg": json.dumps(asked)}
    delete_cluster(gcp, service("ClusterIP", **annotation))
    inventory = gcp.cloud.inventory()["compute.networkEndpointGroup"]
    assert [n.split("/")[1] for n in inventory] == [f"us-central1-{z}" for z in "abc"]
    said = refused(gcp, "subnetworks.delete", SUBNETWORK)
    assert f"zones/us-central1-a/networkEndpointGroups/{name}" in said
    answer = gcp.call("compute", "networkEndpointGroups.aggregatedList", {"project": "acme"})
    assert {*answer["items"]} == {f"zones/us-central1-{z}" for z in "abc"}
    for place in answer["items"].values():
        for group in place["networkEndpointGroups"]:
            where = {
                "project": "acme",
                "zone": group["zone"].rpartition("/")[2],
                "networkEndpointGroup": group["name"],
            }
            gcp.call("compute", "networkEndpointGroups.delete", where)
    gcp.call("compute", "subnetworks.delete", SUBNETWORK)


def ingress(name: str, of_class: str | None = None) -> JsonObject:
    notes = {} if of_class is None else {"kubernetes.io/ingress.class": of_class}
    meta = {"uid": name, "namespace": "default", "name": name, "annotations": notes}
    backend = {"service": {"name": "triton", "port": {"number": 8000}}}
    return {"metadata": meta, "spec": {"defaultBackend": backend, "tls": [{"secretName": "w"}]}}


def test_an_ingress_leaves_a_load_balancer_that_goes_from_the_front_only(gcp) -> None:
    write_account(gcp.environment, {"leftovers_s": 0})
    annotation = {"cloud.google.com/neg": '{"ingress": true}'}
    delete_cluster(
        gcp,
        service("ClusterIP", **annotation),
        ingresses=(ingress("web"), ingress("inside", "nginx")),
    )
    order = {
        "forwardingRule": "globalForwardingRules",
        "targetHttpProxy": "targetHttpProxies",
        "targetHttpsProxy": "targetHttpsProxies",
        "sslCertificate": "sslCertificates",
        "urlMap": "urlMaps",
        "backendService": "backendServices",
        "healthCheck": "healthChecks",
    }
    left = {p: gcp.cloud.inventory()[f"compute.{p}"] for p in order}
    counts = {parameter: len(found) for parameter, found in left.items()}
    assert counts == {**dict.fromkeys(order, 1), **dict.fromkeys(
        ("forwardingRule", "backendService", "healthCheck"), 2
    )}  # fmt: skip
    # In use by a backend service, Google does not remove them.
    groups = gcp.cloud.inventory()["compute.networkEndpointGroup"]
    assert len(groups) == 3
    _, zone, group = groups[0].split("/")
    where = {"project": "acme", "zone": zone, "networkEndpointGroup": group}
    assert "/backendServices/k8s1-" in refused(gcp, "networkEndpointGroups.delete", where)

    def deletions(parameter: str) -> list[dict[str, str]]:
        return [{"project": "acme", parameter: key.split("/")[1]} for key in left[parameter]]

    for parameter, collection in list(order.items())[1:]:
        refused(gcp, f"{collection}.delete", deletions(parameter)[0])
    for parameter, collection in order.items():
        for where in deletions(parameter):
            gcp.call("compute", f"{collection}.delete", where)
    assert {*gcp.cloud.inventory()} & {f"compute.{parameter}" for parameter in order} == set()
    (rule,) = gcp.call("compute", "firewalls.list", {"project": "acme"})["items"]
    assert re.fullmatch("k8s-fw-l7--[0-9a-f]{16}", rule["name"])
    (address,) = gcp.call("compute", "globalAddresses.list", {"project": "acme"})["items"]
    assert f"acme/{address['name']}" in left["forwardingRule"]


def test_endpoint_groups_go_by_themselves(gcp) -> None:
    write_account(gcp.environment, {"leftovers_s": 0})
    annotation = {"cloud.google.com/neg": '{"ingress": true}'}
    delete_cluster(gcp, service("ClusterIP", **annotation))
    assert "compute.networkEndpointGroup" not in gcp.cloud.inventory()
    gcp.call("compute", "subnetworks.delete", SUBNETWORK)


def test_disks_of_claims_stay_and_hold_nothing(gcp) -> None:
    disk = "projects/acme/zones/us-central1-a/disks/pvc-1"
    delete_cluster(
        gcp,
        volumes=(
            {
                "csi": {"driver": "pd.csi.storage.gke.io", "volumeHandle": disk},
                "capacity": {"storage": "100Gi"},
            },
            {"hostPath": {"path": "/data"}},
        ),
    )
    assert gcp.cloud.inventory()["compute.disk"] == ["acme/us-central1-a/pvc-1"]
    zone = {"project": "acme", "zone": "us-central1-a"}
    (found,) = gcp.call("compute", "disks.list", zone)["items"]
    assert (found["name"], found["sizeGb"]) == ("pvc-1", "100")
    assert found["labels"]["goog-k8s-cluster-name"] == "main"
    assert found["labels"]["goog-k8s-cluster-location"] == "us-central1"
    gcp.call("compute", "subnetworks.delete", SUBNETWORK)
    gcp.call("compute", "networks.delete", NETWORK)
    gcp.call("compute", "disks.delete", {**zone, "disk": "pvc-1"})
    assert gcp.cloud.inventory() == {}
