"""Nothing that a terminal obeys gets through, and what is shown says what was there."""

from __future__ import annotations

import io
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewright.telemetry import log
from slicewright.telemetry.endpoints import serve
from slicewright.telemetry.plain import plain, plain_lines, plain_stream
from slicewright.telemetry.prometheus import Family, Sample, labels, lines
from tests.nasty import NASTY, obeyed, texts


@given(texts)
def test_plain_text_has_nothing_that_a_terminal_obeys(text: str) -> None:
    assert obeyed(plain(text)) == set()
    assert plain(plain(text)) == plain(text)
    assert obeyed(plain_lines(text)) <= {"\n"}


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_printable_text_stays_as_it_is(text: str) -> None:
    spaces = text.replace("\u00a0", " ")
    assert plain("".join(c for c in spaces if c.isprintable())) == "".join(
        c for c in spaces if c.isprintable()
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2K\rok", r"\x1b[2K\rok"),
        ("a\nb\tc", r"a\nb\tc"),
        ("\x7f\x9b31m", r"\x7f\x9b31m"),
        ("user\u202enimda", r"user\u202enimda"),
        ("\u2066x\u2069\u2028", r"\u2066x\u2069\u2028"),
        ("\ud800", r"\ud800"),
        ("3g.40gb × 2 — „größer“ 80 °C", "3g.40gb × 2 — „größer“ 80 °C"),
    ],
)
def test_what_was_there_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_a_stream_keeps_line_ends_only() -> None:
    written = io.StringIO()
    stream = plain_stream(written)
    print("one\x1b[31m", "two\r", sep="\n", file=stream, flush=True)
    assert written.getvalue() == "one\\x1b[31m\ntwo\\r\n"


@given(texts, texts)
def test_a_log_line_is_one_plain_line(event: str, value: str) -> None:
    record = logging.makeLogRecord({"msg": event, "facts": {"key": value}})
    assert obeyed(log.formatter().format(record)) == set()


@given(texts)
def test_a_label_is_plain_and_stays_inside_its_quotes(value: str) -> None:
    family = Family("x", "gauge", "Help.", (Sample(labels(which=value), 1),))
    *_, sample = lines(family)
    assert obeyed(sample) == set()
    inside = sample.removeprefix('x{which="').removesuffix('"} 1')
    assert '"' not in inside.replace("\\\\", "").replace('\\"', "")


def test_a_health_endpoint_answers_plain_lines() -> None:
    import urllib.error
    import urllib.request

    server = serve("127.0.0.1", 0, alive=lambda: None, ready=lambda: NASTY, metrics=str)
    try:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/readyz", timeout=60)
        assert obeyed(refused.value.read().decode()) <= {"\n"}
    finally:
        server.shutdown()
