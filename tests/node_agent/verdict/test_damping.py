"""Nodes that come and go."""

from __future__ import annotations

from slicewright.node_agent.verdict.damping import Damper
from slicewright.node_agent.verdict.findings import Check, Verdict


def _verdict(outcome: str, reason: str) -> Verdict:
    check = Check(reason=reason, where="node", expected="a", observed="b")
    return Verdict(verdict=outcome, reason=reason, message=f"{reason}.", checks=(check,))  # type: ignore[arg-type]


WELL, BAD, WORK = (
    _verdict("Match", "PartitionsMatch"),
    _verdict("Mismatch", "GpuLost"),
    _verdict("Unknown", "PartitioningUnderWay"),
)


def _reported(verdicts: list[Verdict], *, every_s: float = 10.0) -> list[str]:
    damper = Damper()
    return [damper.damp(verdict, now * every_s).verdict for now, verdict in enumerate(verdicts)]


def test_the_first_match_is_not_delayed() -> None:
    assert _reported([BAD] * 50 + [WELL]) == ["Mismatch"] * 50 + ["Match"]


def test_a_mismatch_always_counts_at_once() -> None:
    said = _reported([WELL, BAD] * 10)
    assert said[1::2] == ["Mismatch"] * 10


def test_a_match_after_four_losses_must_last_a_minute() -> None:
    assert _reported([WELL, BAD] * 3 + [WELL]) == ["Match", "Mismatch"] * 3 + ["Match"]
    assert (
        _reported([WELL, BAD] * 4 + [WELL] * 8)
        == ["Match", "Mismatch"] * 4 + ["Mismatch"] * 6 + ["Match"] * 2
    )


def test_a_flapping_problem_has_one_message_while_present_and_while_absent() -> None:
    damper = Damper()
    for now, verdict in enumerate([WELL, BAD] * 3):
        assert damper.damp(verdict, now) is verdict
    damper.damp(WELL, 6)
    there, away, there_again = damper.damp(BAD, 7), damper.damp(WELL, 9), damper.damp(BAD, 30)
    assert there == away == there_again
    assert (there.verdict, there.reason) == ("Mismatch", "GpuLost")
    assert there.message == "GpuLost. It is flapping; a match counts after it has lasted 60 s."


def test_a_problem_that_stays_is_no_longer_called_flapping() -> None:
    damper = Damper()
    for now, verdict in enumerate([WELL, BAD] * 4):
        damper.damp(verdict, now)
    assert damper.damp(BAD, 700) is BAD


def test_losses_of_a_match_are_forgotten_after_ten_minutes() -> None:
    assert _reported([WELL, BAD] * 10, every_s=120) == ["Match", "Mismatch"] * 10


def test_losing_a_match_to_mig_manager_is_not_flapping() -> None:
    assert _reported([WELL, WORK] * 10) == ["Match", "Unknown"] * 10


def test_a_wall_clock_that_jumps_does_not_matter() -> None:
    """The damper lives on the monotonic clock; a fall recorded later than now would never be
    forgotten.
    """
    damper = Damper()
    for now in (100.0, 100.0, 100.0):
        damper.damp(WELL, now)
        damper.damp(BAD, now)
    assert damper.damp(WELL, 100.0).verdict == "Match"


def test_an_interrupted_match_must_last_a_minute_again() -> None:
    """The hold starts at the last return to a match, not at the first."""
    flapping = [WELL, BAD] * 4
    interrupted = [*flapping, *[WELL] * 4, BAD, *[WELL] * 7]
    assert _reported(interrupted)[8:] == ["Mismatch"] * 11 + ["Match"]


def test_every_loss_counts_for_ten_minutes_of_its_own() -> None:
    damper = Damper()
    reported = []
    for fall in (0, 400, 500, 610, 700):
        damper.damp(WELL, fall - 1.0)
        damper.damp(BAD, fall)
        reported.append(damper.damp(WELL, fall + 1.0).verdict)
    assert reported == ["Match"] * 4 + ["Mismatch"], "the first is forgotten when the fourth comes"
