"""The tables of machine types without GPUs, and of prices."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from slicewright.infra import catalog
from slicewright.infra.catalog import (
    CatalogError,
    Cloud,
    Machine,
    general_machines,
    priced_names,
    prices,
)
from slicewright.infra.catalog.machines import UnlistedMachine

ALL = [machine for cloud in ("eks", "gke") for machine in general_machines(cloud)]


def test_each_current_family_is_in_the_tables() -> None:
    families = {re.split(r"[-.]", machine.name)[0] for machine in ALL}
    assert {"m5", "m7i", "m8g", "t3", "t4g", "c7i", "r8i", "i4i"} <= families
    assert {"e2", "n1", "n2", "n2d", "n4", "c3", "c3d", "c4", "c4a", "t2d"} <= families
    assert len(ALL) > 1500


def test_a_machine_type_is_listed_once_and_has_no_gpu() -> None:
    with_gpus = {key for key, machine in catalog.load().machines.items() if machine.gpu}
    keys = [(machine.cloud, machine.name) for machine in ALL]
    assert len(set(keys)) == len(keys)
    assert not with_gpus & set(keys)


def test_a_lookup_gives_the_row_of_the_table() -> None:
    def facts(machine: Machine) -> tuple[Any, ...]:
        return (machine.name, machine.vcpus, machine.memory_gib, machine.pods, machine.architecture)

    for machine in ALL:
        row = catalog.general_machine(machine.cloud, machine.name)
        assert row is not None
        assert facts(row) == facts(machine)
        assert row is catalog.general_machine(machine.cloud, machine.name)


@pytest.mark.parametrize("name", ["", "name", "m5", "m5.", "large", "m5.large\t2", "m7i.large\n"])
def test_other_text_of_the_table_is_no_machine_type(name: str) -> None:
    assert catalog.general_machine("eks", name) is None
    assert catalog.general_machine("gke", name) is None


def test_rows_are_as_the_clouds_describe_the_types() -> None:
    def size(cloud: Cloud, name: str) -> tuple[Any, ...]:
        machine = catalog.general_machine(cloud, name)
        assert machine is not None
        return machine.vcpus, machine.memory_gib, machine.architecture, machine.pods

    assert size("eks", "m5.xlarge") == (4, 16, "amd64", 58)
    assert size("eks", "c5n.large") == (2, 5.25, "amd64", 29)
    assert size("eks", "m7g.large") == (2, 8, "arm64", 29)
    assert size("gke", "c3-standard-4") == (4, 16, "amd64", None)
    assert size("gke", "n2d-standard-8") == (8, 32, "amd64", None)


def test_the_name_of_an_unlisted_machine_tells_its_processors() -> None:
    wrong = [
        machine.name
        for machine in ALL
        if UnlistedMachine(name=machine.name, cloud=machine.cloud).architecture
        != machine.architecture
    ]
    assert wrong == []


def test_most_types_have_a_price_in_the_region_of_the_lists() -> None:
    priced = [m for m in ALL if m.price("on-demand", {"eks": "us-east-1"}.get(m.cloud, ""))]
    assert len(priced) > 1000
    machine = catalog.general_machine("eks", "m7i.large")
    price = machine.price("on-demand", "us-east-1") if machine else None
    assert price is not None
    assert (price.usd_per_hour, price.date, price.caveat) == (0.1008, "2026-07-20", "")


def test_every_priced_name_is_a_machine_type_or_an_accelerator() -> None:
    known = {*catalog.load().machines, *(("gke", name) for name in catalog.load().accelerators)}
    assert priced_names() <= known


def test_each_list_of_prices_has_a_source_and_a_licence_and_is_used() -> None:
    used = {key for rows in prices._rows().values() for _, key, _ in rows}
    assert used == set(prices._lists())
    for price_list in prices._lists().values():
        assert price_list["source"]
        assert price_list["licence"]
        assert price_list.get("date", "") >= "2026" or price_list["caveat"]


def test_prices_that_are_known_to_be_doubtful_are_left_out() -> None:
    names = {name for _, name in priced_names()}
    assert not {"a4-highgpu-8g", "a3-ultragpu-8g", "p3.2xlarge", "p5e.48xlarge"} & names
    chinese = [p for key in priced_names() for p in prices.prices_of(*key) if "cn-" in p.region]
    assert chinese == []


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("eks\tg6.xlarge\ton-demand\tkarpenter\tus-east-1=0", "us-east-1=0 is not a price"),
        ("eks\tg6.xlarge\ton-demand\tkarpenter\tus-east-1=x", "us-east-1=x is not a price"),
        ("eks\tg6.xlarge\tspot\tkarpenter\tus-east-1=2..1", "us-east-1=2..1 is not a price"),
        ("eks\tg6.xlarge\tspot\tnobody\tus-east-1=2", "'nobody' is not a list of prices"),
        ("eks\tg6.xlarge\treserved\tkarpenter\tus-east-1=2", "'reserved' is not a kind of price"),
        ("eks\tg6.xlarge\ton-demand\tkarpenter", "does not have 5 fields"),
    ],
)
def test_a_wrong_row_of_the_prices_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, row: str, says: str
) -> None:
    lists = (prices._HERE / "price_lists.toml").read_text()
    (tmp_path / "price_lists.toml").write_text(lists)
    (tmp_path / "prices.tsv").write_text(f"cloud\tname\tcapacity\tlist\tusd\n{row}\n")
    monkeypatch.setattr(prices, "_HERE", tmp_path)
    monkeypatch.setattr(prices, "_rows", prices._rows.__wrapped__)
    with pytest.raises(CatalogError, match=re.escape(says)):
        prices.prices_of.__wrapped__("eks", "g6.xlarge")
