"""A stack file is merged with the base files that its key `extends` names."""

from __future__ import annotations

import os
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import pytest

from slicewright import cli
from slicewright.infra import plan, stack_file
from slicewright.infra.stack_file.layers.merge import NAMED_LISTS
from slicewright.infra.stack_file.reading.annotations import is_model

BASE = """\
config:
  slicewright:fleet:
    cloud: gke
    cluster:
      name: shared
      location: us-central1
    pod_guard: {}
    admin_groups: [a, b]
    node_pools:
    - name: first
      machine_type: a2-highgpu-1g
      zones: [us-central1-a]
      nodes: {count: 1}
      partition: {mode: native, profile: 1g.5gb}
    - name: second
      machine_type: a2-highgpu-1g
      zones: [us-central1-a, us-central1-b]
      nodes: {count: 2}
"""
HEAD = "config:\n  slicewright:fleet:\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a stack file `x` whose content a test writes, and a base file."""
    root = tmp_path / "project"
    (root / "stacks").mkdir(parents=True)
    (root / "Pulumi.yaml").write_text("name: fleet\nstackConfigDir: stacks\n")
    (root / "stacks" / "base.yaml").write_text(BASE)
    return root


def write(project: Path, fleet: str) -> Path:
    """Writes the stack file; `fleet` is indented by four spaces."""
    file = project / "stacks" / "Pulumi.x.yaml"
    file.write_text(HEAD + fleet)
    return file


def merged(project: Path, fleet: str) -> Any:
    return stack_file.read(write(project, fleet)).raw


def refusal(project: Path, fleet: str) -> str:
    """The message with which the stack file is refused."""
    with pytest.raises(stack_file.SpecError) as error:
        plan.read_file(write(project, fleet), name="stacks/Pulumi.x.yaml")
    return str(error.value)


def test_mappings_merge_and_the_stack_file_wins(project: Path) -> None:
    fleet = merged(project, "    extends: base.yaml\n    cluster: {name: prod}\n")
    assert fleet["cluster"] == {"name": "prod", "location": "us-central1"}
    assert fleet["cloud"] == "gke"
    assert "extends" not in fleet


def test_pools_merge_by_name_and_new_pools_follow(project: Path) -> None:
    fleet = merged(
        project,
        "    extends: base.yaml\n    node_pools:\n    - {name: third, nodes: {count: 5}}\n"
        "    - {name: second, nodes: {count: 4}}\n",
    )
    assert [pool["name"] for pool in fleet["node_pools"]] == ["first", "second", "third"]
    assert fleet["node_pools"][1]["nodes"] == {"count": 4}
    assert fleet["node_pools"][1]["machine_type"] == "a2-highgpu-1g"


def test_other_lists_replace(project: Path) -> None:
    fleet = merged(
        project,
        "    extends: base.yaml\n    admin_groups: [c]\n    node_pools:\n"
        "    - {name: second, zones: [us-central1-f]}\n",
    )
    assert fleet["admin_groups"] == ["c"]
    assert fleet["node_pools"][1]["zones"] == ["us-central1-f"]


def test_null_removes_a_key_of_the_base(project: Path) -> None:
    fleet = merged(
        project,
        "    extends: base.yaml\n    pod_guard: null\n    cluster: {location: ~}\n"
        "    node_pools:\n    - {name: first, partition: }\n",
    )
    assert "pod_guard" not in fleet
    assert fleet["cluster"] == {"name": "shared"}
    assert "partition" not in fleet["node_pools"][0]


def test_a_later_base_wins(project: Path) -> None:
    (project / "stacks" / "more.yaml").write_text(f"{HEAD}    cluster: {{name: more}}\n")
    assert merged(project, "    extends: [base.yaml, more.yaml]\n")["cluster"]["name"] == "more"
    assert merged(project, "    extends: [more.yaml, base.yaml]\n")["cluster"]["name"] == "shared"


def test_a_base_of_two_bases_counts_once_before_both(project: Path) -> None:
    for name in ("a", "b"):
        (project / "stacks" / f"{name}.yaml").write_text(f"{HEAD}    extends: base.yaml\n")
    with (project / "stacks" / "a.yaml").open("a") as file:
        file.write("    cluster: {name: from-a}\n")
    assert merged(project, "    extends: [a.yaml, b.yaml]\n")["cluster"]["name"] == "from-a"


def test_a_stack_file_may_be_a_base_and_only_its_fleet_counts(project: Path) -> None:
    (project / "stacks" / "Pulumi.prod.yaml").write_text(f"config:\n  gcp:project: p\n{BASE[8:]}")
    source = stack_file.read(write(project, "    extends: Pulumi.prod.yaml\n"))
    assert source.raw["cloud"] == "gke"
    assert source.setting("gcp:project") is None


def test_a_base_may_lie_anywhere_in_the_project(project: Path) -> None:
    (project / "shared").mkdir()
    (project / "shared" / "b.yaml").write_text(f"{HEAD}    extends: ../stacks/base.yaml\n")
    assert merged(project, "    extends: ../shared/b.yaml\n")["cloud"] == "gke"


