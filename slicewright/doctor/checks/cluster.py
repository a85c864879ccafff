"""Checks which parts of a plan an existing cluster would refuse, or would not run. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from slicewright.doctor.checks.cluster_requirements import (
    CERTIFICATES,
    wanted_apis,
    wanted_definitions,
    wanted_namespaces,
)
from slicewright.doctor.checks.gpu_operators import (
    PlannedOperator,
    has_operator,
    operator_findings,
)
from slicewright.doctor.checks.gpu_owners import (
    DaemonSet,
    DeviceOwners,
    GpuOperator,
    gpu_pool,
    owner_findings,
)
from slicewright.doctor.findings import (
    Answer,
    Finding,
    NotAnswered,
    Owned,
    check,
    checks,
    fails,
    not_asked,
    ok,
)
from slicewright.infra import manifests
from slicewright.infra.plan import ExistingFleetPlan, ExistingPoolPlan

_STARTUP_POLICIES: Final = (1, 36)
"""The first version with MutatingAdmissionPolicy in v1. Source: Kubernetes enhancement KEP-3962."""
_CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"
"""The taint that NVIDIA's operator tolerates. The fleet controller does not tolerate it."""
_FEATURE_DISCOVERY: Final = "node-feature-discovery"


@dataclass(frozen=True, kw_only=True)
class Node:
    name: str
    labels: Mapping[str, str]
    ready: bool
    taints: tuple[str, ...] = ()
    """Keys of the taints that keep new pods away. A cordoned node has one, too."""


@dataclass(frozen=True, kw_only=True)
class ClusterAnswers:
    server: str
    version: tuple[int, int]
    """The version of Kubernetes."""
    administrator: Answer[bool]
    """True if the caller may do everything."""
    nodes: Answer[tuple[Node, ...]]
    daemonsets: Answer[tuple[DaemonSet, ...]]
    operators: Answer[tuple[GpuOperator, ...]]
    owners: Answer[DeviceOwners] = field(default_factory=DeviceOwners)
    namespaces: Answer[frozenset[str]]
    """The existing ones of `wanted_namespaces`."""
    definitions: Answer[frozenset[str]]
    """The existing ones of `wanted_definitions`."""
    apis: Answer[Mapping[str, str]]
    """The existing ones of `wanted_apis` -> the namespace of the server."""


def findings(
    fleet: ExistingFleetPlan, answers: ClusterAnswers, owned: Mapping[str, Owned]
) -> Iterator[Finding]:
    """owned: existing namespace -> whether the stack's state has it."""
    yield from _version(fleet, answers.version)
    yield _administrator(answers)
    yield from _nodes(fleet, answers.nodes)
    yield from _place(fleet, answers.nodes)
    planned = PlannedOperator(
        namespace=fleet.operator.namespace,
        adopted=fleet.operator.existing,
        owned=owned.get(fleet.operator.namespace),
    )
    yield from operator_findings(planned, answers.operators, answers.owners)
    pools = [gpu_pool(pool, pool.settings.select) for pool in fleet.pools]
    created = {name for name, answer in owned.items() if answer == "yes"}
    yield from owner_findings(answers.daemonsets, answers.owners, pools, own_namespaces=created)
    yield from _feature_discovery(fleet, answers.daemonsets)
    yield from _namespaces(fleet, answers, owned)
    yield from _definitions(fleet, answers.definitions)
    yield from _apis(fleet, answers.apis)


@checks("cluster-version")
def _version(fleet: ExistingFleetPlan, version: tuple[int, int]) -> Iterator[Finding]:
    subject, current = "Kubernetes", ".".join(map(str, version))
    if version < manifests.OLDEST_KUBERNETES:
        needed = ".".join(map(str, manifests.OLDEST_KUBERNETES))
        yield fails(
            subject,
            f"{current}, but the admission policies that guard the nodes need {needed}",
            "upgrade the cluster",
        )
    elif fleet.startup_taint == "admission-policy" and version < _STARTUP_POLICIES:
        yield fails(
            subject,
            f"{current}, but startup_taint: admission-policy needs "
            f"{'.'.join(map(str, _STARTUP_POLICIES))}",
            "write startup_taint: registered if the nodes register with the taint, or "
            "startup_taint: none",
        )
    else:
        yield ok(subject, current)


