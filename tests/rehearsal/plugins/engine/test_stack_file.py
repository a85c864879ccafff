"""What `slicewright check` reads from a stack file is what the real engine hands to the program."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from slicewright.infra import stack_file

NUMBERS = """
    0 -0 +0 1 -1 +5 12 007 017 08 09 -012 0o17 0O17 -0o7 +0o7 0o8 0x1F 0X1f -0x1f +0xA 0xG 0b11
    0B11 -0b1 0b2 1_000 1__0 1_ _1 -_1 0x_1F 0b1_1 1_0.5 1.5_0 1e_3 1e3 1E3 1e+3 1e-3 -1e3 1e 1e+
    e3 .5 -.5 +.5 5. -5. 5.e3 .e3 . .. ... .5e3 .5_0 ._5 1.30 1.3.0 1.2.3.4 00.5 010.5 010e1 0.0
    -0.0 1e20 1e21 1e22 1e-6 1e-7 0.000001 0.0000001 123456789012345678 9007199254740993
    9223372036854775807 9223372036854775808 18446744073709551615 18446744073709551616
    -9223372036854775808 -9223372036854775809 100000000000000000000 999999999999999999999
    1234567890123456789012 0.1 3.14159 1,000 1'000 10% 5m 100Mi 1Gi 40gb +1+ --1 ++1 1- 1+ 1a a1
"""
WORDS = """
    true True TRUE tRUE false False FALSE yes Yes YES no No NO on On ON off Off OFF y Y n N t f
    null Null NULL nULL ~ ~~ nil none None << <<< = == .inf .Inf .INF -.inf +.inf .iNF inf -inf
    .nan .NaN .NAN .nAN nan NaN infinity Infinity
"""
TIMES = """
    2026-12-31 2026-1-2 2026-13-40 2026-12-32 26-12-31 02026-12-31 2026-12 2026-12-31T10:00:00Z
    2026-12-31t10:00:00z 2026-12-31T10:00:00+02:00 2026-12-31T10:00:00 2026-12-31T1:2:3Z
    2026-12-31T10:00:00.123456Z 2026-12-31T10:00 2026-12-31T 2026-12-31x 12:30 1:2 12:30:45
    190:20:30 190:20:30.15 1:60 0:0 2026/12/31
"""
SPACED = ["2026-12-31 10:00:00", "2026-12-31 10:00:00 +2", "2026-12-31 10:00"]
TEXTS = [
    "eu-west-1a",
    "us-central1-c",
    "a:b",
    "http://x:80/y",
    "nvidia/mig",
    "1g.5gb",
    "3g.40gb",
    "0",
    "a#b",
    "a - b",
    "-a",
    "?a",
    ":a",
    "a,b",
    "é",
    "日本",
    "😀",
    "a\u00a0b",
    "\u2028a".strip("\u2028"),
    "x" * 500,
    "9" * 30,
    "1" * 4000,
    "0x" + "f" * 15,
    "0x" + "f" * 16,
    "0x" + "f" * 17,
    "-0x" + "f" * 16,
    "1e400",
    "-1e400",
    "1e-400",
    "1_e400",
    "_",
    "__",
    "-",
    "+",
    "-_",
    "0_",
    "0x",
    "0b",
    "0o",
    "0_1",
    "0x_",
]
TOO_LARGE = {"1" * 4000, "0x" + "f" * 17, "-0x" + "f" * 16, "1e400", "-1e400", "1_e400"}
QUOTED = ["", "~", "true", "1", "0x1F", "2026-12-31", "<<", ".inf", "1.30", "a", " a ", "null", "é"]
SPECIAL = [
    "",
    "!!str 5",
    "!!str",
    "!!str true",
    "!!str 2026-12-31",
    "!!str ''",
    "! 5",
    "! true",
    "!!int 5",
    "!!float 5",
    "!!bool true",
    "!!null ''",
    "!!binary aGVsbG8=",
    "!!timestamp 2026-12-31",
    "!own x",
    "&anchor 5",
    "&other text",
    r'"\x41\u0042\U00000043\n\t\e\0\\"',
    # Not \/, which the engine refuses in every file, naming its line.
    r'"\a\b\v\f\r\N\_\L\P"',
    "'it''s'",
    '"two\n      lines"',
    "two\n      lines",
    "|\n      a\n       b\n",
    "|-\n      a\n\n",
    "|+\n      a\n\n",
    ">\n      a\n      b\n\n      c\n",
    ">-\n      5",
    "|-\n      true",
    "[1, 0x1F, yes, ~, 2026-12-31]",
    "[a, [b, [c]]]",
    "{a: 1, b: {c: 1.50}}",
    "{a: , b}",
    "[]",
    "{}",
    "[a, ]",
    "[1, 2.0, 1e3]",
]
ODD = [
    *dict.fromkeys(
        [
            *SPACED,
            *NUMBERS.split(),
            *WORDS.split(),
            *TIMES.split(),
            *TEXTS,
            *SPECIAL,
            *(json.dumps(text, ensure_ascii=False) for text in QUOTED),
            *("'" + text + "'" for text in QUOTED),
            # Every short text of the characters that numbers are made of.
            *map("".join, itertools.product("01_+-.exb", repeat=2)),
            *map("".join, itertools.product("0_-.e9", "1x.e_", "07_e-")),
            *map("".join, itertools.product("0", "xob.", "1_-", "1_e")),
        ]
    )
]
KEYS = """
    a 1 0 -1 01 0x1F 1.30 1.5 1e3 true True yes null ~ 2026-12-31 << '<<' "<<" '1' .inf .5 1_0 é
    nvidia.com/gpu !!str
