"""The Secrets that a rehearsal makes for a stack's workloads."""

from __future__ import annotations

from pathlib import Path

from infra import plan
from rehearsal.scenario import workload_secrets
from rehearsal.scenario.workload_secrets import LABEL
from tests.infra import test_workloads


def golden(name: str) -> plan.FleetPlan:
    return plan.read_file(Path(test_workloads.__file__).parent / "golden" / f"{name}.yaml")


def test_there_is_one_for_each_name_with_all_keys_and_values_of_its_own() -> None:
    (one,) = workload_secrets.wanted(golden("vllm"))
    (again,) = workload_secrets.wanted(golden("vllm"))
    of = one["metadata"]
    assert (of["namespace"], of["name"], [*of["labels"]]) == ("ai", "llm", [LABEL])
    assert [*one["stringData"]] == ["api-key", "hf-token"]
    values = {*one["stringData"].values(), *again["stringData"].values()}
    assert len(values) == 4
    assert all(value.startswith("simulated-") for value in values)


def test_workloads_without_secrets_need_none() -> None:
    assert list(workload_secrets.wanted(golden("triton"))) == []
