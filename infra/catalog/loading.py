"""Loads the TOML files, once, and checks that they are complete and consistent."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from infra.catalog.named import configs_of
from infra.catalog.rows import (
    Accelerator,
    Architecture,
    Attachable,
    Catalog,
    CatalogError,
    Chart,
    Cloud,
    Engines,
    Family,
    Fault,
    Gpu,
    Image,
    Kind,
    LeftOut,
    Machine,
    PluginFault,
    Price,
    Profile,
    Together,
)

_HERE = Path(__file__).parent
Row = dict[str, Any]
T = TypeVar("T")
K = TypeVar("K")


@cache
def load() -> Catalog:
    """The catalog. Raises CatalogError for an incomplete, unknown or duplicate row."""
    gpus_file, machines_file, prices_file, gke_file, drivers_file = (
        _read(f"{name}.toml") for name in ("gpus", "machines", "prices", "gke", "drivers")
    )
    families = _keyed([_row(_family, r) for r in gpus_file["family"]], lambda f: f.name)
    engines = {r["name"]: r["kinds"] for r in gpus_file["engines"]}
    gpus = _keyed(
        [_row(lambda r: _gpu(r, families, engines), r) for r in gpus_file["gpu"]], lambda g: g.name
    )
    _check_products(gpus)
    prices = _prices(prices_file["list"])
    images = _keyed(
        [_row(lambda r: Image(**r), r) for r in drivers_file["image"]], lambda i: i.architecture
    )
    machines = _keyed(
        [
            _row(lambda r: _machine(r, gpus, prices, images), {**series, **own})
            for series in _series(machines_file)
            for own in series["machines"]
        ],
        lambda m: (m.cloud, m.name),
    )
    if unknown := set(prices) - set(machines):
        raise CatalogError(f"catalog: prices of unknown machine types: {sorted(unknown)}")
    accelerators = [_row(lambda r: _accelerator(r, gpus), r) for r in gke_file["accelerator"]]
    exceptions = [
        _row(lambda r: _config_exception(r, gpus), r) for r in gpus_file["named_config_exception"]
    ]
    return Catalog(
        gpus=MappingProxyType(gpus),
        machines=MappingProxyType(machines),
        accelerators=MappingProxyType(_keyed(accelerators, lambda a: a.name)),
        named_configs=MappingProxyType(
            {
                gpu.name: MappingProxyType(
                    configs_of(
                        gpu, {config: ids for config, name, ids in exceptions if name == gpu.name}
                    )
                )
                for gpu in gpus.values()
                if gpu.family
            }
        ),
        charts=MappingProxyType(
            _keyed(
                [_row(lambda r: Chart(**r), r) for r in drivers_file["chart"]], lambda c: c.version
            )
        ),
        faults=tuple(_row(lambda r: _fault(r, gpus), r) for r in drivers_file["fault"]),
        plugin_faults=tuple(
            _row(lambda r: PluginFault(endings=tuple(r.pop("endings")), **r), r)
            for r in drivers_file["plugin_fault"]
        ),
        left_out=tuple(
            _row(lambda r: _left_out(r, gpus, machines), r)
            for f in (gpus_file, machines_file)
            for r in f["left_out"]
        ),
    )


def _read(name: str) -> Row:
    raw = tomllib.loads((_HERE / name).read_text(encoding="utf-8"))
    if names := raw.get("sources"):
        short = re.compile("|".join(rf"(?<![\w/-]){re.escape(one)}(?![\w/-])" for one in names))
        _expand_sources(raw, lambda source: short.sub(lambda found: names[found[0]], source))
    return raw


def _expand_sources(part: Any, in_full: Callable[[str], str]) -> None:
    """Replaces the short names of sources, which are defined in the file, by full ones."""
    for inner in (
        part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    ):
        _expand_sources(inner, in_full)
    if isinstance(part, dict) and isinstance(part.get("source"), str):
        part["source"] = in_full(part["source"])


def _row(build: Callable[[Row], T], raw: Row) -> T:
    try:
        return build(dict(raw))
    except (TypeError, KeyError, ValueError) as e:
        raise CatalogError(f"catalog row {raw.get('name', raw)!r}: {type(e).__name__} {e}") from e


def _keyed(rows: list[T], key: Callable[[T], K]) -> dict[K, T]:
    keyed = {key(row): row for row in rows}
    if len(keyed) != len(rows):
        raise CatalogError(f"catalog: duplicate row in {[key(row) for row in rows]}")
    return keyed


def _kind(raw: Row, budgets: Mapping[str, int]) -> Kind:
    engines = raw.pop("engines", {})
    if unknown := set(engines) - set(budgets):
        raise ValueError(
            f"kind {raw['kind']} has engines that the family does not have: {sorted(unknown)}"
        )
    return Kind(**{**raw, "starts": tuple(raw["starts"]), "engines": MappingProxyType(engines)})


def _family(raw: Row) -> Family:
    kinds = _keyed([_kind(dict(k), raw["engines"]) for k in raw.pop("kinds")], lambda k: k.kind)
    if unknown := set(raw["balanced"]) - set(kinds):
        raise ValueError(f"unknown kinds in balanced: {sorted(unknown)}")
    # TOML's keys are strings.
    compute = {
        int(slices): MappingProxyType({int(part): count for part, count in parts.items()})
        for slices, parts in raw.pop("compute_instances").items()
    }
    if {k.compute for k in kinds.values()} != set(compute):
        raise ValueError("compute_instances must have the compute slices of the kinds")
    return Family(
        kinds=MappingProxyType(kinds),
        compute_instances=MappingProxyType(compute),
        engines=MappingProxyType(raw.pop("engines")),
        balanced=MappingProxyType(raw.pop("balanced")),
        **raw,
    )


def _profile(raw: Row, family: Family, engines: Mapping[str, Row]) -> Profile:
    kind = family.kinds[raw.pop("kind")]
    parts = family.compute_instances[kind.compute]
    return Profile(
        kind=kind,
        memory_mib=raw.pop("memory_mib", None),
        sms=raw.pop("sms", None),
        engines=Engines(**{"copy": None, **engines[kind.kind]}) if engines else None,
        also=tuple(raw.pop("also", ())),
        compute_instances=MappingProxyType(
            {f"{c}c.{raw['name']}": n for c, n in parts.items() if c < kind.compute}
        ),
        **raw,
    )


def _gpu(raw: Row, families: Mapping[str, Family], engines: Mapping[str, Mapping[str, Row]]) -> Gpu:
    family = families[raw.pop("family")] if "family" in raw else None
    own_engines = engines[raw.pop("engines")] if "engines" in raw else {}
    rows = raw.pop("profiles", [])
    if bool(rows) != bool(family):
        raise ValueError("a GPU must have both profiles and family, or neither")
    profiles = (
        _keyed([_profile(dict(p), family, own_engines) for p in rows], lambda p: p.name)
        if family
        else {}
    )
    if family and sorted(p.kind.kind for p in profiles.values()) != sorted(family.kinds):
        raise ValueError("a GPU must have one profile of each kind of its family")
    together = tuple(
        Together(kinds=frozenset(t["kinds"]), minimum_driver=t["minimum_driver"])
        for t in raw.pop("together", ())
    )
    return Gpu(
        products=tuple(raw.pop("products")),
        pci_ids=tuple(raw.pop("pci_ids")),
        sms=raw.pop("sms", None),
        family=family,
        profiles=MappingProxyType(profiles),
        together=together,
        **raw,
    )


def _check_products(gpus: Mapping[str, Gpu]) -> None:
    _keyed([pci for gpu in gpus.values() for pci in gpu.pci_ids], lambda pci: pci)
    _keyed([product for gpu in gpus.values() for product in gpu.products], lambda product: product)


def _series(raw: Row) -> list[Row]:
    return list(raw["series"])


def _prices(lists: list[Row]) -> dict[tuple[Cloud, str], list[Price]]:
    prices: dict[tuple[Cloud, str], list[Price]] = {}
    for raw in lists:
        for machine, usd in raw["usd_per_hour"].items():
            low, high = usd if isinstance(usd, list) else (usd, None)
            if not 0 < low <= (high or low):
                raise CatalogError(f"catalog: {machine}: {usd} is not a price")
            prices.setdefault((raw["cloud"], machine), []).append(
                Price(
                    usd_per_hour=float(low),
                    up_to=None if high is None else float(high),
                    capacity=raw["capacity"],
                    region=raw["region"],
                    date=raw.get("date"),
                    source=raw["source"],
                )
            )
    return prices


def _machine(
    raw: Row,
    gpus: Mapping[str, Gpu],
    prices: Mapping[tuple[Cloud, str], list[Price]],
    images: Mapping[Architecture, Image],
) -> Machine:
    if raw["cloud"] not in ("gke", "eks"):
        raise ValueError(f"cloud {raw['cloud']!r}")
    raw.pop("machines")
    image = (
        images.get(raw.get("architecture", "amd64"))
        if raw["cloud"] == "eks" and "gpu" in raw
        else None
    )
    if raw["cloud"] == "eks" and "gpu" in raw and image is None:
        raise ValueError(f"no AMI with NVIDIA's driver for {raw['architecture']}")
    attachable = tuple(
        Attachable(gpu=gpus[a["gpu"]], accelerator=a["accelerator"], counts=tuple(a["counts"]))
        for a in raw.pop("attachable", [])
    )
    return Machine(
        image=image,
        gpu=gpus[raw.pop("gpu")] if "gpu" in raw else None,
        attachable=attachable,
        capacity=_optional_tuple(raw.pop("capacity", None)),
        zones=_optional_tuple(raw.pop("zones", None)),
        prices=tuple(prices.get((raw["cloud"], raw["name"]), ())),
        **raw,
    )


def _optional_tuple(items: list[Any] | None) -> tuple[Any, ...] | None:
    return None if items is None else tuple(items)


def _accelerator(raw: Row, gpus: Mapping[str, Gpu]) -> Accelerator:
    gpu = gpus[raw.pop("gpu")]
    sizes, refused = tuple(raw.pop("sizes")), raw.pop("refused", {})
    if unknown := (set(sizes) | set(refused)) - set(gpu.profiles):
        raise ValueError(f"sizes that are not profiles of the GPU: {sorted(unknown)}")
    if set(sizes) ^ set(refused) != set(gpu.profiles):
        raise ValueError(
            "each profile of the GPU must be either in sizes or, with a reason, in refused"
        )
    return Accelerator(gpu=gpu, sizes=sizes, refused=MappingProxyType(refused), **raw)


def _fault(raw: Row, gpus: Mapping[str, Gpu]) -> Fault:
    return Fault(
        drivers=tuple(raw.pop("drivers")),
        gpus=tuple(gpus[name] for name in raw.pop("gpus", ())),
        **raw,
    )


def _left_out(
    raw: Row, gpus: Mapping[str, Gpu], machines: Mapping[tuple[Cloud, str], Machine]
) -> LeftOut:
    row = LeftOut(**{**raw, "names": tuple(raw["names"]), "instead": tuple(raw["instead"])})
    there = [name for cloud, name in machines if cloud == row.cloud] if row.cloud else [*gpus]
    if both := [name for name in there if row.has(name)]:
        raise ValueError(f"{both} are left out, but in the catalog")
    if unknown := set(row.instead) - set(there):
        raise ValueError(f"unknown names in instead: {sorted(unknown)}")
    return row


def _config_exception(raw: Row, gpus: Mapping[str, Gpu]) -> tuple[str, str, tuple[str, ...]]:
    gpu = gpus[raw["gpu"]]
    if unknown := set(raw["pci_ids"]) - set(gpu.pci_ids):
        raise ValueError(f"{gpu.name} does not have the PCI IDs {sorted(unknown)}")
    return raw["config"], gpu.name, tuple(raw["pci_ids"])
