"""The causes why agents and NVIDIA's operands do not serve nodes. They make messages clearer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from slicewright.fleet_controller.cluster.background_query import BackgroundQuery
from slicewright.fleet_controller.cluster.collection import error_text
from slicewright.fleet_controller.cluster.observe import FEW_NODES, Cluster
from slicewright.fleet_controller.decision.inspection import UnverifiedNodes
from slicewright.fleet_controller.nodes import absent_agents, absent_operands
from slicewright.kubeapi import ApiError, Unreachable
from slicewright.telemetry import log

_INTERVAL_S = 15.0
"""Least time between two lists of the agents' pods, to see why some do not report, and of NVIDIA's
operands, to see why nodes are not verified.
"""
_INTERVAL_MANY_S = 60.0
"""The same interval for the operands of many nodes: then all pods of operands are listed."""

T = TypeVar("T")


class Causes:
    """Finds the causes now and then; the last answer counts until the next one.

    on_fault: called with the subject and the error if a question fails unexpectedly.
    """

    def __init__(self, cluster: Cluster, on_fault: Callable[[str, Exception], object]) -> None:
        self._cluster = cluster
        self._on_fault = on_fault
        self._agents_listed = float("-inf")
        self._agent_causes: Mapping[str, str] = {}
        self._operand_causes: BackgroundQuery[Mapping[str, str]] = BackgroundQuery(
            cluster.changed.set, every_s=_INTERVAL_S
        )

    def missing_reports(self, daemon_set_of: Mapping[str, str]) -> Mapping[str, str]:
        """Returns why the agents of these nodes have not reported."""
        if not daemon_set_of:
            return {}
        if time.monotonic() - self._agents_listed > _INTERVAL_S:
            self._agents_listed = time.monotonic()
            causes = self._ask("agents' pods", lambda: self._list_agents(daemon_set_of))
            self._agent_causes = self._agent_causes if causes is None else causes
        return self._agent_causes

    def missing_operands(self, nodes: UnverifiedNodes) -> Mapping[str, str]:
        """Returns why NVIDIA's operands do not serve these nodes, as of a while ago."""
        names = {node.name for group in nodes for node in group}
        if not names:
            return {}
        many = len(names) > FEW_NODES
        self._operand_causes.every_s = _INTERVAL_MANY_S if many else _INTERVAL_S
        causes = self._operand_causes.latest(
            lambda: self._ask("operands", lambda: self._list_operands(nodes, names))
        )
        return {name: why for name, why in (causes or {}).items() if name in names}

    def other_plugins(self, nodes: UnverifiedNodes) -> Mapping[str, str]:
        """Returns the DaemonSets of others that register the GPUs of these nodes, by node."""
        return self._cluster.other_plugins({node.name for group in nodes for node in group})

    def _list_agents(self, daemon_set_of: Mapping[str, str]) -> Mapping[str, str]:
        pods = self._cluster.agent_pods()
        nodes = {pod["spec"].get("nodeName") for pod in pods}
        events = self._cluster.daemon_set_warnings() if set(daemon_set_of) - nodes else []
        return absent_agents.reasons(daemon_set_of, pods, events)

    def _list_operands(self, nodes: UnverifiedNodes, names: set[str]) -> Mapping[str, str]:
        policies = self._cluster.cluster_policies()
        pods = self._cluster.waiting_operands(names) if policies else []
        return absent_operands.reasons(nodes.examples, pods, policies, nodes.remaining)

    def _ask(self, subject: str, question: Callable[[], T]) -> T | None:
        """Returns the answer, or None without one: the pass goes on without it."""
        try:
            return question()
        except (ApiError, Unreachable) as e:
            log.warning(f"cannot list the {subject}", error=error_text(e))
        except Exception as e:  # noqa: BLE001 - a clearer message is not worth a pass
            self._on_fault(subject, e)
        return None
