"""The URNs of every committed stack's resources, as files: tests/infra/golden/urns.

A changed URN makes the engine delete the resource and create it again. `pytest
tests/infra/program/test_urns.py --update-golden` writes the files; the diff shows what a change
replaces.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pulumi.runtime.mocks import MockMonitor

from slicewright.infra import plan, program
from tests.recorder import VERIFIED, Recorder, record
from tests.repository_stacks import NAMES

STACKS = Path(__file__).resolve().parents[3] / "stacks"
GOLDEN = Path(__file__).parents[1] / "golden" / "urns"
DEPLOYABLE = [
    stack
    for stack in sorted(NAMES)
    if not plan.unbuildable(plan.read_file(STACKS / f"Pulumi.{stack}.yaml"))
]


def urns(stack: str) -> str:
    """A line per resource: the types of its parents and its own, then its name."""
    recorder = Recorder(status=VERIFIED)
    monitor = MockMonitor(recorder)
    fleet = plan.read_file(STACKS / f"Pulumi.{stack}.yaml")
    record(recorder, lambda: program.deploy(fleet), stack=stack, monitor=monitor)
    prefix = f"urn:pulumi:{stack}::slicewright::"
    return "".join(f"{urn.removeprefix(prefix)}\n" for urn in sorted(monitor.resources))


@pytest.mark.usefixtures("zipapps")
@pytest.mark.parametrize("stack", DEPLOYABLE)
def test_urns_of_a_committed_stack_stay_the_same(
    stack: str, request: pytest.FixtureRequest
) -> None:
    file = GOLDEN / f"{stack}.txt"
    recorded = urns(stack)
    assert recorded
    if request.config.getoption("--update-golden"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(recorded)
    assert file.read_text() == recorded, "pytest tests/infra/program/test_urns.py --update-golden"


def test_every_golden_file_of_urns_belongs_to_a_deployable_stack() -> None:
    assert sorted(file.stem for file in GOLDEN.glob("*.txt")) == DEPLOYABLE
