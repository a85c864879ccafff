"""Why an agent does not report, in the cluster's own words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slicewright.fleet_controller.decision.decide import decide
from slicewright.fleet_controller.decision.inspection import silent_agents
from slicewright.fleet_controller.nodes.absent_agents import reasons
from slicewright.fleet_controller.nodes.assess import REPORT_AGE_LIMIT_S, assess
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.report import Report

REFUSED = 'Error creating: pods "node-agent-a-" is forbidden: RuntimeClass "nvidia" not found'


def event(message: str, *, name: str = "node-agent-a", at: str = "2026-01-01T00:00:00Z") -> Any:
    about = {"kind": "DaemonSet", "name": name}
    return {
        "involvedObject": about,
        "reason": "FailedCreate",
        "message": message,
        "lastTimestamp": at,
    }


def pod(node: str, **status: Any) -> Any:
    return {"metadata": {"name": "node-agent-a-x"}, "spec": {"nodeName": node}, "status": status}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "node-agent", "state": state}]}


def test_without_a_pod_its_daemon_sets_newest_event_is_quoted() -> None:
    later = event(REFUSED, at="2026-01-01T00:01:00Z")
    found = reasons({"n1": "node-agent-a", "n2": "node-agent-b"}, [], [later, event("earlier")])
    assert found == {"n1": f"FailedCreate: {REFUSED}"}


def test_an_event_is_not_quoted_of_a_node_that_has_the_pod() -> None:
    assert reasons({"n1": "node-agent-a"}, [pod("n1", phase="Running")], [event(REFUSED)]) == {}


def test_what_a_pod_waits_for_is_quoted() -> None:
    found = reasons(
        {"n1": "node-agent-a"}, [pod("n1", **waiting("ImagePullBackOff", "no such image"))], []
    )
    assert found == {"n1": "pod node-agent-a-x: ImagePullBackOff: no such image"}
    assert reasons({"n1": "node-agent-a"}, [pod("n1", **waiting("ContainerCreating"))], []) == {}


def test_a_pod_that_cannot_be_scheduled_is_known_by_the_node_it_was_made_for() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient memory.",
    }
    unbound = pod("", conditions=[condition])
    unbound["spec"] = {"affinity": {"nodeAffinity": required}}
    assert reasons({"n1": "node-agent-a"}, [unbound], []) == {
        "n1": "pod node-agent-a-x: Unschedulable: 0/1 nodes are available: 1 Insufficient memory."
    }


def test_it_becomes_the_message_of_no_report(node: Node, pool: Pool, now: float) -> None:
    assessed = assess(node, pool, None, now, no_agent=f"FailedCreate: {REFUSED}")
    assert assessed.reason == "NoReport"
    assert assessed.message == f"the node's agent has not reported: FailedCreate: {REFUSED}"
    assert assessed.settles


def test_it_is_the_message_on_the_node_itself(node: Node, pool: Pool, now: float) -> None:
    decision = decide([pool], [node], {}, {}, {}, now, no_agents={"n1": REFUSED, "n2": "other"})
    said = [text for a in decision.actions if (text := getattr(a, "message", None))]
    assert f"the node's agent has not reported: {REFUSED}" in said


def test_a_report_says_more_than_what_the_cluster_says(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    judged = assess(node, pool, report, now)
    assert assess(node, pool, report, now, no_agent=REFUSED) == judged
    assert judged.reason == "PartitionsMatch"


def test_missing_report_quotes_nothing_without_a_cause(node: Node, pool: Pool, now: float) -> None:
    assessed = assess(node, pool, None, now)
    assert assessed.reason == "NoReport"
    assert "None" not in assessed.message


def test_silent_agents_are_listed_by_node_with_their_daemon_set(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    other = replace(node, name="n2", uid="u2")
    foreign = replace(node, name="n3", uid="u3", labels={})
    reports = {"n1": report}
    assert silent_agents([pool], [node, other, foreign], reports, now) == {
        "n2": "node-agent-halves"
    }
    later = report.time + REPORT_AGE_LIMIT_S
    assert silent_agents([pool], [node], reports, later - 1) == {}
    assert silent_agents([pool], [node], reports, later) == {"n1": "node-agent-halves"}


def test_an_agent_that_has_fallen_silent_says_why(node: Node, pool: Pool, report: Report) -> None:
    later = report.time + REPORT_AGE_LIMIT_S
    assessed = assess(node, pool, report, later, no_agent="pod node-agent-x: CrashLoopBackOff")
    assert (assessed.status, assessed.reason) == ("Unknown", "ReportTooOld")
    assert assessed.message.endswith(": pod node-agent-x: CrashLoopBackOff")
