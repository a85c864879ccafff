"""The declared operator against what a cluster has of it."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.drift.gpu_operator import OperatorObjects, operator_drift
from slicewright.infra import manifests, plan
from slicewright.infra.plan import FleetPlan
from slicewright.rehearsal.plugins.charts.gpu_operator.manifests import cluster_policy_spec
from slicewright.rehearsal.plugins.charts.gpu_operator.values import merged

STACKS = Path(__file__).resolve().parents[3] / "stacks"


@pytest.fixture
def fleet() -> FleetPlan:
    return plan.read_file(STACKS / "Pulumi.eks-a100.yaml")


@pytest.fixture
def installed(fleet: FleetPlan) -> OperatorObjects:
    """As the chart makes it from the stack's values."""
    files = manifests.operator_files(fleet)
    return OperatorObjects(
        policy=cluster_policy_spec(merged(manifests.operator_values(fleet, files))),
        chart="v26.7.0",
        configs={file.name: dict(file.data) for file in files},
    )


@pytest.mark.parametrize("stack", ["eks-a100", "existing-a100-t4"])
def test_objects_as_the_chart_creates_them_have_not_drifted(stack: str) -> None:
    fleet = plan.read_file(STACKS / f"Pulumi.{stack}.yaml")
    files = manifests.operator_files(fleet)
    assert fleet.operator is not None
    as_made = OperatorObjects(
        policy=cluster_policy_spec(merged(manifests.operator_values(fleet, files))),
        chart=fleet.operator.chart_version,
        configs={file.name: dict(file.data) for file in files},
    )
    assert operator_drift(as_made, fleet, stack) == []


def _changed(policy: dict[str, Any], section: str, **more: Any) -> dict[str, Any]:
    found = copy.deepcopy(policy)
    found.setdefault(section, {}).update(more)
    return found


@pytest.mark.parametrize(
    ("section", "change", "said"),
    [
        ("mig", {"strategy": "single"}, "spec.mig.strategy: wanted mixed, found single"),
        ("driver", {"enabled": True}, "spec.driver.enabled: wanted false, found true"),
        (
            "migManager",
            {"config": {"name": "other", "default": "all-disabled"}},
            "spec.migManager.config.name: wanted mig-layouts-",
        ),
        ("daemonsets", {"tolerations": []}, "spec.daemonsets.tolerations: wanted ["),
    ],
)
def test_a_setting_that_was_changed_is_named_with_the_command_that_sets_it(
    fleet: FleetPlan, installed: OperatorObjects, section: str, change: dict[str, Any], said: str
) -> None:
    policy = _changed(dict(installed.policy or {}), section, **change)
    (found,) = operator_drift(replace(installed, policy=policy), fleet, "eks-a100")
    assert found.where == "ClusterPolicy cluster-policy"
    assert said in found.difference
    assert found.heal.startswith(
        "kubectl patch clusterpolicies.nvidia.com cluster-policy --type merge"
    )


def test_a_setting_that_the_stack_does_not_declare_is_the_charts(
    fleet: FleetPlan, installed: OperatorObjects
) -> None:
    policy = _changed(dict(installed.policy or {}), "dcgm", hostPort=5555)
    assert operator_drift(replace(installed, policy=policy), fleet, "eks-a100") == []


@pytest.mark.parametrize(
    ("chart", "said", "heal"),
    [
        (
            "v26.3.0",
            "chart version: wanted v26.7.0, found v26.3.0",
            "helm -n gpu-operator upgrade gpu-operator gpu-operator "
            "--repo https://helm.ngc.nvidia.com/nvidia --version v26.7.0 --reuse-values",
        ),
        (None, "no revision is deployed", "pulumi up --refresh --stack eks-a100"),
    ],
)
def test_a_different_chart_version_is_drift(
    fleet: FleetPlan, installed: OperatorObjects, chart: str | None, said: str, heal: str
) -> None:
    (found,) = operator_drift(replace(installed, chart=chart), fleet, "eks-a100")
    assert (found.where, found.difference) == ("Helm release gpu-operator", said)
    assert found.heal == heal


def test_the_chart_of_the_same_version_without_its_v_is_the_same(
    fleet: FleetPlan, installed: OperatorObjects
) -> None:
    assert operator_drift(replace(installed, chart="26.7.0"), fleet, "eks-a100") == []


def test_a_deleted_or_changed_config_map_is_drift(
    fleet: FleetPlan, installed: OperatorObjects
) -> None:
    (name,) = installed.configs
    (gone,) = operator_drift(replace(installed, configs={}), fleet, "eks-a100")
    other = {name: {"config.yaml": "version: v1"}}
    (changed,) = operator_drift(replace(installed, configs=other), fleet, "eks-a100")
    assert gone.where == changed.where == f"ConfigMap gpu-operator/{name}"
    assert gone.difference == "does not exist"
    assert "does not match the hash in its name" in changed.difference
    assert changed.heal.startswith(f"kubectl -n gpu-operator delete configmap {name} && pulumi up")


def test_a_deleted_policy_is_restored_from_the_release(
    fleet: FleetPlan, installed: OperatorObjects
) -> None:
    (found,) = operator_drift(replace(installed, policy=None), fleet, "eks-a100")
    assert found.heal == (
        "helm -n gpu-operator get manifest gpu-operator | kubectl apply --server-side -f -"
    )
