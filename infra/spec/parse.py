"""Text to a frozen fleet, or one SpecError with every problem, each with the nearest thing that would be right."""

from __future__ import annotations

import dataclasses
import difflib
import json
import types
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Field, Tag, TypeAdapter, ValidationError

from infra.spec.base import SPELLED_OUT, WORD
from infra.spec.models import ByoFleet, Fleet
from infra.spec.problems import Problem, Salvage, SpecError
from infra.spec.source import NotReadable, Path, Source, read

_FLEET: TypeAdapter[Fleet] = TypeAdapter(Annotated[Fleet, Field(discriminator="cloud")])

# What other tools call it -> what it is called here.
_ELSEWHERE: Mapping[str, str] = {
    "instance_type": "machine_type",
    "instance_types": "machine_type",
    "machineType": "machine_type",
    "node_locations": "zones",
    "subnets": "zones",
    "node_count": "nodes: {count: …}",
    "count": "nodes: {count: …}",
    "scaling": "nodes: {min: …, max: …}",
    "autoscaling": "nodes: {min: …, max: …}",
    "spot": "capacity: spot",
    "preemptible": "capacity: spot",
    "volume_size_gb": "disk: {size_gb: …}",
    "disk_size_gb": "disk: {size_gb: …}",
    "gpu_partition_size": "partition: {mode: native, profile: …}",
    "mig": "partition: {mode: …}",
    "accelerator": "machine_type, which decides the GPUs",
    "gpu_driver_version": "driver",
    "time_slicing": "sharing: {mode: time-slicing, replicas: …}",
    "mps": "sharing: {mode: mps, replicas: …}",
    "gpu_sharing": "sharing: {mode: …}",
    "gpu_sharing_config": "sharing: {mode: time-slicing, replicas: …}",
    "max_shared_clients_per_gpu": "sharing: {mode: time-slicing, replicas: …}",
    "flex_start": "capacity: flex-start",
    "reservation_affinity": "capacity: {mode: reservation, reservation: …}",
    "upgrade_settings": "rollout: {max_unavailable: …}",
    "update_config": "rollout: {max_unavailable: …}",
    "placement": "start",
    "replicas_per_gpu": "replicas",
    "renameByDefault": "rename_by_default",
    "failRequestsGreaterThanOne": "fail_requests_greater_than_one",
    "pools": "node_pools",
    "regions": "region",
}

_OTHER_WORDS: Mapping[str, str] = {
    "gcp": "gke",
    "google": "gke",
    "aws": "eks",
    "amazon": "eks",
    "preemptible": "spot",
    "mig": "operator",
    "timeslicing": "time-slicing",
    "time_sharing": "time-slicing",
    "time-sharing": "time-slicing",
    "ondemand": "on-demand",
    "dws": "queued",
    "kubernetes": "byo",
    "k8s": "byo",
    "existing": "byo",
}


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
    """The fleet in JSON text. Raises SpecError with every problem of shape and syntax.

    text: as `pulumi.Config().require("fleet")` gives it; raw text, because strict validation of Python objects would refuse
    lists for tuples.
    """
    if source.raw is None:
        try:
            source = dataclasses.replace(source, raw=json.loads(text))
        except ValueError as e:
            raise unreadable(f"{source.name}: is no JSON: {e}", source.name) from None
    problems = [Problem(path=path, reason="the key is there twice", instead="keep one", in_key=True) for path in source.twice]
    try:
        fleet = _FLEET.validate_json(text)
    except ValidationError as e:
        problems += _problems(e, source.raw)
        raise SpecError(source, problems, _salvage(source.raw, problems)) from None
    if not fleet.node_pools and not (isinstance(fleet, ByoFleet) and fleet.hosts):
        problems.append(Problem(path=("node_pools",), reason="is empty", instead="name at least one pool"))
    if problems:
        raise SpecError(source, problems, Salvage(fleet, tuple(range(len(fleet.node_pools)))))
    return fleet


def _problems(error: ValidationError, raw: Any) -> list[Problem]:
    problems = [_problem(e, raw) for e in error.errors(include_url=False)]
    # An unknown key that is nearly a missing one is one slip, not two.
    meant = {(*p.path[:-1], p.instead.removeprefix("did you mean ").rstrip("?")) for p in problems if p.in_key}
    return [p for p in problems if p.reason != _MISSING or p.path not in meant]


_MISSING = "is missing"


def _problem(error: Any, raw: Any) -> Problem:
    path, parent = _locate(error["loc"], raw)
    kind, context, found = error["type"], error.get("ctx", {}), error["input"]
    if kind == "extra_forbidden":
        return _unknown_key(path, parent)
    if kind == "missing":
        return Problem(path=path, reason=_MISSING)
    if kind == "literal_error":
        allowed = [a.strip("'\"") for a in context["expected"].replace(" or ", ", ").split(", ")]
        return Problem(path=path, reason=f"{_written(found)} is none of {_listed(allowed)}", instead=_nearest(found, allowed))
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _wrong_tag(path, context, found, Source("", raw).value(path))
    if kind == "value_error":
        return Problem(path=path, reason=f"{_written(found)} {context['error']}")
    if kind in _NOT_A:
        return Problem(path=path, reason=f"{_written(found)} is {_NOT_A[kind]}", instead=_in_quotes(kind, found))
    return Problem(path=path, reason=f"{_written(found)}: {error['msg'][0].lower()}{error['msg'][1:]}")


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

