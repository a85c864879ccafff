"""What GKE refuses although its API model allows it: rules between fields.

Sources: the GKE API reference (NodePool, NodeConfig) and GKE's pages on GPUs, local SSDs and node
taints; GoogleCloudPlatform/cluster-toolkit, modules/compute/gke-node-pool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.machines import Machine
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.gke.affinity import check_affinity
from slicewright.rehearsal.clouds.gcp.gke.defaults import default_locations, zones_of
from slicewright.rehearsal.clouds.gcp.gke.encryption import check_disk_key
from slicewright.rehearsal.clouds.gcp.gke.placement import check_placement
from slicewright.rehearsal.clouds.gcp.gke.provisioning import check_provisioning
from slicewright.rehearsal.clouds.gcp.gke.upgrades import check_upgrade
from slicewright.rehearsal.clouds.gcp.machines import GPU_MODELS, MIG_MODELS, machines

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_SIZE = re.compile(r"\d+g\.\d+gb([+-][a-z0-9.]+)?")
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_RESOURCE_LABELS = 64
"""Compute Engine, "Labels resources": labels per resource."""
_SWITCHES = frozenset({"cloud.google.com/gke-networking-dra-driver"})
"""Labels with GKE's prefix that its documentation has people give to pools."""
_DNS = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


