"""When the engine writes the state of a stack: at each step, as everywhere, or once at the end.

The state of a fleet has some megabytes, because it holds the code of agent and controller, and
`pulumi up` writes it at the beginning and at the end of every step: a tenth of the processor time
of gke-h100 from `up` to `destroy`. An engine that is killed leaves no trace of what it has made
where it writes its state at the end only, so this is for runs that nobody kills.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

VARIABLE: Final = "SLICEWRIGHT_REHEARSAL_CHECKPOINTS"
AT_EACH_STEP: Final = "at-each-step"
AT_THE_END: Final = "at-the-end"


def engine_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """What to set for the engine. Raises ValueError for another value of the variable.

    Source: pulumi/pulumi, sdk/go/common/env (SkipCheckpoints, which needs Experimental).
    """
    match environment.get(VARIABLE, AT_EACH_STEP):
        case "at-each-step":
            return {}
        case "at-the-end":
            return {"PULUMI_EXPERIMENTAL": "true", "PULUMI_SKIP_CHECKPOINTS": "true"}
        case other:
            raise ValueError(f"{VARIABLE} is {other!r}; write {AT_EACH_STEP} or {AT_THE_END}")
