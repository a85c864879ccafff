"""What GKE fills into clusters and node pools that leave it open.

Source: recorded requests and answers in the tests of GoogleCloudPlatform/k8s-config-connector.
"""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.node_object import KUBERNETES
from slicewright.rehearsal.clouds.gcp.etag import etag
from slicewright.rehearsal.clouds.gcp.gke.upgrades import fill_upgrade
from slicewright.rehearsal.clouds.gcp.machines import machines

VERSION = f"{KUBERNETES}-gke.1038000"
_SCOPES = [
    "https://www.googleapis.com/auth/devstorage.read_only",
    "https://www.googleapis.com/auth/logging.write",
    "https://www.googleapis.com/auth/monitoring",
    "https://www.googleapis.com/auth/service.management.readonly",
    "https://www.googleapis.com/auth/servicecontrol",
    "https://www.googleapis.com/auth/trace.append",
]
_THREE_ZONES = "abc"
_ZONES = {"us-central1": "abcf", "us-east1": "bcda", "europe-west1": "bcd"}


def zones_of(location: str) -> list[str]:
    """The zones in which a cluster's nodes may be: all of its region, be the control plane in one
    of them or in several.

    Source: GKE, "About cluster configuration choices", multi-zonal clusters; Compute Engine,
    "Regions and zones". Regions other than a, b, c are in _ZONES.
    """
    region = region_of(location)
    return [f"{region}-{letter}" for letter in _ZONES.get(region, _THREE_ZONES)]


def region_of(location: str) -> str:
    return location.rsplit("-", 1)[0] if _is_zone(location) else location


def default_locations(location: str) -> list[str]:
    return [location] if _is_zone(location) else zones_of(location)[:3]


def _is_zone(location: str) -> bool:
    return location.count("-") == 2


def fill_node_config(config: JsonObject) -> JsonObject:
    filled = {
        "machineType": "e2-medium",
        "diskType": "pd-balanced",
        "diskSizeGb": 100,
        "imageType": "COS_CONTAINERD",
        "oauthScopes": list(_SCOPES),
        "serviceAccount": "default",
        "shieldedInstanceConfig": {"enableIntegrityMonitoring": True},
        "windowsNodeConfig": {},
        "loggingConfig": {"variantConfig": {"variant": "DEFAULT"}},
        "kubeletConfig": {"insecureKubeletReadonlyPortEnabled": False},
        "effectiveCgroupMode": "EFFECTIVE_CGROUP_MODE_V2",
        **config,
    }
    filled |= _attached_ssds(filled)
    machine = machines().get(filled["machineType"])
    if machine and machine.boot_disks and "diskType" not in config:
        # pd-balanced, or what else the machine type can boot from.
        possible = machine.boot_disks
        filled["diskType"] = "pd-balanced" if "pd-balanced" in possible else possible[0]
    filled["metadata"] = {"disable-legacy-endpoints": "true", **config.get("metadata", {})}
    filled["diskSizeGb"] = int(filled["diskSizeGb"])
    # Since 1.30.1-gke.1156000 an omitted driver config means DEFAULT.
    filled["accelerators"] = [_fill_accelerator(a) for a in config.get("accelerators", [])]
    if not filled["accelerators"]:
        del filled["accelerators"]
    filled["resourceLabels"] = {
        **config.get("resourceLabels", {}),
        "goog-gke-node-pool-provisioning-model": provisioning_model(config, on_demand="on-demand"),
    }
    return filled


def _attached_ssds(config: JsonObject) -> JsonObject:
    """GKE makes ephemeral storage of the local SSDs that come with a machine type, and says so.

    Source: mozilla/terraform-modules #464, where the answer differs from the request on a3.
    """
    machine = machines().get(config["machineType"])
    stated = {"ephemeralStorageLocalSsdConfig", "localNvmeSsdBlockConfig", "localSsdCount"}
    if machine is None or not machine.local_ssd or stated & set(config):
        return {}
    return {"ephemeralStorageLocalSsdConfig": {"localSsdCount": machine.local_ssd}}


def provisioning_model(config: JsonObject, *, on_demand: str) -> str:
    """on_demand: its name, in which GKE's labels differ."""
    if config.get("spot"):
        return "spot"
    if config.get("flexStart"):
        return "flex-start"
    return "preemptible" if config.get("preemptible") else on_demand


def _fill_accelerator(accelerator: JsonObject) -> JsonObject:
    filled = {**accelerator, "acceleratorCount": str(int(accelerator.get("acceleratorCount", 0)))}
    driver = dict(accelerator.get("gpuDriverInstallationConfig") or {})
    if driver.get("gpuDriverVersion") in (None, "GPU_DRIVER_VERSION_UNSPECIFIED"):
        driver["gpuDriverVersion"] = "DEFAULT"
    filled["gpuDriverInstallationConfig"] = driver
    if "gpuSharingConfig" in filled:
        sharing = dict(filled["gpuSharingConfig"])
        sharing["maxSharedClientsPerGpu"] = str(int(sharing.get("maxSharedClientsPerGpu", 0)))
        filled["gpuSharingConfig"] = sharing
    return filled


def fill_pool(pool: JsonObject, *, cluster_locations: list[str]) -> JsonObject:
    """The pool with defaults; its status is not filled in."""
    return {
        **pool,
        "initialNodeCount": int(pool.get("initialNodeCount", 0)),
        "locations": list(pool.get("locations") or cluster_locations),
        "version": pool.get("version") or VERSION,
        "management": pool.get("management") or {"autoRepair": True, "autoUpgrade": True},
        "maxPodsConstraint": {
            "maxPodsPerNode": str(
                int((pool.get("maxPodsConstraint") or {}).get("maxPodsPerNode", 110))
            )
        },
        "upgradeSettings": fill_upgrade(pool.get("upgradeSettings") or {}),
        "config": fill_node_config(pool.get("config") or {}),
        "podIpv4CidrSize": 24,
        "etag": etag(),
    }