_NOT_A: Mapping[str, str] = {
    "string_type": "no text",
    "int_type": "no whole number",
    "int_from_float": "no whole number",
    "bool_type": "neither true nor false",
    "tuple_type": "no list",
    "model_type": "no mapping of keys to values",
    "model_attributes_type": "no mapping of keys to values",
    "mapping_type": "no mapping of keys to values",
    "dict_type": "no mapping of keys to values",
}


def _in_quotes(kind: str, found: Any) -> str:
    if kind == "string_type" and isinstance(found, bool | int | float):
        return f'write it in quotes: "{json.dumps(found)}"'
    if kind == "int_type" and isinstance(found, str) and found.isdigit():
        return f"write it without quotes: {found}"
    return ""


def _unknown_key(path: Path, parent: Any) -> Problem:
    key, known = str(path[-1]), tuple(parent.model_fields) if _is_model(parent) else ()
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    if close:
        instead = f"did you mean {close[0]}?"
    elif key in _ELSEWHERE:
        instead = f"here it is {_ELSEWHERE[key]}"
    else:
        instead = f"known here: {', '.join(known)}"
    return Problem(path=path, reason="unknown key", instead=instead, in_key=True)


def _wrong_tag(path: Path, context: Mapping[str, Any], found: Any, written: Any) -> Problem:
    by = str(context["discriminator"]).strip("'")
    if not isinstance(found, dict):
        return Problem(path=path, reason=f"{_written(found)} is no mapping with a key {by!r}")
    if "tag" not in context:
        slip = difflib.get_close_matches(by, [str(key) for key in found], n=1, cutoff=0.6)
        if slip:
            return Problem(path=(*path, slip[0]), reason="unknown key", instead=f"did you mean {by}?", in_key=True)
        return Problem(
            path=(*path, by),
            reason=_MISSING,
            instead=_MODES.get(str(path[-1]), "") if path else "",
        )
    allowed = [t.strip().strip("'") for t in str(context["expected_tags"]).split(",")]
    tag = context["tag"]
    at = (*path, by) if isinstance(written, dict) else path  # `capacity: spot` has no key `mode` to point at
    if path[-1:] == ("partition",) and tag in _NOT_HERE:
        return Problem(path=at, reason=f"{tag!r} is not for this pool: {_NOT_HERE[tag]}", instead="write operator or none")
    return Problem(path=at, reason=f"{_written(tag)} is none of {_listed(allowed)}", instead=_nearest(tag, allowed))


def _locate(loc: Sequence[str | int], raw: Any) -> tuple[Path, Any]:
    """The path as people know it, without the unions' tags that pydantic puts in, and the type that holds its last step."""
    path: list[str | int] = []
    at: Any = Annotated[Fleet, Field(discriminator="cloud")]
    parent: Any = None
    for step in loc:
        if step in (WORD, SPELLED_OUT):
            continue
        at = _plain(at)
        members = _members(at)
        if len(members) > 1:
            at = members.get(str(step))
            continue
        at = next(iter(members.values()), at)
        if step == "[key]":
            break
        parent, at = at, _inside(at, step)
        path.append(step)
    return tuple(path), parent


def _plain(annotation: Any) -> Any:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation


def _members(annotation: Any) -> dict[str, Any]:
    """Tag -> member of a union, None left out; a single type under its own name."""
    if get_origin(annotation) not in (Union, types.UnionType):
        return {str(annotation): annotation}
    found = {}
    for member in get_args(annotation):
        if member is type(None):
            continue
        tag = next((m.tag for m in getattr(member, "__metadata__", ()) if isinstance(m, Tag)), None)
        found[tag or _mode_of(_plain(member))] = _plain(member)
    return found


def _mode_of(model: Any) -> str:
    if _is_model(model):
        for name in ("mode", "cloud"):
            if name in model.model_fields and get_origin(model.model_fields[name].annotation) is Literal:
                return str(get_args(model.model_fields[name].annotation)[0])
    return str(model)


def _inside(annotation: Any, step: str | int) -> Any:
    if _is_model(annotation):
        field = annotation.model_fields.get(str(step))
        return field.annotation if field else None
    arguments = get_args(annotation)
    return arguments[0] if isinstance(step, int) and arguments else arguments[-1] if arguments else None


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _nearest(found: Any, allowed: Sequence[str]) -> str:
    if str(found).casefold() in _OTHER_WORDS and _OTHER_WORDS[str(found).casefold()] in allowed:
        return f"did you mean {_OTHER_WORDS[str(found).casefold()]}?"
    folded = {a.casefold().replace("_", "-"): a for a in allowed}
    close = difflib.get_close_matches(str(found).casefold().replace("_", "-"), folded, n=1, cutoff=0.5)
    return f"did you mean {folded[close[0]]}?" if close else ""


def _written(found: Any) -> str:
    text = json.dumps(found, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(name or '""' for name in names)


def _salvage(raw: Any, problems: Sequence[Problem]) -> Salvage | None:
    if not isinstance(raw, dict) or not isinstance(raw.get("node_pools"), list):
        return None
    broken = {p.path[1] for p in problems if len(p.path) > 1 and p.path[0] == "node_pools"}
    elsewhere = {p.path[0] for p in problems if p.path and p.path[0] not in ("node_pools", "cloud", "cluster")}
    kept = tuple(i for i in range(len(raw["node_pools"])) if i not in broken)
    rest = {k: v for k, v in raw.items() if k not in elsewhere}
    rest["node_pools"] = [raw["node_pools"][i] for i in kept]
    try:
        return Salvage(_FLEET.validate_json(json.dumps(rest)), kept)
    except ValidationError:
        return None
