"""The instance types of the simulated EC2.

machines.toml was written independently of infra/catalog and goes before it, so that a mistake in
the catalog shows (tests/infra/cross_check/test_rehearsal.py). The catalog's other types are taken
from it, so that each of them can be rehearsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from slicewright.infra import catalog
from slicewright.rehearsal.clouds.core.machines import Machine, capacity_memory_ki, load


@cache
def machines() -> Mapping[str, Machine]:
    return {**_catalog_machines(), **extra_machines()}


@cache
def extra_machines() -> Mapping[str, Machine]:
    """Those of machines.toml."""
    return load(Path(__file__).parent / "machines.toml")


def _catalog_machines() -> Mapping[str, Machine]:
    machines = {}
    of_ec2 = [row for row in catalog.load().machines.values() if row.cloud == "eks"]
    for row in (*of_ec2, *catalog.general_machines("eks")):
        ram_gib = max(1, int(row.memory_gib))
        machines[row.name] = Machine(
            name=row.name,
            vcpu=row.vcpus,
            ram_gib=ram_gib,
            memory_ki=capacity_memory_ki(ram_gib),
            # The limit of most types with 4 or more interfaces, where none is published.
            # Source: awslabs/amazon-eks-ami, max-pods-calculator.sh (110 below 30 vCPU).
            pods=row.pods or (110 if row.vcpus < 30 else 250),
            gpu=row.gpu.name if row.gpu else None,
            gpu_count=row.gpu_count,
            efa=row.efa,
            efa_first_card=row.efa_first_card,
            architecture=row.architecture,
        )
    return machines


def vcpu_quota(instance_type: str, *, spot: bool) -> str | None:
    """The code of the quota, in vCPU, that instances of the type count against.

    None: of a family whose quota is not simulated. Source: EC2 user guide, "Amazon EC2 instance
    type quotas".
    """
    family = instance_type[:1]
    return {
        ("p", False): "L-417A185B",
        ("p", True): "L-7212CCBC",
        ("g", False): "L-DB2E81BA",
        ("g", True): "L-3819A6DF",
        **dict.fromkeys(((f, False) for f in "acdhimrtz"), "L-1216C47A"),
    }.get((family, spot))


def reserved_memory_ki(pods: int) -> int:
    """kube-reserved memory and the eviction threshold, in KiB.

    255 MiB and 11 MiB per pod; 100 MiB for eviction. Source: nodeadm of awslabs/amazon-eks-ami.
    """
    return (255 + 11 * pods + 100) * 1024
