"""Over two hundred stack files with one mistake each, which is reported on its line."""

from __future__ import annotations

import copy
import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from slicewright import cli
from slicewright.infra import plan, stack_file
from slicewright.infra.stack_file import KEY
from tests.properties import cases
from tests.repository_stacks import STACKS

ROOT = Path(__file__).resolve().parents[3]


# In C where PyYAML has it.
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Broken:
    name: str
    fleet: Any
    path: tuple[str | int, ...]
    """Path of the mistake."""

    # Every worker collects them all, and one of them runs them.
    @cached_property
    def text(self) -> str:
        return dumped(self.fleet)

    @cached_property
    def error(self) -> stack_file.SpecError:
        """What it is refused with: read once for all tests."""
        with TemporaryDirectory() as directory:
            return refused(self.text, Path(directory))


def dumped(fleet: Any) -> str:
    found: str = yaml.dump({"config": {KEY: fleet}}, Dumper=_DUMPER, sort_keys=False, width=200)
    return found


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every key and item, without those below mappings with free keys (labels, tags, layouts)."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            if key not in ("labels", "tags", "resource_labels", "layout", "replicas"):
                yield from paths(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from paths(inner, (*path, i))


def _parent(fleet: Any, path: tuple[str | int, ...]) -> Any:
    for step in path[:-1]:
        fleet = fleet[step]
    return fleet


def _misspelled(key: str) -> str:
    return f"{key[:1]}x{key[1:]}"


def generated() -> Iterator[Broken]:
    for file in STACKS:
        stack = file.name.split(".")[1]
        good = yaml.safe_load(file.read_text())["config"][KEY]
        for path in paths(good):
            shown = ".".join(map(str, path))
            for kind in ("misspelled", "wrong type", "null"):
                fleet = copy.deepcopy(good)
                at, last = _parent(fleet, path), path[-1]
                if kind == "misspelled":
                    if isinstance(last, int) or path[-2:-1] == ("secrets",):
                        continue  # of secrets the user names the keys
                    broken = {(_misspelled(k) if k == last else k): v for k, v in at.items()}
                    at.clear()
                    at.update(broken)
                    yield Broken(
                        f"{stack}: {shown} misspelled",
                        fleet,
                        (*path[:-1], _misspelled(last)),
                    )
                    continue
                # No value of a stack file may be -7.5.
                at[last] = -7.5 if kind == "wrong type" else None
                yield Broken(f"{stack}: {shown} {kind}", fleet, path)


# Where a key is optional, null is the same as leaving it out.
_MAY_BE_NULL = {
    "fractional", "local_ssd", "config", "start", "ami_type",
    "attention", "max_model_len", "max_num_seqs", "cpu", "gpu_memory",
    "monitoring", "autoscaling", "stabilization", "cache", "storage_class",
}  # fmt: skip
_MEMORY = ("requests", "memory"), ("limits", "memory")
_TOOLKIT = ("gpu_operator", "toolkit", "enabled")
GENERATED = [
    b
    for b in generated()
    if not (
        b.name.endswith(" null")
        and (b.path[-1] in _MAY_BE_NULL or b.path == _TOOLKIT or b.path[-2:] in _MEMORY)
    )
]


def test_more_than_two_hundred_broken_files_are_tested() -> None:
    assert len(GENERATED) > 200


def refused(text: str, tmp_path: Path) -> stack_file.SpecError:
    file = tmp_path / "Pulumi.broken.yaml"
    file.write_text(text)
    with pytest.raises(stack_file.SpecError) as error:
        plan.read_file(file, name="broken.yaml")
    return error.value


@pytest.mark.parametrize("broken", [*cases(GENERATED)], ids=lambda b: b.name)
def test_a_mistake_is_reported_with_its_position(broken: Broken) -> None:
    error = broken.error
    message = str(error)
    assert re.match(r"broken\.yaml: \d+ problems?, nothing was created or changed\n", message)
    lines = message.splitlines()[1:]
    key, value = _positions(broken.text, broken.path)
    at = [
        line
        for line in lines
        if line.startswith((f"  broken.yaml:{key}: ", f"  broken.yaml:{value}: "))
    ]
    assert at, f"nothing about {key} or {value}:\n{message}"
    last = str(broken.path[-1])
    assert any(last in line for line in at) or isinstance(broken.path[-1], int), message
    # Path, reason, remedy; no Python names.
    assert not re.search(
        r"Traceback|pydantic|infra\.|<class|ValidationError|object at 0x|None", message
    )
    assert len(error.problems) == len(lines)
    for problem, line in itertools.product(error.problems, lines):
        assert problem.reason
        assert problem.instead
        assert re.fullmatch(r"  broken\.yaml:\d+:\d+: \S.*?: .+; .+", line), line


def test_every_mistake_has_its_own_message() -> None:
    """Only the same mistake in the same key of another stack has the same message."""
    by_message: dict[str, list[Broken]] = {}
    for broken in GENERATED:
        by_message.setdefault(str(broken.error).partition("\n")[2], []).append(broken)
    for message, alike in by_message.items():
        stacks = [b.name.partition(":")[0] for b in alike]
        mistakes = {b.name.partition(":")[2] for b in alike}
        assert len(set(stacks)) == len(stacks), f"{[b.name for b in alike]}: {message}"
        assert len(mistakes) == 1, f"{mistakes}: {message}"
    assert len(by_message) > 200


def _positions(text: str, path: tuple[str | int, ...]) -> tuple[str, str]:
    """`LINE:COLUMN` of a key and of its value, found by walking PyYAML's nodes, independently of
    the product.
    """
    node = yaml.compose(text, Loader=_LOADER)
    key = node
    for step in ("config", KEY, *path):
        if isinstance(step, int):
            assert isinstance(node, yaml.SequenceNode)
            key = node = node.value[step]
        else:
            assert isinstance(node, yaml.MappingNode)
            key, node = next((k, v) for k, v in node.value if k.value == step)
    key_at, value_at = (
        f"{one.start_mark.line + 1}:{one.start_mark.column + 1}" for one in (key, node)
    )
    return key_at, value_at


GOOD = (ROOT / "stacks" / "Pulumi.eks-a100.yaml").read_text()
_BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
BYTES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "only a comment": (b"# nothing\n", "is empty"),
    "two documents": (b"config: {}\n---\nconfig: {}\n", "is not valid YAML"),
    "no YAML": (b"config: [\n", "is not valid YAML"),
    "a tab": (b"config:\n\tx: 1\n", "is not valid YAML"),
    "a list": (b"- config\n", ":1: is a list, not a mapping; it must have the key"),
    "a scalar": (b"hello\n", ":1: is a string, not a mapping; it must have the key"),
    "another project's": (
        b"config:\n  other:fleet: {}\n",
        "has no key slicewright:fleet under config",
    ),
    "not UTF-8": (b"config:\n  x: \xff\xfe\n", "is not valid UTF-8"),
    "UTF-16": ("config: {}\n".encode("utf-16"), "is not valid UTF-8"),
    "a zero byte": (b"config: \x00\n", "is not valid YAML"),
    "anchor bomb": (
        f"{_BOMB}config:\n  slicewright:fleet: *i\n".encode(),
        "values when its aliases are expanded",
    ),
    "alias of itself": (
        b"config:\n  slicewright:fleet: &a\n    cloud: *a\n",
        "the alias is part of the value that it refers to",
    ),
    "an unknown alias": (b"config:\n  slicewright:fleet: *nobody\n", "is not valid YAML"),
    "deep": (b"config:\n  slicewright:fleet: " + b"[" * 100_000, "is nested more than"),
    "deep mapping": (b"config: " + b"{a: " * 5_000, "is nested more than"),
    "huge": (b"#" + b"x" * (5 * 1024 * 1024), "a stack file may have at most"),
    "infinite": (
        b"config:\n  slicewright:fleet: {cloud: eks, verify_timeout_minutes: 1e999}\n",
        "1e999 is too large or not finite",
    ),
    "NaN": (b"config:\n  slicewright:fleet: {cloud: .nan}\n", ".nan is too large or not finite"),
    "a tag": (
        b"config:\n  slicewright:fleet: !!python/object/apply:os.system [ls]\n",
        "Pulumi.broken.yaml",
    ),
    "a binary": (
        b"config:\n  slicewright:fleet: {cloud: !!binary aGVsbG8=}\n",
        ":2:30: cloud: the YAML tag !!binary is not supported",
    ),
    "a key that is a list": (
        b"config:\n  slicewright:fleet: {? [a, b] : c, cloud: eks}\n",
        "Pulumi.broken.yaml",
    ),
    "a merge of nothing": (
        b"config:\n  slicewright:fleet: {<<: 7, cloud: eks}\n",
        "Pulumi.broken.yaml",
    ),
    "a huge whole number": (
        b"config:\n  slicewright:fleet: {cloud: eks, verify_timeout_minutes: "
        + b"9" * 5000
        + b"}\n",
        " is too large or not finite",
    ),
    "a fleet that is text": (
        b"config:\n  slicewright:fleet: hello\n",
        ':2:22: slicewright:fleet: is the string "hello", not a mapping',
    ),
    "a secret": (
        b"config:\n  slicewright:fleet: {secure: AAAB}\n",
        "is an encrypted secret",
    ),
    "the same key twice": (
        GOOD.replace("    cloud: eks\n", "    cloud: eks\n    cloud: eks\n").encode(),
        "duplicate key",
    ),
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_that_are_not_a_stack_file_are_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, reason = BYTES[name]
    file = tmp_path / "Pulumi.broken.yaml"
    file.write_bytes(content)
    assert cli.main(["check", str(file)]) == cli.BAD_INPUT
    out = capsys.readouterr().out
    assert reason in out
    assert "Traceback" not in out


def test_a_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(tmp_path)]) == cli.BAD_INPUT
    assert "cannot be read: is a directory, not a file" in capsys.readouterr().out


