"""Text to a frozen fleet, or one SpecError with every problem, each with the nearest thing that
would be right.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path as FilePath

from infra.spec.problem import Problem
from infra.spec.reading import meaning
from infra.spec.reading.source import Source, kind_of, read
from infra.spec.reading.spec_error import SpecError
from infra.spec.reading.yaml_values import NotReadable
from infra.spec.schema.fleet import ByoFleet, Fleet


def parse_file(file: FilePath, *, name: str | None = None) -> Fleet:
    """The fleet of a stack file `Pulumi.<stack>.yaml`, read without Pulumi. Raises SpecError."""
    try:
        source = read(file, name=name)
    except NotReadable as e:
        raise unreadable(str(e), name or str(file)) from None
    return parse(json.dumps(source.raw), source)


def unreadable(reason: str, name: str) -> SpecError:
    error = SpecError(Source(name), ())
    error.args = (reason,)
    return error


def parse(text: str, source: Source) -> Fleet:
    """The fleet in JSON text. Raises SpecError with every problem of shape and syntax, and the file
    as it was probably meant.

    text: as `pulumi.Config().require("fleet")` gives it; raw text, because strict validation of
    Python objects would refuse lists for tuples.
    """
    if source.raw is None and text != "null":
        try:
            source = dataclasses.replace(source, raw=json.loads(text))
        except ValueError as e:
            raise unreadable(
                f"{source.name}: is no JSON: {e}; write it with `pulumi config set --path`",
                source.name,
            ) from None
    problems = list(source.problems)
    if not isinstance(source.raw, dict) or [*source.raw] == ["secure"]:
        problems.append(_no_fleet(source.raw))
        raise SpecError(source, problems)
    reading = meaning.read(text, source)
    problems += reading.problems
    fleet = reading.fleet
    known = not reading.unknown & {("node_pools",), ("hosts",)}
    if (
        fleet is not None
        and known
        and not fleet.node_pools
        and not (isinstance(fleet, ByoFleet) and fleet.hosts)
    ):
        problems.append(
            Problem(
                path=("node_pools",),
                reason="is empty: nothing would be partitioned",
                instead="name at least one pool"
                + (", or hosts" if isinstance(fleet, ByoFleet) else ""),
            )
        )
    if problems or fleet is None:
        raise SpecError(source, problems, reading)
    return fleet


def _no_fleet(raw: object) -> Problem:
    if isinstance(raw, dict):
        return Problem(
            path=(),
            reason="is encrypted, and nothing in a fleet is secret: the plan has to show what it "
            "makes",
            instead="write it as plain YAML into the stack file, not by `pulumi config set "
            "--secret`",
            source="Pulumi docs, secrets",
        )
    return Problem(
        path=(),
        reason=f"is {kind_of(raw)}, no mapping of keys to values",
        instead="write cloud, cluster and node_pools below it, each with ':' and without '-' "
        "before it",
    )
