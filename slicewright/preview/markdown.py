"""The report on a preview, as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from slicewright.preview.elements import ROWS, fenced, table
from slicewright.preview.escaping import code as _code
from slicewright.preview.escaping import many as _many
from slicewright.preview.escaping import text as _text
from slicewright.preview.fleets import Fleets, cost, pools
from slicewright.preview.losses import Guard, Loss, rank
from slicewright.preview.steps import Outcome, Preview, Step
from slicewright.telemetry.plain import plain_lines

LONGEST: Final = 60_000
"""The limit in characters. GitHub takes comments of 65,536, GitLab of 1,000,000."""
ACKNOWLEDGE_KEY: Final = "slicewright:acknowledged"
"""The key in the stack file's `config`."""
_CODES = 200
_FIELDS = 6
_ERROR_LINES = 30


def report(stack: str, preview: Preview, guard: Guard, fleets: Fleets) -> str:
    """Returns at most LONGEST characters. Sections at the end that do not fit are only counted."""
    parts = []
    length = 0
    sections = [section for section in _sections(stack, preview, guard, fleets) if section]
    for n, section in enumerate(sections):
        if length + len(section) > LONGEST - 200:
            parts.append(
                f"*{_many(len(sections) - n, 'more section')} did not fit into this report.*"
            )
            break
        parts.append(section)
        length += len(section) + 2
    return "\n\n".join(parts) + "\n"


def _sections(stack: str, preview: Preview, guard: Guard, fleets: Fleets) -> Iterator[str]:
    yield f"<!-- slicewright preview-report {_text(stack)} -->\n## {_heading(stack, preview)}"
    yield _failed(preview)
    yield _verdict(guard)
    yield _losses(guard)
    yield pools(fleets)
    yield fleets.living
    yield cost(fleets)
    guarded = {loss.step.urn for loss in (*guard.open, *guard.acknowledged)}
    for outcome in (
        Outcome.REPLACED,
        Outcome.DELETED,
        Outcome.FORGOTTEN,
        Outcome.CHANGED,
        Outcome.CREATED,
        Outcome.ADOPTED,
    ):
        yield _resources(
            outcome, [s for s in preview.steps if s.outcome is outcome and s.urn not in guarded]
        )
    yield _warnings(preview)


def _heading(stack: str, preview: Preview) -> str:
    if preview.errors:
        return f"Preview of {_code(stack)}: failed"
    counts = {o: sum(1 for s in preview.steps if s.outcome is o) for o in Outcome}
    totals = [f"{count} {outcome.value}" for outcome, count in counts.items() if count]
    return f"Preview of {_code(stack)}: {', '.join(totals) or 'no changes'}"


def _failed(preview: Preview) -> str:
    if not preview.errors:
        return ""
    lines = [line for error in preview.errors for line in plain_lines(error).split("\n")]
    excerpt = fenced(lines[-_ERROR_LINES:])
    return f"The preview failed, so this report is incomplete:\n\n{excerpt}"


def _verdict(guard: Guard) -> str:
    lines = []
    if guard.open:
        ends, delete, are = _verbs(guard.open)
        lines += [
            "> [!CAUTION]",
            f"> **{_many(len(guard.open), 'change')} {ends} pods or {delete} data, and {are} not "
            "acknowledged.** Pulumi does not drain nodes and ignores disruption budgets. If this "
            "is intended, add to the stack file:",
            ">",
            "> ```yaml",
            "> config:",
            f">   {ACKNOWLEDGE_KEY}:",
            *(f">     {line}" for line in _listed_codes(guard)),
            "> ```",
        ]
    elif guard.acknowledged:
        changes = _many(len(guard.acknowledged), "change")
        ends, delete, _ = _verbs(guard.acknowledged)
        lines += [
            "> [!WARNING]",
            f"> {changes} {ends} pods or {delete} data; all are acknowledged.",
        ]
    if guard.unneeded:
        lines += [
            *([""] if lines else []),
            f"No longer needed in {_code(ACKNOWLEDGE_KEY)}: "
            f"{', '.join(map(_code, guard.unneeded))}.",
        ]
    return "\n".join(lines)


def _verbs(losses: Sequence[Loss]) -> tuple[str, str, str]:
    return ("ends", "deletes", "is") if len(losses) == 1 else ("end", "delete", "are")


def _listed_codes(guard: Guard) -> list[str]:
    """The complete new value of the key, including the codes that it already has."""
    codes = list(dict.fromkeys(loss.code for loss in (*guard.acknowledged, *guard.open)))
    lines = [f'- "{code}"' for code in codes[:_CODES]]
    if len(codes) > _CODES:
        lines.append(f"# and {len(codes) - _CODES} more, once these are acknowledged")
    return lines


def _losses(guard: Guard) -> str:
    marked = [("🔴", loss) for loss in guard.open] + [("🟠", loss) for loss in guard.acknowledged]
    if not marked:
        return ""
    rows = [
        (
            f"{mark} {loss.step.outcome.value}",
            f"{_code(loss.step.name)} ({_text(loss.step.type)})",
            _loss_text(loss),
            _cause_text(loss.step),
        )
        for mark, loss in marked
    ]
    header = ("", "resource", "ends with it", "why")
    return "### What ends\n\n" + table(header, rows, at_most=ROWS)


def _loss_text(loss: Loss) -> str:
    if loss.nodes is None:
        return loss.affected
    return f"{_many(loss.nodes, 'node')} and the pods on {'it' if loss.nodes == 1 else 'them'}"


def _cause_text(step: Step) -> str:
    if step.outcome is Outcome.DELETED:
        return "no longer in the program"
    if not step.causes:
        return "replaced together with another resource"
    return _listed(step.causes)


def _resources(outcome: Outcome, steps: Sequence[Step]) -> str:
    if not steps:
        return ""
    rows = [(_code(s.name), _text(s.type), _differs(s)) for s in sorted(steps, key=rank)]
    rows_table = table(("resource", "type", "fields"), rows, at_most=ROWS)
    title = f"{_many(len(steps), 'resource')} {outcome.value}"
    return f"<details><summary>{title}</summary>\n\n{rows_table}\n\n</details>"


def _differs(step: Step) -> str:
    return _listed(step.causes or step.fields)


def _listed(fields: Sequence[str]) -> str:
    more = f" and {len(fields) - _FIELDS} more" if len(fields) > _FIELDS else ""
    return ", ".join(map(_code, fields[:_FIELDS])) + more


def _warnings(preview: Preview) -> str:
    if not preview.warnings:
        return ""
    lines = [line for text in preview.warnings for line in plain_lines(text).split("\n")]
    return (
        f"<details><summary>{_many(len(preview.warnings), 'warning')} of the preview</summary>\n\n"
        f"{fenced(lines[:_ERROR_LINES])}\n\n</details>"
    )
