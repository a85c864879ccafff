"""The page docs/reference/reasons.md, out of the tables: `python -m node_agent.verdict.reasons_page
> docs/reference/reasons.md`.
"""

from __future__ import annotations

from collections.abc import Iterator

from node_agent.nvml.errors import MEANINGS
from node_agent.verdict.reasons import REASONS, Reason
from node_agent.xids.meanings import MEANINGS as XIDS
from node_agent.xids.meanings import RECOVERY_CHANGED

_REASON_OF = {"none": "", "reset": "`GpuResetRequired`", "lost": "`GpuLost`"}
_WHO = {"gke": "GKE", "mig-manager": "mig-manager", "none": "nobody else"}


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from (
        "# Reasons",
        "",
        "Generated from `node_agent/verdict/reasons.py` and `node_agent/nvml/errors.py`; a "
        "test keeps it current.",
        "",
        "Every verdict has one reason; the codes are stable. It stands in the node's "
        "`GPUNodeReport`, in its condition",
        "`slicewright.io/GPUPartitionsReady`, in the metric `slicewright_mismatch{reason}` "
        "and in the output of",
        "`slicewright-agent verify`. Of several findings the one that comes first here "
        "gives the verdict its reason, after the",
        "rule that what is surely wrong comes before what is unknown, and what stays "
        "before what passes.",
        "",
        "*Passes*: a node that is still being set up looks like this for a while.",
        "",
        "| reason | verdict | passes | meaning | likely cause | next step |",
        "|---|---|---|---|---|---|",
    )
    for reason in REASONS.values():
        cells = (
            f"`{reason.code}`",
            reason.verdict,
            "yes" if reason.settles else "",
            reason.meaning,
            _by_partitioner(reason, "causes") or reason.cause,
            _by_partitioner(reason, "advices") or reason.advice,
        )
        yield f"| {' | '.join(cells)} |"
    yield from (
        "",
        "Where cause or next step depend on who cuts the GPUs, the sentence is chosen by "
        "the pool: GKE, NVIDIA's mig-manager, or",
        "nobody else (a host that is cut by `slicewright-agent apply`).",
        "",
        "## NVML errors",
        "",
        "What each error of the driver means for a verdict. A call that a verdict can do "
        "without leaves its fact out, whatever",
        "its error; the others give the verdict the reason in the last column.",
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
        "Errors that the driver writes into the kernel's log, where the agent may read it. "
        "Meaning and action are NVIDIA's, from",
        "its [Xid "
        "catalog](https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html); "
        "the reason is what a GPU gets",
        "while such an Xid [stands](agent.md#xids). Every other Xid is counted and shown.",
        "",
        "| Xid | meaning | NVIDIA's action | reason |",
        "|---|---|---|---|",
    )
    for number, xid in XIDS.items():
        told = (
            "where it asks for a reset or a reboot, `GpuResetRequired`"
            if number == RECOVERY_CHANGED
            else ""
        )
        yield f"| {number} | {xid.text} | {xid.action} | {_REASON_OF[xid.consequence] or told} |"


def _by_partitioner(reason: Reason, which: str) -> str:
    told = getattr(reason, which)
    return "<br>".join(f"{_WHO[who]}: {text}" for who, text in told.items())


if __name__ == "__main__":
    print(page(), end="")
