"""The nodes of a GKE node pool: their names, labels, taints and sizes as GKE gives them.

Sources of the labels: GKE's pages on GPUs and GPU sharing; GoogleCloudPlatform/cluster-toolkit and
container-engine-accelerators, whose manifests select them.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Sequence

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.core.faults import Faults
from slicewright.rehearsal.clouds.core.machines import reserved_cpu_millis
from slicewright.rehearsal.clouds.core.node_group import (
    DesiredNodes,
    NoCapacity,
    NodeRecord,
    NodeSettings,
)
from slicewright.rehearsal.clouds.core.node_object import NodeDetails, node_object
from slicewright.rehearsal.clouds.core.taints import Taint, changed_taints, kubernetes_taints
from slicewright.rehearsal.clouds.gcp.gke import driver_delay
from slicewright.rehearsal.clouds.gcp.gke.defaults import provisioning_model, region_of
from slicewright.rehearsal.clouds.gcp.gke.pod_addresses import PodRange
from slicewright.rehearsal.clouds.gcp.gke.provisioning import is_queued
from slicewright.rehearsal.clouds.gcp.gke.upgrades import is_blue_green
from slicewright.rehearsal.clouds.gcp.machines import GPU_MODELS, machines, reserved_memory_ki
from slicewright.rehearsal.clouds.gcp.org_policies import machine_violation
from slicewright.rehearsal.clouds.gcp.state import NodePoolRecord
from slicewright.rehearsal.cluster.silicon.models import model

_QUEUED = "cloud.google.com/gke-queued"
_RUN_TIME = "cloud.google.com/gke-max-run-duration-seconds"
"""Source of both: GKE's cluster autoscaler, its labels, and Google's manifests for queued pools."""
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
_ARM_TAINT = {"key": "kubernetes.io/arch", "value": "arm64", "effect": "NO_SCHEDULE"}
"""Source: GKE docs, "Arm workloads on GKE"; that a pool can be without: GKE API, TaintConfig."""
# LATEST: the driver in the published walkthrough that stacks/Pulumi.gke-h100.yaml rebuilds;
# DEFAULT: an older branch that GKE shipped at that time.
_DRIVERS = {"LATEST": "550.90.07", "DEFAULT": "535.183.01"}
# Blackwell needs 570 (B200, GB200) or 575 (RTX PRO 6000): NVIDIA's data center driver release
# notes. Which ones GKE ships is not public.
_BLACKWELL_DRIVERS = {"LATEST": "580.95.05", "DEFAULT": "580.82.07"}
_BLACKWELL = ("nvidia-b200", "nvidia-gb200", "nvidia-rtx-pro-6000")
_NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def is_gpu_pool(pool: JsonObject) -> bool:
    return bool(pool["config"].get("accelerators"))


def desired_nodes(
    item: NodePoolRecord, addresses: PodRange, context: Context, *, project: str, cluster: str
) -> DesiredNodes:
    pool, faults = item["pool"], context.faults
    name = pool["name"]
    prefix = f"gke-{cluster}-{name}"[:49].rstrip("-")
    seed = f"{project}/{cluster}/{name}/{pool['etag_seed']}"
    group = hashlib.sha256(seed.encode()).hexdigest()[:8]

    def check_room(index: int, zone: str) -> None:
        instance = f"{prefix}-{group}-{index:04}"
        labels = pool["config"].get("labels", {})
        if not faults.has_stock(pool=name, labels=labels, index=index, zone=zone):
            raise NoCapacity(
                "GCE_STOCKOUT",
                f"Instance '{instance}' creation failed: The zone "
                f"'projects/{project}/zones/{zone}' does not have enough resources available to "
                "fulfill the request.  '(resource type:compute)'.",
            )
        path = f"projects/{project}/zones/{zone}/instances/{instance}"
        if (why := machine_violation(context, pool, project, path)) is not None:
            raise NoCapacity("CONDITION_NOT_MET", f"Instance '{instance}' creation failed: {why}")
        addresses.check_room(index, instance)

    return DesiredNodes(
        counts=counts_of(item),
        generation=item["generation"],
        settings=node_settings(pool),
        new_name=lambda _zone, _used_names: (
            f"{prefix}-{group}-{''.join(secrets.choice(_NAME_ALPHABET) for _ in range(4))}"
        ),
        manifest=lambda record: _node(item, record, project=project, faults=faults),
        check_room=check_room,
        surge=int(pool["upgradeSettings"].get("maxSurge", 0)) > 0,
        beside=is_blue_green(pool["upgradeSettings"]),
    )


def counts_of(item: NodePoolRecord) -> dict[str, int]:
    """Zone -> nodes."""
    zones, scaled = item["pool"]["locations"], item.get("scaled")
    if scaled is None:
        return dict.fromkeys(zones, int(item["count"]))
    return {zone: scaled.get(zone, 0) for zone in zones}


def advertised_gpus(pool: JsonObject) -> int:
    """What GKE's device plugin advertises on a node; 0 where GKE does not know it beforehand."""
    config = pool["config"]
    if not config.get("accelerators"):
        return 0
    gpu = config["accelerators"][0]
    number = int(gpu["acceleratorCount"])
    size = gpu.get("gpuPartitionSize")
    if size:
        slices = model(GPU_MODELS[gpu["acceleratorType"]]).slices
        number *= next((s.most for s in slices if s.name == size), 0)
    sharing = gpu.get("gpuSharingConfig")
    return number * (int(sharing["maxSharedClientsPerGpu"]) if sharing else 1)


