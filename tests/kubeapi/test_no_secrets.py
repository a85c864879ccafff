"""A token never gets into an error, from where it would get into a log."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.kubeapi.client import Credentials

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzZWNyZXQifQ.c2lnbmF0dXJl"


def _said(work: Callable[[], object]) -> str:
    """The error with its causes, as an uncaught one would be logged."""
    with pytest.raises((ApiError, Unreachable)) as failed:
        work()
    return "".join(traceback.format_exception(failed.value))


@pytest.mark.parametrize("status", [400, 401, 403, 409, 429, 500, 503])
def test_a_refused_request(
    server: Any, answer: Any, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    caplog.set_level(logging.DEBUG)
    server.answers = [answer(status=status, body={"reason": "R", "message": "no"})]
    client = Client(Credentials(server=server.url, token=TOKEN))
    text = _said(lambda: client.patch("/x", {"a": 1})) + caplog.text
    assert "no" in text
    assert TOKEN not in text


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "https://127.0.0.1:1", "http://[::1]:1"])
def test_an_api_server_that_does_not_answer(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = Client(Credentials(server=url, token=TOKEN), timeout_s=30)
    assert TOKEN not in _said(lambda: client.get("/x")) + caplog.text


@pytest.mark.parametrize("between", ["\n", "\r\n", " ", "\0", "\n\n# comment: "])
def test_a_token_file_that_is_no_token(server: Any, tmp_path: Path, between: str) -> None:
    """http.client quotes an illegal header in its ValueError."""
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}{between}{TOKEN}")
    client = Client(Credentials(server=server.url, token_file=file))
    said = _said(lambda: client.get("/x"))
    assert "is not a token" in said
    assert TOKEN not in said


def test_credentials_do_not_show_what_they_hold() -> None:
    shown = repr(Credentials(server="https://x", token=TOKEN, client_cert=(b"cert", b"the key")))
    assert TOKEN not in shown
    assert "the key" not in shown
