"""What the operator's chart and operands and the workloads get, as files: tests/infra/golden.

`pytest tests/infra/manifests/test_golden.py --update-golden` writes them; the diff shows what a
change does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from slicewright.infra import manifests, plan
from slicewright.infra.plan import GkeFleetPlan

GOLDEN = Path(__file__).parents[1] / "golden"
STACKS = {
    stack: Path(__file__).parents[3] / f"stacks/Pulumi.{stack}.yaml"
    for stack in ("eks-a100", "existing-a100-t4")
} | {file.stem: file for file in GOLDEN.glob("*.yaml")}


def rendered(stack: Path) -> Mapping[str, str]:
    """File name -> content; a ConfigMap's file without the hash of its name."""
    fleet = plan.read_file(stack)
    if fleet.engine is not None:
        return {**engine(fleet), **workloads(fleet)}
    if fleet.deployments:
        return workloads(fleet)
    files = manifests.operator_files(fleet)
    installers = manifests.driver_installers(fleet) if isinstance(fleet, GkeFleetPlan) else []
    return {
        "values.yaml": manifests.as_flow_yaml(manifests.operator_values(fleet, files)),
        **{
            f"{config.name.rpartition('-')[0]}/{key}": content
            for config in files
            for key, content in config.data.items()
        },
        **{
            f"{manifest['metadata']['name']}.yaml": manifests.as_flow_yaml(manifest)
            for manifest in installers
        },
    }


def workloads(fleet: plan.FleetPlan) -> Mapping[str, str]:
    """File name -> a workload's objects."""
    namespaces = manifests.workload_namespaces(fleet)
    return {
        "namespaces.yaml": "---\n".join(map(manifests.as_flow_yaml, namespaces)),
        **{
            f"{one.name}.yaml": "---\n".join(map(manifests.as_flow_yaml, objects.all))
            for one, objects in manifests.workloads_of(fleet)
        },
        **scaling(fleet),
    }


def engine(fleet: plan.FleetPlan) -> Mapping[str, str]:
    """File name -> the address and the values of a chart of the engine for fractions."""
    return {
        f"{chart.release}.yaml": manifests.as_flow_yaml(
            {
                "chart": list(filter(None, chart.address)),
                "version": chart.version,
                "namespace": chart.namespace,
                "values": chart.values,
            }
        )
        for chart in manifests.engine_charts(fleet)
    }


def scaling(fleet: plan.FleetPlan) -> Mapping[str, str]:
    """KEDA's values, and what it is told of each workload."""
    scaler = fleet.pod_autoscaling
    if scaler is None:
        return {}
    if isinstance(scaler, plan.AdapterPlan):
        autoscalers = [
            manifests.pod_autoscaler(one) for one in fleet.deployments if one.autoscaling
        ]
        objects = [*manifests.adapter_objects(fleet), *autoscalers]
        return {"prometheus-adapter.yaml": "---\n".join(map(manifests.as_flow_yaml, objects))}
    return {
        "keda.yaml": manifests.as_flow_yaml(manifests.keda_values(fleet)),
        **{
            f"{one.name}-scaled.yaml": manifests.as_flow_yaml(
                manifests.scaled_object(one, scaler.prometheus_url)
            )
            for one in fleet.deployments
            if one.autoscaling is not None
        },
    }


@pytest.mark.parametrize("name", STACKS)
def test_the_renders_are_as_committed(name: str, request: pytest.FixtureRequest) -> None:
    directory, found = GOLDEN / name, rendered(STACKS[name])
    if request.config.getoption("--update-golden"):
        for file, content in found.items():
            (directory / file).parent.mkdir(parents=True, exist_ok=True)
            (directory / file).write_text(content, encoding="utf-8")
    committed = {
        str(file.relative_to(directory)): file.read_text(encoding="utf-8")
        for file in directory.rglob("*")
        if file.is_file()
    }
    assert committed == found, (
        "pytest tests/infra/manifests/test_golden.py --update-golden, and read it"
    )
