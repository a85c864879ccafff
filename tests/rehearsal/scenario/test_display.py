"""Pictures and live lines on terminals of the usual widths."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from slicewright.rehearsal.scenario import display
from slicewright.rehearsal.scenario.live import LiveLines
from slicewright.rehearsal.scenario.proof import ProvenNode


def node(instances: dict[str, int]) -> ProvenNode:
    return ProvenNode(
        name="ip-10-0-0-12.eu-west-1.compute.internal",
        pool="h100-partition-3g",
        tainted=False,
        condition="True (PartitionsMatch)",
        allocatable={},
        gpus=(
            {"index": 0, "mig": "enabled", "model": "NVIDIA H100", "instances": instances},
            {"index": 1, "mig": "disabled", "model": "NVIDIA H100"},
            {"index": 2},
        ),
        desired=None,
    )


def drawn(instances: dict[str, int], width: int) -> list[str]:
    written = io.StringIO()
    console = Console(file=written, width=width)
    console.print(display.picture([node(instances)], width=width))
    return [line.rstrip() for line in written.getvalue().splitlines()]


@pytest.mark.parametrize("profile", ["1g.5gb", "1g.10gb", "1c.7g.80gb"])
@pytest.mark.parametrize("width", [100, 120, 200])
def test_seven_instances_fit_one_line_of_a_hundred_columns(profile: str, width: int) -> None:
    lines = drawn({profile: 7}, width)
    assert max(map(len, lines)) <= 100
    assert [line.count(f"▐{profile}▌") for line in lines if profile in line] == [7]


def test_narrow_terminal_wraps_the_instances() -> None:
    lines = [line for line in drawn({"1g.10gb+me": 1, "1g.10gb": 6}, 50) if "▐" in line]
    assert max(map(len, lines)) <= 50
    assert [line.count("▐") for line in lines] == [3, 4]
    assert lines[1].startswith("         ▐")


def test_whole_gpus_and_gpus_without_a_report_are_named() -> None:
    assert drawn({"1g.5gb": 1}, 100)[-2:] == ["  GPU 1  whole", "  GPU 2  not known"]


TEXT = (
    "node gke-main-h100-partition-3g-e89c025d-jsx7: agent: Mismatch WrongLayout: GPU 3 wanted "
    "3g.40gb x2, found 1g.10gb x7: GKE's set-up partitioned it for another size"
)


def live(width: int, *, terminal: bool) -> list[str]:
    written = io.StringIO()
    lines = LiveLines(Console(file=written, width=width, force_terminal=terminal, no_color=True))
    lines.say(TEXT)
    lines.of_pulumi(f"    error: {TEXT}")
    return re.sub(r"\x1b\[[0-9;]*m", "", written.getvalue()).splitlines()


@pytest.mark.parametrize("width", [80, 100, 120])
def test_live_lines_break_between_words_on_a_terminal(width: int) -> None:
    lines = live(width, terminal=True)
    assert max(map(len, lines)) <= width
    words = [word for line in lines for word in line.replace("pulumi │", "").split()]
    assert words[1:] == [*TEXT.split(), "error:", *TEXT.split()]


def test_lines_are_not_wrapped_in_a_file() -> None:
    assert [line.endswith(TEXT) for line in live(80, terminal=False)] == [True, True]
