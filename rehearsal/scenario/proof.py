"""What was proven, as facts that each hold or do not."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicewright.apis import desired_state as desired
from slicewright.apis.desired_state import Desired
from slicewright.apis.names import NODE_CONDITION, POOL_LABEL, STARTUP_TAINT_KEY
from slicewright.kubeapi import Client
from slicewright.rehearsal.host import processes
from slicewright.rehearsal.scenario.engine_runs import Outcome
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.existing_cluster import Differences
from slicewright.rehearsal.scenario.walkthrough import Health, Landing, Walkthrough

_WHOLE = "whole GPU"
_MOST_NAMES = 3
_AGAIN_S = 0.5
_RUNNING = "Running and Ready, no restart"
_KNOWN = ("enabled", "disabled", "unsupported")
"""What a report says of a GPU's MIG mode where the driver gave it."""


@dataclass(frozen=True)
class Check:
    """One thing that had to hold."""

    stack: str
    fact: str
    wanted: str
    found: str
    holds: bool


@dataclass(frozen=True)
class ProvenNode:
    """One GPU node as the API server has it after `up`."""

    name: str
    pool: str
    tainted: bool
    """Whether it still has the startup taint."""
    condition: str
    """`status (reason)` of the node's partition condition, or `none`."""
    allocatable: Mapping[str, int]
    """NVIDIA's extended resources."""
    gpus: tuple[Mapping[str, Any], ...]
    """The agent's report (GPUNodeReport) GPU by GPU: `index` and its entry."""
    desired: Desired | None
    """What the plan says about each node of the pool; None where no ConfigMap has it."""

    @property
    def released(self) -> bool:
        """Whether it is verified, and new pods may come to it."""
        return not self.tainted and self.condition.startswith("True")

    def wanted(self) -> Counter[str]:
        """MIG profile, or `whole GPU` -> number on the node, by the plan."""
        if self.desired is None:
            return Counter()
        gpus = [self.desired.gpu(index) for index in range(self.desired.gpu_count)]
        return _devices((gpu.mig, gpu.instances) for gpu in gpus)

    def found(self) -> Counter[str]:
        """The same, as the agent read it through NVML."""
        return _devices(
            (gpu["mig"] == "enabled", gpu.get("instances") or {})
            for gpu in self.gpus
            if gpu.get("mig") in _KNOWN
        )

    def advertised(self) -> Counter[str]:
        """Extended resource -> allocatable quantity, without those of which there is none."""
        return +Counter(self.allocatable)


def read_fleet(client: Client) -> tuple[ProvenNode, ...]:
    """Every node of every slicewright pool, by pool and name."""
    reports = {
        r["metadata"]["name"]: r["report"]
        for r in client.get("/apis/slicewright.io/v1alpha1/gpunodereports")["items"]
    }
    planned = _desired_by_pool(client)
    fleet = []
    for node in client.get("/api/v1/nodes", labelSelector=POOL_LABEL)["items"]:
        name, pool = node["metadata"]["name"], node["metadata"]["labels"][POOL_LABEL]
        condition = next(
            (c for c in node["status"].get("conditions", []) if c["type"] == NODE_CONDITION), None
        )
        fleet.append(
            ProvenNode(
                name=name,
                pool=pool,
                tainted=any(t["key"] == STARTUP_TAINT_KEY for t in node["spec"].get("taints", [])),
                condition=f"{condition['status']} ({condition['reason']})" if condition else "none",
                allocatable={
                    k: int(v)
                    for k, v in node["status"]["allocatable"].items()
                    if k.startswith("nvidia.com/")
                },
                gpus=_gpu_by_gpu(reports.get(name, {})),
                desired=planned.get(pool),
            )
        )
    return tuple(sorted(fleet, key=lambda n: (n.pool, n.name)))


