"""Loads the TOML files, once, and checks that they are complete and consistent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from slicewright.infra.catalog.catalog import (
    Catalog,
    Chart,
    DcgmField,
    DevicePluginIssue,
    DriverIssue,
    Exclusion,
    ImageIssue,
)
from slicewright.infra.catalog.catalog_error import CatalogError
from slicewright.infra.catalog.gpus import Gpu, NamedConfig
from slicewright.infra.catalog.loading_gpus import build_family, build_gpu, check_products
from slicewright.infra.catalog.machines import Accelerator, Attachable, Cloud, Image, Machine
from slicewright.infra.catalog.named_configs import configs_of
from slicewright.infra.catalog.toml_rows import Row, build, keyed, read

_HERE = Path(__file__).parent / "data"


@cache
def load() -> Catalog:
    """The catalog. Raises CatalogError for an incomplete, unknown or duplicate row."""
    gpus_file, machines_file, gke_file, drivers_file, dcgm_file = (
        read(_HERE, f"{name}.toml") for name in ("gpus", "machines", "gke", "drivers", "dcgm")
    )
    gpus = _gpus(gpus_file)
    machines = _machines(machines_file, drivers_file, gpus)
    return Catalog(
        gpus=MappingProxyType(gpus),
        machines=MappingProxyType(machines),
        accelerators=MappingProxyType(_accelerators(gke_file, gpus)),
        named_configs=MappingProxyType(_named_configs(gpus_file, gpus)),
        charts=MappingProxyType(_charts(drivers_file)),
        driver_issues=tuple(
            build(lambda r: _driver_issue(r, gpus), r) for r in drivers_file["driver_issue"]
        ),
        image_issues=tuple(build(_image_issue, r) for r in drivers_file["image_issue"]),
        device_plugin_issues=tuple(
            build(_device_plugin_issue, r) for r in drivers_file["device_plugin_issue"]
        ),
        exclusions=tuple(
            build(lambda r: _exclusion(r, gpus, machines), r)
            for r in (*gpus_file["excluded"], *machines_file["excluded"])
        ),
        dcgm_fields=MappingProxyType(_dcgm_fields(dcgm_file)),
    )


def _gpus(gpus_file: Row) -> dict[str, Gpu]:
    families = keyed([build(build_family, r) for r in gpus_file["family"]], lambda f: f.name)
    engines = {r["name"]: r["kinds"] for r in gpus_file["engines"]}
    rows = [build(lambda r: build_gpu(r, families, engines), r) for r in gpus_file["gpu"]]
    gpus = keyed(rows, lambda g: g.name)
    check_products(gpus)
    return gpus


def _machines(
    machines_file: Row, drivers_file: Row, gpus: Mapping[str, Gpu]
) -> dict[tuple[Cloud, str], Machine]:
    rows = [build(lambda r: Image(**r), r) for r in drivers_file["image"]]
    images = [*keyed(rows, lambda i: i.name).values()]
    return keyed(
        [
            build(lambda r: _machine(r, gpus, images), {**series, **machine})
            for series in machines_file["series"]
            for machine in series["machines"]
        ],
        lambda m: (m.cloud, m.name),
    )


def _accelerators(gke_file: Row, gpus: Mapping[str, Gpu]) -> dict[str, Accelerator]:
    rows = [build(lambda r: _accelerator(r, gpus), r) for r in gke_file["accelerator"]]
    return keyed(rows, lambda a: a.name)


def _named_configs(gpus_file: Row, gpus: Mapping[str, Gpu]) -> dict[str, Mapping[str, NamedConfig]]:
    exceptions: dict[str, dict[str, tuple[str, ...]]] = {}
    for row in gpus_file["named_config_exception"]:
        config, gpu_name, pci_ids = build(lambda r: _config_exception(r, gpus), row)
        exceptions.setdefault(gpu_name, {})[config] = pci_ids
    return {
        gpu.name: MappingProxyType(configs_of(gpu, exceptions.get(gpu.name, {})))
        for gpu in gpus.values()
        if gpu.family
    }


def _charts(drivers_file: Row) -> dict[str, Chart]:
    return keyed(
        [build(lambda r: Chart(**r), r) for r in drivers_file["chart"]], lambda c: c.version
    )


def _image_issue(raw: Row) -> ImageIssue:
    images, machines = tuple(raw.pop("images")), tuple(raw.pop("machines"))
    if not (raw.keys() & {"fixed", "good"}):
        raise ValueError("an image issue must have fixed or good: the way out")
    return ImageIssue(images=images, machines=machines, **raw)


def _device_plugin_issue(raw: Row) -> DevicePluginIssue:
    return DevicePluginIssue(endings=tuple(raw.pop("endings")), **raw)


def _dcgm_fields(dcgm_file: Row) -> dict[str, DcgmField]:
    rows = [_dcgm_field(fields, dcgm_file["source"]) for fields in dcgm_file["fields"]]
    return keyed(rows, lambda f: f.name)


def _dcgm_field(raw: list[Any], source: str) -> DcgmField:
    name, kind, meaning = raw
    if kind not in ("gauge", "counter", "label") or "," in name:
        raise CatalogError(f"catalog: {raw} is not a field of DCGM")
    return DcgmField(name=name, kind=kind, meaning=meaning, source=source)


def _machine(
    raw: Row,
    gpus: Mapping[str, Gpu],
    images: Sequence[Image],
) -> Machine:
    if raw["cloud"] not in ("gke", "eks"):
        raise ValueError(f"cloud {raw['cloud']!r}")
    raw.pop("machines")
    architecture = raw.get("architecture", "amd64")
    with_driver = raw["cloud"] == "eks" and "gpu" in raw
    fitting = tuple(i for i in images if with_driver and i.architecture == architecture)
    if with_driver and not fitting:
        raise ValueError(f"no AMI with NVIDIA's driver for {architecture}")
    attachable = tuple(
        Attachable(gpu=gpus[a["gpu"]], accelerator=a["accelerator"], counts=tuple(a["counts"]))
        for a in raw.pop("attachable", [])
    )
    return Machine(
        images=fitting,
        gpu=gpus[raw.pop("gpu")] if "gpu" in raw else None,
        attachable=attachable,
        capacity=_optional_tuple(raw.pop("capacity", None)),
        zones=_optional_tuple(raw.pop("zones", None)),
        boot_disks=_optional_tuple(raw.pop("boot_disks", None)),
        local_ssd_choices=_optional_tuple(raw.pop("local_ssd_choices", None)),
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


def _driver_issue(raw: Row, gpus: Mapping[str, Gpu]) -> DriverIssue:
    return DriverIssue(
        drivers=tuple(raw.pop("drivers")),
        gpus=tuple(gpus[name] for name in raw.pop("gpus", ())),
        **raw,
    )


def _exclusion(
    raw: Row, gpus: Mapping[str, Gpu], machines: Mapping[tuple[Cloud, str], Machine]
) -> Exclusion:
    row = Exclusion(**{**raw, "names": tuple(raw["names"]), "instead": tuple(raw["instead"])})
    names = [name for cloud, name in machines if cloud == row.cloud] if row.cloud else [*gpus]
    if contradictory := [name for name in names if row.has(name)]:
        raise ValueError(f"{contradictory} are listed both as excluded and in the catalog")
    if unknown := set(row.instead) - set(names):
        raise ValueError(f"unknown names in instead: {sorted(unknown)}")
    return row


def _config_exception(raw: Row, gpus: Mapping[str, Gpu]) -> tuple[str, str, tuple[str, ...]]:
    gpu = gpus[raw["gpu"]]
    if unknown := set(raw["pci_ids"]) - set(gpu.pci_ids):
        raise ValueError(f"{gpu.name} does not have the PCI IDs {sorted(unknown)}")
    return raw["config"], gpu.name, tuple(raw["pci_ids"])
