"""Metrics and logs of simulated clusters, as Google's own client sees them."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeNodes
from tests.rehearsal.clouds.conftest import Gcp
from tests.rehearsal.clouds.gcp.google_client import HttpError, client

CLUSTERS = "projects.locations.clusters"
SYSTEM = {"componentConfig": {"enableComponents": ["SYSTEM_COMPONENTS"]}}


def update(gcp: Gcp, **desired: Any) -> Any:
    """The cluster after it."""
    clusters = client(gcp.cloud.call, "container")
    gcp.wait(clusters.call(f"{CLUSTERS}.update", name=gcp.cluster, body={"update": desired}))
    return clusters.call(f"{CLUSTERS}.get", name=gcp.cluster)


def test_a_new_cluster_sends_metrics_of_gpus_by_managed_prometheus(gcp: Gcp) -> None:
    made = gcp.make_cluster()
    assert "DCGM" in made["monitoringConfig"]["componentConfig"]["enableComponents"]
    assert made["monitoringConfig"]["managedPrometheusConfig"] == {"enabled": True}
    logs = made["loggingConfig"]["componentConfig"]["enableComponents"]
    assert logs == ["SYSTEM_COMPONENTS", "WORKLOADS"]


def test_components_are_off_where_a_request_names_none(gcp: Gcp) -> None:
    made = gcp.make_cluster(monitoringConfig={"componentConfig": {}}, loggingConfig=SYSTEM)
    assert made["monitoringConfig"]["componentConfig"] == {}
    assert made["monitoringService"] == "none"
    assert made["loggingConfig"] == SYSTEM
    assert made["loggingService"] == "logging.googleapis.com/kubernetes"


def test_an_update_of_one_part_keeps_the_other(gcp: Gcp) -> None:
    gcp.make_cluster()
    found = update(gcp, desiredMonitoringConfig=SYSTEM)["monitoringConfig"]
    assert found == {**SYSTEM, "managedPrometheusConfig": {"enabled": True}}
    off = {"managedPrometheusConfig": {"enabled": False}}
    found = update(gcp, desiredMonitoringConfig=off)["monitoringConfig"]
    assert found == {**SYSTEM, "managedPrometheusConfig": {}}


@pytest.mark.parametrize(
    ("desired", "said"),
    [
        ({"desiredMonitoringConfig": {"managedPrometheusConfig": {}}}, "must be enabled to coll"),
        (
            {"desiredMonitoringConfig": {"componentConfig": {"enableComponents": ["DCGM"]}}},
            "SYSTEM_COMPONENTS must be enabled in monitoring_config",
        ),
        (
            {"desiredLoggingConfig": {"componentConfig": {"enableComponents": ["WORKLOADS"]}}},
            "SYSTEM_COMPONENTS must be enabled in logging_config",
        ),
    ],
)
def test_gke_refuses_what_its_collectors_cannot_gather(
    gcp: Gcp, desired: dict[str, Any], said: str
) -> None:
    gcp.make_cluster()
    with pytest.raises(HttpError, match=said):
        update(gcp, **desired)


def test_services_of_old_do_not_go_with_components(gcp: Gcp) -> None:
    with pytest.raises(CloudError, match="Cannot specify logging_config or monitoring_config tog"):
        gcp.make_cluster(monitoringConfig=SYSTEM, loggingService="none")


def test_a_cluster_has_the_kinds_of_managed_prometheus_once_that_is_on(
    gcp: Gcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed: set[str] = set()

    def install(self: FakeNodes, path: str, manifest: JsonObject) -> None:
        if path.endswith("/customresourcedefinitions"):
            installed.add(manifest["metadata"]["name"])

    monkeypatch.setattr(FakeNodes, "install", install)
    gcp.make_cluster(monitoringConfig={"componentConfig": {}, "managedPrometheusConfig": {}})
    assert installed == set()
    update(gcp, desiredMonitoringConfig={"managedPrometheusConfig": {"enabled": True}})
    kinds = {
        "podmonitorings.monitoring.googleapis.com",
        "clusterrules.monitoring.googleapis.com",
    }
    assert installed == kinds
    installed.clear()
    gcp.make_cluster(network_exists=True, name="other", monitoringConfig=SYSTEM)
    assert installed == kinds