"""
STRUCTURES = {
    "own keys override merged ones": "{<<: {a: 1, b: 2}, a: 3}",
    "also those before the merge": "{a: 3, <<: {a: 1, b: 2}}",
    "the earlier mapping wins": "{<<: [{a: 1}, {a: 2, b: 2}], c: 3}",
    "merges in merges": "{<<: {<<: {a: 1, b: 1}, a: 2}, c: 3}",
    "an alias": "[&x {a: [1]}, *x, *x]",
    "a merged alias": "[&y {a: 1, b: 2}, {<<: *y, b: 3}]",
    "aliases in a merged list": "[&z {a: 1}, &w {a: 2, b: 2}, {<<: [*z, *w]}]",
    "a key that is an alias": "[&k name, {*k : 1}]",
    "a merge twice": "{<<: {a: 1}, <<: {b: 1}}",
    "a merge of a scalar": "{<<: 5}",
    "a merge of a list of scalars": "{<<: [5]}",
    "a key twice": "{a: 1, a: 2}",
    "a key twice, quoted once": "{1: 1, '1': 2}",
    "an empty key": "{'': 1}",
    "a list as key": "{[a]: 1}",
    "a set": "!!set {a, b}",
    "an ordered mapping": "!!omap [a: 1]",
    "a tagged mapping": "!own {a: 1}",
    "a tagged list": "!!seq [1]",
    "a mapping with its own tag": "!!map {a: 1}",
}


def _file(values: dict[str, str]) -> str:
    lines = [f"    {key}: {value}\n" for key, value in values.items()]
    return "config:\n  slicewright:fleet:\n" + "".join(lines)


def _read(directory: Path, text: str) -> tuple[Any, set[str]]:
    """The product's values, and the keys with a problem; all of them if it reads nothing."""
    file = directory / "Pulumi.odd.yaml"
    file.write_text(text)
    source = stack_file.read(file)
    return source.raw, {str(problem.path[0]) for problem in source.problems}


def _is_refused(directory: Path, value: str) -> bool:
    try:
        return bool(_read(directory, _file({"v": value}))[1])
    except stack_file.NotReadable:
        return True


@pytest.fixture
def handed_over(project: Any) -> Any:
    """A stack file's fleet as the engine hands it over; None where it refuses the file."""
    project.write("""
        import pulumi
        open("handed-over.json", "w").write(pulumi.Config("slicewright").require("fleet"))
    """)

    def hand_over(text: str) -> Any:
        result = project.directory / "handed-over.json"
        result.unlink(missing_ok=True)
        (project.directory / "Pulumi.dev.yaml").write_text(text)
        code, _ = project.run("preview", "--stack", "dev", "--non-interactive")
        assert (code == 0) is result.exists()
        return json.loads(result.read_text()) if result.exists() else None

    return hand_over


