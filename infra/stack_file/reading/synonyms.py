"""Other tools' names for keys and values of a stack file, used for "did you mean"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from slicewright.infra.stack_file.nearest import nearest_names

KEY_SYNONYMS: Mapping[str, str] = {
    "instance_type": "machine_type",
    "instance_types": "machine_type",
    "node_locations": "zones",
    "locations": "zones",
    "availability_zones": "zones",
    "subnets": "zones",
    "subnet_ids": "zones",
    "node_count": "nodes: {count: …}",
    "initial_node_count": "nodes: {count: …}",
    "desired_size": "nodes: {count: …}",
    "desired_capacity": "nodes: {count: …}",
    "count": "nodes: {count: …}",
    "replicas": "nodes: {count: …}",
    "scaling": "nodes: {min: …, max: …}",
    "scaling_config": "nodes: {min: …, max: …}",
    "autoscaling": "nodes: {min: …, max: …}",
    "min_size": "nodes: {min: …, max: …}",
    "max_size": "nodes: {min: …, max: …}",
    "spot": "capacity: spot",
    "preemptible": "capacity: spot",
    "capacity_type": "capacity: …",
    "volume_size_gb": "disk: {size_gb: …}",
    "disk_size": "disk: {size_gb: …}",
    "disk_size_gb": "disk: {size_gb: …}",
    "disk_type": "disk: {type: …}",
    "gpu_partition_size": "partition: {mode: native, profile: …}",
    "mig": "partition: {mode: …}",
    "mig_config": "partition: {mode: operator, config: …}",
    "accelerator": "machine_type, which decides the GPUs",
    "guest_accelerator": "machine_type, which decides the GPUs",
    "gpu_driver_version": "driver",
    "time_slicing": "sharing: {mode: time-slicing, replicas: …}",
    "mps": "sharing: {mode: mps, replicas: …}",
    "gpu_sharing": "sharing: {mode: …}",
    "gpu_sharing_config": "sharing: {mode: mps or time-slicing, replicas: …}",
    "gpu_sharing_strategy": "sharing: {mode: mps or time-slicing, replicas: …}",
    "max_shared_clients_per_gpu": "sharing: {mode: mps or time-slicing, replicas: …}",
    "private": "network: private on EKS, or private_nodes: true on GKE",
    "private_cluster": "network: private on EKS, or private_nodes: true on GKE",
    "flex_start": "capacity: flex-start",
    "reservation_affinity": "capacity: {mode: reservation, reservation: …}",
    "upgrade_settings": "upgrade: {max_surge: …, max_unavailable: …}",
    "update_config": "update: {max_unavailable: …}",
    "placement": "start",
    "replicas_per_gpu": "replicas",
    "pools": "node_pools",
    "node_groups": "node_pools",
    "managed_node_groups": "node_pools",
    "regions": "region",
    "zone": "location",
    "region": "location",
    "location": "region",
}
"""Key of another tool -> the text to write here: a key, or a key with its value."""

NEEDLESS: Mapping[tuple[str, str], str] = {
    ("GkeCluster", "autoscaler"): "remove it: GKE scales its pools itself, by their nodes: "
    "{min: …, max: …}",
    ("ByoCluster", "autoscaler"): "remove it: slicewright neither adds nor removes nodes of an "
    "existing cluster",
    ("PrometheusStack", "grafana"): "remove it: Grafana is under the AGPL, so slicewright does "
    "not deploy it; your own loads the dashboards from ConfigMaps, see docs/how-to/monitoring.md",
    **dict.fromkeys(
        (
            ("GkePool", "mig_strategy"),
            ("EksPool", "mig_strategy"),
            ("ByoPool", "mig_strategy"),
        ),
        "write gpu_operator.mig_strategy: one strategy for all pools of the cluster",
    ),
    **{
        (fleet, key): "did you mean extends? It names the files of the fleet's common parts"
        for fleet in ("GkeFleet", "EksFleet", "ByoFleet")
        for key in ("extend", "base", "bases", "inherit", "inherits", "include", "includes")
    },
    **dict.fromkeys(
        (("TimeSlicing", "devices"), ("Mps", "devices")),
        "remove it: NVIDIA's device plugin shares all GPUs of a node or none; nodes whose GPUs "
        "stay whole need a pool without sharing",
    ),
    ("GkePool", "confidential"): "remove it: slicewright makes no confidential nodes, whose GPUs "
    "Google's installer does not partition",
}
"""(Model, key of another cloud or of an earlier slicewright) -> why the model does not need it."""

VALUE_SYNONYMS: Mapping[str, str] = {
    "gcp": "gke",
    "google": "gke",
    "aws": "eks",
    "amazon": "eks",
    "preemptible": "spot",
    "mig": "operator",
    "timeslicing": "time-slicing",
    "time_sharing": "time-slicing",
    "time-sharing": "time-slicing",
    "ondemand": "on-demand",
    "on_demand": "on-demand",
    "dws": "queued",
    "kubernetes": "byo",
    "k8s": "byo",
    "existing": "byo",
}


_MISSPELLED: Final = 0.75
"""Lowest ratio of difflib between a word and its misspelling."""


def is_misspelling(value: str, word: str) -> bool:
    """True if `value` can only mean `word`, so that conclusions may follow from it."""
    text = value.casefold()
    if VALUE_SYNONYMS.get(text) == word:
        return True
    folded = word.casefold().replace("_", "-")
    return bool(nearest_names(text.replace("_", "-"), (folded,), count=1, similarity=_MISSPELLED))


def closest_word(value: Any, allowed: Sequence[str]) -> str:
    """The allowed word that `value` most likely means, empty if none is similar."""
    text = str(value).casefold()
    if VALUE_SYNONYMS.get(text) in allowed:
        return VALUE_SYNONYMS[text]
    folded = {a.casefold().replace("_", "-"): a for a in allowed}
    close = nearest_names(text.replace("_", "-"), tuple(folded), count=1, similarity=0.5)
    return folded[close[0]] if close else ""
