"""Stack files that are large, or made to harm: the reader stays linear, the terminal safe."""

from __future__ import annotations

import contextlib
import re
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright import cli
from slicewright.infra import plan, stack_file
from slicewright.infra.stack_file.reading import yaml_reader
from tests.properties import examples

HEAD = (
    "config:\n  slicewright:fleet:\n    cloud: gke\n"
    "    cluster: {name: c, location: us-central1}\n    node_pools:\n"
)
POOL = (
    "    - {name: a, machine_type: a2-highgpu-1g, zones: [us-central1-a], nodes: {count: 1}, "
    "partition: {mode: native, profile: 1g.5gb}}\n"
)


def refusal(directory: Path, text: str) -> stack_file.SpecError:
    file = directory / "Pulumi.x.yaml"
    file.write_text(text)
    with pytest.raises(stack_file.SpecError) as error:
        plan.read_file(file, name="x.yaml")
    return error.value


def test_merges_are_resolved_once_however_often_they_are_used(tmp_path: Path) -> None:
    # Read as it is written, it would be 5^24 merges.
    merges = "config:\n  x0: &x0 {a: 1, b: 2, c: 3}\n" + "".join(
        f"  x{i}: &x{i} {{<<: [{', '.join([f'*x{i - 1}'] * 5)}], y{i}: 1}}\n" for i in range(1, 25)
    )
    error = refusal(tmp_path, f"{merges}  slicewright:fleet: {{<<: *x24}}\n")
    assert "cloud: is missing" in str(error)


@pytest.mark.parametrize(
    ("links", "message"), [(59, "cloud: is missing"), (70, "merges (<<) more than 60 mappings")]
)
def test_merges_within_merges_have_a_limit(tmp_path: Path, links: int, message: str) -> None:
    chain = "config:\n  x0: &x0 {a: 1}\n" + "".join(
        f"  x{i}: &x{i} {{<<: *x{i - 1}}}\n" for i in range(1, links)
    )
    error = refusal(tmp_path, f"{chain}  slicewright:fleet: {{<<: *x{links - 1}}}\n")
    assert message in str(error)


def test_many_merges_of_a_large_mapping_have_a_limit(tmp_path: Path) -> None:
    large = "{" + ", ".join(f"k{i}: 1" for i in range(3000)) + "}"
    pools = "      - {<<: *large}\n" * 100
    text = f"config:\n  l: &large {large}\n  slicewright:fleet:\n    node_pools:\n{pools}"
    assert "use fewer" in str(refusal(tmp_path, text))


def test_only_the_first_problems_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    error = refusal(tmp_path, HEAD + "    - {name: A, machine: x, nodes: -1}\n" * 500)
    first, *lines, last = str(error).splitlines()
    counted = re.fullmatch(r"x\.yaml: ([0-9]+) problems, nothing was created or changed", first)
    assert counted is not None
    assert int(counted[1]) > 1500
    assert len(error.problems) <= 200
    assert len(lines) == 50
    assert last == f"  and {int(counted[1]) - 50} more; they are shown once these are fixed"


WRONG_POOL = (
    "    - {{name: A{i}, machine: a2-highgpu-1, zones: [us-central1-z], nodes: -1, "
    "taints: [{{key: a, value: b, effect: c}}], partition: {{mode: native, profile: 1g.6gb}}}}\n"
)
GOOD_POOL = POOL.replace("{", "{{").replace("}", "}}").replace("name: a", "name: a{i}")


@pytest.mark.parametrize("pool", [GOOD_POOL, WRONG_POOL], ids=["good", "wrong"])
def test_four_times_as_many_pools_take_four_times_the_work_and_memory(
    tmp_path: Path, pool: str
) -> None:
    # Work is counted in lines of Python that are run, not in seconds.
    file = tmp_path / "Pulumi.x.yaml"

    def costs(pools: int) -> tuple[int, int]:
        file.write_text(HEAD + "".join(pool.format(i=i) for i in range(pools)))
        return lines_run(lambda: shown(file)), most_memory(lambda: shown(file))

    costs(2)  # what is read and made once
    few, many = costs(examples(250)), costs(examples(1000))
    assert many[0] / few[0] < 4.4
    assert many[1] / few[1] < 4.4


def shown(file: Path) -> str:
    """What `check` would print of the file's problems; empty for a good file."""
    try:
        plan.read_file(file)
    except stack_file.SpecError as e:
        return str(e)
    return ""


def lines_run(work: Callable[[], object]) -> int:
    count = 0

    def traced(*_: object) -> Callable[..., Any]:
        nonlocal count
        count += 1
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def most_memory(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@settings(max_examples=examples(1000))
@given(st.text(alphabet="[]{}'\"# a:,-\n?"))
def test_the_nesting_bound_is_at_least_the_depth_of_the_parsed_file(text: str) -> None:
    depth = deepest = 0
    with contextlib.suppress(yaml.YAMLError):
        for event in yaml.parse(text, Loader=yaml_reader.Loader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                deepest = max(deepest, depth)
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    assert yaml_reader._deepest(text) >= deepest


@pytest.mark.parametrize(
    "hostile", ["\\e[2J", "\\u202e", "\\r", "\\n", "\\x9b", "\\u2028", "\\u200b"]
)
@pytest.mark.parametrize(
    "where",
    [
        'name: "a{}"',
        '"a{}": 1, name: a',
        'labels: {{"a{}": x}}, name: a',
        'labels: {{a: "b{}"}}, name: a',
        'machine_type: "a{}", name: a',
        'zones: ["a{}"], name: a',
        'capacity: "a{}", name: a',
        'partition: {{mode: "a{}"}}, name: a',
        'partition: {{mode: native, profile: "a{}"}}, name: a',
        'sharing: {{mode: time-slicing, replicas: {{"a{}": 2}}}}, name: a',
    ],
)
def test_nothing_of_a_file_reaches_the_terminal_unescaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str, hostile: str
) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text(f"{HEAD}    - {{{where.format(hostile)}}}\n")
    assert cli.main(["check", str(file)]) == cli.BAD_INPUT
    out = capsys.readouterr().out
    assert out.replace("\n", "").isprintable()
    assert all(line.startswith((str(tmp_path), f"  {tmp_path}")) for line in out.splitlines())


@pytest.mark.parametrize(
    "text",
    [
        HEAD + POOL.replace("name: a", f"name: {'a' * 1_000_000}"),
        HEAD + POOL.replace("name: a", f"name: a, {'k' * 1_000_000}: 1"),
        HEAD + POOL.replace("native", "m" * 1_000_000),
        HEAD + POOL.replace("a2-highgpu-1g", "m" * 1_000_000),
        HEAD + POOL.replace("us-central1-a", "z" * 1_000_000),
        HEAD + POOL.replace("count: 1", f"count: {'9' * 1_000_000}"),
        f"config:\n  slicewright:fleet: *{'a' * 1_000_000}\n",
        f"config:\n  slicewright:fleet: {{a: 1, a: {'a' * 1_000_000}}}\n",
    ],
)
def test_a_long_name_is_shown_shortened(tmp_path: Path, text: str) -> None:
    assert max(map(len, str(refusal(tmp_path, text)).splitlines())) < 2500


def test_line_100_is_printed_as_a_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text(HEAD + "\n" * 94 + POOL.replace("name: a", "name: A"))
    assert cli.main(["check", str(file)]) == cli.BAD_INPUT
    assert "Pulumi.x.yaml:100:14: " in capsys.readouterr().out
