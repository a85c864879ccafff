"""Metrics and logs of a GKE cluster: what the stack file may say, and what is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from slicewright.infra import plan, stack_file
from tests.recorder import Made

FLEET = """\
cloud: gke
cluster:
  name: main
  location: us-central1-c
node_pools:
- {name: a, machine_type: a2-highgpu-1g, nodes: {count: 1}}
- {name: b, machine_type: a2-highgpu-1g, nodes: {count: 1}, partition: OPERATOR}
""".replace("OPERATOR", "{mode: operator, layout: {1g.5gb: 7}}")
DCGM = "{components: [DCGM, SYSTEM_COMPONENTS]}"
LOGS = "{components: [WORKLOADS, SYSTEM_COMPONENTS]}"


def fleet(monitoring: str | None = None, logging: str | None = None, more: str = "") -> str:
    stated = {"monitoring": monitoring, "logging": logging}
    lines = [f"  {key}: {value}\n" for key, value in stated.items() if value is not None]
    return FLEET.replace("node_pools:", f"{''.join(lines)}{more}node_pools:")


@pytest.fixture
def asked(record_cloud: Callable[..., list[Made]]) -> Callable[[str], dict[str, Any]]:
    """What a fleet's cluster is asked for with."""

    def of(text: str) -> dict[str, Any]:
        (one,) = [
            m
            for m in record_cloud("gke-h100", fleet=text)
            if m.type == "gcp:container/cluster:Cluster"
        ]
        return dict(one.inputs)

    return of


def notes(text: str) -> list[str]:
    raw = yaml.safe_load(text)
    return list(plan.notes(plan.read(json.dumps(raw), stack_file.Source("test", raw))))


def test_components_are_sent_in_the_order_of_the_api_and_always_with_managed_prometheus(
    asked: Callable[[str], dict[str, Any]],
) -> None:
    found = asked(fleet(DCGM, LOGS))
    assert found["monitoringConfig"] == {
        "enableComponents": ["SYSTEM_COMPONENTS", "DCGM"],
        "managedPrometheus": {"enabled": True},
    }
    assert found["loggingConfig"] == {"enableComponents": ["SYSTEM_COMPONENTS", "WORKLOADS"]}


def test_unstated_components_are_left_to_gke(asked: Callable[[str], dict[str, Any]]) -> None:
    assert not {"monitoringConfig", "loggingConfig"} & asked(fleet()).keys()


def test_everything_can_be_turned_off(asked: Callable[[str], dict[str, Any]]) -> None:
    none = "{components: [], managed_prometheus: false}"
    assert asked(fleet(none))["monitoringConfig"] == {
        "enableComponents": [],
        "managedPrometheus": {"enabled": False},
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            fleet("{components: [DCGM]}"),
            "cluster.monitoring.components: GKE sends metrics of others only together with those "
            "of SYSTEM_COMPONENTS",
        ),
        (
            fleet(None, "{components: [WORKLOADS]}"),
            "cluster.logging.components: GKE sends logs of others only together with those of "
            "SYSTEM_COMPONENTS",
        ),
        (
            fleet("{components: [SYSTEM_COMPONENTS, DCGM, POD], managed_prometheus: false}"),
            "cluster.monitoring.managed_prometheus: Managed Service for Prometheus collects the "
            "metrics of DCGM, POD",
        ),
        (
            fleet("{components: [SYSTEM_COMPONENTS, SYSTEM_COMPONENTS]}"),
            "cluster.monitoring.components[1]: SYSTEM_COMPONENTS is listed twice",
        ),
        (fleet("{components: [GPUS]}"), "cluster.monitoring.components[0]"),
        (fleet("{managed_prometheus: true}"), "cluster.monitoring.components"),
        (
            fleet(DCGM, more="  existing: true\n"),
            "cluster.monitoring: the cluster exists already",
        ),
        (
            fleet(None, LOGS, more="  existing: true\n"),
            "cluster.logging: the cluster exists already",
        ),
    ],
)
def test_monitoring_settings_that_gke_refuses_are_refused(
    broken: Callable[[str], str], text: str, said: str
) -> None:
    assert said in broken(text)


def test_two_exporters_of_dcgm_on_the_nodes_of_the_operator_are_noted() -> None:
    two = "cluster main: GKE's own exporter of DCGM is on"
    (by_default,) = [n for n in notes(fleet()) if n.startswith(two)]
    assert "as it is in new clusters by default" in by_default
    assert "on nodes of b the GPU operator's exporter runs as well: only one of" in by_default
    (stated,) = [n for n in notes(fleet(DCGM)) if n.startswith(two)]
    assert "by default" not in stated
    for one in (
        fleet("{components: [SYSTEM_COMPONENTS]}"),
        fleet(more="  existing: true\n"),
        fleet() + "gpu_operator: {dcgm_exporter: {enabled: false}}\n",
        fleet().replace(", partition: {mode: operator, layout: {1g.5gb: 7}}", ""),
    ):
        assert not [n for n in notes(one) if n.startswith(two)], one


def test_metrics_that_are_billed_are_noted() -> None:
    billed = "cluster main: Cloud Monitoring bills by the sample for the metrics of DCGM"
    assert billed in notes(fleet(DCGM))
    assert not [n for n in notes(fleet("{components: [SYSTEM_COMPONENTS]}")) if "bills" in n]
