"""Error recovery: several mistakes in one file are all reported, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.infra import plan, stack_file
from tests.properties import cases, examples
from tests.repository_stacks import STACKS as STACK_FILES

ROOT = Path(__file__).resolve().parents[3]
STACKS = {f.name.split(".")[1]: f for f in STACK_FILES}
Step = str | int
Path_ = tuple[Step, ...]

# Values that the schema accepts and the plan refuses, by key of a pool.
WRONG: Mapping[str, Mapping[str, Any]] = {
    "gke": {
        "name": "system",
        "machine_type": "a3-highgpu-8gg",
        "zones": ["us-east1-c"],
        "nodes": {"min": 3, "max": 1},
        "capacity": "capacity-block-of-nobody",
        "partition": {"mode": "native", "profile": "4g.40gb"},
        "sharing": {"mode": "mps", "replicas": 99},
        "local_ssd": {"ephemeral": 8, "raw": 8},
        "max_pods_per_node": 16,
        "labels": {"slicewright.io/x": "y"},
        "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
    },
    "eks": {
        "name": "system",
        "machine_type": "p4d.24xlarg",
        "zones": ["us-east-1a"],
        "nodes": {"min": 3, "max": 1},
        "capacity": "queued",
        "partition": {"mode": "operator", "layout": {"9g.5gb": 1, "4g.20gb": 2}},
        "sharing": {"mode": "mps", "replicas": 99},
        "labels": {"kubernetes.io/x": "y"},
        "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
    },
    "byo": {
        "name": "system",
        "gpu": {"model": "A40-100", "count": 1},
        "nodes": {"min": 3, "max": 1},
        "partition": {"mode": "operator", "layout": {"9g.5gb": 1, "4g.20gb": 2}},
        "sharing": {"mode": "mps", "replicas": 99},
        "labels": {"slicewright.io/x": "y"},
        "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
    },
}
WRONG["gke"]["capacity"] = {"mode": "capacity-block", "reservation": "cr-0123456789abcdef0"}  # type: ignore[index]

# Key -> paths that must be known to check it. A layout cannot be checked without the GPU model.
DEPENDS_ON: Mapping[str, tuple[Path_, ...]] = {
    "partition": (("machine_type",), ("gpu", "model"), ("gpu",)),
    "max_pods_per_node": (("machine_type",), ("partition",), ("sharing",)),
    "zones": (("cluster",), ("cluster", "location"), ("cluster", "region")),
    "sharing": (("partition", "mode"), ("partition",), ("gpu_operator", "mig_strategy")),
}


_FREE = {"labels", "layout", "replicas", "secrets"}
"""Keys whose own keys the user names."""


def _touch(one: Path_, other: Path_) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _places(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for step, inner in items:
        yield (*path, step)
        yield from _places(inner, (*path, step))


def _holder(fleet: Any, path: Path_) -> Any:
    for step in path[:-1]:
        fleet = fleet[step]
    return fleet


def _misspelled(key: str) -> str:
    return f"{key[:1]}x{key[1:]}"


def _problems(fleet: Any) -> tuple[stack_file.Problem, ...]:
    try:
        plan.read(json.dumps(fleet), stack_file.Source("stack x", fleet))
    except stack_file.SpecError as e:
        return e.problems
    return ()


def _with_schema_errors(fleet: Any, keep: Path_) -> Iterator[tuple[Path_, Any]]:
    """The fleet with a wrong type, a misspelled key or an extra key, at every other path."""
    for path in _places(fleet):
        if _touch(path, keep) or path == ("cloud",):
            continue
        typed = copy.deepcopy(fleet)
        _holder(typed, path)[path[-1]] = [[["?"]]]
        yield path, typed
        if isinstance(path[-1], str) and not _FREE & set(path[:-1]):
            spelt = copy.deepcopy(fleet)
            holder = _holder(spelt, path)
            holder[_misspelled(path[-1])] = holder.pop(path[-1])
            yield (*path[:-1], _misspelled(path[-1])), spelt
            more = copy.deepcopy(fleet)
            _holder(more, path)["owner"] = "team-a"
            yield (*path[:-1], "owner"), more


def _fleet(stack: str) -> Any:
    """To be changed at will."""
    return copy.deepcopy(_read(stack))


@cache
def _read(stack: str) -> Any:
    return yaml.safe_load(STACKS[stack].read_text())["config"]["slicewright:fleet"]


def _wrong(fleet: Any, pool: int) -> Mapping[str, Any]:
    """Without those that would break the fleet's fractional sharing too."""
    fractional = fleet["node_pools"][pool].get("sharing") == "fractional"
    return {
        k: v
        for k, v in WRONG[fleet["cloud"]].items()
        if not fractional or k not in ("partition", "sharing")
    }


def _pools() -> Iterator[tuple[str, int, str]]:
    for stack in STACKS:
        fleet = _fleet(stack)
        for i in range(len(fleet.get("node_pools", ()))):
            for key in _wrong(fleet, i):
                # Another name is another pool, which the workloads do not name.
                if key != "name" or not any("pool" in w for w in fleet.get("workloads", ())):
                    yield stack, i, key


