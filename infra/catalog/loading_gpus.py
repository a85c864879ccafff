"""Builds the rows about GPUs: families, kinds of instances, profiles."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from slicewright.infra.catalog.gpus import Engines, Family, Gpu, Kind, Profile, Together
from slicewright.infra.catalog.toml_rows import Row, keyed


def _kind(raw: Row, budgets: Mapping[str, int]) -> Kind:
    engines = raw.pop("engines", {})
    if unknown := set(engines) - set(budgets):
        raise ValueError(
            f"kind {raw['kind']} has engines that the family does not have: {sorted(unknown)}"
        )
    return Kind(**{**raw, "starts": tuple(raw["starts"]), "engines": MappingProxyType(engines)})


def build_family(raw: Row) -> Family:
    kinds = keyed([_kind(dict(k), raw["engines"]) for k in raw.pop("kinds")], lambda k: k.kind)
    if unknown := set(raw["balanced"]) - set(kinds):
        raise ValueError(f"unknown kinds in balanced: {sorted(unknown)}")
    # Keys in TOML are strings.
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


def build_gpu(
    raw: Row, families: Mapping[str, Family], engines: Mapping[str, Mapping[str, Row]]
) -> Gpu:
    family = families[raw.pop("family")] if "family" in raw else None
    engines_by_kind = engines[raw.pop("engines")] if "engines" in raw else {}
    rows = raw.pop("profiles", [])
    if bool(rows) != bool(family):
        raise ValueError("a GPU must have both profiles and family, or neither")
    profiles = (
        keyed([_profile(dict(p), family, engines_by_kind) for p in rows], lambda p: p.name)
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


def check_products(gpus: Mapping[str, Gpu]) -> None:
    keyed([pci for gpu in gpus.values() for pci in gpu.pci_ids], lambda pci: pci)
    keyed([product for gpu in gpus.values() for product in gpu.products], lambda product: product)