def test_problems_have_the_file_and_position_of_their_layer(project: Path) -> None:
    base = BASE.replace("machine_type: a2-highgpu-1g", "machin_type: a2-highgpu-1g", 1)
    (project / "stacks" / "base.yaml").write_text(base.replace("cloud: gke", "cloud: gke # ä"))
    message = refusal(
        project,
        "    extends: base.yaml\n    node_pools:\n    - name: new\n      nodes: {count: -1}\n"
        "    - name: second\n      nodes: {count: -2}\n",
    )
    assert "stacks/Pulumi.x.yaml:6:22: node_pools[0].nodes.count (pool new)" in message
    assert "stacks/Pulumi.x.yaml:8:22: node_pools[1].nodes.count (pool second)" in message
    assert "stacks/base.yaml:11:7: node_pools[0].machin_type (pool first)" in message


def test_a_number_is_quoted_as_its_layer_writes_it(project: Path) -> None:
    text = BASE.replace("name: shared", "version: 1.30")
    (project / "stacks" / "base.yaml").write_text(text)
    message = refusal(project, "    extends: base.yaml\n    cluster: {name: x}\n")
    assert "stacks/base.yaml:5:16: cluster.version" in message
    assert "1.30" in message


def test_a_missing_key_has_the_position_of_the_last_layer(project: Path) -> None:
    message = refusal(project, "    extends: base.yaml\n    cluster:\n      location: null\n")
    assert "stacks/Pulumi.x.yaml:5:17: cluster.location: is missing" in message


def test_yaml_problems_of_a_base_are_reported_even_if_the_stack_overrides_them(
    project: Path,
) -> None:
    text = BASE.replace("name: shared", "name: 2026-12-31\n      name: twice")
    (project / "stacks" / "base.yaml").write_text(text)
    message = refusal(project, "    extends: base.yaml\n    cluster: {name: x}\n")
    assert "stacks/base.yaml:6:7: cluster.name: duplicate key" in message


def test_an_unreadable_value_of_a_base_is_not_reported_as_missing(project: Path) -> None:
    text = BASE.replace("location: us-central1", "location: !place us-central1")
    (project / "stacks" / "base.yaml").write_text(text)
    message = refusal(project, "    extends: base.yaml\n    cluster: {name: x}\n")
    assert "stacks/base.yaml:6:17: cluster.location: the YAML tag !place" in message
    assert "is missing" not in message


@pytest.mark.parametrize(
    ("extends", "reason"),
    [
        ("none.yaml", "3:14: extends: stacks/none.yaml: cannot be read: No such file"),
        ("[base.yaml, none.yaml]", "3:26: extends: stacks/none.yaml: cannot be read: No such"),
        ("/etc/hosts", "3:14: extends: /etc/hosts is absolute; a base lies in the project"),
        ("../../outside.yaml", "3:14: extends: ../../outside.yaml lies outside the project"),
        ("link.yaml", "3:14: extends: link.yaml lies outside the project"),
        ("loop.yaml", "3:14: extends: stacks/loop.yaml: cannot be read: "),
        ("Pulumi.x.yaml", "3:14: extends: Pulumi.x.yaml extends itself"),
        (".", "3:14: extends: stacks: cannot be read: is a directory, not a file"),
        ("pipe", "3:14: extends: stacks/pipe: cannot be read: is a pipe, not a file"),
        ("'a\\0b'", ": extends: "),
        ('"a\\0b"', "3:14: extends: "),
        ("a" * 5000, "3:14: extends: stacks/aaa"),
        ("null", "3:14: extends: is empty"),
        ("''", '3:14: extends: is the string ""'),
        ("[]", "3:14: extends: is a list of 0 items"),
        ("[[]]", "3:15: extends: is a list of 0 items"),
        ("7", "3:14: extends: is the number 7"),
        ("{a: b}", "3:14: extends: is a mapping"),
        ("!x base.yaml", "3:14: extends: the YAML tag !x is not supported"),
        ("2026-12-31", "3:14: extends: 2026-12-31 is a timestamp"),
    ],
)
def test_a_wrong_extends_is_one_problem_with_its_position(
    project: Path, extends: str, reason: str
) -> None:
    (project.parent / "outside.yaml").write_text(BASE)
    (project / "stacks" / "link.yaml").symlink_to(project.parent / "outside.yaml")
    (project / "stacks" / "loop.yaml").symlink_to("loop.yaml")
    os.mkfifo(project / "stacks" / "pipe")
    message = refusal(project, f"    extends: {extends}\n")
    assert f"stacks/Pulumi.x.yaml:{reason.removeprefix(': ')}" in message or (
        reason.startswith(": ") and reason in message
    )
    assert "Traceback" not in message
    assert message.isascii()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "stacks/base.yaml: is empty"),
        (b"\xff\xfe", "stacks/base.yaml:1: cannot be read: byte 0 is not valid UTF-8"),
        (b"config:\n\tslicewright:fleet:\n", "stacks/base.yaml:2:1: is not valid YAML"),
        (b"- a\n", "stacks/base.yaml:1:1: is a list, not a mapping"),
        (b"config: {}\n", "stacks/base.yaml: has no key slicewright:fleet under config"),
        (b"cloud: gke\n", "stacks/base.yaml: has no key config"),
        (b"config: {slicewright:fleet: }\n", "stacks/base.yaml:1:29: the fleet is empty"),
        (b"config:\n  slicewright:fleet: []\n", "base.yaml:2:22: the fleet is a list of 0 items"),
        (b"config:\n  slicewright:fleet: {secure: a}\n", "the fleet is an encrypted secret"),
        (b"config: {a: 1, a: 2}\n", "stacks/base.yaml:1:16: duplicate key a"),
        (HEAD.encode() + b"    a: " + b"[" * 100 + b"]" * 100, "nested more than 60 levels"),
        (HEAD.encode() + b"    a: " + b"[" * 9000 + b"]" * 9000, "nested more than 60 levels"),
        (
            HEAD.encode()
            + b"    a: &a0 [1, 1, 1, 1, 1, 1, 1, 1]\n"
            + b"".join(b"    a%d: &a%d [%s]\n" % (i, i, b",".join([b"*a%d" % (i - 1)] * 8))
                       for i in range(1, 9)),
            "more than 200000 values",
        ),
        (b"# " + b"x" * (4 * 1024 * 1024), "but a stack file may have at most"),
    ],
)  # fmt: skip
def test_an_unreadable_base_is_one_problem_at_the_key(
    project: Path, content: bytes, reason: str
) -> None:
    (project / "stacks" / "base.yaml").write_bytes(content)
    message = refusal(project, "    extends: base.yaml\n")
    assert message.startswith("stacks/Pulumi.x.yaml:3:14: extends: ")
    assert reason in message
    assert "\n" not in message


