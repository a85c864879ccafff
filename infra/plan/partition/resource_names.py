"""How NVIDIA's device plugin names the partitions that it advertises."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=1024)  # a layout's profiles are asked for once per GPU, or for each pool
def resource_of(profile: str) -> str:
    """A profile's resource with strategy mixed. Source: NVIDIA/k8s-device-plugin, internal/rm."""
    return f"nvidia.com/mig-{profile.replace('+', '.')}"


def profile_of(resource: str) -> str:
    """The profile of a partition's resource, the reverse of `resource_of`: the first dot after the
    memory stands for the sign of an attribute, as in 1g.10gb.me and 1g.24gb.me.all.
    """
    memory, dot, attributes = resource.removeprefix("nvidia.com/mig-").partition("gb.")
    return f"{memory}gb+{attributes}" if dot else memory