def test_a_pipe_is_refused_without_reading_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert cli.main(["check", str(tmp_path / "pipe.yaml")]) == cli.BAD_INPUT
    assert "pipe.yaml: cannot be read: is a pipe, not a file" in capsys.readouterr().out


def test_a_device_is_refused_without_reading_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "/dev/zero"]) == cli.BAD_INPUT
    assert "/dev/zero: cannot be read: is a device, not a file" in capsys.readouterr().out


def test_a_large_file_is_refused_without_reading_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "large.yaml"
    with file.open("wb") as large:
        large.truncate(1 << 40)  # sparse: takes no disk space
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("was read"))
    with pytest.raises(stack_file.SpecError, match="a stack file may have at most"):
        plan.read_file(file)


@pytest.mark.skipif(
    os.geteuid() == 0,
    reason="root can read everything; the next test simulates the error",
)
def test_an_unreadable_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(GOOD)
    file.chmod(0)
    assert cli.main(["check", str(file)]) == cli.BAD_INPUT
    assert "cannot be read: Permission denied" in capsys.readouterr().out


def test_the_operating_systems_error_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert cli.main(["check", str(STACKS[0])]) == cli.BAD_INPUT
    assert ".yaml: cannot be read: Permission denied" in capsys.readouterr().out


@pytest.mark.parametrize("mark", ["\ufeff", ""], ids=["with a byte order mark", "without"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_byte_order_marks_and_crlf_are_accepted(tmp_path: Path, mark: str, end: str) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    file.write_bytes((mark + GOOD.replace("\n", end)).encode())
    assert (
        plan.read_file(file).pools == plan.read_file(ROOT / "stacks" / "Pulumi.eks-a100.yaml").pools
    )


def test_lines_are_right_with_a_mark_and_crlf(tmp_path: Path) -> None:
    broken = GOOD.replace("p4d.24xlarge", "p4d.24xlarg")
    file = tmp_path / "Pulumi.broken.yaml"
    file.write_bytes(("\ufeff" + broken.replace("\n", "\r\n")).encode())
    where = 1 + next(
        i for i, line in enumerate(broken.splitlines()) if "machine_type: p4d.24xlarg" in line
    )
    with pytest.raises(stack_file.SpecError, match=f"broken.yaml:{where}:"):
        plan.read_file(file, name="broken.yaml")
