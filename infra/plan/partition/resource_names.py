"""How NVIDIA's device plugin names the partitions that it advertises."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=1024)  # a layout's profiles are asked for once per GPU, or for each pool
def resource_of(profile: str) -> str:
    """A profile's resource with strategy mixed. Source: NVIDIA/k8s-device-plugin, internal/rm."""
    return f"nvidia.com/mig-{profile.replace('+', '.')}"
