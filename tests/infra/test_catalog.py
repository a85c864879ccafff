"""The catalog is consistent, and agrees with its sources."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest

from slicewright.infra import catalog, geometry
from slicewright.infra.catalog import (
    Accelerator,
    Catalog,
    CatalogError,
    Chart,
    DevicePluginIssue,
    DriverIssue,
    Exclusion,
    Family,
    Gpu,
    Image,
    Kind,
    Machine,
    NamedConfig,
    Price,
    Profile,
    driver_order,
    loading,
)

CATALOG = catalog.load()
MIG_GPUS = [gpu for gpu in CATALOG.gpus.values() if gpu.family]
MACHINES = list(CATALOG.machines.values())
ROWS = (
    Accelerator,
    Chart,
    Family,
    DriverIssue,
    Gpu,
    Image,
    Kind,
    Exclusion,
    Machine,
    NamedConfig,
    DevicePluginIssue,
    Price,
    Profile,
)


def rows(of: Any) -> Iterator[Any]:
    if isinstance(of, ROWS):
        yield of
    if dataclasses.is_dataclass(of):
        for field in dataclasses.fields(of):
            yield from rows(getattr(of, field.name))
    elif hasattr(of, "values"):
        for value in of.values():
            yield from rows(value)
    elif isinstance(of, tuple):
        for item in of:
            yield from rows(item)


def test_the_catalog_is_loaded_once() -> None:
    assert catalog.load() is catalog.load()


def test_every_row_names_its_source() -> None:
    prices = (price for machine in MACHINES for price in machine.prices)
    found = [*rows(CATALOG), *prices]
    assert {type(row) for row in found} == set(ROWS)
    assert [row for row in found if len(row.source) < 5] == []


def test_sources_have_no_short_names_after_loading() -> None:
    short = re.compile(
        r"(?<![\w/-])(Cyclenerd|karpenter|skypilot|max-pods|operator|capture|lgipp?|GKE|MIG "
        r"guide)(?![\w/-])"
    )
    assert [row.source for row in rows(CATALOG) if short.search(row.source)] == []
    assert "NVIDIA MIG user guide 620" in CATALOG.gpus["H100-80"].source
    assert "aws/karpenter-provider-aws" in CATALOG.machines["eks", "p4d.24xlarge"].source


def test_nothing_in_the_catalog_can_be_changed() -> None:
    def mutable(of: Any, path: str) -> Iterator[str]:
        if isinstance(of, list | dict | set):
            yield path
        elif dataclasses.is_dataclass(of):
            for field in dataclasses.fields(of):
                yield from mutable(getattr(of, field.name), f"{path}.{field.name}")
        elif hasattr(of, "items"):
            for key, value in of.items():
                yield from mutable(value, f"{path}[{key}]")
        elif isinstance(of, tuple):
            for item in of:
                yield from mutable(item, path)

    assert list(mutable(CATALOG, "catalog")) == []


def test_these_gpus_are_in_the_catalog() -> None:
    with_mig = [
        "A30",
        "A100-40",
        "A100-80",
        "H100-80",
        "H100-94",
        "H100-96",
        "H200",
        "B200",
        "GB200",
        "RTX-PRO-6000",
    ]
    without_mig = ["T4", "L4", "A10G", "L40S"]
    assert set(with_mig) <= {gpu.name for gpu in MIG_GPUS}
    assert {gpu.name for gpu in CATALOG.gpus.values() if not gpu.family} == set(without_mig)


@pytest.mark.parametrize("gpu", MIG_GPUS, ids=lambda gpu: gpu.name)
def test_placements_are_on_the_gpu_and_as_many_as_fit(gpu: Gpu) -> None:
    assert gpu.family is not None
    for profile in gpu.profiles.values():
        assert all(
            start >= 0 and start + profile.kind.size <= gpu.family.slots
            for start in profile.kind.starts
        ), profile.name
        assert geometry.max_instances(gpu, profile.name) == profile.kind.most, profile.name


@pytest.mark.parametrize("gpu", MIG_GPUS, ids=lambda gpu: gpu.name)
def test_profile_names_follow_from_slices_memory_and_extension(gpu: Gpu) -> None:
    """The name counts eighths of the whole GPU, rounded up, then half away from zero. Source:
    go-nvlib.
    """
    for profile in gpu.profiles.values():
        compute, memory, extension = re.fullmatch(
            r"(\d)g\.(\d+)gb([+-][a-z.]+)?", profile.name
        ).groups()  # type: ignore[union-attr]
        assert int(compute) == profile.kind.compute
        assert (extension or "") == re.sub(r"^\dg(-double)?", "", profile.kind.kind)
        assert bool(profile.kind.graphics) == (extension == "+gfx")
        if profile.memory_mib is not None:
            eighths = math.ceil(profile.memory_mib / gpu.memory_mib * 8) / 8
            assert int(memory) == math.floor(eighths * math.ceil(gpu.memory_mib / 1024) + 0.5), (
                profile.name
            )


@pytest.mark.parametrize("gpu", MIG_GPUS, ids=lambda gpu: gpu.name)
def test_instances_have_no_more_memory_sms_and_engines_than_the_gpu(gpu: Gpu) -> None:
    whole = next(p for p in gpu.profiles.values() if p.kind.id == 0)
    for profile in gpu.profiles.values():
        assert (
            profile.memory_mib is None
            or profile.memory_mib <= gpu.memory_mib * profile.kind.size / gpu.family.slots + 1
        )  # type: ignore[union-attr]
        assert profile.sms is None or gpu.sms is None or profile.sms * profile.kind.most <= gpu.sms
        if profile.engines is not None and whole.engines is not None:
            assert profile.engines.decoders <= whole.engines.decoders
            assert profile.engines.ofas == profile.kind.engines.get("ofa", 0), profile.name
            assert gpu.family is not None
            if "nvdec" in gpu.family.engines:
                assert profile.engines.decoders == profile.kind.engines.get("nvdec", 0), (
                    profile.name
                )


def test_only_the_counted_media_engines_can_run_out_first() -> None:
    """Why the geometry counts OFAs, and decoders only on RTX PRO: on no accepted layout do the
    others run out.
    """
    known = {gpu.name: gpu for gpu in MIG_GPUS if all(p.engines for p in gpu.profiles.values())}
    assert {gpu.name for gpu in MIG_GPUS} - set(known) == {
        "H100-96",
        "B200",
        "GB200",
        "B300",
        "GB300",
    }, "without a source"
    for gpu in known.values():
        whole = next(p for p in gpu.profiles.values() if p.kind.id == 0).engines
        for layout in geometry.layouts(gpu):
            for engine in ("decoders", "encoders", "jpegs", "ofas"):
                needed = sum(
                    getattr(gpu.profiles[name].engines, engine) * count
                    for name, count in layout.items()
                )
                assert needed <= getattr(whole, engine), (gpu, layout, engine)


def test_memory_from_nvidia_smi_equals_its_output() -> None:
    """Rows with another source differ slightly, and their source says so."""
    printed = {
        "1g.5gb": 4.75,
        "2g.10gb": 9.75,
        "3g.20gb": 19.62,
        "4g.20gb": 19.62,
        "7g.40gb": 39.50,
    }
    profiles = CATALOG.gpus["A100-40"].profiles
    listed = {
        name
        for name, p in profiles.items()
        if p.source == "nvidia-smi mig -lgip of driver 460.91.03"
    }
    assert listed == {"1g.5gb"}
    for name, gib in printed.items():
        known = profiles[name].memory_gib
        assert known is not None
        if name in listed:
            assert known == gib
        else:
            assert abs(known - gib) > 0.01
            assert profiles[name].source.endswith(f"driver 460.91.03 has {gib:.2f} GiB")


def test_a_gpus_source_includes_the_source_of_its_minimum_driver() -> None:
    assert [gpu.name for gpu in CATALOG.gpus.values() if "driver" not in gpu.source] == []


def test_compute_instances_are_those_of_nvidia_smi_lcip() -> None:
    profiles = CATALOG.gpus["A100-40"].profiles
    assert profiles["3g.20gb"].compute_instances == {"1c.3g.20gb": 3, "2c.3g.20gb": 1}
    assert profiles["7g.40gb"].compute_instances == {
        "1c.7g.40gb": 7,
        "2c.7g.40gb": 3,
        "3c.7g.40gb": 2,
        "4c.7g.40gb": 1,
    }
    assert profiles["1g.5gb+me"].compute_instances == {}
    rtx = CATALOG.gpus["RTX-PRO-6000"].profiles
    assert rtx["4g.96gb+gfx"].compute_instances == {"1c.4g.96gb+gfx": 4, "2c.4g.96gb+gfx": 2}


def test_pci_ids_are_written_as_nvml_gives_them_and_belong_to_one_gpu() -> None:
    ids = [pci for gpu in CATALOG.gpus.values() for pci in gpu.pci_ids]
    assert all(re.fullmatch(r"0x[0-9A-F]{4}10DE", pci) for pci in ids)
    assert len(set(ids)) == len(ids)


def test_drivers_are_versions_and_profiles_need_no_older_one_than_their_gpu() -> None:
    written = [image.driver for m in MACHINES for image in m.images if image.driver]
    written += [chart.driver for chart in CATALOG.charts.values()]
    written += [driver for issue in CATALOG.driver_issues for driver in issue.drivers]
    for gpu in CATALOG.gpus.values():
        for newer in [
            *(p.minimum_driver for p in gpu.profiles.values()),
            *(t.minimum_driver for t in gpu.together),
        ]:
            if newer is not None:
                written.append(newer)
                assert driver_order(newer) > driver_order(gpu.minimum_driver)
        written.append(gpu.minimum_driver)
    assert [driver for driver in written if not re.fullmatch(r"\d{3}\.\d+(\.\d+)?", driver)] == []
    assert driver_order("580.82.07") < driver_order("580.105.08")


def test_only_ampere_needs_a_reset_to_change_mig_mode() -> None:
    assert {gpu.name for gpu in CATALOG.gpus.values() if gpu.mode_change_resets} == {
        "A30",
        "A100-40",
        "A100-80",
    }


def test_the_balanced_layout_fits_every_gpu() -> None:
    for gpu in MIG_GPUS:
        assert isinstance(geometry.check(gpu, gpu.balanced()), geometry.Fit)
    assert CATALOG.gpus["A100-40"].balanced() == {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}


def test_the_operators_81_named_configs_are_in_the_catalog_except_the_listed_ones() -> None:
    """Not in the catalog: GH200 with 144 GB, and GB200 boards with other profile names.

    Source: NVIDIA/gpu-operator v26.7.0, default-mig-parted-config.
    """
    found = {name for configs in CATALOG.named_configs.values() for name in configs}
    elsewhere = {
        "1g.36gb",
        "2g.36gb",
        "3g.72gb",
        "4g.72gb",
        "7g.144gb",
        "3g.95gb",
        "4g.95gb",
        "7g.189gb",
    }
    assert not found & {f"all-{profile}" for profile in elsewhere}
    assert len(found) + len(elsewhere) == 81


def test_a_named_config_depends_on_the_gpu() -> None:
    def layout(gpu: str, name: str) -> dict[str, int]:
        return dict(CATALOG.named_configs[gpu][name].layout)

    assert layout("A100-40", "all-1g.10gb") == {"1g.10gb": 4}
    assert layout("A100-80", "all-1g.10gb") == {"1g.10gb": 7}
    assert layout("H200", "all-1g.35gb") == {"1g.35gb": 4}
    assert layout("GB300", "all-1g.35gb") == {"1g.35gb": 7}
    assert layout("RTX-PRO-6000", "all-1g.24gb.me.all") == {"1g.24gb+me.all": 1}
    assert CATALOG.named_configs["H200"]["all-1g.35gb"].without == ("0x233B10DE",)
    assert not CATALOG.named_configs["H200"]["all-disabled"].mig
    assert CATALOG.named_configs["H200"]["all-enabled"].mig
    assert "all-balanced" in CATALOG.named_configs["B200"]
    assert "T4" not in CATALOG.named_configs


def test_every_named_config_fits_and_its_name_is_a_label_value() -> None:
    for gpu in MIG_GPUS:
        for config in CATALOG.named_configs[gpu.name].values():
            assert isinstance(geometry.check(gpu, config.layout), geometry.Fit), config.name
            assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", config.name)


def test_gke_sizes_are_those_that_its_device_plugin_advertises() -> None:
    sizes = {a.name: a.sizes for a in CATALOG.accelerators.values()}
    assert sizes["nvidia-tesla-a100"] == ("1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb")
    assert sizes["nvidia-a100-80gb"] == ("1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb")
    assert sizes["nvidia-h100-80gb"] == ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "7g.80gb")
    assert sizes["nvidia-h100-mega-80gb"] == sizes["nvidia-h100-80gb"]
    refusing_4g = {
        a.name for a in CATALOG.accelerators.values() if any(p.startswith("4g.") for p in a.refused)
    }
    assert refusing_4g == {
        "nvidia-tesla-a100",
        "nvidia-a100-80gb",
        "nvidia-h100-80gb",
        "nvidia-h100-mega-80gb",
    }


def test_each_profile_is_a_gke_size_or_refused_with_a_reason() -> None:
    for accelerator in CATALOG.accelerators.values():
        assert {*accelerator.sizes, *accelerator.refused} == set(accelerator.gpu.profiles)
        assert all(len(reason) > 10 for reason in accelerator.refused.values())


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{m.cloud}-{m.name}")
def test_a_machine_row_is_complete(machine: Machine) -> None:
    assert machine.vcpus > 0
    assert machine.memory_gib > 0
    assert bool(machine.gpu) == (machine.gpu_count > 0)
    assert machine.capacity is None or len(set(machine.capacity)) == len(machine.capacity) > 0
    assert machine.zones is None or len(set(machine.zones)) == len(machine.zones) > 0
    if machine.cloud == "gke":
        assert (machine.efa, machine.pods) == (None, None)
        assert "capacity-block" not in (machine.capacity or ())
        if machine.gpu:
            assert CATALOG.accelerators[machine.accelerator or ""].gpu is machine.gpu
        for choice in machine.attachable:
            assert CATALOG.accelerators[choice.accelerator].gpu is choice.gpu
    else:
        assert not {"flex-start", "queued"} & set(machine.capacity or ())
        assert machine.accelerator is None
        assert not machine.attachable


def test_these_machine_types_are_in_the_catalog() -> None:
    gke = set(CATALOG.machine_names("gke"))
    assert {
        "g2-standard-96",
        "a2-megagpu-16g",
        "a2-ultragpu-4g",
        "a3-highgpu-2g",
        "a3-megagpu-8g",
        "a3-ultragpu-8g",
    } <= gke
    assert {"a4-highgpu-8g", "a4x-highgpu-4g", "g4-standard-48", "n1-standard-8"} <= gke
    eks = set(CATALOG.machine_names("eks"))
    assert {
        "g4dn.metal",
        "g5.48xlarge",
        "g6.12xlarge",
        "g6e.xlarge",
        "p4d.24xlarge",
        "p4de.24xlarge",
        "p5.48xlarge",
    } <= eks
    assert {
        "p5e.48xlarge",
        "p5en.48xlarge",
        "p6-b200.48xlarge",
        "p6e-gb200.36xlarge",
        "g7e.2xlarge",
    } <= eks


def test_prices_are_list_prices_with_date_region_and_source() -> None:
    prices = [price for machine in MACHINES for price in machine.prices]
    assert len(prices) > 100
    for price in prices:
        assert price.usd_per_hour > 0
        assert price.date is None or re.fullmatch(r"20\d\d-\d\d-\d\d", price.date)
        assert price.date or ("undated" in price.source and price.caveat)
        assert re.fullmatch(r"[a-z]+-[a-z]+-?[a-z]*-?\d+", price.region)


def test_an_unknown_price_is_none_and_not_zero() -> None:
    assert CATALOG.machines["eks", "p5e.48xlarge"].price("on-demand", "us-east-1") is None
    assert CATALOG.machines["gke", "a4-highgpu-8g"].price("on-demand", "us-central1") is None
    assert CATALOG.machines["gke", "a2-highgpu-1g"].price("on-demand", "africa-south1") is None
    known = CATALOG.machines["eks", "p4d.24xlarge"].price("on-demand", "us-east-1")
    assert known is not None
    assert (known.usd_per_hour, known.date) == (21.957642, "2026-07-20")


def test_spot_never_costs_more_than_on_demand_in_the_same_region() -> None:
    compared = 0
    for machine in MACHINES:
        for spot in (p for p in machine.prices if p.capacity == "spot"):
            full = machine.price("on-demand", spot.region)
            if full is not None:
                compared += 1
                assert spot.usd_per_hour <= full.usd_per_hour * 1.0001, machine.name
                assert (spot.up_to or 0) <= full.usd_per_hour * 1.0001, machine.name
    assert compared > 20


def test_a_machine_has_one_price_for_each_capacity_and_region() -> None:
    for machine in MACHINES:
        keys = [(p.capacity, p.region) for p in machine.prices]
        assert len(set(keys)) == len(keys), machine.name


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("gpus.toml", 'kind = "2g", memory_mib', 'kind = "5g", memory_mib', "5g"),
        ("gpus.toml", "engines = { ofa = 1 }, source", "engines = { nvenc = 1 }, source", "nvenc"),
        ("gpus.toml", '"0x20B010DE", ', '"0x233010DE", ', "duplicate row"),
        ("gpus.toml", 'pci_ids = ["0x233B10DE"]', 'pci_ids = ["0x233C10DE"]', "0x233C10DE"),
        ("machines.toml", 'gpu = "L40S"', 'gpu = "L40"', "L40"),
        (
            "machines.toml",
            'cloud = "eks"\narchitecture = "arm64"',
            'cloud = "eks"\narchitecture = "arm"',
            "no AMI",
        ),
        ("drivers.toml", 'name = "AL2023_ARM', 'name = "AL2023_x86', "duplicate row"),
        ("drivers.toml", 'gpus = ["RTX-PRO-6000"]', 'gpus = ["RTX"]', "RTX"),
        ("machines.toml", 'name = "n1-standard-8"', 'name = "n1-standard-4"', "duplicate row"),
        ("machines.toml", "vcpus = 12, memory_gib = 85", "vcpu = 12, memory_gib = 85", "vcpu"),
        (
            "machines.toml",
            'instead = ["g4-standard-48"]',
            'instead = ["g4-standard-42"]',
            "g4-standard-42",
        ),
        (
            "machines.toml",
            'names = ["g5g.*"',
            'names = ["g5.*"',
            "both as excluded and in the catalog",
        ),
        ("gpus.toml", 'names = ["P4"', 'names = ["L4"', "both as excluded and in the catalog"),
        (
            "gke.toml",
            '"1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb"',
            '"2g.10gb", "3g.20gb", "7g.40gb"',
            "either in sizes or",
        ),
        ("gke.toml", 'sizes = ["1g.5gb",', 'sizes = ["1g.6gb",', "1g.6gb"),
    ],
)
def test_an_inconsistent_catalog_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, file: str, old: str, new: str, says: str
) -> None:
    for source in loading._HERE.glob("*.toml"):
        text = source.read_text()
        assert source.name != file or old in text
        (tmp_path / source.name).write_text(
            text.replace(old, new, 1) if source.name == file else text
        )
    monkeypatch.setattr(loading, "_HERE", tmp_path)
    with pytest.raises(CatalogError, match=re.escape(says)):
        loading.load.__wrapped__()


def test_the_catalog_loads_from_any_directory() -> None:
    """So the test above fails only because of its change."""
    assert isinstance(loading.load.__wrapped__(), Catalog)


def test_offerings_of_a_region_are_in_zones_of_the_region() -> None:
    regions = catalog.aws().regions
    for by_region in catalog.offerings().values():
        for region, zones in by_region.items():
            assert set(zones) <= set(regions[region].zones)
            assert zones
    for zones in catalog.gcp().zones.values():
        assert len(set(zones)) == len(zones) > 0
    known = {zone for zones in catalog.gcp().zones.values() for zone in zones}
    for machine in catalog.load().machines.values():
        if machine.cloud == "gke":
            assert set(machine.zones or ()) <= known, machine.name


def test_most_gpu_machines_of_aws_are_in_the_record_of_offerings() -> None:
    """Those that no account saw when it was recorded: not known, and so not refused."""
    own = {m.name for m in catalog.load().machines.values() if m.cloud == "eks" and m.gpu}
    assert own - set(catalog.offerings()) == {"p6e-gb200.36xlarge"}


@pytest.mark.parametrize(
    ("zone", "is_id"),
    [
        ("use1-az6", True),
        ("usw2-lax1-az1", True),
        ("us-east-1a", False),
        ("us-west-2-lax-1a", False),
        ("us-central1-a", False),
    ],
)
def test_an_id_differs_from_a_name(zone: str, is_id: bool) -> None:
    assert catalog.is_zone_id(zone) is is_id
