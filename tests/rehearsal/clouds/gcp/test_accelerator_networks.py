"""Networks that the simulated GKE makes for the GPU interfaces of a pool's machines."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.gcp.projects import project_number
from tests.rehearsal.clouds.conftest import Gcp

LABEL = "gke.networks.io/accelerator-network-profile"
H200 = {
    "machineType": "a3-ultragpu-8g",
    "diskType": "hyperdisk-balanced",
    "accelerators": [{"acceleratorType": "nvidia-h200-141gb", "acceleratorCount": "8"}],
    "ephemeralStorageLocalSsdConfig": {"localSsdCount": 32},
}
AUTO = {"acceleratorNetworkProfile": "auto"}
V2 = {"networkConfig": {"datapathProvider": "ADVANCED_DATAPATH"}}


def allow(gcp: Gcp) -> None:
    project = gcp.parent.split("/")[1]
    agent = f"service-{project_number(project)}@container-engine-robot.iam.gserviceaccount.com"
    binding = {"role": "roles/compute.networkAdmin", "members": [f"serviceAccount:{agent}"]}
    gcp.call(
        "cloudresourcemanager",
        "projects.setIamPolicy",
        {"resource": project},
        policy={"bindings": [binding]},
    )


def make(gcp: Gcp, **more: Any) -> JsonObject:
    asked = {"config": H200, "locations": ["us-central1-b"], "networkConfig": AUTO, **more}
    return gcp.make_pool(**asked)


def test_nodes_have_an_interface_for_the_host_and_one_for_each_gpu(gcp: Gcp) -> None:
    gcp.make_cluster(**V2)
    allow(gcp)
    pool = make(gcp)
    assert len(pool["networkConfig"]["additionalNodeNetworkConfigs"]) == 1 + 8
    assert pool["config"]["labels"][LABEL] == "auto"
    (node,) = gcp.nodes("pool")
    assert node["metadata"]["labels"][LABEL] == "auto"


def test_the_label_of_the_dra_driver_is_taken_and_others_of_gke_are_not(gcp: Gcp) -> None:
    gcp.make_cluster(**V2)
    allow(gcp)
    driver = "cloud.google.com/gke-networking-dra-driver"
    assert make(gcp, config={**H200, "labels": {driver: "true"}})["config"]["labels"][driver]
    with pytest.raises(CloudError, match=r'uses the reserved prefix "cloud\.google\.com"'):
        make(gcp, name="other", config={**H200, "labels": {"cloud.google.com/gke-gpu": "true"}})


def test_a_pool_that_asks_for_none_has_none(gcp: Gcp) -> None:
    gcp.make_cluster(**V2)
    pool = make(gcp, networkConfig={})
    assert "additionalNodeNetworkConfigs" not in pool["networkConfig"]
    assert LABEL not in pool["config"].get("labels", {})


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"networkConfig": {"acceleratorNetworkProfile": "fast"}}, "must be auto"),
        ({"config": {"machineType": "e2-standard-4"}}, "not supported on machine type e2-stand"),
        ({"locations": ["us-central1-b", "us-central1-a"], "config": {}}, "not supported on"),
    ],
)
def test_gke_refuses_what_the_profile_is_not_for(
    gcp: Gcp, asked: dict[str, Any], said: str
) -> None:
    gcp.make_cluster(**V2)
    allow(gcp)
    with pytest.raises(CloudError, match=said):
        make(gcp, **asked)


def test_it_needs_dataplane_v2(gcp: Gcp) -> None:
    gcp.make_cluster()
    with pytest.raises(CloudError, match="requires GKE Dataplane V2"):
        make(gcp)


def test_gke_makes_no_networks_without_the_role(gcp: Gcp) -> None:
    gcp.make_cluster(**V2)
    with pytest.raises(CloudError, match=r"needs roles/compute\.networkAdmin"):
        make(gcp)
