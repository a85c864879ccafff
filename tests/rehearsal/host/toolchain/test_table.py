"""The table of tools, the Go modules and the rest of the project agree."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.host.toolchain import (
    Toolchain,
    ToolchainError,
    assemble,
    triton,
    workload_tools,
)
from slicewright.rehearsal.host.toolchain.__main__ import main
from slicewright.rehearsal.host.toolchain.found import Found
from slicewright.rehearsal.host.toolchain.settings import CLEAR, DOWNLOAD, MIRROR, from_environment
from slicewright.rehearsal.host.toolchain.tools import TOOLS, CLibrary, GoModule, Tool

PROJECT = Path(__file__).resolve().parents[4]
ALL = (*TOOLS, *workload_tools.TOOLS)
MODULES = [tool for tool in ALL if isinstance(tool.source, GoModule)]


def test_the_tools_fill_every_field_of_the_toolchain_once() -> None:
    built = [b.field for tool in ALL for b in tool.binaries]
    assert sorted([*built, workload_tools.TRITON]) == sorted(f.name for f in fields(Toolchain))
    always = {f.name for f in fields(Toolchain) if f.default is MISSING}
    assert {b.field for tool in TOOLS for b in tool.binaries} == always


def test_optional_tools_are_not_required_by_other_rehearsals() -> None:
    assert all(not tool.group for tool in TOOLS)
    assert all(tool.group for tool in workload_tools.TOOLS)
    assert workload_tools.of(()) == ()
    fields_of = {
        group: {b.field for tool in workload_tools.of([group]) for b in tool.binaries}
        for group in workload_tools.GROUPS
    }
    assert "promtool" in fields_of["monitoring"]
    assert not fields_of["monitoring"] & fields_of["autoscaling"]
    assert fields_of["custom-metrics"] == {"prometheus_adapter"}
    assert fields_of["pipelines"] == {"actionlint"}
    assert fields_of["provider"] == {"pulumi_kubernetes"}
    assert fields_of["gitops"] == {"kustomize_controller", "source_controller"}
    assert fields_of["feature-discovery"] == {"nfd_worker", "nfd_master", "nfd_gc"}
    assert fields_of["volcano"] == {"volcano_scheduler", "volcano_controllers"}
    assert {*workload_tools.GROUPS} - {*workload_tools.OF_TESTS} == {
        "provider",
        "gitops",
        "feature-discovery",
        "volcano",
    }
    with pytest.raises(ToolchainError, match="no group of tools is called load; there are"):
        workload_tools.of(["monitoring", "load"])


@pytest.mark.parametrize("tool", MODULES, ids=lambda tool: tool.name)
def test_programs_that_are_built_together_are_named_after_their_packages(tool: Tool) -> None:
    if len(tool.binaries) > 1:
        assert all(b.package.rpartition("/")[2] == b.name for b in tool.binaries)


@pytest.mark.parametrize("tool", MODULES, ids=lambda tool: tool.name)
def test_every_module_is_there_with_the_pinned_version_in_its_go_mod(tool: Tool) -> None:
    go_mod = (tool.source.directory / "go.mod").read_text()
    assert (tool.source.directory / "go.sum").stat().st_size > 0
    for binary in tool.binaries:
        if binary.package != ".":
            assert binary.package in go_mod
    if tool.version != "own":
        # Prometheus 3.13.5 is v0.313.5 of its Go module.
        first, second, third = tool.version.split(".")
        wanted = f"0.{first}{second}.{third}" if tool.name == "prometheus" else tool.version
        assert re.search(rf"^\s*(require )?\S+ v{re.escape(wanted)}\b", go_mod, re.MULTILINE)


def test_the_engine_and_its_sdk_are_of_one_version() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    (pulumi,) = (tool for tool in TOOLS if tool.name == "pulumi")
    assert f"pulumi=={pulumi.version}" in project["project"]["dependencies"]
    go_mod = (pulumi.source.directory / "go.mod").read_text()
    assert f"github.com/pulumi/pulumi/sdk/v3 v{pulumi.version}" in go_mod


def test_every_release_has_a_digest() -> None:
    for release in (tool.release for tool in ALL if tool.release is not None):
        assert all(url.startswith("https://github.com/") for url in release.files.values())
        assert all(machine in release.sha256 or release.checksums for machine in release.files)
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in release.sha256.values())


def test_each_fake_library_is_alone_in_its_directory() -> None:
    libraries = [tool for tool in TOOLS if isinstance(tool.source, CLibrary)]
    assert [[b.name for b in library.binaries] for library in libraries] == [
        ["libnvidia-ml.so.1"],
        ["libcuda.so.1"],
    ]


def some_toolchain(root: Path) -> Toolchain:
    return assemble(
        tuple(
            Found(tool, "PATH", False, 0, {b.field: root / b.name for b in tool.binaries})
            for tool in TOOLS
        )
    )


@pytest.mark.parametrize("more", [{}, {"promtool": Path("/tools/promtool")}])
def test_a_toolchain_is_written_and_read_back(tmp_path: Path, more: dict[str, Path]) -> None:
    toolchain = replace(some_toolchain(tmp_path), **more)
    toolchain.dump(tmp_path / "toolchain.json")
    assert Toolchain.load(tmp_path / "toolchain.json") == toolchain
    assert json.loads((tmp_path / "toolchain.json").read_text())["kwok"] == str(tmp_path / "kwok")


@pytest.mark.parametrize("content", ["", "[]", '{"pulumi": "/x"}', '{"pulumi": 3}', "null"])
def test_an_invalid_toolchain_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "toolchain.json").write_text(content)
    with pytest.raises(ToolchainError, match=r"toolchain\.json: not the paths of a toolchain"):
        Toolchain.load(tmp_path / "toolchain.json")
    with pytest.raises(ToolchainError, match="No such file"):
        Toolchain.load(tmp_path / "none.json")


def test_the_cache_follows_the_xdg_specification() -> None:
    assert from_environment({"HOME": "/h"}).cache == Path("/h/.cache/slicewright/toolchain")
    assert from_environment({"HOME": "/h", "XDG_CACHE_HOME": "/c"}).cache == Path(
        "/c/slicewright/toolchain"
    )
    assert from_environment({"HOME": "/h", "XDG_CACHE_HOME": "relative"}).cache == Path(
        "/h/.cache/slicewright/toolchain"
    )


def test_settings_are_read_from_the_environment_and_invalid_values_refused() -> None:
    settings = from_environment(
        {"HOME": "/h", DOWNLOAD: "never", MIRROR: "http://127.0.0.1:1/", CLEAR: "1"}
    )
    assert (settings.download, settings.mirror, settings.clear_go_cache) == (
        False,
        "http://127.0.0.1:1",
        True,
    )
    with pytest.raises(ToolchainError, match=f"{DOWNLOAD}='nevr' is not one of auto, never"):
        from_environment({"HOME": "/h", DOWNLOAD: "nevr"})
    with pytest.raises(ToolchainError, match=f"{MIRROR}='mirror.example' is not a base URL"):
        from_environment({"HOME": "/h", MIRROR: "mirror.example"})


def test_the_command_prints_a_table_or_json(
    bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("slicewright.rehearsal.host.toolchain.__main__.TOOLS", (bench.tool(),))
    monkeypatch.setattr(
        "slicewright.rehearsal.host.toolchain.__main__.from_environment", lambda _: bench.settings
    )
    assert main([]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["TOOL", "VERSION", "FROM", "TOOK", "PATH"]
    assert row.split()[:3] == ["tool", "1.2.3", "built"]
    assert main(["--json"]) == 0
    captured = capsys.readouterr()
    assert [one["from"] for one in json.loads(captured.out)] == ["cache (built)"]
    assert captured.err == ""


def test_the_command_obtains_a_group_only_when_asked(
    bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("slicewright.rehearsal.host.toolchain.__main__.TOOLS", ())
    keda = replace(bench.tool(), group="autoscaling")
    monkeypatch.setattr("slicewright.rehearsal.host.toolchain.workload_tools.TOOLS", (keda,))
    monkeypatch.setattr(
        "slicewright.rehearsal.host.toolchain.__main__.from_environment", lambda _: bench.settings
    )
    server = bench.bin / "tritonserver"
    monkeypatch.setattr(triton, "ensure", lambda *_: server)
    monkeypatch.setattr(triton, "why_not_here", lambda: None)
    for arguments, rows in (
        ([], 0),
        (["--with", "monitoring"], 0),
        (["--with", "monitoring", "--with", "autoscaling"], 1),
        (["--with", "all"], 2),
        (["--with", "triton"], 1),
    ):
        assert main(["--json", *arguments]) == 0
        assert len(json.loads(capsys.readouterr().out)) == rows
    # On a machine where Triton cannot run: everything else, and why.
    monkeypatch.setattr(triton, "why_not_here", lambda: "no file for Python 3.13")
    assert main(["--json", "--with", "all"]) == 0
    told = capsys.readouterr()
    assert len(json.loads(told.out)) == 1
    assert "without Triton, whose tests are skipped: no file for Python 3.13" in told.err


def test_the_command_ends_with_a_message_and_an_exit_code(
    bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("slicewright.rehearsal.host.toolchain.__main__.TOOLS", (bench.tool(),))
    monkeypatch.setattr(
        "slicewright.rehearsal.host.toolchain.__main__.from_environment", lambda _: bench.settings
    )
    (bench.bin / "fail").write_text("broken\n")
    assert main([]) == 1
    assert "toolchain: tool v1.2.3 could not be built" in capsys.readouterr().err
    (bench.bin / "fail").write_text("no space left on device\n")
    assert main([]) == 3
    monkeypatch.undo()
    with pytest.raises(SystemExit, match="2"):
        main(["--with", "everything"])
    assert "choose from" in capsys.readouterr().err
    monkeypatch.setenv(DOWNLOAD, "perhaps")
    assert main([]) == 1
    assert capsys.readouterr().err.endswith("is not one of auto, never\n")
