"""Generates the page docs/reference/reasons.md on stdout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slicewright.apis.reasons.agent import REASONS
from slicewright.apis.reasons.agent_reason import Setting
from slicewright.node_agent.compute.signs import SIGNS
from slicewright.node_agent.nvml.errors import MEANINGS
from slicewright.node_agent.xids.meanings import MEANINGS as XIDS
from slicewright.node_agent.xids.meanings import RECOVERY_CHANGED

_XID_REASONS = {"none": "", "reset": "`GpuResetRequired`", "lost": "`GpuLost`"}
_SETTINGS = {
    "gke": "GKE",
    "bottlerocket": "Bottlerocket",
    "boot": "user data at boot",
    "mig-manager": "mig-manager",
    "none": "none",
    "host": "bare host",
}
_REASONS_HEAD = """\
# Reasons

Generated from `apis/reasons/agent.py`, `node_agent/nvml/errors.py`, `node_agent/compute/signs.py`
and `node_agent/xids/meanings.py`; a test keeps it current.

Every verdict has one reason; the codes are stable. It is in the node's `GPUNodeReport`, in its
condition `slicewright.io/GPUPartitionsReady`, in the metric `slicewright_mismatch{reason}`, and in
the output of `slicewright-agent verify`. If there are several findings, the first of them in this
table gives the verdict its reason: a mismatch precedes an unknown state, and a lasting problem
precedes one that may settle. Reasons of a layout change are in [rollout.md](rollout.md#reasons),
reasons of the fleet controller in [controller-reasons.md](controller-reasons.md).

*Settles*: a node that is still being set up can look like this for a while.

| reason | verdict | settles | meaning | likely cause | next step |
|---|---|---|---|---|---|"""
_NVML_HEAD = """
If the cause or the next step depends on what partitions the pool's GPUs (GKE, Bottlerocket,
NVIDIA's mig-manager, or none), the message has only the text that applies. A bare host
(`verify LAYOUT`, `verify --silicon-only`, `watch LAYOUT`) has texts of its own.

## NVML errors

The effect of each NVML error on a verdict. If a verdict does not need a call, an error of that call
only leaves out its fact. An error of any other call gives the verdict the reason in the last
column.

| code | NVML_ERROR_ | meaning | reason |
|---|---|---|---|"""
_CUDA_HEAD = """
## CUDA errors

Failures of the [proof that partitions compute](agent.md#proving-that-partitions-compute), with
their usual causes on a GPU node; the names without a code are the proof's own. An error of the
partition or of the node is a failure; an error of the environment means that the proof could not be
tried.

| code | name | error of | usual cause | remedy |
|---|---|---|---|---|"""
_XIDS_HEAD = """
## Xids

Errors that the driver writes to the kernel log, if the agent may read it. Meaning and action are
NVIDIA's, from its
[Xid catalog](https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html). While
such an Xid is [outstanding](agent.md#xids), its GPU has the reason in the last column. Every other
Xid is counted and shown.

| Xid | meaning | NVIDIA's action | reason |
|---|---|---|---|"""


def page() -> str:
    return "\n".join((*_reasons(), *_nvml_errors(), *_cuda_errors(), *_xids())) + "\n"


def _reasons() -> Iterator[str]:
    yield _REASONS_HEAD
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


def _nvml_errors() -> Iterator[str]:
    yield _NVML_HEAD
    for code, meaning in MEANINGS.items():
        yield f"| {code} | {meaning.name} | {meaning.text} | `{meaning.reason}` |"


def _cuda_errors() -> Iterator[str]:
    yield _CUDA_HEAD
    for sign in SIGNS.values():
        code = "" if sign.code is None else str(sign.code)
        yield f"| {code} | `{sign.name}` | {sign.scope} | {sign.cause} | {sign.remedy} |"


def _xids() -> Iterator[str]:
    yield _XIDS_HEAD
    for number, xid in XIDS.items():
        reason_cell = (
            "`GpuResetRequired` if it asks for a reset or a reboot"
            if number == RECOVERY_CHANGED
            else _XID_REASONS[xid.consequence]
        )
        yield f"| {number} | {xid.text} | {xid.action} | {reason_cell} |"


def _by_setting(general: str, special: Mapping[Setting, str]) -> str:
    specials = (f"{_SETTINGS[setting]}: {text}" for setting, text in special.items())
    return "<br>".join([*([general] if general else []), *specials])


if __name__ == "__main__":
    print(page(), end="")
