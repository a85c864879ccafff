"""The devices that pods request, and the demand classes of pods that are alike."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from slicewright.infra.plan.partition.resource_names import profile_of, resource_of

MIG: Final = "nvidia.com/mig-"
GPU: Final = "nvidia.com/gpu"
_PARTITION_SIZE: Final = "cloud.google.com/gke-gpu-partition-size"
"""GKE's own partitions have the resource of whole GPUs: the node selector names their profile."""


def requested_devices(pod_spec: Mapping[str, Any]) -> Mapping[str, int]:
    """Returns the devices of a pod by resource. For GPUs the limits are the requests.

    Init containers end before the others start, but those that restart always run beside them.
    Source: Kubernetes docs, "Resource sharing within containers".
    """
    running, starting = Counter[str](), Counter[str]()
    for container in pod_spec.get("initContainers") or ():
        devices = _devices(container)
        if container.get("restartPolicy") == "Always":
            running += devices
            devices = Counter[str]()
        starting |= running + devices
    for container in pod_spec.get("containers") or ():
        running += _devices(container)
    devices = running | starting
    profile = (pod_spec.get("nodeSelector") or {}).get(_PARTITION_SIZE)
    return {
        resource_of(profile) if profile and resource == GPU else resource: count
        for resource, count in sorted(devices.items())
    }


def classes_of_pods(name: str, pods: int, devices: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yields `demand.classes` of pods that are alike: one for each of their resources.

    A pod gets its partitions one by one, and its whole GPUs from one node. Its resource names a MIG
    profile, so no other one can serve it.
    """
    for resource, count in sorted(devices.items()):
        if not pods * count:
            continue
        if resource == GPU:
            yield {"name": name, "replicas": pods, "gpus": count}
        else:
            profile = profile_of(resource)
            suffix = "" if len(devices) == 1 else "-" + re.sub("[^a-z0-9]", "-", profile)
            yield {"name": name + suffix, "replicas": pods * count, "profiles": [profile]}


def _devices(container: Mapping[str, Any]) -> Counter[str]:
    limits = (container.get("resources") or {}).get("limits") or {}
    return Counter(
        {
            resource: int(count)
            for resource, count in limits.items()
            if resource == GPU or resource.startswith(MIG)
        }
    )