@check("cluster-administrator")
def _administrator(answers: ClusterAnswers) -> Finding:
    subject = f"rights in {answers.server}"
    if isinstance(answers.administrator, NotAnswered):
        return not_asked(subject, answers.administrator)
    if answers.administrator:
        return ok(subject, "all")
    return fails(
        subject,
        "the context's user is not an administrator of the cluster, but the stack creates "
        "CustomResourceDefinitions, ClusterRoles and admission policies",
        "kubectl create clusterrolebinding slicewright-admin --clusterrole cluster-admin "
        "--user USER, or name another context in cluster.context",
    )


@checks("cluster-nodes")
def _nodes(fleet: ExistingFleetPlan, answer: Answer[tuple[Node, ...]]) -> Iterator[Finding]:
    if isinstance(answer, NotAnswered):
        yield not_asked("nodes", answer)
        return
    pools_of: dict[str, list[str]] = {}
    for pool in fleet.pools:
        selected = [n for n in answer if pool.settings.select.items() <= n.labels.items()]
        for node in selected:
            pools_of.setdefault(node.name, []).append(pool.name)
        yield _of_pool(pool, selected)
    for name, pools in sorted(pools_of.items()):
        if len(pools) > 1:
            yield fails(
                f"node {name}",
                f"pools {' and '.join(pools)} select it, but it can only be in one",
                "write a `select` for each pool that matches only its own nodes",
            )


def _of_pool(pool: ExistingPoolPlan, selected: list[Node]) -> Finding:
    labels = ",".join(f"{k}={v}" for k, v in pool.settings.select.items())
    subject = f"nodes of pool {pool.name} ({labels})"
    ready = [node for node in selected if node.ready]
    if len(ready) < pool.nodes.min:
        silent = [node.name for node in selected if not node.ready]
        not_ready = f", {', '.join(silent)} not Ready" if silent else ""
        return fails(
            subject,
            f"{len(ready)} Ready{not_ready}; the pool needs at least {pool.nodes.min}, and `up` "
            "waits for them",
            f"kubectl label node NODE {' '.join(labels.split(','))}, or write a smaller nodes.min",
        )
    if len(selected) > pool.nodes.max:
        return fails(
            subject,
            f"{len(selected)}, but the pool may have at most {pool.nodes.max}",
            "write a larger nodes.max, or a narrower `select`",
        )
    return ok(subject, f"{len(ready)} Ready")


@checks("cluster-system-node")
def _place(fleet: ExistingFleetPlan, answer: Answer[tuple[Node, ...]]) -> Iterator[Finding]:
    """Checks that pods without GPUs find a node.

    Otherwise `up` would wait silently for their Deployment, for ten minutes.
    """
    if isinstance(answer, NotAnswered):
        return  # reported for the pools' nodes
    subject = "a node for pods without GPUs"
    waiting = ["the fleet controller"]
    tolerated = {_CONTROL_PLANE}
    ready = [node for node in answer if node.ready]
    if not ready or any(not node.taints for node in ready):
        yield ok(subject, "there is one" if ready else "see the findings on the pools' nodes")
        return
    if not fleet.operator.existing and not any(set(node.taints) <= tolerated for node in ready):
        waiting.append("NVIDIA's operator")
    named = "; ".join(f"{node.name}: {', '.join(node.taints)}" for node in ready[:3])
    yield fails(
        subject,
        f"every Ready node has taints ({named}), so {' and '.join(waiting)} would stay Pending",
        "add a node without taints, or remove the taints of one",
    )


