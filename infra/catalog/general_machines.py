"""Machine types without GPUs, for system pools: every current family of both clouds.

There are 1,600 of them, and a stack file names one: the table is searched, not loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from slicewright.infra.catalog.catalog_error import CatalogError
from slicewright.infra.catalog.machines import Cloud, Machine
from slicewright.infra.catalog.prices import list_price
from slicewright.infra.catalog.tsv_rows import read_rows

_HERE = Path(__file__).parent / "data"
_COLUMNS = 6
_PRICED: Mapping[Cloud, tuple[str, str]] = {
    "eks": ("us-east-1", "karpenter"),
    "gke": ("us-central1", "karpenter-gcp"),
}
"""Cloud -> the region of the table's prices, and the key of their list."""
_SOURCE: Mapping[Cloud, str] = {
    "eks": "EC2 DescribeInstanceTypes, recorded in getmoto/moto 5.2.5; aws/karpenter-provider-aws "
    "instance-types.md (2026-08-18)",
    "gke": "Cyclenerd/google-cloud-pricing-cost-calculator machinetypes.csv (2026-08-17)",
}


@cache
def general_machine(cloud: Cloud, name: str) -> Machine | None:
    """The machine type without GPUs of that name. None: unknown, or it has GPUs."""
    table = _table(cloud)
    start = table.find(f"\n{name}\t") + 1
    if not start or "\t" in name or "\n" in name:
        return None
    return _machine(cloud, table[start : table.index("\n", start)].split("\t"))


@cache
def general_machines(cloud: Cloud) -> tuple[Machine, ...]:
    """All machine types without GPUs, in the order of the table."""
    rows = read_rows(_HERE, f"{cloud}_machines.tsv", columns=_COLUMNS)
    return tuple(_machine(cloud, row) for row in rows)


@cache
def _table(cloud: Cloud) -> str:
    """The table without comments and names of columns, each row after a newline."""
    text = (_HERE / f"{cloud}_machines.tsv").read_text(encoding="utf-8")
    return text[text.index("\n", text.index("\nname\t") + 1) :]


def _machine(cloud: Cloud, row: list[str]) -> Machine:
    try:
        name, vcpus, memory_gib, architecture, pods, usd = row
        if architecture not in ("-", "arm64"):
            raise ValueError(architecture)
        region, key = _PRICED[cloud]
        memory = float(memory_gib)
        return Machine(
            name=name,
            cloud=cloud,
            vcpus=int(vcpus),
            memory_gib=int(memory) if memory.is_integer() else memory,
            architecture="arm64" if architecture == "arm64" else "amd64",
            pods=None if pods == "-" else int(pods),
            own_prices=() if usd == "-" else (list_price(usd, region=region, key=key),),
            source=_SOURCE[cloud],
        )
    except ValueError as e:
        raise CatalogError(f"catalog row {row}: {e}") from e
