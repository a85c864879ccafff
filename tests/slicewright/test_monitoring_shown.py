"""`slicewright plan` with `monitoring`: as text, as JSON, and what changes."""

from __future__ import annotations

import json
from typing import Any

from slicewright.infra import plan, stack_file
from slicewright.show import plan_json
from slicewright.show.change_text import step_text
from slicewright.show.monitoring_text import monitoring_lines
from tests.infra.manifests.monitoring.test_objects import SERVERS, VLLM
from tests.infra.manifests.monitoring.test_settings import CLOUDS, EXISTING, STACK, planned


def test_the_plan_shows_the_scrape_targets_and_interval_of_each_prometheus() -> None:
    fleet = planned(STACK, workloads=SERVERS)
    text = "\n".join(monitoring_lines(fleet))
    assert text.startswith("monitoring: kube-prometheus-stack 88.5.3 in monitoring\n")
    assert "node-agent every 10 s, fleet-controller every 10 s, dcgm-exporter every 30 s" in text
    assert "workload-models-llm every 10 s" in text
    assert "18 alerts" in text
    assert "dashboards      4, in monitoring" in text
    assert "http://kube-prom-stack-kube-prome-prometheus.monitoring.svc:9090" in text


def test_a_fleet_without_monitoring_shows_no_monitoring_lines() -> None:
    raw = {"cloud": "byo", **CLOUDS["byo"]}
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert monitoring_lines(fleet) == []
    assert plan_json.as_json(fleet)["monitoring"] is None


def test_disabled_monitoring_is_not_shown() -> None:
    lines = monitoring_lines(planned(STACK | {"alerts": False, "dashboards": False}))
    assert not [line for line in lines if "rules" in line or "dashboards" in line]
    managed = monitoring_lines(planned({"prometheus": "managed"}, "gke"))
    assert managed[0] == "monitoring: Managed Service for Prometheus"
    assert managed[-1].endswith("no address in the cluster")


def test_json_lists_the_created_monitoring() -> None:
    found = plan_json.as_json(planned(STACK, workloads=[VLLM]))["monitoring"]
    assert json.loads(json.dumps(found)) == found
    assert found["scrapes"][-1] == {"name": "workload-models-llm", "interval_s": 10}
    assert (found["alerts"], found["dashboards"]) == (18, 4)


def test_a_change_names_the_keys_that_change() -> None:
    def step(before: dict[str, Any], after: dict[str, Any]) -> str:
        old, new = planned(before), planned(after)
        (change,) = plan.compare(old, new).fleet
        return step_text(change.before, change.after)

    assert step(STACK, STACK | {"retention_days": 3}) == "retention_days 10 -> 3"
    text = step(STACK, EXISTING)
    assert text == (
        "kube-prometheus-stack 88.5.3 in monitoring -> the cluster's Prometheus in monitoring"
    )