def sample_node(item: NodePoolRecord, zone: str, *, project: str) -> JsonObject:
    """A node as the pool would get it there, without GPU resources."""
    generation = item["generation"]
    record = NodeRecord(name="sample", location=zone, generation=generation, index=-1)
    return _node(item, record, project=project, faults=None)


def node_settings(pool: JsonObject) -> NodeSettings:
    """pool: in the API's form."""
    config = pool["config"]
    return {
        "labels": config.get("labels", {}),
        "taints": kubernetes_taints(config.get("taints", [])),
    }


def _node(
    item: NodePoolRecord, record: NodeRecord, *, project: str, faults: Faults | None
) -> JsonObject:
    pool = item["pool"]
    config = pool["config"]
    machine = machines()[config["machineType"]]
    name, zone = record["name"], record["location"]
    taints: Sequence[Taint] = config.get("taints", [])
    if is_queued(pool):
        queued = {"key": _QUEUED, "value": "true", "effect": "NO_SCHEDULE"}
        taints = changed_taints(taints, add=[queued], remove=())
    if item["gke_gpu_taint"]:
        taints = changed_taints(taints, add=[GPU_TAINT], remove=())
    behaviour = (config.get("taintConfig") or {}).get("architectureTaintBehavior", "ARM")
    if machine.architecture == "arm64" and behaviour != "NONE":
        taints = changed_taints(taints, add=[_ARM_TAINT], remove=())
    cos = config["imageType"].startswith("COS")
    return node_object(
        NodeDetails(
            name=name,
            labels=_labels(pool, name, zone),
            taints=kubernetes_taints(taints),
            provider_id=f"gce://{project}/{zone}/{name}",
            vcpu=machine.vcpu,
            reserved_cpu_millis=reserved_cpu_millis(machine.vcpu),
            memory_ki=machine.memory_ki,
            reserved_memory_ki=reserved_memory_ki(machine.ram_gib),
            disk_gb=config["diskSizeGb"],
            pods=int(pool["maxPodsConstraint"]["maxPodsPerNode"]),
            kubelet_version=f"v{pool['version']}",
            os_image="Container-Optimized OS from Google" if cos else "Ubuntu 24.04.3 LTS",
            kernel="6.12.55+" if cos else "6.8.0-1041-gke",
            runtime="containerd://2.1.5",
            architecture=machine.architecture,
            machine=_machine(pool, record["index"], faults),
        )
    )


