"""Shows the notes on a valid stack file: what to know before `pulumi up`."""

from __future__ import annotations

from datetime import date

from rich.console import Console

from slicewright.infra import plan, stack_file
from slicewright.show.lines import print_line


def show_notes(fleet: plan.FleetPlan, console: Console, *, today: date | None = None) -> None:
    """Writes the notes, and the parts of a valid stack file that `pulumi up` would refuse."""
    for note in plan.notes(fleet, today=today):
        print_line(console, f"note: {note}", "dim")
    for problem in plan.unbuildable(fleet):
        print_line(
            console, f"note: {stack_file.format_path(problem.path)}: {problem.reason}", "yellow"
        )