@pytest.mark.parametrize(("stack", "pool", "key"), list(_pools()))
def test_a_schema_error_neither_hides_nor_causes_another_problem(
    stack: str, pool: int, key: str
) -> None:
    fleet = _fleet(stack)
    wrong = ("node_pools", pool, key)
    fleet["node_pools"][pool][key] = WRONG[fleet["cloud"]][key]
    alone = {p.path for p in _problems(fleet)}
    assert alone
    assert all(_touch(path, wrong) for path in alone), alone
    tried = 0
    for path, broken in cases(_with_schema_errors(fleet, wrong)):
        found = _problems(broken)
        others = [p for p in found if not _touch(p.path, path) and not _touch(p.path, wrong)]
        assert not others, f"{path}: {others}"
        assert any(_touch(p.path, path) for p in found), f"{path}: {found}"
        depends = DEPENDS_ON.get(key, ())
        open_ = any(_touch(path, (*wrong[:2], *by)) or _touch(path, by) for by in depends)
        assert open_ or alone <= {p.path for p in found}, (
            f"{path} hides {alone - {p.path for p in found}}"
        )
        tried += 1
    assert tried > 3


@pytest.mark.parametrize(("stack", "pool", "key"), list(_pools()))
def test_two_problems_of_the_plan_are_both_reported(stack: str, pool: int, key: str) -> None:
    fleet = _fleet(stack)
    for other, value in _wrong(fleet, pool).items():
        if other == key:
            continue
        both = copy.deepcopy(fleet)
        both["node_pools"][pool] |= {key: WRONG[fleet["cloud"]][key], other: value}
        found = {
            p.path[2]
            for p in _problems(both)
            if p.path[:2] == ("node_pools", pool) and len(p.path) > 2
        }
        for wrong, beside in ((key, other), (other, key)):
            depends = any(by[0] == beside for by in DEPENDS_ON.get(wrong, ()))
            assert depends or wrong in found, f"{wrong} is hidden by {beside}: {found}"
        assert found <= {key, other}, found


@pytest.mark.parametrize("shape", ["index", "mig", "instances", "persistence"])
def test_a_host_with_a_schema_error_is_still_checked(shape: str) -> None:
    fleet = _fleet("hosts-a100")
    fleet["hosts"][0]["gpus"].append(
        {"index": 9, "instances": [{"profile": "4g.20gb"}, {"profile": "4g.20gb"}]}
    )
    fleet["hosts"][0]["gpus"][0][shape] = [[["?"]]]
    found = {p.path[:6] for p in _problems(fleet)}
    at = ("hosts", 0, "gpus")
    assert {(*at, 1, "index"), (*at, 1, "instances")} < found
    assert all(path[:4] == (*at, 1) or path[:5] == (*at, 0, shape) for path in found), found


def test_the_value_of_a_misspelled_key_is_still_checked() -> None:
    fleet = _fleet("eks-a100")
    pool = fleet["node_pools"][0]
    pool["machin_type"] = pool.pop("machine_type") + "x"
    found = {(p.path, p.reason) for p in _problems(fleet)}
    at = ("node_pools", 0, "machin_type")
    assert found == {(at, "unknown key"), (at, "p4d.24xlargex is not in the catalog")}


def test_problems_below_a_misspelled_mode_are_reported() -> None:
    fleet = _fleet("gke-h100")
    fleet["node_pools"][0]["partition"] = {"mode": "nativ", "profil": "3g40gb"}
    paths = [p.path[3:] for p in _problems(fleet)]
    assert sorted(paths) == [("mode",), ("profil",), ("profil",)]


def test_a_missing_cloud_is_inferred_from_the_other_keys() -> None:
    for stack, cloud in (
        ("gke-h100", "gke"),
        ("eks-a100", "eks"),
        ("hosts-a100", "byo"),
        ("fractional", "byo"),
    ):
        fleet = _fleet(stack)
        del fleet["cloud"]
        fleet["verify_timeout_minutes"] = 0
        problems = {p.path: p for p in _problems(fleet)}
        assert set(problems) == {("cloud",), ("verify_timeout_minutes",)}
        assert problems["cloud",].instead == f"write cloud: {cloud}"


@given(st.data())
@settings(max_examples=examples(150), deadline=None)
def test_several_random_mistakes_are_all_reported_and_nothing_else(data: st.DataObject) -> None:
    stack = data.draw(st.sampled_from(sorted(STACKS)))
    fleet = _fleet(stack)
    broken: list[Path_] = []
    for _ in range(data.draw(st.integers(2, 4))):
        path = data.draw(st.sampled_from([p for p in _places(fleet) if p != ("cloud",)]))
        if any(_touch(path, other) for other in broken):
            continue
        holder, last = _holder(fleet, path), path[-1]
        if isinstance(last, str) and not _FREE & set(path[:-1]) and data.draw(st.booleans()):
            holder[_misspelled(last)] = holder.pop(last)
            broken.append((*path[:-1], _misspelled(last)))
        else:
            holder[last] = [[["?"]]]
            broken.append(path)
    found = [p.path for p in _problems(fleet)]
    assert all(any(_touch(path, place) for path in found) for place in broken), (broken, found)
    assert all(any(_touch(path, place) for place in broken) for path in found), (broken, found)


def test_invalid_keys_of_a_mapping_are_not_reported_as_an_empty_mapping() -> None:
    raw = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "eu-west-1"},
        "node_pools": [
            {
                "name": "p",
                "machine_type": "p4d.24xlarge",
                "nodes": {"count": 1},
                "partition": {"mode": "operator", "layout": {"5gb": 7}},
            }
        ],
    }
    with pytest.raises(stack_file.SpecError) as refused:
        plan.read(json.dumps(raw), stack_file.Source("test", raw))
    (problem,) = refused.value.problems
    assert "5gb" in problem.reason


def test_problems_beyond_the_most_that_are_described_are_counted() -> None:
    raw = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "eu-west-1"},
        "node_pools": list(range(20_000)),
    }
    with pytest.raises(stack_file.SpecError, match="20000 problems") as refused:
        plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert len(refused.value.problems) < 1000
    assert "and 19950 more" in str(refused.value)