def _labels(pool: JsonObject, node_name: str, zone: str) -> dict[str, str]:
    config = pool["config"]
    machine_type, region = config["machineType"], region_of(zone)
    cos = config["imageType"].startswith("COS")
    labels = {
        "beta.kubernetes.io/arch": machines()[machine_type].architecture,
        "beta.kubernetes.io/instance-type": machine_type,
        "beta.kubernetes.io/os": "linux",
        "cloud.google.com/gke-boot-disk": config["diskType"],
        "cloud.google.com/gke-container-runtime": "containerd",
        "cloud.google.com/gke-cpu-scaling-level": str(machines()[machine_type].vcpu),
        "cloud.google.com/gke-logging-variant": config["loggingConfig"]["variantConfig"]["variant"],
        "cloud.google.com/gke-max-pods-per-node": pool["maxPodsConstraint"]["maxPodsPerNode"],
        "cloud.google.com/gke-memory-gb-scaling-level": str(machines()[machine_type].ram_gib),
        "cloud.google.com/gke-nodepool": pool["name"],
        "cloud.google.com/gke-os-distribution": "cos" if cos else "ubuntu",
        "cloud.google.com/gke-provisioning": provisioning_model(config, on_demand="standard"),
        "cloud.google.com/gke-stack-type": "IPV4",
        "cloud.google.com/machine-family": machine_type.split("-")[0],
        "cloud.google.com/private-node": "false",
        "failure-domain.beta.kubernetes.io/region": region,
        "failure-domain.beta.kubernetes.io/zone": zone,
        "kubernetes.io/arch": machines()[machine_type].architecture,
        "kubernetes.io/hostname": node_name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": machine_type,
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
    if is_queued(pool):
        labels[_QUEUED] = "true"
    if config.get("maxRunDuration"):
        labels[_RUN_TIME] = str(config["maxRunDuration"]).removesuffix("s")
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


def _driver(config: JsonObject, requested: str) -> str | None:
    """Its version once it is there. requested: what GKE is to install.

    Where GKE installs none, Google's installer may do so later: the version that GKE would install
    by default. With the label that keeps GKE's device plugin off from the first moment, GKE does
    not complete its installation: a container of that plugin's pod would. Source: NVIDIA/aicr,
    docs/integrator/gke-gpu-setup.md.
    """
    kind = config["accelerators"][0]["acceleratorType"]
    drivers = _BLACKWELL_DRIVERS if kind in _BLACKWELL else _DRIVERS
    if requested == "INSTALLATION_DISABLED":
        return drivers["DEFAULT"]
    if config.get("labels", {}).get("gke-no-default-nvidia-gpu-device-plugin") == "true":
        return None
    return drivers.get(requested)


def _sharing_name(sharing: JsonObject) -> str:
    return str(sharing["gpuSharingStrategy"]).lower().replace("_", "-")


def _machine(pool: JsonObject, index: int, faults: Faults | None) -> JsonObject | None:
    """What the machine annotation says of the node's GPUs."""
    config = pool["config"]
    if not config.get("accelerators"):
        return None
    gpu = config["accelerators"][0]
    sharing = gpu.get("gpuSharingConfig")
    requested = gpu["gpuDriverInstallationConfig"]["gpuDriverVersion"]
    machine: JsonObject = {
        "cloud": "gke",
        "gpu_model": GPU_MODELS[gpu["acceleratorType"]],
        "gpu_count": int(gpu["acceleratorCount"]),
        # None: no driver is installed.
        "driver_version": _driver(config, requested),
        "driver_by_installer": requested == "INSTALLATION_DISABLED",
        "driver_after_s": driver_delay.seconds(os.environ),
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
    labels = config.get("labels", {})
    fault = faults and faults.node_fault(pool=pool["name"], labels=labels, index=index)
    if fault:
        machine["fault"] = fault
    return machine
