"""The instance types of the simulated EC2."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from rehearsal.clouds.core.machines import Machine, load


@cache
def machines() -> Mapping[str, Machine]:
    return load(Path(__file__).parent / "machines.toml")


def reserved_memory_ki(pods: int) -> int:
    """kube-reserved memory and the eviction threshold, in KiB.

    255 MiB and 11 MiB per pod; 100 MiB for eviction. Source: nodeadm of awslabs/amazon-eks-ami.
    """
    return (255 + 11 * pods + 100) * 1024