def check_name(kind: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise google_error(
            400,
            f'Invalid value for field "{kind}.name": "{name}": must match {_NAME.pattern} '
            "(lower case, at most 40 characters).",
        )


def check_pool(pool: JsonObject, *, location: str, channel: str) -> None:
    """Raises CloudError. pool: as requested; location, channel: of the cluster.

    location: a region or a zone. channel: the release channel, UNSPECIFIED for none.
    """
    check_name("node_pool", str(pool.get("name", "")))
    config = pool.get("config") or {}
    check_disk_key(config, location)
    machine = find_machine(config.get("machineType") or "e2-medium")
    zones = pool.get("locations") or ()
    possible = zones_of(location)
    for zone in zones:
        if zone not in possible:
            raise google_error(
                400,
                f'Zone "{zone}" is not in the region of the cluster; it has {", ".join(possible)}.',
            )
    for zone in zones or default_locations(location):
        if machine.zones is not None and zone not in machine.zones:
            raise google_error(
                400,
                f"Machine type with name '{machine.name}' does not exist in zone '{zone}'; "
                f"zones that have it: {_sorted(machine.zones)}.",
            )
    check_accelerators(config, machine)
    check_ssd(config, machine)
    check_boot_disk(config, machine)
    check_features(config)
    check_affinity(config)
    check_provisioning(pool)
    check_management(pool.get("management") or {"autoUpgrade": True}, channel)
    check_labels_and_taints(config)
    if config.get("spot") and config.get("preemptible"):
        raise google_error(400, "Only one of spot and preemptible may be set.")
    pods = int((pool.get("maxPodsConstraint") or {}).get("maxPodsPerNode", 110))
    if not 8 <= pods <= 256:
        raise google_error(
            400,
            "Invalid value for field node_pool.max_pods_constraint.max_pods_per_node: "
            f"{pods}: must be 8 to 256.",
        )
    check_upgrade(pool.get("upgradeSettings") or {})
    check_placement(pool, zones or default_locations(location))
    count = int(pool.get("initialNodeCount", 0))
    check_count(count)
    _check_first_nodes(pool, count, len(zones or default_locations(location)))


def find_machine(name: str) -> Machine:
    catalog_machines = machines()
    if name not in catalog_machines:
        raise google_error(
            400,
            f"Machine type with name '{name}' does not exist. (The rehearsal's cloud knows "
            f"{_sorted(catalog_machines)}.)",
        )
    return catalog_machines[name]


def check_count(count: int) -> None:
    if not 0 <= count <= 1000:
        raise google_error(400, f"Node count {count} is out of range: 0 to 1000 per zone.")


def _check_first_nodes(pool: JsonObject, count: int, zones: int) -> None:
    """What GKE does with a pool that begins above its own maximum is not published. It is refused
    here, so that nothing in the program depends on it.
    """
    scaling = pool.get("autoscaling") or {}
    if not scaling.get("enabled"):
        return
    for field, nodes in (("maxNodeCount", count), ("totalMaxNodeCount", count * zones)):
        if int(scaling.get(field) or nodes) < nodes:
            raise google_error(
                400, f"initial_node_count makes {nodes} nodes: autoscaling.{field} is below it."
            )


def check_accelerators(config: JsonObject, machine: Machine) -> None:
    accelerators = config.get("accelerators") or []
    if len(accelerators) > 1:
        raise google_error(400, "At most one accelerator type may be attached to a node.")
    if not accelerators:
        if machine.gpu:
            raise google_error(
                400,
                f"Machine type {machine.name} comes with {machine.gpu_count} x "
                f"{machine.gpu}: accelerators must be specified.",
            )
        return
    kind, count = (
        str(accelerators[0].get("acceleratorType", "")),
        int(accelerators[0].get("acceleratorCount", 0)),
    )
    if machine.gpu:
        if (kind, count) != (machine.gpu, machine.gpu_count):
            raise google_error(
                400,
                f"Accelerator {count} x {kind} cannot be attached to machine type {machine.name}, "
                f"which has exactly {machine.gpu_count} x {machine.gpu}.",
            )
    elif count not in machine.gpu_choices.get(kind, ()):
        offered = (
            "; ".join(f"{k} x {'/'.join(map(str, v))}" for k, v in machine.gpu_choices.items())
            or "none"
        )
        raise google_error(
            400,
            f"Accelerator {count} x {kind} cannot be attached to machine type "
            f"{machine.name}; possible: {offered}.",
        )
    _check_partition(accelerators[0], kind)
    _check_sharing(accelerators[0])


def _check_partition(accelerator: JsonObject, kind: str) -> None:
    """The form of the size, and that the GPU supports MIG.

    Whether the GPU has a partition of that size shows on the node, if ever: GKE's partition_gpu
    does not look up the GPU model (GoogleCloudPlatform/container-engine-accelerators).
    """
    size = accelerator.get("gpuPartitionSize")
    if not size:
        return
    if not _SIZE.fullmatch(size):
        raise google_error(
            400, f'Invalid GPU partition size "{size}": must have the form of 1g.5gb.'
        )
    if GPU_MODELS.get(kind) not in MIG_MODELS:
        raise google_error(400, f"GPU partitioning is not supported on accelerator type {kind}.")


def _check_sharing(accelerator: JsonObject) -> None:
    sharing = accelerator.get("gpuSharingConfig")
    if not sharing:
        return
    clients = int(sharing.get("maxSharedClientsPerGpu", 0))
    if sharing.get("gpuSharingStrategy") in (None, "GPU_SHARING_STRATEGY_UNSPECIFIED"):
        raise google_error(
            400, "gpu_sharing_config.gpu_sharing_strategy must be TIME_SHARING or MPS."
        )
    if not 2 <= clients <= 48:
        raise google_error(
            400, f"gpu_sharing_config.max_shared_clients_per_gpu must be 2 to 48, got {clients}."
        )


def check_ssd(config: JsonObject, machine: Machine) -> None:
    ephemeral = (config.get("ephemeralStorageLocalSsdConfig") or {}).get("localSsdCount")
    raw = (config.get("localNvmeSsdBlockConfig") or {}).get("localSsdCount")
    if ephemeral is not None and raw is not None:
        raise google_error(
            400,
            "Only one of ephemeral_storage_local_ssd_config and "
            "local_nvme_ssd_block_config may be set.",
        )
    requested = int(ephemeral or raw or 0)
    if machine.local_ssd is not None and requested not in (0, machine.local_ssd):
        raise google_error(
            400,
            f"Machine type {machine.name} comes with exactly {machine.local_ssd} local "
            f"SSDs, {requested} were asked for.",
        )
    if requested and machine.local_ssd_choices and requested not in machine.local_ssd_choices:
        raise google_error(
            400,
            f"Machine type {machine.name} takes {_counts(machine.local_ssd_choices)} local SSDs, "
            f"{requested} were asked for.",
        )
    if requested and not machine.local_ssd and machine.name.startswith("e2-"):
        raise google_error(400, f"Local SSDs cannot be attached to machine type {machine.name}.")


def check_boot_disk(config: JsonObject, machine: Machine) -> None:
    """In Compute Engine's words, as in NVIDIA/aicr #2338."""
    disk = (config.get("bootDisk") or {}).get("diskType") or config.get("diskType")
    if disk and machine.boot_disks and disk not in machine.boot_disks:
        raise google_error(
            400,
            f"[{disk}] features are not compatible for creating instance: {disk} disk type cannot "
            f"be used by {machine.name} machine type.",
        )


def check_features(config: JsonObject) -> None:
    """Sources: GKE's pages on NCCL Fast Socket and image streaming."""

    def enabled(feature: str) -> bool:
        return bool((config.get(feature) or {}).get("enabled"))

    image = str(config.get("imageType") or "COS_CONTAINERD").upper()
    if enabled("fastSocket") and not enabled("gvnic"):
        raise google_error(400, "Fast Socket can only be enabled on a node pool with gVNIC.")
    if enabled("gcfsConfig") and image != "COS_CONTAINERD":
        raise google_error(
            400, f"Image streaming needs image type COS_CONTAINERD; this pool has {image}."
        )
    labels = config.get("resourceLabels") or {}
    if len(labels) > _RESOURCE_LABELS:
        raise google_error(
            400, f"Resource labels: at most {_RESOURCE_LABELS} are allowed, got {len(labels)}."
        )


def check_management(management: JsonObject, channel: str) -> None:
    """rancher/rancher #32282; terraform-google-modules/terraform-google-kubernetes-engine #682.

    Whether autoRepair alone may be false there is not known: it is accepted.
    """
    if channel != "UNSPECIFIED" and not management.get("autoUpgrade"):
        raise google_error(
            400, f"Auto_upgrade cannot be false when release_channel {channel} is set."
        )


def check_labels_and_taints(config: JsonObject) -> None:
    labels: Mapping[str, str] = config.get("labels") or {}
    for key, value in labels.items():
        _check_key("label", key)
        if value and not _LABEL_NAME.fullmatch(value):
            raise google_error(
                400,
                f'Invalid label value "{value}" of "{key}": at most 63 characters, '
                "alphanumeric at both ends.",
            )
        prefix = key.rpartition("/")[0]
        reserved = prefix == "cloud.google.com" and key not in _SWITCHES
        if prefix.endswith(("kubernetes.io", "k8s.io")) or reserved:
            raise google_error(400, f'Node label key "{key}" uses the reserved prefix "{prefix}".')
    if sum(len(k) + len(v) for k, v in labels.items()) > 1024:
        raise google_error(
            400, "Node labels: keys and values together must not be longer than 1024 characters."
        )
    taints: set[tuple[str, str]] = set()
    for taint in config.get("taints") or []:
        key, effect = str(taint.get("key", "")), str(taint.get("effect", "EFFECT_UNSPECIFIED"))
        _check_key("taint", key)
        if effect == "EFFECT_UNSPECIFIED":
            raise google_error(400, f'Taint "{key}" has no effect.')
        if (key, effect) in taints:
            raise google_error(400, f"Found more than one taint with key {key} and effect {effect}")
        taints.add((key, effect))


def _check_key(place: str, key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    if not _LABEL_NAME.fullmatch(name) or (
        slash and (len(prefix) > 253 or not _DNS.fullmatch(prefix))
    ):
        raise google_error(
            400,
            f'Invalid {place} key "{key}": a name of at most 63 characters, after an '
            'optional DNS prefix of at most 253 and "/".',
        )


def _counts(numbers: Iterable[int]) -> str:
    return "/".join(map(str, numbers))


def _sorted(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
