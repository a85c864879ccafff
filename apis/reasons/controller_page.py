"""Generates the page docs/reference/controller-reasons.md on stdout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from apis.reasons.controller import OF_A_DEPARTING_NODE, OF_A_NODE, OF_A_POOL, Reason
from apis.reasons.troubles import MOST_TRIES, PAUSES_S, TROUBLES


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from (
        "# Reasons of the fleet controller",
        "",
        "Generated from `apis/reasons/controller.py` and `apis/reasons/troubles.py`; a test keeps "
        "it current.",
        "",
        "Those of the agent are in [reasons.md](reasons.md), those of a change of the layout in "
        "[rollout.md](rollout.md#reasons).",
        "",
        "## Of a node's condition `slicewright.io/GPUPartitionsReady`",
        "",
        *_table(OF_A_NODE),
        "",
        "## Of Warning Events about a node that leaves its pool",
        "",
        *_table(OF_A_DEPARTING_NODE),
        "",
        "## Of a GPUPool's conditions",
        "",
        "Ready, Reconciling and Stalled are for programs that ask kstatus, as Flux does: a pool is "
        "current when it is Verified,",
        "failed when it is not and needs a repair or a decision, and in progress otherwise. They "
        "have the reasons of the others.",
        "",
        *_table(OF_A_POOL),
        "",
        "## What is tried on a node that is stuck",
        "",
        "mig-manager acts only on another label and at its own start, and some of its errors leave "
        "no state behind. So the",
        "controller restarts an operand on a node that stays as it is, by evicting its pod "
        "(PodDisruptionBudgets are respected):",
        f"at most {MOST_TRIES} times, with at least "
        f"{', '.join(f'{pause / 60:.0f}' for pause in PAUSES_S)} minutes after each, until the "
        "node is verified or another layout is wanted.",
        "Except where the table says so, no pod may use the node's GPUs, and the node has the "
        "startup taint before. What was",
        "tried is noted on the node, in the annotation `slicewright.io/stuck`; remove it to have "
        "it tried again. A pause of",
        "the pool's rollout does not stop it.",
        "",
        "| stuck in | for | restarted | under pods |",
        "|---|---|---|---|",
    )
    for what, trouble in TROUBLES.items():
        yield (
            f"| `{what}` | {trouble.after_s / 60:.0f} min | "
            f"{trouble.restart or 'nothing: see above'} | {'yes' if trouble.under_pods else 'no'} |"
        )
    yield from (
        "",
        "The time counts from the note, which is written when the node has not been verified for "
        "two minutes. `MigManagerFailed`",
        "here is every `failed`, `StaleSuccess` a `success` while the GPUs have other partitions, "
        "`PluginStale` a `success` while",
        "the kubelet advertises other resources; the node's reason is then the agent's. From the "
        "second try on,",
        "`OperandsPaused` also sets the labels `nvidia.com/gpu.deploy.…` to `true`; under pods "
        "mig-manager is restarted only",
        "after a report, newer than the note, that the partitions match: then its start changes "
        "nothing. `DriverSilent` is a node in service whose driver does not answer its agent: new "
        "pods are kept away",
        "from it, and running ones are left alone; see [the startup taint](startup-taint.md).",
    )


def _table(reasons: Iterable[Reason]) -> Iterator[str]:
    yield from ("| reason | status | meaning | what to do |", "|---|---|---|---|")
    for one in reasons:
        yield f"| `{one.code}` | {one.status} | {one.meaning} | {one.remedy} |"


if __name__ == "__main__":
    print(page(), end="")
