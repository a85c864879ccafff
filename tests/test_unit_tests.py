"""What keeps `make unit` quick: a test without the mark cannot get a tool, nor serve a cloud."""

from __future__ import annotations

from pathlib import Path

import pytest

from rehearsal.clouds.endpoint import Endpoint
from rehearsal.host.toolchain import ensure


def test_a_test_that_asks_for_the_toolchain_without_its_fixture_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="take the `toolchain` fixture"):
        ensure(print)


def test_a_test_that_serves_a_cloud_over_http_without_its_fixture_fails(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="take the `clouds_over_http` fixture"):
        Endpoint(tmp_path)  # type: ignore[call-arg,arg-type]
