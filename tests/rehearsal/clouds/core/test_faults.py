"""The fault file: what it may say, and which calls and nodes meet its faults."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.clouds.core.fault_file import (
    KINDS,
    FaultFileError,
    NodeRepair,
    StockOut,
    Throttling,
    as_json,
    read,
)
from slicewright.rehearsal.clouds.core.faults import Faults
from slicewright.rehearsal.clouds.core.store import Store

DOCUMENT = Path(__file__).parents[4] / "docs" / "reference" / "faults.md"
CALL = ("compute", "networks.insert")


class Injected:
    """A fault file, and a clock that is set by hand."""

    def __init__(self, directory: Path, *faults: dict[str, Any]) -> None:
        self.directory = directory
        self.now_s = 1000.0
        self.write(*faults)
        self.faults = self.restarted()

    def write(self, *faults: dict[str, Any]) -> None:
        (self.directory / "faults.json").write_text(json.dumps(faults))

    def restarted(self) -> Faults:
        store = Store(self.directory / "cloud")
        return Faults(self.directory / "faults.json", store, clock=lambda: self.now_s)

    def met(self, calls: int) -> list[int]:
        """Which of so many calls, numbered from 1, meet a fault."""
        return [n for n in range(1, calls + 1) if self.faults.call_fault(*CALL)]


def throttling(**more: Any) -> dict[str, Any]:
    return {"fault": "throttling", "method": "compute.networks.insert", **more}


def test_every_problem_is_reported_with_its_place_and_what_to_write_instead() -> None:
    faults = [
        {"fault": "stokout", "pool": "p"},
        {"fault": "stock-out"},
        {"fault": "api-error", "method": "m", "code": "5", "tims": 3, "probability": 2},
        7,
        {"pool": "p"},
    ]
    with pytest.raises(FaultFileError) as caught:
        read(json.dumps(faults), where="E/faults.json")
    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["E/faults.json"] * 7
    for words in (
        'fault 1 is named "stokout", which is unknown; did you mean stock-out?',
        "fault 2 (stock-out): pool is missing",
        'fault 3 (api-error): code should be a valid integer, not "5"',
        "fault 3 (api-error): there is no field 'tims'; did you mean times?",
        "fault 3 (api-error): probability should be less than or equal to 1, not 2",
        "fault 4: 7 is not an object",
        "fault 5 has no name; there are api-error, throttling",
    ):
        assert any(words in line for line in lines), words


@pytest.mark.parametrize(("text", "words"), [("not json", "is not JSON"), ("{}", "is not a list")])
def test_a_file_that_is_no_list_is_refused(text: str, words: str) -> None:
    with pytest.raises(FaultFileError, match=words):
        read(text)


def test_written_faults_are_read_back() -> None:
    faults = (
        Throttling(method="eks.CreateNodegroup", call=2, times=3, for_s=1.5),
        StockOut(pool="h100", node=2, zone="us-central1-c"),
        NodeRepair(pool="h100"),
    )
    assert read(json.dumps([as_json(fault) for fault in faults])) == faults


def test_the_page_has_a_row_for_every_fault_and_names_every_field() -> None:
    text = DOCUMENT.read_text()
    rows = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    for name, kind in KINDS.items():
        assert name in rows, name
        for field in fields(kind):
            assert field.name == "fault" or f"`{field.name}`" in text, f"{name}: {field.name}"


@pytest.mark.parametrize(
    ("more", "met"),
    [
        ({}, [1, 2, 3, 4]),
        ({"times": 2}, [1, 2]),
        ({"call": 3}, [3, 4]),
        ({"call": 3, "times": 1}, [3]),
    ],
)
def test_a_fault_meets_the_calls_that_it_names(tmp_path: Path, more: dict, met: list) -> None:
    assert Injected(tmp_path, throttling(**more)).met(4) == met


def test_other_calls_meet_no_fault(tmp_path: Path) -> None:
    injected = Injected(tmp_path, throttling())
    assert injected.faults.call_fault("compute", "networks.get") is None
    assert injected.faults.call_fault("container", "networks.insert") is None


def test_random_faults_depend_only_on_the_seed(tmp_path: Path) -> None:
    chosen = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        injected = Injected(tmp_path / name, throttling(probability=0.3, seed=seed))
        chosen.append(injected.met(200))
    assert chosen[0] == chosen[1] != chosen[2]
    assert 30 < len(chosen[0]) < 90


def test_a_fault_lasts_from_one_time_to_another(tmp_path: Path) -> None:
    injected = Injected(tmp_path, throttling(after_s=10, for_s=5))
    assert injected.met(1) == []
    met = []
    for second in range(1009, 1017):
        injected.now_s = float(second)
        met += [second] * len(injected.met(1))
    assert met == [1010, 1011, 1012, 1013, 1014]


def test_a_restart_of_the_clouds_forgets_no_use(tmp_path: Path) -> None:
    injected = Injected(tmp_path, throttling(times=2))
    assert injected.met(1) == [1]
    injected.faults = injected.restarted()
    assert injected.met(3) == [1]


def test_a_fault_that_was_removed_begins_again_when_it_comes_back(tmp_path: Path) -> None:
    injected = Injected(tmp_path, throttling(times=1))
    assert injected.met(2) == [1]
    injected.write()
    assert injected.met(1) == []
    injected.write(throttling(times=1))
    assert injected.met(2) == [1]


def test_stock_ends_at_the_node_and_in_the_zone_that_the_fault_names(tmp_path: Path) -> None:
    fault = {"fault": "stock-out", "pool": "h100", "node": 2, "zone": "z-a"}
    injected = Injected(tmp_path, fault)

    def stock(**where: Any) -> bool:
        place = {"pool": "gke-h100", "labels": {"slicewright.io/pool": "h100"}, "zone": "z-a"}
        return injected.faults.has_stock(**{**place, **where})

    assert [stock(index=i) for i in range(4)] == [True, True, False, False]
    assert stock(index=2, zone="z-b")
    assert stock(index=2, labels={})


def test_an_event_happens_once_when_its_time_has_come(tmp_path: Path) -> None:
    injected = Injected(tmp_path, {"fault": "spot-preemption", "pool": "p", "after_s": 5})
    assert injected.faults.due_events() == []
    injected.now_s += 5
    (event,) = injected.faults.due_events()
    injected.faults.record_event(event)
    assert injected.faults.due_events() == []
    assert injected.restarted().due_events() == []


def test_the_smallest_limit_of_a_quota_holds(tmp_path: Path) -> None:
    limits = [{"fault": "quota", "quota": "SSD_TOTAL_GB", "limit": n} for n in (500, 250)]
    injected = Injected(tmp_path, *limits)
    assert injected.faults.quota("SSD_TOTAL_GB") == 250
    assert injected.faults.quota("NVIDIA_H100_GPUS") is None