def _same(ours: Any, engines: Any) -> bool:
    """Equal, and of the same JSON text: 5 is not 5.0, and true is not 1."""
    return json.dumps(ours, sort_keys=True) == json.dumps(engines, sort_keys=True)


def test_every_scalar_is_read_as_the_engine_reads_it_or_refused(
    handed_over: Any, tmp_path: Path
) -> None:
    assert len(ODD) > 500
    accepted = {f"v{i}": v for i, v in enumerate(ODD) if not _is_refused(tmp_path, v)}
    refused = {f"v{i}": v for i, v in enumerate(ODD) if f"v{i}" not in accepted}
    ours, problems = _read(tmp_path, _file(accepted))
    engines = handed_over(_file(accepted))
    assert engines is not None, "the engine refuses a scalar that the product accepts"
    assert not problems
    different = {
        value: (ours[key], engines[key])
        for key, value in accepted.items()
        if not _same(ours[key], engines[key])
    }
    assert not different
    # Nothing is refused of which the engine makes the text that stands there.
    readable = {key: value for key, value in refused.items() if not _engine_refuses(value)}
    engines = handed_over(_file(readable))
    assert engines is not None
    needless = {value for key, value in readable.items() if engines[key] == value}
    # What looks like a date, without a check of its parts; and what is too large for a number.
    assert {v for v in needless if not re.match(r"\d{4}-\d\d?-\d\d?", v)} == TOO_LARGE


def _engine_refuses(value: str) -> bool:
    """Refused by both: the file is not YAML (`v: -`), or JSON has no such number."""
    return value == "-" or re.fullmatch(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", value) is not None


def test_every_key_is_read_as_the_engine_reads_it_or_refused(
    handed_over: Any, tmp_path: Path
) -> None:
    accepted = {}
    for i, key in enumerate(KEYS.split()):
        value = "{" + f"{key} : {{a: 1}}" + "}"
        if not _is_refused(tmp_path, value):
            accepted[f"v{i}"] = value
    assert len(accepted) > 12
    engines = handed_over(_file(accepted))
    assert _same(_read(tmp_path, _file(accepted))[0], engines)


def test_every_structure_is_read_as_the_engine_reads_it_or_refused(
    handed_over: Any, tmp_path: Path
) -> None:
    accepted = {
        name.replace(" ", "-"): value
        for name, value in STRUCTURES.items()
        if not _is_refused(tmp_path, value)
    }
    assert len(accepted) > 8
    engines = handed_over(_file(accepted))
    assert engines is not None
    ours, _ = _read(tmp_path, _file(accepted))
    assert {name for name in accepted if not _same(ours[name], engines[name])} == set()


@pytest.mark.parametrize("value", ["{a: 1, a: 2}", "{<<: 5}", "{<<: {a: 1}, <<: {b: 1}}", ".inf"])
def test_stack_files_that_the_engine_refuses_are_refused(
    handed_over: Any, tmp_path: Path, value: str
) -> None:
    assert handed_over(_file({"v": value})) is None
    assert _is_refused(tmp_path, value)


def test_engine_passes_and_changes_only_the_stacks_part_of_a_fleet_with_bases(
    handed_over: Any, project: Any
) -> None:
    base = project.directory / "base.yaml"
    base.write_text(_file({"cloud": "gke", "cluster": "{name: shared, location: us-central1}"}))
    written = base.read_bytes()
    part: Any = {"extends": "base.yaml", "cluster": {"name": "prod"}}
    text = _file({"extends": "base.yaml", "cluster": "{name: prod}"})
    assert handed_over(text) == part
    key = "slicewright:fleet.cluster.version"
    code, output = project.run("config", "set", "--path", key, "1.33", "--stack", "dev")
    assert code == 0, output
    file = project.directory / "Pulumi.dev.yaml"
    part["cluster"]["version"] = "1.33"
    assert handed_over(file.read_text()) == part == stack_file.read_single(file).raw
    assert stack_file.read(file).raw == {
        "cloud": "gke",
        "cluster": {"name": "prod", "location": "us-central1", "version": "1.33"},
    }
    assert base.read_bytes() == written
