"""Generates the page docs/reference/controller-reasons.md on stdout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slicewright.apis.reasons.controller import (
    OF_A_DEPARTING_NODE,
    OF_A_NODE,
    OF_A_POOL,
    OF_SHARES,
    Reason,
)
from slicewright.apis.reasons.troubles import MOST_TRIES, PAUSES_S, TROUBLES

_INTRODUCTION = """\
# Reasons of the fleet controller

Generated from `apis/reasons/controller.py` and `apis/reasons/troubles.py`; a test keeps it current.

Reasons of the agent are in [reasons.md](reasons.md), reasons of a layout change in
[rollout.md](rollout.md#reasons).

## The condition `slicewright.io/GPUPartitionsReady` of a node
"""
_DEPARTING_HEAD = """
## Warning Events about a node that leaves its pool
"""
_SHARES_HEAD = """
## Warning Events about shares of GPUs

On nodes whose GPUs HAMi or Volcano shares by fractions.
"""
_POOL_HEAD = """
## Conditions of a GPUPool

Ready, Reconciling and Stalled are for programs that use kstatus, as Flux does. A pool is current if
it is Verified, failed if it is not and needs a repair or a decision, and in progress otherwise.
These conditions have the reasons of the other conditions.
"""
_PAUSES_MINUTES = ", ".join(f"{pause / 60:.0f}" for pause in PAUSES_S)
_STUCK_HEAD = f"""
## Restarts on a stuck node

mig-manager acts only on a changed label and when it starts, and some of its errors leave no state
behind. So the controller restarts an operand on a node that stays stuck, by evicting its pod
(PodDisruptionBudgets are respected), until the node is verified or is to get another layout. There
are at most {MOST_TRIES} restarts, followed by pauses of at least {_PAUSES_MINUTES} minutes. Unless
the table says so, no pod may use the node's GPUs, and the node gets the startup taint first. The
node's annotation `slicewright.io/stuck` records the restarts; remove it to start again. A pause of
the pool's rollout does not stop the restarts.

| stuck in | for | restarted | while pods use the GPUs |
|---|---|---|---|"""
_STUCK_NOTES = """
The time counts from the note, which is written when the node has not been verified for two minutes.
`MigManagerFailed` here is every `failed`, `StaleSuccess` a `success` while the GPUs have other
partitions, `PluginStale` a `success` while the kubelet advertises other resources; the node then
has the agent's reason. From the second try on, `OperandsPaused` also sets the labels
`nvidia.com/gpu.deploy.…` to `true`. While pods use the GPUs, mig-manager is restarted only after a
report, newer than the note, that the partitions match: its start then changes nothing.
`DriverSilent` is a node in service whose driver does not answer its agent: new pods are kept away
from it, and running pods stay; see [the startup taint](startup-taint.md)."""


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from (_INTRODUCTION, *_table(OF_A_NODE))
    yield from (_DEPARTING_HEAD, *_table(OF_A_DEPARTING_NODE))
    yield from (_SHARES_HEAD, *_table(OF_SHARES))
    yield from (_POOL_HEAD, *_table(OF_A_POOL))
    yield _STUCK_HEAD
    for name, trouble in TROUBLES.items():
        cells = (
            f"`{name}`",
            f"{trouble.after_s / 60:.0f} min",
            trouble.restart or "nothing: see above",
            "yes" if trouble.under_pods else "no",
        )
        yield f"| {' | '.join(cells)} |"
    yield _STUCK_NOTES


def _table(reasons: Iterable[Reason]) -> Iterator[str]:
    yield from ("| reason | status | meaning | what to do |", "|---|---|---|---|")
    for reason in reasons:
        yield f"| `{reason.code}` | {reason.status} | {reason.meaning} | {reason.remedy} |"


if __name__ == "__main__":
    print(page(), end="")
