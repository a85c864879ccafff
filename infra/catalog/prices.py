"""Public list prices of machine types and of GPUs to attach, by region.

The table is read when the first price is looked up, and a machine type's rows when it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

from slicewright.infra.catalog.catalog_error import CatalogError
from slicewright.infra.catalog.toml_rows import read
from slicewright.infra.catalog.tsv_rows import read_rows

Billing = Literal["on-demand", "spot"]
_HERE = Path(__file__).parent / "data"


@dataclass(frozen=True, kw_only=True, eq=False)
class Price:
    """A public list price in US dollars per machine and hour, before discounts."""

    usd_per_hour: float
    up_to: float | None = None
    """The price in the most expensive zone of a sample. `usd_per_hour` is then the cheapest."""
    capacity: Billing
    region: str
    date: str | None
    """ISO date of the list, None for an undated sample. All spot prices are samples."""
    source: str
    caveat: str = ""
    """Why the price may be out of date. Empty: a list of 2026 that a second source confirms."""


@cache
def prices_of(cloud: str, name: str) -> tuple[Price, ...]:
    """The prices of a machine type, or of an accelerator type of GKE. Raises CatalogError."""
    rows = _rows().get((cloud, name), ())
    return tuple(price for capacity, key, usd in rows for price in _prices(capacity, key, usd))


def priced_names() -> frozenset[tuple[str, str]]:
    """Every cloud and machine type, or accelerator type, with a price."""
    return frozenset(_rows())


def list_price(usd: str, *, region: str, key: str) -> Price:
    """An on-demand price by the list of that key. Raises CatalogError."""
    (price,) = _prices("on-demand", key, f"{region}={usd}")
    return price


@cache
def _rows() -> Mapping[tuple[str, str], list[tuple[Billing, str, str]]]:
    """(Cloud, name) -> capacity, key of the list, and prices by region as the table has them."""
    rows: dict[tuple[str, str], list[tuple[Billing, str, str]]] = {}
    for cloud, name, capacity, key, usd in read_rows(_HERE, "prices.tsv", columns=5):
        if capacity not in ("on-demand", "spot"):
            raise CatalogError(f"catalog: {name}: {capacity!r} is not a kind of price")
        rows.setdefault((cloud, name), []).append((cast(Billing, capacity), key, usd))
    return rows


@cache
def _lists() -> Mapping[str, Any]:
    return read(_HERE, "price_lists.toml")


def _prices(capacity: Billing, key: str, usd: str) -> Iterator[Price]:
    if key not in _lists():
        raise CatalogError(f"catalog: {key!r} is not a list of prices")
    price_list = _lists()[key]
    for entry in usd.split(" "):
        region, _, amount = entry.partition("=")
        low, _, high = amount.partition("..")
        try:
            least, greatest = float(low), float(high) if high else None
        except ValueError:
            raise CatalogError(f"catalog: {entry} is not a price") from None
        if not 0 < least <= (greatest or least):
            raise CatalogError(f"catalog: {entry} is not a price")
        yield Price(
            usd_per_hour=least,
            up_to=greatest,
            capacity=capacity,
            region=region,
            date=price_list.get("date"),
            source=price_list["source"],
            caveat=price_list.get("caveat", ""),
        )