def test_an_encrypted_value_of_a_base_is_refused_at_its_place(project: Path) -> None:
    text = BASE.replace("name: shared", "name: {secure: AAA}")
    (project / "stacks" / "base.yaml").write_text(text)
    message = refusal(project, "    extends: base.yaml\n")
    assert "stacks/base.yaml:5:13: cluster.name: is an encrypted secret" in message


def test_circles_and_long_chains_are_refused(project: Path) -> None:
    stacks = project / "stacks"
    (stacks / "base.yaml").write_text(f"{HEAD}    extends: b.yaml\n")
    (stacks / "b.yaml").write_text(f"{HEAD}    extends: [base.yaml]\n")
    message = refusal(project, "    extends: base.yaml\n")
    assert message.startswith("stacks/b.yaml:3:15: extends: base.yaml extends itself")
    for i in range(40):
        (stacks / f"b{i}.yaml").write_text(f"{HEAD}    extends: b{i + 1}.yaml\n")
    assert "more than 10 levels of base files" in refusal(project, "    extends: b0.yaml\n")
    for i in range(40):
        (stacks / f"b{i}.yaml").write_text(f"{HEAD}    cloud: gke\n")
    many = ", ".join(f"b{i}.yaml" for i in range(40))
    assert "more than 30 base files" in refusal(project, f"    extends: [{many}]\n")


@pytest.mark.parametrize("key", ["extend", "base", "include"])
def test_another_word_for_extends_is_answered(project: Path, key: str) -> None:
    fleet = BASE.removeprefix(HEAD)
    message = refusal(project, f"{fleet}    {key}: base.yaml\n")
    assert f"{key}: unknown key; did you mean extends?" in message


def test_a_fleet_without_a_stack_file_cannot_extend() -> None:
    with pytest.raises(stack_file.SpecError, match="extends: base files are read only beside"):
        plan.read('{"extends": "base.yaml"}', stack_file.Source("stack x"))


def test_check_reads_the_bases(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(project, "    extends: base.yaml\n")
    monkeypatch.chdir(project)
    assert cli.main(["check", "-s", "x"]) == 0
    (project / "stacks" / "base.yaml").unlink()
    assert cli.main(["check", "-s", "x"]) == 2
    assert "stacks/Pulumi.x.yaml:3:14: extends: stacks/base.yaml" in capsys.readouterr().out


def _lists_of_named(annotation: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all lists whose items are models that require `name`."""
    for part in _parts(annotation):
        if get_origin(part) is tuple:
            items = get_args(part)[0]
            models = [model for model in _parts(items) if is_model(model)]
            if models and all(_requires_name(model) for model in models):
                yield path
                yield from _lists_of_named(items, (*path, "[]"))
        elif is_model(part):
            for name, field in part.model_fields.items():
                yield from _lists_of_named(field.annotation, (*path, name))


def _requires_name(model: Any) -> bool:
    return "name" in model.model_fields and model.model_fields["name"].is_required()


def _parts(annotation: Any) -> Iterator[Any]:
    """The members of a union, or the annotation itself."""
    if get_origin(annotation) in (Union, types.UnionType, Annotated):
        for part in get_args(annotation):
            yield from _parts(part)
    else:
        yield annotation


def test_every_list_of_named_items_merges_by_name() -> None:
    assert set(_lists_of_named(stack_file.Fleet)) == NAMED_LISTS
