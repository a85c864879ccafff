"""Networks that GKE makes for the GPU interfaces of a pool's machines.

Sources: GKE API, NodeNetworkConfig.acceleratorNetworkProfile; GKE docs, configure automated
networking for accelerator VMs; NVIDIA/aicr, docs/integrator/gke-a4x-max-networking.md (the role of
GKE's service agent, the label). The words and the names of the networks are the rehearsal's; the
networks themselves, and what gives their interfaces to pods, are not simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.store import Store
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.gke.networks import may_as_gke
from slicewright.rehearsal.clouds.gcp.machines import machines

_MACHINES: Final = ("a3-megagpu-", "a3-ultragpu-", "a4-", "a4x-")
_LABEL: Final = "gke.networks.io/accelerator-network-profile"
_ROLE: Final = "roles/compute.networkAdmin"


def check_accelerator_network(
    store: Store, project: str, cluster: JsonObject, pool: JsonObject, zones: Sequence[str]
) -> None:
    """Raises CloudError. pool: as requested. zones: its own."""
    profile = _profile(pool)
    if profile is None:
        return
    config = pool.get("config") or {}
    machine = config.get("machineType") or "e2-medium"
    if profile != "auto":
        raise google_error(400, f'Invalid accelerator network profile "{profile}": must be auto.')
    if not machine.startswith(_MACHINES):
        raise google_error(
            400, f"Accelerator network profile is not supported on machine type {machine}."
        )
    if len(zones) > 1:
        raise google_error(
            400, "Accelerator network profile is only available for node pools in a single zone."
        )
    if cluster["networkConfig"].get("datapathProvider") != "ADVANCED_DATAPATH":
        raise google_error(400, "Accelerator network profile requires GKE Dataplane V2.")
    if not may_as_gke(store, project, _ROLE):
        raise google_error(
            403,
            "Kubernetes Engine Service Agent is missing required permissions on this project: "
            f"it needs {_ROLE} for the accelerator network profile.",
        )


def with_accelerator_network(pool: JsonObject) -> JsonObject:
    """The pool with what GKE fills in: a label, and an interface for the host and one per GPU."""
    if _profile(pool) is None:
        return pool
    config = pool["config"]
    (zone,) = pool["locations"]
    host = {"network": f"gke-auto-{zone}-gvnic", "subnetwork": f"gke-auto-{zone}-gvnic"}
    gpus = [
        {"network": f"gke-auto-{zone}-gpu", "subnetwork": f"gke-auto-{zone}-gpu-{i}"}
        for i in range(machines()[config["machineType"]].gpu_count)
    ]
    return {
        **pool,
        "config": {**config, "labels": {**config.get("labels", {}), _LABEL: "auto"}},
        "networkConfig": {**pool["networkConfig"], "additionalNodeNetworkConfigs": [host, *gpus]},
    }


def _profile(pool: JsonObject) -> str | None:
    profile = (pool.get("networkConfig") or {}).get("acceleratorNetworkProfile")
    return None if profile is None else str(profile)
