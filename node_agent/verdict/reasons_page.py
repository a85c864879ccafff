"""Generates the page docs/reference/reasons.md on stdout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from apis.reasons.agent import REASONS, Setting
from node_agent.nvml.errors import MEANINGS
from node_agent.xids.meanings import MEANINGS as XIDS
from node_agent.xids.meanings import RECOVERY_CHANGED

_REASON_OF = {"none": "", "reset": "`GpuResetRequired`", "lost": "`GpuLost`"}
_WHO = {
    "gke": "GKE",
    "bottlerocket": "Bottlerocket",
    "mig-manager": "mig-manager",
    "none": "none",
    "host": "bare host",
}


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from (
        "# Reasons",
        "",
        "Generated from `apis/reasons/agent.py`, `node_agent/nvml/errors.py` and",
        "`node_agent/xids/meanings.py`; a test keeps it current.",
        "",
        "Every verdict has one reason; the codes are stable. It is in the node's "
        "`GPUNodeReport`, in its condition",
        "`slicewright.io/GPUPartitionsReady`, in the metric `slicewright_mismatch{reason}` "
        "and in the output of",
        "`slicewright-agent verify`. Of several findings the first in this table gives the "
        "verdict its reason: a mismatch precedes",
        "what is unknown, and what stays precedes what may settle. Those of a change of the "
        "layout are in",
        "[rollout.md](rollout.md#reasons), the fleet controller's own in "
        "[controller-reasons.md](controller-reasons.md).",
        "",
        "*Settles*: a node that is still being set up can look like this for a while.",
        "",
        "| reason | verdict | settles | meaning | likely cause | next step |",
        "|---|---|---|---|---|---|",
    )
    for reason in REASONS.values():
        cells = (
            f"`{reason.code}`",
            reason.verdict,
            "yes" if reason.settles else "",
            reason.meaning,
            _by_setting(reason.cause, reason.causes),
            _by_setting(reason.advice, reason.advices),
        )
        yield f"| {' | '.join(cells)} |"
    yield from (
        "",
        "Where cause or next step differ, the message takes the one for who partitions the pool's "
        "GPUs (GKE, NVIDIA's mig-manager,",
        "or none), or for a bare host (`verify LAYOUT`, `verify --silicon-only`, `watch LAYOUT`).",
        "",
        "## NVML errors",
        "",
        "What each NVML error means for a verdict. A call that a verdict can do without "
        "leaves out its fact, whatever the error;",
        "the others give the verdict the reason in the last column.",
        "",
        "| code | NVML_ERROR_ | meaning | reason |",
        "|---|---|---|---|",
    )
    for code, meaning in MEANINGS.items():
        yield f"| {code} | {meaning.name} | {meaning.text} | `{meaning.reason}` |"
    yield from (
        "",
        "## Xids",
        "",
        "Errors that the driver writes to the kernel log, where the agent may read it. "
        "Meaning and action are NVIDIA's, from",
        "its [Xid "
        "catalog](https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html); "
        "the reason is that of a GPU while",
        "such an Xid is [outstanding](agent.md#xids). Every other Xid is counted and shown.",
        "",
        "| Xid | meaning | NVIDIA's action | reason |",
        "|---|---|---|---|",
    )
    for number, xid in XIDS.items():
        reason_cell = (
            "`GpuResetRequired` where it asks for a reset or a reboot"
            if number == RECOVERY_CHANGED
            else _REASON_OF[xid.consequence]
        )
        yield f"| {number} | {xid.text} | {xid.action} | {reason_cell} |"


def _by_setting(general: str, special: Mapping[Setting, str]) -> str:
    lines = [general] if general else []
    return "<br>".join([*lines, *(f"{_WHO[setting]}: {text}" for setting, text in special.items())])


if __name__ == "__main__":
    print(page(), end="")
