"""What other tools call it, and what is called so here; and values as a stack file writes them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# What other tools call it -> what it is called here.
ELSEWHERE: Mapping[str, str] = {
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
    "gpu_sharing_config": "sharing: {mode: time-slicing, replicas: …}",
    "max_shared_clients_per_gpu": "sharing: {mode: time-slicing, replicas: …}",
    "flex_start": "capacity: flex-start",
    "reservation_affinity": "capacity: {mode: reservation, reservation: …}",
    "upgrade_settings": "rollout: {max_unavailable: …}",
    "update_config": "rollout: {max_unavailable: …}",
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

_OTHER_WORDS: Mapping[str, str] = {
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


def meant_word(found: Any, allowed: Sequence[str]) -> str:
    """The allowed word that was meant; empty where none is near."""
    text = str(found).casefold()
    if _OTHER_WORDS.get(text) in allowed:
        return _OTHER_WORDS[text]
    folded = {a.casefold().replace("_", "-"): a for a in allowed}
    close = difflib.get_close_matches(text.replace("_", "-"), folded, n=1, cutoff=0.5)
    return folded[close[0]] if close else ""


def written(found: Any) -> str:
    """A value in a message, cut where it is long."""
    text = json.dumps(found, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def flow(value: Any) -> str:
    """A value as one would type it: `{count: 1}`."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    return value if isinstance(value, str) else json.dumps(value)


def listed(names: Iterable[str]) -> str:
    return ", ".join(name or '""' for name in names)
