"""Every right of the agent and the controller, as a Markdown table for SECURITY.md.

`python -m slicewright.apis.rights_table` prints it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from slicewright.apis.names import NAMESPACE
from slicewright.apis.rights import (
    AGENT_RULES,
    CONTROLLER_NAMESPACE_RULES,
    CONTROLLER_RULES,
    PROOF_POD_RULES,
    Rule,
)

_WITH_POD: Final = "controller, with `verification.pod`"
_USES: Final[dict[tuple[str, str], str]] = {
    ("agent", "nodes"): "its own Node: labels and annotations of its pool and layout",
    ("agent", "gpunodereports"): "the report of its own node; an admission policy compares the "
    "name with the node in the agent's token",
    ("controller", "nodes"): "labels, annotations and cordons of nodes, and the startup taint; "
    "an admission policy limits it to these",
    ("controller", "nodes/status"): "the condition GPUPartitionsReady",
    ("controller", "pods"): "which pods hold a node that must be drained",
    ("controller", "pods/eviction"): "drains, in every namespace; an eviction respects "
    "PodDisruptionBudgets, and no pod is deleted",
    ("controller", "daemonsets"): "the image of the operator's driver",
    ("controller", "gpunodereports"): "verdicts of the agents",
    ("controller", "gpupools"): "what pools want; annotations and finalizers, which an admission "
    "policy limits it to",
    ("controller", "gpupools/status"): "the verdict on a pool",
    ("controller", "clusterpolicies"): "why NVIDIA's operator does not serve a node",
    ("controller", "events"): "Warning Events of pools, and those of agents that cannot start",
    ("controller", "leases"): "which of its replicas acts",
    (_WITH_POD, "pods"): "the pods that prove a node before its release; an admission policy "
    "limits their names and privileges",
}
"""(Program, resource) -> the purpose of the right."""
_HEAD: Final = (
    "| who | where | resource | verbs | for |",
    "|---|---|---|---|---|",
)


def table() -> str:
    return "\n".join((*_HEAD, *_rows()))


def _rows() -> Iterator[str]:
    everywhere = "the cluster"
    yield from _program_rows("agent", everywhere, AGENT_RULES)
    yield from _program_rows("controller", everywhere, CONTROLLER_RULES)
    for namespace, rules in sorted(CONTROLLER_NAMESPACE_RULES.items()):
        yield from _program_rows("controller", f"namespace `{namespace}`", rules)
    yield from _program_rows(_WITH_POD, f"namespace `{NAMESPACE}`", PROOF_POD_RULES)


def _program_rows(who: str, where: str, rules: tuple[Rule, ...]) -> Iterator[str]:
    for rule in rules:
        names = rule.get("resourceNames")
        restriction = f" (`{'`, `'.join(names)}` only)" if names else ""
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                kind, slash, part = resource.partition("/")
                full_name = f"{kind}.{group}{slash}{part}" if group else resource
                verbs = ", ".join(rule["verbs"])
                use = _USES[who, resource]
                yield f"| {who} | {where} | `{full_name}`{restriction} | {verbs} | {use} |"


if __name__ == "__main__":
    print(table())
