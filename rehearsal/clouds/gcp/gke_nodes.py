"""The nodes that a GKE pool makes: names, labels, taints, sizes as GKE gives them.

Source of labels: GKE's documentation, node descriptions in public issues.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence

from kubeapi import JsonObject
from rehearsal.clouds.core.faults import Faults
from rehearsal.clouds.core.machines import (
    GKE_GPU_MODELS,
    gke_reserved_memory_ki,
    machines,
    reserved_cpu_millis,
)
from rehearsal.clouds.core.node_group import Target
from rehearsal.clouds.core.node_object import Build, kubernetes_taints, node_object
from rehearsal.clouds.gcp.gke_defaults import region_of

GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
# LATEST is what the walkthrough of system S0 found on its nodes; DEFAULT is an older branch that
# GKE shipped beside it.
_DRIVERS = {"LATEST": "550.90.07", "DEFAULT": "535.183.01"}
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def is_gpu_pool(pool: JsonObject) -> bool:
    return bool(pool["config"].get("accelerators"))


def target(item: JsonObject, *, project: str, cluster: str, faults: Faults) -> Target:
    """item: the stored pool: `pool` in API form, count per zone, generation, whether GKE adds its
    GPU taint.
    """
    pool = item["pool"]
    name, config = pool["name"], pool["config"]
    prefix = f"gke-{cluster}-{name}"[:49].rstrip("-")
    group = hashlib.sha256(f"{project}/{cluster}/{name}/{pool['etag_seed']}".encode()).hexdigest()[
        :8
    ]
    upgrade = pool["upgradeSettings"]

    def node(node_name: str, zone: str, index: int) -> JsonObject:
        return _node(
            item, project=project, node_name=node_name, zone=zone, index=index, faults=faults
        )

    return Target(
        places=dict.fromkeys(pool["locations"], int(item["count"])),
        generation=item["generation"],
        labels=config.get("labels", {}),
        taints=kubernetes_taints(config.get("taints", [])),
        new_name=lambda _place, _taken: (
            f"{prefix}-{group}-{''.join(secrets.choice(_ALPHABET) for _ in range(4))}"
        ),
        node=node,
        surge=int(upgrade.get("maxSurge", 0)) > 0,
    )


def _node(
    item: JsonObject, *, project: str, node_name: str, zone: str, index: int, faults: Faults
) -> JsonObject:
    pool = item["pool"]
    config = pool["config"]
    machine = machines("gke")[config["machineType"]]
    pods = int(pool["maxPodsConstraint"]["maxPodsPerNode"])
    taints: Sequence[dict[str, str]] = config.get("taints", [])
    if item["gke_gpu_taint"]:
        taints = [
            t for t in taints if (t["key"], t["effect"]) != (GPU_TAINT["key"], GPU_TAINT["effect"])
        ] + [GPU_TAINT]
    return node_object(
        Build(
            name=node_name,
            labels=_labels(pool, node_name, zone),
            taints=kubernetes_taints(taints),
            provider_id=f"gce://{project}/{zone}/{node_name}",
            vcpu=machine.vcpu,
            reserved_cpu_millis=reserved_cpu_millis(machine.vcpu),
            memory_ki=machine.memory_ki,
            reserved_memory_ki=gke_reserved_memory_ki(machine.ram_gib),
            disk_gb=config["diskSizeGb"],
            pods=pods,
            kubelet_version=f"v{pool['version']}",
            os_image="Container-Optimized OS from Google"
            if config["imageType"].startswith("COS")
            else "Ubuntu 24.04.3 LTS",
            kernel="6.12.55+" if config["imageType"].startswith("COS") else "6.8.0-1041-gke",
            runtime="containerd://2.1.5",
            machine=_machine(item, node_name, index, faults),
        )
    )


def _labels(pool: JsonObject, node_name: str, zone: str) -> dict[str, str]:
    config = pool["config"]
    kind, region = config["machineType"], region_of(zone)
    cos = config["imageType"].startswith("COS")
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": kind,
        "beta.kubernetes.io/os": "linux",
        "cloud.google.com/gke-boot-disk": config["diskType"],
        "cloud.google.com/gke-container-runtime": "containerd",
        "cloud.google.com/gke-cpu-scaling-level": str(machines("gke")[kind].vcpu),
        "cloud.google.com/gke-logging-variant": config["loggingConfig"]["variantConfig"]["variant"],
        "cloud.google.com/gke-max-pods-per-node": pool["maxPodsConstraint"]["maxPodsPerNode"],
        "cloud.google.com/gke-memory-gb-scaling-level": str(machines("gke")[kind].ram_gib),
        "cloud.google.com/gke-nodepool": pool["name"],
        "cloud.google.com/gke-os-distribution": "cos" if cos else "ubuntu",
        "cloud.google.com/gke-provisioning": "spot"
        if config.get("spot")
        else "preemptible"
        if config.get("preemptible")
        else "standard",
        "cloud.google.com/gke-stack-type": "IPV4",
        "cloud.google.com/machine-family": kind.split("-")[0],
        "cloud.google.com/private-node": "false",
        "failure-domain.beta.kubernetes.io/region": region,
        "failure-domain.beta.kubernetes.io/zone": zone,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": node_name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": kind,
        "topology.gke.io/zone": zone,
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": zone,
    }
    for key, setting in (
        ("gke-spot", "spot"),
        ("gke-preemptible", "preemptible"),
        ("gke-flex-start", "flexStart"),
    ):
        if config.get(setting):
            labels[f"cloud.google.com/{key}"] = "true"
    if (config.get("workloadMetadataConfig") or {}).get("mode") == "GKE_METADATA":
        labels["iam.gke.io/gke-metadata-server-enabled"] = "true"
    return labels | _gpu_labels(config) | dict(config.get("labels", {}))


def _gpu_labels(config: JsonObject) -> dict[str, str]:
    if not config.get("accelerators"):
        return {}
    gpu = config["accelerators"][0]
    labels = {
        "cloud.google.com/gke-accelerator": gpu["acceleratorType"],
        "cloud.google.com/gke-accelerator-count": gpu["acceleratorCount"],
        "cloud.google.com/gke-gpu": "true",
    }
    if gpu.get("gpuPartitionSize"):
        labels["cloud.google.com/gke-gpu-partition-size"] = gpu["gpuPartitionSize"]
    sharing = gpu.get("gpuSharingConfig")
    if sharing:
        labels["cloud.google.com/gke-gpu-sharing-strategy"] = _sharing_name(sharing)
        labels["cloud.google.com/gke-max-shared-clients-per-gpu"] = sharing[
            "maxSharedClientsPerGpu"
        ]
    driver = gpu["gpuDriverInstallationConfig"]["gpuDriverVersion"]
    if driver in _DRIVERS:
        labels["cloud.google.com/gke-gpu-driver-version"] = driver.lower()
    return labels


def _sharing_name(sharing: JsonObject) -> str:
    return str(sharing["gpuSharingStrategy"]).lower().replace("_", "-")


def _machine(item: JsonObject, node_name: str, index: int, faults: Faults) -> JsonObject | None:
    config = item["pool"]["config"]
    if not config.get("accelerators"):
        return None
    gpu = config["accelerators"][0]
    sharing = gpu.get("gpuSharingConfig")
    machine: JsonObject = {
        "cloud": "gke",
        "gpu_model": GKE_GPU_MODELS[gpu["acceleratorType"]],
        "gpu_count": int(gpu["acceleratorCount"]),
        # None: nobody installs a driver, until someone does it by hand.
        "driver_version": _DRIVERS.get(gpu["gpuDriverInstallationConfig"]["gpuDriverVersion"]),
        "gke_gpu_config": {
            "GPUPartitionSize": gpu.get("gpuPartitionSize", ""),
            "GPUSharingConfig": {
                "GPUSharingStrategy": _sharing_name(sharing),
                "MaxSharedClientsPerGPU": int(sharing["maxSharedClientsPerGpu"]),
            }
            if sharing
            else None,
        },
    }
    pools = [item["pool"]["name"], config.get("labels", {}).get("slicewright.io/pool", "")]
    fault = faults.of_node(pools=pools, index=index)
    if fault:
        machine["fault"] = fault
    return machine
