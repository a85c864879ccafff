from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.host.toolchain import versions
from slicewright.rehearsal.host.toolchain.tools import Binary


def put(bench: Any, write_script: Any, version: str) -> Path:
    program: Path = write_script(bench.bin / "tool", f"#!/bin/sh\necho 'tool {version}'\n")
    return program


@pytest.mark.parametrize("version", ["v1.2.3", "1.2.3", "v1.2.7 go1.26.8 (linux/amd64)"])
def test_an_installed_tool_of_the_pinned_version_or_a_later_patch_is_used(
    bench: Any, write_script: Any, version: str
) -> None:
    program = put(bench, write_script, version)
    (found,) = bench.get()
    assert (found.origin, found.paths["tool"], bench.builds(), bench.lines) == (
        "PATH",
        program,
        0,
        [],
    )


@pytest.mark.parametrize("version", ["v1.2.2", "v1.3.0", "v2.2.3", "v1.1.9"])
def test_an_installed_tool_of_another_version_is_not_used_and_named(
    bench: Any, write_script: Any, version: str
) -> None:
    program = put(bench, write_script, version)
    (found,) = bench.get()
    assert found.origin == "built"
    assert f"{program} is {version}, not v1.2.3; " in bench.said()


def test_a_tool_that_does_not_report_its_version_is_not_used(bench: Any, write_script: Any) -> None:
    program = put(bench, write_script, "unknown")
    (found,) = bench.get()
    assert found.origin == "built"
    assert f"{program} does not report its version" in bench.said()


def test_a_suitable_version_later_on_path_is_found(
    bench: Any, tmp_path: Path, write_script: Any
) -> None:
    put(bench, write_script, "v1.0.0")
    (tmp_path / "later").mkdir()
    later = write_script(tmp_path / "later" / "tool", "#!/bin/sh\necho v1.2.3\n")
    path = f"{bench.settings.path}:{tmp_path / 'later'}"
    (found,) = bench.get(
        settings=replace(bench.settings, environment={**bench.settings.environment, "PATH": path})
    )
    assert (found.origin, found.paths["tool"]) == ("PATH", later)


def test_a_rehearsals_own_programs_on_path_do_not_count_as_installed(
    bench: Any, tmp_path: Path, write_script: Any
) -> None:
    (built,) = bench.get()
    environment = tmp_path / "environment"
    (environment / "bin").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    for directory in (environment / "bin", tmp_path / "elsewhere"):
        (directory / "tool").symlink_to(built.paths["tool"])
    path = f"{environment / 'bin'}:{tmp_path / 'elsewhere'}:{bench.settings.path}"
    inside = {**bench.settings.environment, "PATH": path, "SLICEWRIGHT_REHEARSAL": str(environment)}
    (found,) = bench.get(settings=replace(bench.settings, environment=inside))
    assert (found.origin, found.paths) == ("built", built.paths)
    (environment / "bin" / "tool").unlink()
    write_script(environment / "bin" / "tool", "#!/bin/sh\necho v1.2.3\n")
    (found,) = bench.get(settings=replace(bench.settings, environment=inside))
    assert found.origin == "built"


def test_a_tool_of_two_programs_is_used_only_if_both_are_installed(
    bench: Any, write_script: Any
) -> None:
    put(bench, write_script, "v1.2.3")
    binaries = tuple(
        Binary(field=name, name=name, package="x", ask=("--version",))
        for name in ("tool", "second")
    )
    refusal = "second is not on PATH"
    with pytest.raises(Exception, match="without making second"):  # the fake go makes one file only
        bench.get(bench.tool(binaries=binaries))
    assert refusal in bench.said()


def test_a_program_is_asked_once_until_its_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy("/bin/echo", tmp_path / "program")
    asked: list[Any] = []
    real = versions.run

    def run(program: Path, arguments: Any) -> str | None:
        asked.append(program)
        return real(program, arguments)

    monkeypatch.setattr(versions, "run", run)
    for _ in range(2):
        assert (
            versions.Answers(tmp_path / "answers.json").ask(tmp_path / "program", ("v1.2.3",))
            == "v1.2.3\n"
        )
    assert len(asked) == 1
    os.utime(tmp_path / "program", (1, 1))
    versions.Answers(tmp_path / "answers.json").ask(tmp_path / "program", ("v1.2.3",))
    assert len(asked) == 2


def test_scripts_and_links_to_version_managers_are_asked_every_time(
    tmp_path: Path, write_script: Any
) -> None:
    write_script(
        tmp_path / "tool", "#!/bin/sh\ncat version\n".replace("version", str(tmp_path / "version"))
    )
    shutil.copy("/bin/cat", tmp_path / "manager")
    (tmp_path / "shim").symlink_to(tmp_path / "manager")
    for program, arguments in (
        (tmp_path / "tool", ()),
        (tmp_path / "shim", (str(tmp_path / "version"),)),
    ):
        for version in ("1.0.0", "2.0.0"):
            (tmp_path / "version").write_text(version)
            assert versions.Answers(tmp_path / "answers.json").ask(program, arguments) == version


@pytest.mark.parametrize("content", ["", "[]", '{"x": 3}', "\x00"])
def test_a_damaged_cache_of_versions_is_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / "answers.json").write_text(content)
    shutil.copy("/bin/echo", tmp_path / "program")
    assert (
        versions.Answers(tmp_path / "answers.json").ask(tmp_path / "program", ("1.2.3",))
        == "1.2.3\n"
    )


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v3.259.0\n", (3, 259, 0)),
        ("kwok version v0.8.0 go1.26.8 (linux/amd64)", (0, 8, 0)),
        ("Kubernetes v1.36.2", (1, 36, 2)),
        ("go version go1.27 linux/amd64", (1, 27, 0)),
        ("NVIDIA Device Plugin version unknown", None),
    ],
)
def test_the_version_is_parsed_from_a_programs_output(text: str, version: Any) -> None:
    assert versions.parse(text) == version
