"""What keeps `make unit` quick: a test without the mark cannot get a tool, nor serve a cloud; and
properties and long loops try a tenth.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from slicewright.rehearsal.clouds.endpoint import Endpoint
from slicewright.rehearsal.host.toolchain import ensure
from tests.properties import cases, examples


def test_a_test_that_asks_for_the_toolchain_without_its_fixture_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="take the `toolchain` fixture"):
        ensure(print)


def test_a_test_that_serves_a_cloud_over_http_without_its_fixture_fails(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="take the `clouds_over_http` fixture"):
        Endpoint(tmp_path)  # type: ignore[call-arg,arg-type]


@pytest.mark.parametrize(
    ("profile", "tried", "number"),
    [("any machine", [*range(25)], 150), ("quick", [0, 10, 20], 15)],
)
def test_the_profile_says_how_much_is_tried(profile: str, tried: list[int], number: int) -> None:
    current = settings.get_current_profile_name()
    settings.load_profile(profile)
    try:
        assert list(cases(range(25))) == tried
        assert examples(150) == number
    finally:
        settings.load_profile(current)
