"""NVIDIA's Xids: meaning, recommended action, and consequence for a verdict.

Meaning and action: NVIDIA's Xid catalog,
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html (column "Resolution Bucket
(Immediate Action)"), read 2026-11-21. The consequence is ours: only an Xid that leaves the GPU
unusable until a reset or a reboot has one. Application errors (13, 31, 43, 45, 68, 94) and Xids
that NVIDIA says to ignore (63, 92) have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Consequence = Literal["none", "reset", "lost"]


@dataclass(frozen=True, kw_only=True)
class XidMeaning:
    text: str
    action: str
    """NVIDIA's action, as named in the catalog."""
    consequence: Consequence = "none"


def _xid(text: str, action: str, consequence: Consequence = "none") -> XidMeaning:
    return XidMeaning(text=text, action=action, consequence=consequence)


RECOVERY_CHANGED = 154
"""Its text names the recovery action that the driver now requests, `None` after a reset."""

MEANINGS: Mapping[int, XidMeaning] = {
    8: _xid("GPU stopped processing", "RESTART_APP"),
    13: _xid("graphics engine exception", "RESTART_APP"),
    31: _xid("GPU memory page fault", "RESTART_APP"),
    32: _xid("invalid or corrupted push buffer stream", "RESTART_APP"),
    43: _xid("GPU stopped processing", "IGNORE"),
    44: _xid("graphics engine fault during context switch", "IGNORE"),
    45: _xid("preemptive cleanup after an earlier error", "WORKFLOW_XID_45"),
    46: _xid("GPU stopped processing", "RESET_GPU", "reset"),
    # The catalog: "A GPU reset or node reboot is needed to clear this error."
    48: _xid("double-bit ECC error", "WORKFLOW_XID_48", "reset"),
    54: _xid("auxiliary power is not connected", "CHECK_MECHANICALS"),
    62: _xid("internal micro-controller halt", "RESET_GPU", "reset"),
    63: _xid("GPU memory remapping event", "IGNORE"),
    64: _xid("GPU memory remapping failure", "RESET_GPU", "reset"),
    68: _xid("NVDEC0 exception", "RESTART_APP"),
    69: _xid("graphics engine class error", "RESTART_APP"),
    # It costs at most a link. MIG mode turns NVLinks off.
    74: _xid("NVLink error", "WORKFLOW_NVLINK_ERR"),
    79: _xid("GPU has fallen off the bus", "RESTART_BM", "lost"),
    92: _xid("high single-bit ECC error rate", "IGNORE"),
    94: _xid("contained memory error", "RESTART_APP"),
    95: _xid("uncontained memory error", "RESET_GPU", "reset"),
    # NVIDIA's action is a reset, but an application can cause it. Xid 154 follows if the GPU is
    # stuck.
    109: _xid("context switch timeout", "RESET_GPU"),
    110: _xid("security fault", "RESET_GPU", "reset"),
    119: _xid("GSP RPC timeout", "RESET_GPU", "reset"),
    120: _xid("GSP error", "RESET_GPU", "reset"),
    121: _xid("corrected errors on the C2C link", "IGNORE"),
    136: _xid("NVLink training failed", "RESET_GPU"),
    137: _xid("NVLink privilege error", "IGNORE"),
    140: _xid("ECC error that was not recovered", "RESET_GPU", "reset"),
    143: _xid("GPU initialization error", "RESET_GPU", "reset"),
    RECOVERY_CHANGED: _xid("GPU recovery action changed", "XID_154"),
    156: _xid("resource retirement", "RESET_GPU"),
    157: _xid("resource retirement failure", "IGNORE"),
    158: _xid("GPU fatal timeout", "RESET_GPU", "reset"),
}


def describe(number: int) -> str:
    """Describes an Xid: `Xid 79 (GPU has fallen off the bus)`."""
    meaning = MEANINGS.get(number)
    return f"Xid {number} ({meaning.text})" if meaning else f"Xid {number}"
