"""Tools that only some rehearsals run are obtained by those only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.infra import plan
from slicewright.rehearsal.scenario import tool_groups
from slicewright.rehearsal.scenario.environment import PROJECT


def groups(name: str) -> tuple[str, ...]:
    return tool_groups.of([plan.read_file(PROJECT / "stacks" / f"Pulumi.{name}.yaml")])


@pytest.mark.parametrize("name", ["gke-h100", "gke-h100-serving", "eks-a100", "existing-a100-t4"])
def test_the_rehearsals_of_the_readme_need_none(name: str) -> None:
    assert groups(name) == ()


def test_a_stack_whose_workloads_are_triton_needs_triton() -> None:
    assert groups("existing-a100-t4-serving") == ("triton",)


@pytest.mark.parametrize(
    ("monitoring", "scaling", "wanted"),
    [
        ({"prometheus": "stack"}, {}, {"autoscaling", "monitoring"}),
        ({"prometheus": "stack"}, {"existing": True}, {"monitoring"}),
        ({"prometheus": "existing", "url": "http://p:9090"}, {"existing": True}, {"monitoring"}),
        (None, {}, {"autoscaling"}),
        (None, {"existing": True}, set()),
    ],
)
def test_a_stack_that_installs_a_chart_needs_what_runs_in_its_pods(
    tmp_path: Path,
    monitoring: dict[str, Any] | None,
    scaling: dict[str, Any],
    wanted: set[str],
) -> None:
    raw = yaml.safe_load((PROJECT / "tests/infra/golden/autoscaling.yaml").read_text())
    fleet = raw["config"]["slicewright:fleet"]
    if monitoring is not None:
        fleet["monitoring"] = monitoring
    fleet["pod_autoscaling"] |= scaling
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(yaml.safe_dump(raw))
    # One of its servers is Triton.
    assert set(tool_groups.of([plan.read_file(file)])) == wanted | {"triton"}


def test_a_stack_has_keda_or_prometheus_adapter_and_not_the_other() -> None:
    fleet = plan.read_file(PROJECT / "tests/infra/golden/prometheus-adapter.yaml")
    assert set(tool_groups.of([fleet])) == {"custom-metrics", "monitoring", "triton"}


def test_only_a_stack_whose_shares_volcano_places_needs_volcano(tmp_path: Path) -> None:
    raw = yaml.safe_load((PROJECT / "stacks/Pulumi.fractional.yaml").read_text())
    for provider, wanted in (("volcano", ("volcano",)), ("hami", ())):
        raw["config"]["slicewright:fleet"]["fractional"]["provider"] = provider
        file = tmp_path / "Pulumi.dev.yaml"
        file.write_text(yaml.safe_dump(raw))
        assert tool_groups.of([plan.read_file(file)]) == wanted
