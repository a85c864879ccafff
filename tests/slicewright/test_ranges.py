"""Every option that is a number has a range, which its message names."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from slicewright import cli
from slicewright.commands import parser_of
from slicewright.fleet_controller import cli as controller_cli
from slicewright.node_agent import cli as agent_cli

Main = Callable[[Sequence[str]], int]
OPTIONS: Sequence[tuple[Any, Sequence[str], str, Sequence[str]]] = (
    (cli.main, ("destroy", "-s", "x"), "--wait", ("0", "10080")),
    (cli.main, ("destroy", "-s", "x"), "--drain-wait", ("0", "10080")),
    (cli.main, ("load", "-s", "x", "w"), "--users", ("1", "100000")),
    (cli.main, ("load", "-s", "x", "w"), "--rate", ("1", "100000")),
    (cli.main, ("load", "-s", "x", "w"), "--tokens", ("1", "100000")),
    (cli.main, ("load", "-s", "x", "w"), "--duration", ("1s", "24h")),
    (cli.main, ("optimise",), "--percentile", ("1", "100")),
    (cli.main, ("rehearse", "break"), "--gpu", ("0", "15")),
    (agent_cli.main, ("watch",), "--port", ("0", "65535")),
    (agent_cli.main, ("watch",), "--interval", ("0.1", "3600")),
    (agent_cli.main, ("attribution",), "--port", ("0", "65535")),
    (agent_cli.main, ("attribution",), "--interval", ("0.1", "3600")),
    (agent_cli.main, ("show",), "--deadline", ("0.1", "3600")),
    (agent_cli.main, ("apply",), "--wait", ("0", "86400")),
    (agent_cli.main, ("prove",), "--timeout", ("0.1", "3600")),
    (controller_cli.main, (), "--port", ("0", "65535")),
)
WRONG = (
    *("-1", "99999999", "1e300", "nan", "inf", "-inf", "", "x", "9" * 5000, "1.5.5", "²", "0x10"),
    *("99999999999999h", "-5m", "²s", "5 d", "\ud800"),
)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: ascii(wrong[:20]))
@pytest.mark.parametrize(
    ("main", "before", "option", "limits"), OPTIONS, ids=[f"{o[1][:1]}{o[2]}" for o in OPTIONS]
)
def test_a_number_outside_the_range_is_refused_with_the_range(
    main: Main,
    before: Sequence[str],
    option: str,
    limits: Sequence[str],
    wrong: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*before, f"{option}={wrong}"])
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert f"argument {option}: " in last
    assert len(last) < 300
    assert not re.search(r"invalid \w+ value", last), "the name of a function is no message"
    assert all(limit in last for limit in limits), last


def test_every_option_that_is_a_number_is_in_the_table() -> None:
    listed = {(before[0] if before else "", option) for _, before, option, _ in OPTIONS}
    for name in cli.COMMANDS:
        assert _numeric(parser_of(name), name) <= listed
    for name in agent_cli.COMMANDS:
        assert _numeric(agent_cli.parser_for([name]), name) <= listed | {
            (name, "--deadline"),
            *((command, "--wait") for command in ("apply", "clear")),
        }


def _numeric(parser: argparse.ArgumentParser, command: str) -> set[tuple[str, str]]:
    """The options with a default that is a number, or with a reader of numbers."""
    found = set()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                found |= _numeric(inner, command)
        elif action.type is not None and _reads_numbers(action.type):
            found.add((command, action.option_strings[-1]))
    return found


def _reads_numbers(read: Any) -> bool:
    try:
        return isinstance(read("5"), int | float)
    except (ValueError, argparse.ArgumentTypeError):
        try:
            return isinstance(read("5m"), int | float)
        except (ValueError, argparse.ArgumentTypeError):
            return False
