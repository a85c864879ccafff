"""Why NVIDIA's operands do not serve a node, in their own words and the operator's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slicewright.fleet_controller.decision.actions import RemoveStartupTaint
from slicewright.fleet_controller.decision.decide import decide
from slicewright.fleet_controller.decision.inspection import unverified_nodes
from slicewright.fleet_controller.nodes import absent_operands
from slicewright.fleet_controller.nodes.assess import assess
from slicewright.fleet_controller.nodes.watchdog import trouble_of
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.report import Report
from tests.fleet_controller.builders import build_node

GPU = {"nvidia.com/gpu.present": "true"}
FOUND = {"feature.node.kubernetes.io/pci-10de.present": "true"}


def policy(state: str = "ready", *conditions: tuple[str, str, str, str], **meta: str) -> Any:
    """conditions: type, status, reason, message."""
    keys = ("type", "status", "reason", "message")
    return {
        "metadata": {"name": "cluster-policy", **meta},
        "status": {
            "state": state,
            "conditions": [dict(zip(keys, c, strict=True)) for c in conditions],
        },
    }


READY = policy("ready", ("Ready", "True", "Reconciled", "ready"), ("Error", "False", "Ready", ""))
STATES = "states not ready: [state-device-plugin]"
NOT_READY = policy(
    "notReady",
    ("Ready", "False", "Error", ""),
    ("Error", "True", "OperandNotReady", STATES),
)


def pod(name: str, node: str, **waiting: str) -> Any:
    state = {"waiting": waiting} if waiting else {"running": {}}
    statuses = [{"name": "c", "state": state}]
    return {
        "metadata": {"name": name},
        "spec": {"nodeName": node},
        "status": {"containerStatuses": statuses},
    }


def reasons(labels_of: dict[str, dict[str, str]], pods: Any, policies: Any) -> dict[str, str]:
    nodes = [
        build_node(
            name=name,
            uid=name,
            created=0.0,
            labels=labels,
            taint_keys=("node.kubernetes.io/not-ready", "team", "nvidia.com/gpu"),
        )
        for name, labels in labels_of.items()
    ]
    return absent_operands.reasons(nodes, pods, policies)


CRASHES = pod(
    "nvidia-device-plugin-x", "n1", reason="CrashLoopBackOff", message="back-off 10s restarting"
)


def test_an_operand_that_does_not_run_is_quoted_before_the_operator() -> None:
    found = reasons({"n1": GPU, "n2": GPU}, [pod("a", "n1"), CRASHES], [NOT_READY])
    assert found == {
        "n1": "pod nvidia-device-plugin-x: CrashLoopBackOff: back-off 10s restarting",
        "n2": f"ClusterPolicy cluster-policy: OperandNotReady: {STATES}",
    }


def test_ready_operator_with_starting_operands_explains_nothing() -> None:
    starting = pod("b", "n1", reason="PodInitializing")
    assert reasons({"n1": GPU}, [pod("a", "n1"), starting], [READY]) == {}


def test_without_a_cluster_policy_no_operands_are_expected() -> None:
    assert reasons({"n1": {}}, [CRASHES], []) == {}


def test_node_excluded_from_the_operator_has_no_missing_operands() -> None:
    kept = {**GPU, "nvidia.com/gpu.deploy.operands": "false"}
    assert reasons({"n1": kept}, [CRASHES], [NOT_READY]) == {}


@pytest.mark.parametrize("labels", [{}, {"nvidia.com/gpu.present": "false"}])
def test_node_without_feature_discovery_labels_is_explained(labels: Any) -> None:
    (why,) = reasons({"n1": labels}, [], [READY]).values()
    assert "feature.node.kubernetes.io/pci-10de.present" in why
    assert "must run there and tolerate its taints (team, nvidia.com/gpu)" in why


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            policy("ready", ("Ready", "True", "NoGPUNodes", "No GPU node found")),
            "NoGPUNodes: No GPU",
        ),
        (policy("notReady", ("Ready", "False", "Error", "")), "cluster-policy is notReady"),
        (policy("", creationTimestamp="2026"), "cluster-policy is not reconciled by the operator"),
    ],
    ids=str,
)
def test_the_operators_own_state_is_quoted(found: Any, said: str) -> None:
    (why,) = reasons({"n1": FOUND}, [], [found]).values()
    assert said in why


def test_oldest_of_two_policies_counts() -> None:
    later = policy("notReady", ("Error", "True", "Ignored", "x"), creationTimestamp="2026-02")
    older = policy("ready", ("Ready", "True", "Reconciled", "ready"), creationTimestamp="2026-01")
    assert reasons({"n1": GPU}, [], [later, older]) == {}


def test_text_of_the_cluster_cannot_command_a_terminal_and_has_an_end() -> None:
    wild = pod("p", "n1", reason="Error", message="\x1b[2J" + "x" * 1000)
    (why,) = reasons({"n1": GPU}, [wild], [READY]).values()
    assert "\x1b" not in why
    assert len(why) == 600


def test_it_ends_the_message_while_the_node_may_settle(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    for said in (None, replace(report, verdict="Mismatch", reason="ResourcesNotAdvertised")):
        plain = assess(node, pool, said, now)
        found = assess(node, pool, said, now, no_operands="pod x: CrashLoopBackOff")
        words = plain.message.removesuffix(".")
        assert found == replace(plain, message=f"{words}; GPU operator: pod x: CrashLoopBackOff")


VALIDATOR = "pod nvidia-operator-validator-x: CrashLoopBackOff: back-off 40s"


def test_a_failing_validator_is_a_reason_of_its_own_until_it_passes(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    assert node.held
    held = assess(node, pool, report, now, no_operands=VALIDATOR)
    assert (held.status, held.reason, held.settles) == ("Unknown", "ValidatorFailing", True)
    assert VALIDATOR in held.message
    assert trouble_of(node, pool, held, VALIDATOR) == "ValidatorFails"
    actions = decide([pool], [node], {"n1": report}, {}, {}, now, no_operands={"n1": VALIDATOR})
    assert not [a for a in actions.actions if isinstance(a, RemoveStartupTaint)]
    passes = decide([pool], [node], {"n1": report}, {}, {}, now)
    assert [a for a in passes.actions if isinstance(a, RemoveStartupTaint)]


@pytest.mark.parametrize(
    "why",
    [
        "pod nvidia-operator-validator-x: Pending",
        "pod nvidia-dcgm-exporter-x: CrashLoopBackOff",
        None,
    ],
)
def test_another_operand_or_a_validator_that_waits_holds_no_matching_node(
    why: str | None, node: Node, pool: Pool, report: Report, now: float
) -> None:
    assert assess(node, pool, report, now, no_operands=why).status == "True"


def test_a_validator_that_fails_holds_no_node_in_service(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    in_service = replace(node, taint_keys=(), verified_boot="b1")
    assert assess(in_service, pool, report, now, no_operands=VALIDATOR).status == "True"


def test_a_failing_validator_comes_before_the_operands_that_wait_for_it() -> None:
    crashing = pod("nvidia-operator-validator-x", "n1", reason="CrashLoopBackOff", message="m")
    waiting = pod("nvidia-dcgm-exporter-x", "n1", reason="CrashLoopBackOff", message="m")
    found = reasons({"n1": GPU}, [waiting, crashing], [READY])
    assert found["n1"].startswith("pod nvidia-operator-validator-x")


@pytest.mark.parametrize("change", [{}, {"verdict": "Mismatch", "reason": "GpuLost"}], ids=str)
def test_it_is_left_out_where_the_operator_is_not_to_blame(
    node: Node, pool: Pool, report: Report, now: float, change: dict[str, str]
) -> None:
    said = replace(report, **change)
    assert assess(node, pool, said, now, no_operands="x") == assess(node, pool, said, now)


def test_the_pools_conditions_tell_it(node: Node, pool: Pool, now: float) -> None:
    decision = decide([pool], [node], {}, {}, {}, now, no_operands={"n1": "pod x: Pending"})
    assert "GPU operator: pod x: Pending" in str(decision.actions)


def test_asked_for_are_the_first_two_nodes_of_each_pool_that_are_not_verified(
    node: Node, pool: Pool
) -> None:
    def named(name: str, status: str | None) -> Node:
        said = status and Condition(status=status, reason="", message="", changed=0, written=0)
        return replace(node, name=name, condition=said or None)

    statuses = {"e": None, "d": "False", "c": "Unknown", "b": "True", "a": None}
    nodes = [named(name, status) for name, status in statuses.items()]
    found = unverified_nodes([pool], nodes)
    assert [one.name for one in found.examples] == ["a", "c"]
    assert [one.name for one in found.remaining] == ["d", "e"]


def test_other_operands_are_reported_only_if_they_restart_repeatedly(
    node: Node, pool: Pool, now: float
) -> None:
    """So that the watchdog sees it on every node."""
    others = [replace(node, name=name, labels=GPU) for name in ("n3", "n4")]
    crashing = pod("z", "n3", reason="CrashLoopBackOff", message="back-off")
    pods = [pod("a", "n3", reason="ImagePullBackOff"), crashing, pod("a", "n4", reason="Error")]
    found = absent_operands.reasons([], pods, [NOT_READY], others)
    assert found == {"n3": "pod z: CrashLoopBackOff: back-off"}
    assert trouble_of(others[0], pool, assess(others[0], pool, None, now), found["n3"]) == (
        "OperandCrashLoop"
    )


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"phase": "Failed"}, "pod p: Failed"),
        ({"phase": "Failed", "reason": "", "message": ""}, "pod p: Failed"),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "low on disk"},
            "Evicted: low on disk",
        ),
        ({"conditions": [{"type": "PodScheduled", "status": "False"}]}, "pod p"),
    ],
)
def test_words_that_nobody_has_given_leave_no_colons(status: dict[str, Any], said: str) -> None:
    one = {"metadata": {"name": "p"}, "spec": {"nodeName": "n1"}, "status": status}
    (why,) = reasons({"n1": GPU}, [one], [READY]).values()
    assert why.endswith(said)


def test_it_follows_no_full_stop(node: Node, pool: Pool, report: Report, now: float) -> None:
    said = replace(
        report, verdict="Mismatch", reason="ResourcesNotAdvertised", message="It starts again."
    )
    found = assess(node, pool, said, now, no_operands="pod x: Failed")
    assert found.message == "It starts again; GPU operator: pod x: Failed"
