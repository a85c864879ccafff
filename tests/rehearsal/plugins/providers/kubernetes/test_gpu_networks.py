"""The objects of networks for GPUs against the kinds that the simulated GKE installs."""

from __future__ import annotations

import time
from typing import Any

import pytest

from slicewright.infra import manifests
from slicewright.kubeapi import ApiError
from slicewright.rehearsal.clouds.core.node_api import ApiServerNodes
from slicewright.rehearsal.clouds.gcp.gke.node_networks import install_kinds

KINDS = "/apis/networking.gke.io/v1"
MULTI = {"networkConfig": {"enableMultiNetworking": True}}


@pytest.fixture(scope="module")
def installed(cluster: Any) -> None:
    install_kinds(ApiServerNodes(cluster.path), MULTI)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            cluster.admin.get(f"{KINDS}/networks")
            cluster.admin.get(f"{KINDS}/gkenetworkparamsets")
        except ApiError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the kinds are not served")


def create(cluster: Any, plural: str, kind: str, of: dict[str, Any]) -> None:
    manifest = {"apiVersion": manifests.NETWORKING_API, "kind": kind, "metadata": {"name": "vpc1"}}
    cluster.admin.create(
        f"{KINDS}/{plural}", {**manifest, "spec": of}, dryRun="All", fieldValidation="Strict"
    )


def test_objects_of_the_program_are_accepted(cluster: Any, installed: None) -> None:
    parameters = manifests.network_parameters("gpu-0", "nodes-0")
    create(cluster, "gkenetworkparamsets", "GKENetworkParamSet", parameters)
    create(cluster, "networks", "Network", manifests.network_of_devices("vpc1"))


def test_another_type_or_mode_is_refused(cluster: Any, installed: None) -> None:
    parameters = {**manifests.network_parameters("gpu-0", "nodes-0"), "deviceMode": "Fast"}
    with pytest.raises(ApiError, match="deviceMode"):
        create(cluster, "gkenetworkparamsets", "GKENetworkParamSet", parameters)
    with pytest.raises(ApiError, match=r"spec\.type"):
        create(cluster, "networks", "Network", {"type": "L9"})
