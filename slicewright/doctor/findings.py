"""Questions to an account, its answers, and the consequences for the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import wraps
from typing import Literal, ParamSpec, TypeAlias, TypeVar

from slicewright.infra import stack_file
from slicewright.infra.plan import FleetPlan, unbuildable

Verdict = Literal["ok", "fails", "not asked", "not seen"]
""""not asked": only the account knows the answer, and it gave none. "not seen": the question was
for another server, which may be unreachable from here. Its silence says nothing about the account.
"""


@dataclass(frozen=True, kw_only=True)
class NotAnswered:
    """The account gave no answer, so nothing is known. This never counts as a pass."""

    why: str
    """The cloud's message, or the name of another answer that was needed first."""
    remedy: str = ""


_T = TypeVar("_T")
Answer: TypeAlias = _T | NotAnswered


class CannotAsk(Exception):
    """No question can be asked at all: no client, no credentials, no connection.

    The message says how to fix it.
    """


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check."""

    verdict: Verdict
    subject: str
    """The check and its place: `quota L-417A185B in eu-west-1`."""
    detail: str
    remedy: str = ""
    """A command, or a change to the stack file. Empty if there is nothing to do."""
    code: str = ""
    """The check's code in finding_codes.toml, which never changes. `check` and `checks` add it."""


P = ParamSpec("P")


def check(code: str) -> Callable[[Callable[P, Finding]], Callable[P, Finding]]:
    """Gives the finding of a check its code."""

    def with_code(judge: Callable[P, Finding]) -> Callable[P, Finding]:
        @wraps(judge)
        def run(*args: P.args, **options: P.kwargs) -> Finding:
            return _with_code(judge(*args, **options), code)

        return run

    return with_code


def checks(code: str) -> Callable[[Callable[P, Iterator[Finding]]], Callable[P, Iterator[Finding]]]:
    """Gives the findings of a check their code. The checks that run inside it give theirs first."""

    def with_code(judge: Callable[P, Iterator[Finding]]) -> Callable[P, Iterator[Finding]]:
        @wraps(judge)
        def run(*args: P.args, **options: P.kwargs) -> Iterator[Finding]:
            for finding in judge(*args, **options):
                yield _with_code(finding, code)

        return run

    return with_code


def _with_code(finding: Finding, code: str) -> Finding:
    return finding if finding.code else replace(finding, code=code)


def ok(subject: str, detail: str) -> Finding:
    return Finding(verdict="ok", subject=subject, detail=detail)


def fails(subject: str, detail: str, remedy: str) -> Finding:
    return Finding(verdict="fails", subject=subject, detail=detail, remedy=remedy)


def not_asked(subject: str, answer: NotAnswered) -> Finding:
    return Finding(
        verdict="not asked",
        subject=subject,
        detail=f"could not be checked: {answer.why}",
        remedy=answer.remedy,
    )


def existence(subject: str, answer: Answer[bool], missing: str, remedy: str) -> Finding:
    """Returns the finding on a thing that must exist. missing: the consequence if it does not."""
    if isinstance(answer, NotAnswered):
        return not_asked(subject, answer)
    return ok(subject, "exists") if answer else fails(subject, missing, remedy)


def not_seen(subject: str, answer: NotAnswered) -> Finding:
    return Finding(verdict="not seen", subject=subject, detail=answer.why, remedy=answer.remedy)


@checks("not-deployable")
def refused_by_the_program(fleet: FleetPlan) -> Iterator[Finding]:
    """Finds parts of a valid stack file that `pulumi up` refuses before it calls any cloud."""
    for problem in unbuildable(fleet):
        yield fails(stack_file.format_path(problem.path), problem.reason, problem.instead)


Owned: TypeAlias = Literal["yes", "no", "unknown"]
"""Whether Pulumi's state of the stack has a resource. Unknown if the state cannot be read."""


@check("cluster-name")
def cluster_name(
    subject: str, exists: Answer[bool], owned: Owned, *, existing: bool, delete: str, list_all: str
) -> Finding:
    """Checks that the cluster can be created, or that it exists if the stack file says so.

    existing: the value in the stack file. delete, list_all: the cloud's commands.
    """
    match exists:
        case NotAnswered() as refusal:
            return not_asked(subject, refusal)
        case True if existing:
            return ok(subject, "exists, as the stack file says")
        case True:
            remedy = f"write another cluster.name, or delete that cluster: {delete}"
            return name_taken(subject, owned, remedy)
        case _ if existing:
            return fails(
                subject,
                "does not exist, but the stack file says existing: true",
                "correct cluster.name, or remove existing so that the stack creates the cluster; "
                f"to list the clusters: {list_all}",
            )
        case _:
            return ok(subject, "the name is free")


@dataclass(frozen=True, kw_only=True)
class ExistingResource:
    """A resource that `pulumi up` would create and that already exists. This stack may own it."""

    type: str
    """The type in Pulumi's URNs."""
    id: str
    """The ID in Pulumi's state."""
    subject: str
    remedy: str
    """The remedy if another stack created the resource."""


def name_taken(subject: str, owned: Owned, remedy: str) -> Finding:
    """Returns the finding on an existing thing that `pulumi up` would create."""
    match owned:
        case "yes":
            return ok(subject, "exists, created by this stack")
        case "no":
            return fails(subject, "already exists, and this stack did not create it", remedy)
        case "unknown":
            return fails(
                subject,
                "already exists; this stack's state cannot be read, so it is unknown whether this "
                "stack created it",
                f"if it did, continue; otherwise {remedy}",
            )