def read_released_fleet(client: Client, *, timeout_s: float = 60.0) -> tuple[ProvenNode, ...]:
    """The same as soon as each node is verified and has lost its startup taint; after `timeout_s`
    as it is.

    `up` may return a moment before that: where Kubernetes' own node controller has changed the
    node's taints since the fleet controller's decision, that one lifts its taint with the next.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        fleet = read_fleet(client)
        if all(node.released for node in fleet) or time.monotonic() > deadline:
            return fleet
        time.sleep(_AGAIN_S)


def of_run(stack: str, outcome: Outcome) -> Check:
    """One `pulumi` command."""
    command = " ".join(outcome.command.split()[:2])
    return Check(
        stack,
        command,
        "exit code 0",
        f"exit code {outcome.code}, {outcome.seconds:.0f} s",
        outcome.code == 0,
    )


def of_refusal(stack: str, refused: Outcome, command: str) -> Check:
    """The `up` that finds a GPU operator which would not serve the pools."""
    return Check(
        stack,
        "pulumi up before the adopted operator is changed",
        "refused, with the command",
        f"exit code {refused.code}, with {' '.join(command.split()[:2])}",
        refused.code != 0,
    )


def of_no_changes(stack: str, outcome: Outcome) -> Check:
    """`pulumi preview --expect-no-changes` after `up`."""
    return Check(
        stack,
        "preview of the same stack file",
        "no changes",
        "no changes" if outcome.code == 0 else "changes",
        outcome.code == 0,
    )


def of_fleet(stack: str, fleet: Sequence[ProvenNode], *, nodes: int | None = None) -> list[Check]:
    """The startup taint, the GPUs as NVML has them, and the resources that the kubelet advertises.

    nodes: how many the plan asks for at least; None for no more than "one or more".
    """
    released = [n for n in fleet if n.released]
    resources = sum((Counter(n.desired.resources) for n in fleet if n.desired), Counter[str]())
    planned = all(n.desired is not None for n in fleet)
    return [
        Check(
            stack,
            "GPU nodes verified, startup taint removed",
            str(len(fleet) if nodes is None else nodes),
            str(len(released)),
            len(released) == len(fleet) >= (1 if nodes is None else nodes),
        ),
        Check(
            stack,
            "GPUs as NVML reports them (simulated)",
            _listed(sum((n.wanted() for n in fleet), Counter())),
            _listed(sum((n.found() for n in fleet), Counter())),
            planned and all(n.wanted() == n.found() for n in fleet),
        ),
        Check(
            stack,
            "allocatable GPU resources",
            _listed(resources),
            _listed(sum((n.advertised() for n in fleet), Counter())),
            planned
            and all(n.desired and +Counter(n.desired.resources) == n.advertised() for n in fleet),
        ),
    ]


def of_landing(example: Walkthrough, landing: Landing, health: Health) -> Check:
    """The walkthrough's own number of replicas, each of which does its work.

    Of pods whose program is not run no more is known than that they are bound.
    """
    fact = f"pods of {example.deployment} ({example.program})"
    bound = f"{landing.bound} of {landing.asked} bound"
    if not example.is_run:
        wanted = f"{example.fits} of {example.asked} bound"
        return Check(example.stack, fact, wanted, bound, landing.bound == example.fits)
    running = f"{health.running} of {landing.asked} {_RUNNING}"
    found = bound if landing.bound != example.fits else running
    holds = landing.bound == health.running == example.fits
    return Check(
        example.stack,
        fact,
        f"{example.fits} of {example.asked} {_RUNNING}",
        f"{found}: {health.trouble}" if health.trouble else found,
        holds and not health.trouble,
    )


def of_other_pods(stack: str, failing: Sequence[str]) -> Check:
    """The pods that `up` has brought, and the cluster's own: none of them fails."""
    found = f"{len(failing)} failing ({_few(failing)})" if failing else "none failing"
    return Check(stack, "pods of cluster and stack", "none failing", found, not failing)


def of_overflow(example: Walkthrough, landing: Landing) -> Check:
    """The replicas for which there is no partition."""
    over = landing.asked - example.fits
    return Check(
        example.stack,
        f"pods beyond {example.fits}",
        f"{over} Pending",
        f"{landing.pending} Pending: {_insufficient(landing.why_pending)}",
        landing.pending == over and landing.bound == example.fits,
    )


def of_empty_cloud(stack: str, inventory: Mapping[str, Sequence[str]]) -> Check:
    """The simulated cloud after `pulumi destroy`."""
    left = "; ".join(f"{len(names)} {kind} ({_few(names)})" for kind, names in inventory.items())
    return Check(stack, "simulated cloud after destroy", "empty", left or "empty", not inventory)


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown}, …"


def of_existing_cluster(stack: str, left: Differences) -> Check:
    """An existing cluster after `pulumi destroy`, compared object by object. "As it was" is said
    only of one without any difference.
    """
    if left.others:
        found = f"{len(left.others)} of the stack, such as {left.others[0]}"
    elif left.of_operator:
        found = f"{len(left.of_operator)}, all of them the operators'"
    else:
        found = "none: it is as it was"
    return Check(
        stack,
        "differences in the existing cluster after destroy",
        "none but labels, CRDs and pods that its operators leave",
        found,
        not left.others,
    )


def of_no_process(stack: str, environment: Environment) -> Check:
    """The environment's processes after it was stopped; ends those that are left."""
    left = processes.end_leftovers(environment.root)
    return Check(stack, "processes after destroy", "none", ", ".join(left) or "none", not left)


def _gpu_by_gpu(report: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """A report's entries, each of which may stand for several GPUs, taken apart."""
    only = {"model": report["models"][0]} if len(report.get("models", ())) == 1 else {}
    gpus = [
        {**only, **entry, "index": index}
        for entry in report.get("gpus", ())
        for index in entry["indexes"]
    ]
    return tuple(sorted(gpus, key=lambda gpu: gpu["index"]))


def _desired_by_pool(client: Client) -> dict[str, Desired]:
    """From the ConfigMaps that the agents mount: the plan, as `up` wrote it."""
    found = {}
    for config in client.get("/api/v1/namespaces/slicewright-system/configmaps")["items"]:
        if text := (config.get("data") or {}).get("desired.json"):
            pool = desired.parse(text, source=f"ConfigMap {config['metadata']['name']}")
            found[pool.pool] = pool
    return found


def _devices(gpus: Iterable[tuple[bool, Mapping[str, int]]]) -> Counter[str]:
    """gpus: whether a GPU is in MIG mode, and its instances."""
    counted: Counter[str] = Counter()
    for mig, instances in gpus:
        counted.update(instances if mig else {_WHOLE: 1})
    return counted


def _insufficient(message: str) -> str:
    """The part of a scheduler message that names the resource: `1 Insufficient nvidia.com/gpu`."""
    parts = [p.strip(" .") for p in message.replace(":", ",").replace(". ", ",").split(",")]
    return next((p for p in parts if "Insufficient nvidia" in p), message[:60])


def _listed(counts: Mapping[str, int]) -> str:
    return (
        ", ".join(f"{count} × {name}" for name, count in sorted(counts.items()) if count) or "none"
    )
