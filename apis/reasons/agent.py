"""Every reason that a verdict can have: one table for verdicts, documentation and tests.

The codes are stable: programs, alerts and the fleet controller read them. The order is the order of
precedence: if there are several findings, the first in this table gives the verdict its reason. A
mismatch precedes an unknown state, and a lasting problem precedes one that may settle without help.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slicewright.apis.reasons.agent_reason import Reason
from slicewright.apis.reasons.lasting_mismatches import LASTING_MISMATCHES
from slicewright.apis.reasons.settling_mismatches import SETTLING_MISMATCHES
from slicewright.apis.reasons.unknown_states import UNKNOWN_STATES

_ALL = (
    Reason(
        code="PartitionsMatch",
        verdict="Match",
        meaning="every GPU and every advertised resource is as wanted",
    ),
    *LASTING_MISMATCHES,
    *SETTLING_MISMATCHES,
    *UNKNOWN_STATES,
)

REASONS: Mapping[str, Reason] = {reason.code: reason for reason in _ALL}
SETTLING: Final = frozenset(code for code, reason in REASONS.items() if reason.settles)
OF_LAYOUT: Final = frozenset(code for code, reason in REASONS.items() if reason.of_layout)
DRIVER_DOES_NOT_ANSWER: Final = frozenset(
    code for code, reason in REASONS.items() if reason.driver_silent
)
RANK: Mapping[str, int] = {reason.code: position for position, reason in enumerate(_ALL)}

MATCH = "PartitionsMatch"
