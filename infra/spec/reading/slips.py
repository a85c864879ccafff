"""A validation error as a person's slip: what is wrong, what would be right, and what the rest of
the file may be read as.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from infra.spec.problem import Path, Problem
from infra.spec.reading.shape import (
    NEAR,
    example,
    inside,
    is_required,
    keys_of,
    locate,
    rules,
    tag_with,
)
from infra.spec.reading.source import Source
from infra.spec.reading.words import ELSEWHERE, flow, listed, meant_word, written
from infra.spec.schema.limits import DnsName, Form, Named, Whole, Wrong

MISSING = "is missing"


@dataclass(frozen=True, kw_only=True)
class Renamed:
    """The key is another one's."""

    key: str


@dataclass(frozen=True, kw_only=True)
class Replaced:
    """The value that was meant, but for `also`: of that nobody knows."""

    value: Any
    also: tuple[Path, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Nobody knows what was meant; nor of `also`, which the slip may have been about."""

    also: tuple[Path, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Slip:
    problem: Problem
    loc: tuple[str | int, ...]
    """Where to mend, as pydantic says it."""
    mend: Renamed | Replaced | LeftOut


def slips(error: ValidationError, source: Source) -> tuple[Slip, ...]:
    found = [_slip(e, source) for e in error.errors(include_url=False)]
    # An unknown key that is nearly a missing one is one slip, not two.
    meant = {(*s.problem.path[:-1], s.mend.key) for s in found if isinstance(s.mend, Renamed)}
    return tuple(s for s in found if s.problem.reason != MISSING or s.problem.path not in meant)


def _slip(error: Any, source: Source) -> Slip:
    loc, kind, context, found = error["loc"], error["type"], error.get("ctx", {}), error["input"]
    path, parent = locate(loc)
    if kind == "extra_forbidden":
        return _unknown_key(loc, path, parent, source)
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _wrong_tag(loc, path, parent, context, found, source)
    problem, mend = _wrong_value(kind, context, found, path, parent, source)
    return Slip(problem=problem, loc=loc if loc[-1:] != ("[key]",) else loc[:-1], mend=mend)


def _wrong_value(
    kind: str, context: Mapping[str, Any], found: Any, path: Path, parent: Any, source: Source
) -> tuple[Problem, Renamed | Replaced | LeftOut]:
    wanted = inside(parent, path[-1]) if path else None
    if kind == "missing":
        return Problem(
            path=path, reason=MISSING, instead=f"write {path[-1]}: {flow(example(wanted))}"
        ), LeftOut()
    if kind == "literal_error":
        allowed = [a.strip("'\"") for a in context["expected"].replace(" or ", ", ").split(", ")]
        near = meant_word(found, allowed) if isinstance(found, str) else ""
        instead = (
            f"did you mean {near}?"
            if near
            else f"write {' or '.join(a or chr(34) * 2 for a in allowed)}"
        )
        problem = Problem(
            path=path, reason=f"{written(found)} is none of {listed(allowed)}", instead=instead
        )
        return problem, Replaced(value=near) if near else LeftOut()
    if kind == "value_error":
        wrong = context["error"]
        assert isinstance(wrong, Wrong), f"rules of the spec raise Wrong: {wrong!r}"
        in_key = path[-1:] == (found,) and isinstance(found, str)
        reason = str(wrong) if found in ([], {}) else f"{written(found)} {wrong}"
        return Problem(
            path=path, reason=reason, instead=wrong.instead, source=wrong.source, in_key=in_key
        ), LeftOut()
    what = _NOT_A.get(kind)
    if what is None:
        return Problem(
            path=path,
            reason=f"{written(found)}: {kind}",
            instead=f"for example {flow(example(wanted))}",
        ), LeftOut()
    near_value, instead = _as_meant(what, found, wanted, source.written.get(path))
    if near_value is None and path[-1:] and path[-1] in _MODES:
        instead = f"write {_MODES[str(path[-1])]}"
    if found is None and not is_required(parent, path):
        instead = f"leave {path[-1] if isinstance(path[-1], str) else 'the item'} out, or {instead}"
    shown = source.written.get(path) or written(found)
    problem = Problem(path=path, reason=f"{shown} is {what}", instead=instead)
    return problem, LeftOut() if near_value is None else Replaced(value=near_value)


_TEXT, _NUMBER, _SWITCH, _LIST, _MAPPING = (
    "no text",
    "no whole number",
    "neither true nor false",
    "no list",
    "no mapping of keys to values",
)
_NOT_A: Mapping[str, str] = {
    "string_type": _TEXT,
    "int_type": _NUMBER,
    "int_from_float": _NUMBER,
    "bool_type": _SWITCH,
    "tuple_type": _LIST,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "mapping_type": _MAPPING,
    "dict_type": _MAPPING,
}
_YES_AND_NO: Mapping[str, bool] = {
    **dict.fromkeys(("yes", "on", "y", "true", "enabled"), True),
    **dict.fromkeys(("no", "off", "n", "false", "disabled"), False),
}


def _as_meant(what: str, found: Any, wanted: Any, as_written: str | None) -> tuple[Any, str]:
    """The value that was meant, None where nobody knows; and what to write."""
    sample = example(wanted)
    if what == _TEXT:
        # As it stands in the file: to YAML 1.30 is 1.3.
        text = as_written or json.dumps(found)
        if isinstance(found, bool | int | float) and _may_be(text, wanted):
            return text, f'write it in quotes: "{text}"'
        if (
            isinstance(found, list)
            and len(found) == 1
            and isinstance(found[0], str)
            and _may_be(found[0], wanted)
        ):
            return found[0], f"write it without brackets: {found[0]}"
        return None, f"write one text, for example {sample}"
    if what == _NUMBER:
        # "3", 3.0, and 200GB where the key says GB.
        digits = (
            re.fullmatch(r"([0-9]{1,18})(?:\.0+)?(\s?[A-Za-z]+)?", str(found))
            if not isinstance(found, bool)
            else None
        )
        if digits and _may_be(int(digits[1]), wanted):
            how = (
                " without quotes"
                if digits[0] == digits[1]
                else " without a unit"
                if digits[2]
                else ""
            )
            return int(
                digits[1]
            ), f"write it{how}: {int(digits[1])}" if how else f"write {int(digits[1])}"
        rule = next(rules(wanted, Whole), None)
        return None, rule.instead if rule else f"for example {flow(sample)}"
    if what == _SWITCH:
        switch = _YES_AND_NO.get(found.casefold()) if isinstance(found, str) else None
        return (
            (None, "write true or false")
            if switch is None
            else (switch, f"write {json.dumps(switch)}")
        )
    if what == _LIST:
        if type(found) is not type(sample[0]):
            return None, f"write a list, for example {flow(sample)}"
        inner = flow([found])
        return [found], f"write it as a list: {inner}" if len(
            inner
        ) <= 60 else "write it as a list: '- ' before its first key"
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], dict):
        return found[0], "write its keys without '-' before them"
    keys = keys_of(wanted)
    fitting = [
        key for key in keys if type(found) is type(example(keys[key])) and sample.keys() <= {key}
    ]
    if len(fitting) == 1:
        return {fitting[0]: found}, f"write {flow({fitting[0]: found})}"
    return (
        None,
        f"write its keys below it, for example {flow(sample)}"
        if sample
        else f"its keys: {', '.join(keys)}",
    )


def _may_be(value: Any, wanted: Any) -> bool:
    """Whether a value of the right type is one that may stand there. Names of things are hardly
    ever numbers.
    """
    for rule in rules(wanted, Whole, Form, DnsName):
        try:
            rule.check(value)
        except Wrong:
            return False
        if isinstance(rule, Named):
            return isinstance(value, str) and not value.replace(".", "").isdecimal()
    return True


def _unknown_key(loc: tuple[str | int, ...], path: Path, parent: Any, source: Source) -> Slip:
    known, holder = tuple(parent.model_fields), source.value(path[:-1])
    key = str(path[-1])
    # machineType and machine-type are machine_type.
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|-", "_", key).casefold()
    close = difflib.get_close_matches(snake, known, n=1, cutoff=NEAR)
    elsewhere = ELSEWHERE.get(snake, "")
    within = (
        [inner for inner in holder[key] if inner in known] if isinstance(holder[key], dict) else []
    )
    target = elsewhere.partition(":")[0].partition(",")[0]
    mend: Renamed | LeftOut = LeftOut()
    if target in known and target != elsewhere:
        instead, mend = f"here it is {elsewhere}", LeftOut(also=((*path[:-1], target),))
    elif target in known or close:
        meant = target if target in known else close[0]
        instead = f"did you mean {meant}?"
        if meant not in holder and (
            close or isinstance(holder[key], type(example(inside(parent, meant))))
        ):
            mend = Renamed(key=meant)
    elif within:
        instead = f"write its keys ({', '.join(within)}) beside it, not below"
    else:
        instead = f"known here: {', '.join(known)}"
    return Slip(
        problem=Problem(path=path, reason="unknown key", instead=instead, in_key=True),
        loc=loc,
        mend=mend,
    )


_NOT_HERE: Mapping[str, str] = {
    "native": "only GKE partitions GPUs by itself",
    "bare": "a host without Kubernetes is cut that way, and stands under hosts",
}
_MODES: Mapping[str, str] = {
    "partition": "native (GKE), operator (NVIDIA's mig-manager), or none",
    "sharing": "time-slicing, mps, fractional, or none",
    "capacity": "on-demand, spot, flex-start, queued, reservation, or capacity-block",
    "in_use": "refuse or wait",
}


def _wrong_tag(
    loc: tuple[str | int, ...],
    path: Path,
    parent: Any,
    context: Mapping[str, Any],
    found: Any,
    source: Source,
) -> Slip:
    by = str(context["discriminator"]).strip("'")
    modes = _MODES.get(str(path[-1]), "") if path else "gke, eks, or byo (what exists already)"

    def slip(problem: Problem, mend: Renamed | Replaced | LeftOut) -> Slip:
        if isinstance(mend, LeftOut) and isinstance(found, dict):
            # The other keys say what it is about, and can be wrong themselves.
            tag = tag_with(inside(parent, path[-1]) if path else None, found.keys() - {by})
            mend = Replaced(value={**found, by: tag}, also=((*path, by),)) if tag else mend
        return Slip(problem=problem, loc=loc, mend=mend)

    if not isinstance(found, dict):
        reason = f"{written(found)} is no mapping with a key {by!r}"
        return slip(Problem(path=path, reason=reason, instead=f"write {by}: {modes}"), LeftOut())
    if "tag" not in context:
        near = difflib.get_close_matches(by, [str(key) for key in found], n=1, cutoff=NEAR)
        if near:
            reason, instead = "unknown key", f"did you mean {by}?"
            mended = {(by if key == near[0] else key): value for key, value in found.items()}
            return slip(
                Problem(path=(*path, near[0]), reason=reason, instead=instead, in_key=True),
                Replaced(value=mended),
            )
        guess = "" if path else _guessed_cloud(found)
        problem = Problem(path=(*path, by), reason=MISSING, instead=f"write {by}: {guess or modes}")
        return slip(problem, Replaced(value={**found, by: guess}) if guess else LeftOut())
    allowed = [t.strip().strip("'") for t in str(context["expected_tags"]).split(",")]
    as_written = source.value(path)
    tag = found[by]
    if not isinstance(tag, str):
        guess = "" if path else _guessed_cloud(found)
        instead = f"write {guess or modes}"
        problem = Problem(
            path=(*path, by), reason=f"{written(tag)} is none of {listed(allowed)}", instead=instead
        )
        return slip(problem, Replaced(value={**found, by: guess}) if guess else LeftOut())
    # `capacity: spot` has no key `mode` to point at.
    at = (*path, by) if isinstance(as_written, dict) else path
    if path[-1:] == ("partition",) and tag in _NOT_HERE:
        reason = f"{tag!r} is not for this pool: {_NOT_HERE[tag]}"
        others = [mode for mode in allowed if mode != tag]
        return slip(
            Problem(path=at, reason=reason, instead=f"write {' or '.join(reversed(others))}"),
            LeftOut(),
        )
    near_tag = meant_word(tag, allowed)
    guess = near_tag or ("" if path else _guessed_cloud(found))
    problem = Problem(
        path=at,
        reason=f"{written(tag)} is none of {listed(allowed)}",
        instead=f"did you mean {near_tag}?" if near_tag else f"write {modes}",
    )
    if not guess:
        return slip(problem, LeftOut())
    return slip(
        problem,
        Replaced(value={**as_written, by: guess} if isinstance(as_written, dict) else guess),
    )


def _guessed_cloud(fleet: Mapping[str, Any]) -> str:
    """What the other keys say of a fleet that does not say its cloud; empty where they say
    nothing.
    """
    cluster = fleet.get("cluster")
    keys: Sequence[str] = [*cluster] if isinstance(cluster, dict) else []
    for key, cloud in (("location", "gke"), ("region", "eks"), ("context", "byo")):
        if key in keys:
            return cloud
    return "byo" if "hosts" in fleet else ""
