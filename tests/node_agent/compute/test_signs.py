"""Each failure has a cause and a remedy, and CUDA's names are those of the simulated driver."""

from __future__ import annotations

import re

import pytest

from slicewright.node_agent.compute import signs
from slicewright.node_agent.compute.signs import SIGNS, Sign
from slicewright.rehearsal.cluster.silicon.models import LIBRARY

_ERRORS = LIBRARY.with_name("cuda_library") / "errors.def"
DRIVER_NAMES = {
    int(code): name
    for code, name in re.findall(
        r"^CUDA_CODE\((\d+), (\w+)\)$", _ERRORS.read_text(encoding="utf-8"), re.MULTILINE
    )
}


@pytest.mark.parametrize("sign", SIGNS.values(), ids=SIGNS)
def test_every_sign_says_cause_and_remedy(sign: Sign) -> None:
    assert sign.cause
    assert sign.remedy
    assert not sign.cause.endswith(".")
    assert not sign.remedy.endswith(".")


@pytest.mark.parametrize("sign", [s for s in SIGNS.values() if s.code], ids=lambda s: s.name)
def test_names_of_codes_are_the_drivers(sign: Sign) -> None:
    assert sign.code is not None
    # 35 is a code of the runtime only: no driver has a name for it.
    assert sign.name == DRIVER_NAMES.get(sign.code, "CUDA_ERROR_INSUFFICIENT_DRIVER")
    assert signs.of_code(sign.code) is sign


def test_an_unknown_code_fails_the_partition_under_the_drivers_name() -> None:
    sign = signs.of_code(4711, "CUDA_ERROR_NEW")
    assert (sign.title, sign.scope) == ("CUDA_ERROR_NEW (4711)", "partition")


def test_a_fault_of_the_environment_says_nothing_about_the_partition() -> None:
    untried = {sign.name for sign in SIGNS.values() if sign.scope == "environment"}
    assert {signs.LIBRARY_MISSING, signs.IN_USE, signs.NOT_REACHED} <= untried
    assert not untried & {signs.WRONG_WORDS, signs.TIMED_OUT, signs.PROCESS_ENDED}
