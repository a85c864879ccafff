"""A pool's `rollout` in a stack file: numbers and percentages of nodes, and replaced keys."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from slicewright.apis.gpu_pool.rollout_policy import DEFAULT_POLICY, RolloutPolicy, read_policy
from slicewright.infra import stack_file

FILE = """\
config:
  slicewright:fleet:
    cloud: byo
    cluster: {name: c, context: c}
    node_pools:
    - name: a
      gpu: {model: A100-40, count: 2}
      nodes: {count: 2}
      rollout:
"""
LINE = FILE.count("\n") + 1
SHARES = ("max_unavailable", "max_failures", "max_unverified")


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    return tmp_path / "Pulumi.test.yaml"


def read(stack: Path, rollout: str) -> stack_file.Rollout:
    stack.write_text(FILE + f"        {rollout}\n")
    return stack_file.parse_file(stack).node_pools[0].rollout


def refused(stack: Path, rollout: str) -> str:
    with pytest.raises(stack_file.SpecError) as error:
        read(stack, rollout)
    return str(error.value)


def test_the_defaults_of_a_stack_file_are_those_of_the_policy() -> None:
    assert stack_file.Rollout().policy == DEFAULT_POLICY


def test_every_field_of_the_policy_can_be_stated(stack: Path) -> None:
    stated = read(
        stack,
        "{max_unavailable: 25%, canary: 2, drain_timeout_minutes: 5, on_drain_timeout: force, "
        "evict: all, delete_local_data: true, one_zone_at_a_time: true, max_failures: 3, "
        "max_failures_in_a_row: 2, max_unverified: 10%, quarantine: true}",
    ).policy
    for stated_part, default in ((stated, DEFAULT_POLICY), (stated.drain, DEFAULT_POLICY.drain)):
        for field in fields(default):
            assert getattr(stated_part, field.name) != getattr(default, field.name), field.name
    assert read_policy(stated.dump()) == stated
    assert (stated.limit(8), stated.tolerated(19), stated.drain.timeout_s) == (2, 1, 300)


@pytest.mark.parametrize("key", SHARES)
@pytest.mark.parametrize(
    ("written", "value"),
    [("1", 1), ("100", 100), ("1%", "1%"), ("25%", "25%"), ('"25%"', "25%"), ("100%", "100%")],
)
def test_a_share_of_nodes_is_a_number_or_a_percentage(
    stack: Path, key: str, written: str, value: int | str
) -> None:
    assert getattr(read(stack, f"{key}: {written}").policy, key) == value


@pytest.mark.parametrize("key", SHARES)
@pytest.mark.parametrize(
    ("written", "reason", "instead"),
    [
        ('"25"', '"25" is text', "write 25 without quotes for nodes, or 25%"),
        ('"500"', '"500" is text', "to 100, or a percentage such as 25%"),
        ("101", "must be at most 100 nodes, but is 101", "to 100, or"),
        ("150%", 'must be at most 100%, but is "150%"', "a percentage such as 25%"),
        ("2.5%", '"2.5%" is not a whole percentage', "a percentage such as 25%"),
        ("-5%", '"-5%" is not a whole percentage', "a percentage such as 25%"),
        ("007%", '"007%" is not a whole percentage', "a percentage such as 25%"),
        ("2.5", "2.5 is neither a number of nodes", "a percentage such as 25%"),
        ("true", "true is neither a number of nodes", "a percentage such as 25%"),
        ("[1]", "[1] is neither a number of nodes", "a percentage such as 25%"),
        ("half", '"half" is text', "a percentage such as 25%"),
        ("null", "null is neither a number of nodes", "out, or write"),
    ],
)
def test_another_value_is_refused_with_its_place(
    stack: Path, key: str, written: str, reason: str, instead: str
) -> None:
    message = refused(stack, f"{key}: {written}")
    assert f"1 problem, nothing was created or changed\n  {stack}:{LINE}:" in message
    assert f"rollout.{key} (pool a): {reason}" in message
    assert instead in message


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("max_unavailable: 0", "must be at least 1 node, but is 0"),
        ("max_unavailable: -1", "must be at least 1 node, but is -1"),
        ("max_failures: 0%", 'must be at least 1%, but is "0%"'),
        ("max_unverified: -1", "must not be negative, but is -1"),
    ],
)
def test_a_share_of_nodes_has_the_minimum_of_its_key(
    stack: Path, written: str, reason: str
) -> None:
    assert reason in refused(stack, written)


def test_no_node_may_be_tolerated_as_a_number_and_as_a_percentage(stack: Path) -> None:
    for written in ("0", "0%"):
        assert read(stack, f"max_unverified: {written}").policy.tolerated(100) == 0


@pytest.mark.parametrize(
    ("written", "now"),
    [
        ("max_unavailable_percent: 25", "max_unavailable: 25%"),
        ("max_failures_percent: 10", "max_failures: 10%"),
        ("on_failure: continue", "max_failures: 1 for pause (the default), 100% for continue"),
        ("tolerate_unproven: 2", "max_unverified: 2"),
        ("tolerate_unproven_percent: 10", "max_unverified: 10%"),
    ],
)
def test_a_replaced_key_is_refused_with_its_successor(stack: Path, written: str, now: str) -> None:
    message = refused(stack, written)
    key = written.partition(":")[0]
    assert "1 problem" in message
    assert f"{stack}:{LINE}:9: node_pools[0].rollout.{key} (pool a): {key} is now {now};" in message


def test_every_key_of_a_rollout_that_was_replaced_is_unknown() -> None:
    assert not stack_file.Rollout.replaced_keys.keys() & stack_file.Rollout.model_fields.keys()


@pytest.mark.parametrize("nodes", [0, 1, 3, 7, 8, 100])
def test_percentages_are_rounded_down_as_kubernetes_rounds_them(nodes: int) -> None:
    policy = RolloutPolicy(max_unavailable="25%", max_failures="25%", max_unverified="25%")
    assert policy.tolerated(nodes) == nodes // 4
    assert policy.limit(nodes) == policy.failures(nodes) == max(1, nodes // 4)
