"""The Secrets and StorageClasses that a rehearsal makes for a stack's workloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slicewright.infra import plan
from slicewright.infra.stack_file import NewVolume
from slicewright.rehearsal.scenario import workload_needs
from slicewright.rehearsal.scenario.workload_needs import LABEL
from tests.infra.plan import test_workloads


def golden(name: str) -> plan.FleetPlan:
    return plan.read_file(Path(test_workloads.__file__).parents[1] / "golden" / f"{name}.yaml")


def secrets() -> list[dict[str, Any]]:
    return [one for one in workload_needs.wanted(golden("vllm")) if one["kind"] == "Secret"]


def test_a_class_of_volumes_that_a_cache_names_is_made() -> None:
    found = workload_needs.wanted(golden("vllm"))
    classes = [one for one in found if one["kind"] == "StorageClass"]
    named = [one.workload.cache for one in golden("vllm").deployments]  # type: ignore[union-attr]
    assert [one["metadata"]["name"] for one in classes] == [
        cache.storage_class for cache in named if isinstance(cache, NewVolume)
    ]


def test_each_secret_has_all_keys_and_unique_values() -> None:
    (one,) = secrets()
    (again,) = secrets()
    of = one["metadata"]
    assert (of["namespace"], of["name"], [*of["labels"]]) == ("ai", "llm", [LABEL])
    assert [*one["stringData"]] == ["api-key", "hf-token"]
    values = {*one["stringData"].values(), *again["stringData"].values()}
    assert len(values) == 4
    assert all(value.startswith("simulated-") for value in values)


def test_workloads_that_name_neither_need_nothing() -> None:
    assert list(workload_needs.wanted(golden("triton"))) == []