@checks("feature-discovery")
def _feature_discovery(
    fleet: ExistingFleetPlan, answer: Answer[tuple[DaemonSet, ...]]
) -> Iterator[Finding]:
    """Source: NVIDIA GPU operator docs, "Prerequisites": it must not be deployed twice."""
    if isinstance(answer, NotAnswered) or fleet.operator.existing:
        return  # reported for the device plugins
    operator_namespace = fleet.operator.namespace
    installed = [
        daemonset
        for daemonset in answer
        if daemonset.namespace != operator_namespace
        and any(_FEATURE_DISCOVERY in image for image in daemonset.images)
    ]
    subject = "Node Feature Discovery"
    if installed and fleet.operator.nfd.enabled:
        yield fails(
            subject,
            f"runs in namespace {installed[0].namespace}, and the operator would install another "
            "one",
            "write gpu_operator: {nfd: {enabled: false}}; its workers must tolerate the pools' "
            "taints",
        )
    elif not installed and not fleet.operator.nfd.enabled:
        yield fails(
            subject,
            "does not run, but the operator finds GPU nodes only by its labels",
            "remove gpu_operator.nfd.enabled, so that the operator installs it",
        )
    else:
        yield ok(subject, "installed" if installed else "not installed: the operator installs it")


@checks("cluster-namespace")
def _namespaces(
    fleet: ExistingFleetPlan, answers: ClusterAnswers, owned: Mapping[str, Owned]
) -> Iterator[Finding]:
    answer = answers.namespaces
    operator_exists = has_operator(answers.operators, answers.owners)
    if isinstance(answer, NotAnswered):
        yield not_asked("namespaces", answer)
        return
    for name, instead in wanted_namespaces(fleet).items():
        subject = f"namespace {name}"
        if name not in answer:
            yield ok(subject, "the name is free")
        elif owned.get(name) == "yes":
            yield ok(subject, "exists, created by this stack")
        elif name == fleet.operator.namespace and operator_exists:
            # Another namespace would bring a second operator into the cluster.
            yield fails(
                subject,
                "already exists, and the cluster has a GPU operator",
                "see the finding on the GPU operator: another namespace would bring a second one"
                + _unknown(owned.get(name)),
            )
        else:
            yield fails(
                subject,
                "already exists, but `up` creates this namespace and would fail",
                instead + _unknown(owned.get(name)),
            )


def _unknown(owned: Owned | None) -> str:
    return (
        "; if this stack created it, continue: the stack's state cannot be read"
        if owned == "unknown"
        else ""
    )


@checks("cluster-definition")
def _definitions(fleet: ExistingFleetPlan, answer: Answer[frozenset[str]]) -> Iterator[Finding]:
    for name, key in wanted_definitions(fleet).items():
        subject = f"CustomResourceDefinition {name}"
        if isinstance(answer, NotAnswered):
            yield not_asked(subject, answer)
        elif name in answer:
            yield ok(subject, "exists")
        else:
            yield fails(
                subject,
                f"does not exist, but the stack file says {key}",
                "first install the software that defines it"
                + ("" if name == CERTIFICATES else ", or let the stack install it"),
            )


@checks("cluster-metrics-api")
def _apis(fleet: ExistingFleetPlan, answer: Answer[Mapping[str, str]]) -> Iterator[Finding]:
    for name, ours in wanted_apis(fleet).items():
        subject = f"APIService {name}"
        if isinstance(answer, NotAnswered):
            yield not_asked(subject, answer)
            continue
        has = answer.get(name)
        if ours is None and has is None:
            yield fails(
                subject,
                "does not exist, but the stack file says pod_autoscaling.existing: true",
                "remove existing, so that the stack installs an adapter",
            )
        elif ours is None or has in (None, ours):
            yield ok(subject, "the name is free" if has is None else f"is served from {has}")
        else:
            yield fails(
                subject,
                f"is already served from namespace {has}, and only one server is possible",
                "write pod_autoscaling.existing: true to use it, or uninstall it",
            )
