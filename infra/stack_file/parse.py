"""Parses the text of a fleet, or raises a SpecError with every problem."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path as FilePath

from slicewright.infra.stack_file.layers.bases import read
from slicewright.infra.stack_file.layers.merge import EXTENDS
from slicewright.infra.stack_file.problem import Problem
from slicewright.infra.stack_file.reading.formatting import describe, plain, shorten
from slicewright.infra.stack_file.reading.not_readable import NotReadable
from slicewright.infra.stack_file.reading.recovery import ENCRYPTED, recover
from slicewright.infra.stack_file.reading.source import Source
from slicewright.infra.stack_file.reading.spec_error import SpecError
from slicewright.infra.stack_file.schema.fleet import ByoFleet, Fleet


def parse_file(file: FilePath, *, name: str | None = None) -> Fleet:
    """The fleet of a stack file `Pulumi.<stack>.yaml`, read without Pulumi. Raises SpecError."""
    try:
        source = read(file, name=name)
    except NotReadable as e:
        raise unreadable(str(e), name or str(file)) from None
    return parse(json.dumps(source.raw), source)


def unreadable(reason: str, name: str) -> SpecError:
    error = SpecError(Source(name), ())
    error.args = ("\n".join(map(plain, shorten(reason, 2000).split("\n"))),)
    return error


def parse(text: str, source: Source) -> Fleet:
    """The fleet in JSON text. Raises SpecError with every problem of structure and syntax.

    text: the result of `pulumi.Config().require("fleet")`. Strict validation of Python objects
    would refuse lists for tuples.
    """
    if source.raw is None and text != "null":
        try:
            source = dataclasses.replace(source, raw=json.loads(text))
        except ValueError as e:
            raise unreadable(
                f"{source.name}: is not valid JSON: {e}; set it with `pulumi config set --path`",
                source.name,
            ) from None
    problems = list(source.problems)
    if not isinstance(source.raw, dict) or [*source.raw] == ["secure"]:
        problems.append(_no_fleet(source.raw))
        raise SpecError(source, problems)
    if EXTENDS in source.raw:
        raise SpecError(source, problems or [_not_extended()])
    recovered = recover(text, source)
    problems += recovered.problems
    fleet = recovered.fleet
    pools_known = not recovered.unknown & {("node_pools",), ("hosts",)}
    if (
        fleet is not None
        and pools_known
        and not fleet.node_pools
        and not (isinstance(fleet, ByoFleet) and fleet.hosts)
    ):
        problems.append(
            Problem(
                code="no-pools",
                path=("node_pools",),
                reason="must not be empty: nothing would be partitioned",
                instead="list at least one pool"
                + (", or hosts" if isinstance(fleet, ByoFleet) else ""),
            )
        )
    if problems or fleet is None:
        raise SpecError(source, problems, recovered)
    return fleet


def _not_extended() -> Problem:
    return Problem(
        code="base-file",
        path=(EXTENDS,),
        reason="base files are read only beside a stack file, and this fleet comes from elsewhere",
        instead="pass the merged fleet, which `slicewright plan --resolved` prints",
    )


def _no_fleet(raw: object) -> Problem:
    if isinstance(raw, dict):
        return Problem(
            code="encrypted-value",
            path=(),
            reason=ENCRYPTED,
            instead="write it as plain YAML in the stack file, not with `config set --secret`",
            source="Pulumi docs, secrets",
        )
    return Problem(
        code="wrong-type",
        path=(),
        reason=f"is {describe(raw)}, not a mapping",
        instead="write the keys cloud, cluster and node_pools below it, without '-' before them",
    )
