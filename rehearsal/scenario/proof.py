"""What was proven, as facts that each hold or do not, and as a picture of the GPUs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fleet_controller.api import NODE_CONDITION, POOL_LABEL, STARTUP_TAINT_KEY
from kubeapi import Client
from rehearsal.host import processes
from rehearsal.scenario.engine_runs import Outcome
from rehearsal.scenario.environment import Environment
from rehearsal.scenario.walkthrough import Landing, Walkthrough

_COLOURS = ("green", "cyan", "magenta", "yellow", "blue", "red", "bright_green")


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
    condition: str
    """`status (reason)` of the node's partition condition, or `none`."""
    allocatable: Mapping[str, int]
    gpus: tuple[Mapping[str, Any], ...]
    """What the node's agent reported (GPUNodeReport), GPU by GPU: `index` and what its entry
    says.
    """
    wanted: Mapping[str, int]
    """Profile -> instances that the pool's desired state asks for, over all GPUs of the node."""


def read_fleet(client: Client) -> tuple[ProvenNode, ...]:
    """Every node of every slicewright pool, by name."""
    reports = {
        r["metadata"]["name"]: r["report"]
        for r in client.get("/apis/slicewright.io/v1alpha1/gpunodereports")["items"]
    }
    wanted = _wanted_by_pool(client)
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
                wanted=wanted.get(pool, {}),
            )
        )
    return tuple(sorted(fleet, key=lambda n: (n.pool, n.name)))


def _gpu_by_gpu(report: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """A report's entries, each of which may stand for several GPUs, taken apart."""
    only = {"model": report["models"][0]} if len(report.get("models", ())) == 1 else {}
    gpus = [
        {**only, **entry, "index": index}
        for entry in report.get("gpus", ())
        for index in entry["indexes"]
    ]
    return tuple(sorted(gpus, key=lambda gpu: gpu["index"]))


def of_run(stack: str, outcome: Outcome) -> Check:
    command = " ".join(outcome.command.split()[:2])
    return Check(
        stack,
        command,
        "exit code 0",
        f"exit code {outcome.code}, {outcome.seconds:.0f} s",
        outcome.code == 0,
    )


def of_no_changes(stack: str, outcome: Outcome) -> Check:
    return Check(
        stack,
        "the same stack file again",
        "no changes",
        "no changes" if outcome.code == 0 else "changes",
        outcome.code == 0,
    )


def of_fleet(stack: str, fleet: Sequence[ProvenNode]) -> list[Check]:
    """One check for the gate, one for the partitions seen through NVML, one for what the kubelet
    advertises.
    """
    released = [n for n in fleet if not n.tainted and n.condition.startswith("True")]
    wanted = sum((Counter(n.wanted) for n in fleet), Counter[str]())
    found = sum((_instances(n) for n in fleet), Counter[str]())
    return [
        Check(
            stack,
            "GPU nodes proven and released",
            str(len(fleet)),
            str(len(released)),
            len(released) == len(fleet) > 0,
        ),
        Check(
            stack,
            "partitions on the (simulated) silicon",
            _listed(wanted),
            _listed(found),
            wanted == found and bool(found),
        ),
        Check(
            stack,
            "allocatable GPU resources",
            str(sum(wanted.values())),
            _listed(sum((Counter(n.allocatable) for n in fleet), Counter[str]())),
            sum(sum(n.allocatable.values()) for n in fleet) == sum(wanted.values()),
        ),
    ]


def of_landing(example: Walkthrough, landing: Landing) -> Check:
    wanted = f"{example.fits} of {example.asked} bound"
    return Check(
        example.stack,
        f"pods of {example.deployment}",
        wanted,
        f"{landing.bound} of {landing.asked} bound",
        landing.bound == example.fits,
    )


def of_overflow(example: Walkthrough, landing: Landing) -> Check:
    over = landing.asked - example.fits
    return Check(
        example.stack,
        f"pods beyond {example.fits}",
        f"{over} Pending",
        f"{landing.pending} Pending: {_insufficient(landing.why_pending)}",
        landing.pending == over and landing.bound == example.fits,
    )


def of_empty_cloud(stack: str, inventory: Mapping[str, Any]) -> Check:
    left = ", ".join(
        f"{len(v) if isinstance(v, list | dict) else v} {k}" for k, v in inventory.items()
    )
    return Check(stack, "simulated cloud after destroy", "empty", left or "empty", not inventory)


def of_no_process(stack: str, environment: Environment) -> Check:
    left = processes.end_leftovers(environment.root)
    return Check(stack, "processes after destroy", "none", ", ".join(left) or "none", not left)


def table(checks: Sequence[Check]) -> RenderableType:
    """The short table of what was proven."""
    drawn = Table(title="What was proven (clouds and GPUs simulated)", title_justify="left")
    for column in ("", "stack", "fact", "wanted", "found"):
        drawn.add_column(column, overflow="fold")
    for check in checks:
        mark = Text("✓", style="green") if check.holds else Text("✗", style="bold red")
        drawn.add_row(
            mark,
            check.stack,
            check.fact,
            check.wanted,
            Text(check.found, style="" if check.holds else "red"),
        )
    return drawn


def picture(fleet: Sequence[ProvenNode]) -> RenderableType:
    """Each GPU as a row of its instances, as wide as their memory. From the agents' reports."""
    drawn: list[RenderableType] = []
    for node in fleet:
        drawn.append(Text(f"{node.name} · pool {node.pool} · {node.condition}", style="bold"))
        for gpu in node.gpus:
            line = Text(f"  GPU {gpu['index']} {gpu.get('model', '')}  ".ljust(36))
            for n, (profile, count) in enumerate(
                sorted((gpu.get("instances") or {}).items(), reverse=True)
            ):
                for _ in range(count):
                    line.append(f"▐ {profile} ▌", style=f"{_COLOURS[n % len(_COLOURS)]} reverse")
                    line.append(" ")
            drawn.append(line)
    return Group(*drawn)


def _instances(node: ProvenNode) -> Counter[str]:
    return sum((Counter(gpu.get("instances") or {}) for gpu in node.gpus), Counter[str]())


def _wanted_by_pool(client: Client) -> dict[str, dict[str, int]]:
    """From the agents' own desired files: the mounted ConfigMaps of the agent DaemonSets."""
    wanted: dict[str, dict[str, int]] = {}
    for config in client.get("/api/v1/namespaces/slicewright-system/configmaps")["items"]:
        text = (config.get("data") or {}).get("desired.json")
        if text:
            desired = json.loads(text)
            counts: Counter[str] = Counter()
            for gpu in desired["gpus"]:
                times = desired["gpu_count"] if gpu["index"] == "all" else 1
                for profile, count in (gpu.get("instances") or {}).items():
                    counts[profile] += count * times
            wanted[desired["pool"]] = dict(counts)
    return wanted


def _insufficient(message: str) -> str:
    """The part of the scheduler's sentence that names the resource: `1 Insufficient
    nvidia.com/gpu`.
    """
    parts = [p.strip(" .") for p in message.replace(":", ",").replace(". ", ",").split(",")]
    return next((p for p in parts if "Insufficient nvidia" in p), message[:60])


def _listed(counts: Mapping[str, int]) -> str:
    return (
        ", ".join(f"{count} × {name}" for name, count in sorted(counts.items()) if count) or "none"
    )
