"""`slicewright deployed`: the last deployment that succeeded. Pulumi is a script."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slicewright import cli
from slicewright.infra import plan
from slicewright.preview.deployment_history import NotAHistory, read_page

FLEET = {
    "cloud": "gke",
    "cluster": {"name": "main", "location": "us-central1", "resource_labels": {"owner": "größe"}},
    "node_pools": [
        {
            "name": "a100",
            "machine_type": "a2-highgpu-1g",
            "zones": ["us-central1-c"],
            "partition": {"mode": "native", "profile": "1g.5gb"},
            "nodes": {"count": 2},
        }
    ],
}
_PULUMI = """\
#!{python}
import json, pathlib, sys
if "history" not in sys.argv or "--json" not in sys.argv:
    sys.exit(9)
pages = json.loads(pathlib.Path({pages!r}).read_text())
if pages is None:
    sys.exit("error: no stack named 'prod' found")
number = int(sys.argv[sys.argv.index("--page") + 1]) - 1
print(json.dumps(pages[number] if number < len(pages) else []))
"""
Run = Callable[..., tuple[int, str, str]]


def update(commit: str | None = None, *, kind: str = "update", result: str = "succeeded") -> Any:
    """As `pulumi stack history --json` prints an entry."""
    return {
        "version": 3,
        "kind": kind,
        "startTime": "2026-11-28T02:00:00.000Z",
        "message": "A fleet",
        "environment": {"git.head": commit} if commit else {"exec.kind": "cli"},
        "config": {
            "gcp:project": {"value": "p", "secret": False},
            "slicewright:fleet": {
                "value": json.dumps(FLEET),
                "objectValue": FLEET,
                "secret": False,
            },
        },
        "result": result,
    }


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    script = tmp_path / "bin" / "pulumi"
    script.parent.mkdir()
    script.write_text(_PULUMI.format(python=sys.executable, pages=str(tmp_path / "pages")))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")

    def run(pages: Any, *arguments: str) -> tuple[int, str, str]:
        (tmp_path / "pages").write_text(json.dumps(pages))
        code = cli.main(["deployed", "-s", "prod", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_the_last_update_that_succeeded_counts_whatever_failed_after_it(run: Run) -> None:
    pages = [
        [update("c", result="failed"), update("b", kind="refresh"), update("a"), update("z")],
    ]
    code, out, err = run(pages)
    assert (code, out) == (0, "a\n")
    assert "deployed at 2026-11-28T02:00:00.000Z from a" in err


def test_json_has_the_commit_and_the_time(run: Run) -> None:
    code, out, err = run([[update("a")]], "--json")
    assert code == 0
    last = {"commit": "a", "time": "2026-11-28T02:00:00.000Z"}
    assert json.loads(out) == {"version": 1, "stack": "prod", "deployment": last}
    assert "from a" in err
    code, out, _ = run([[update()]], "--json")
    assert (code, json.loads(out)["deployment"]["commit"]) == (0, None)


def test_json_of_a_stack_without_a_deployment_is_null(run: Run) -> None:
    code, out, _ = run([], "--json")
    assert (code, json.loads(out)["deployment"]) == (0, None)


def test_json_of_an_unreadable_history_leaves_stdout_empty(run: Run) -> None:
    code, out, err = run("odd", "--json")
    assert (code, out) == (cli.CANNOT_RUN, "")
    assert "cannot parse" in err


def test_an_update_that_runs_is_none_yet(run: Run) -> None:
    assert run([[update("b", result="in-progress"), update("a")]])[1] == "a\n"


def test_the_deployment_is_searched_on_older_pages_of_the_history(run: Run) -> None:
    failed = [update("x", result="failed")] * 20
    assert run([failed, failed, [update("a")]])[1] == "a\n"


@pytest.mark.parametrize(
    "pages",
    [
        [],
        None,
        [[update("a", result="failed")]],
        [[update(None, kind="destroy"), update("a")]],
    ],
    ids=["no update", "no stack", "none succeeded", "destroyed since"],
)
def test_nothing_is_deployed(run: Run, tmp_path: Path, pages: Any) -> None:
    file = tmp_path / "before.yaml"
    file.write_text("of an earlier run")
    code, out, err = run(pages, "--write", str(file))
    assert (code, out) == (0, "")
    assert "stack prod has no deployment" in err
    assert not file.exists()


def test_a_failed_destroy_leaves_the_deployed_commit(run: Run) -> None:
    pages = [[update(None, kind="destroy", result="failed"), update("a")]]
    assert run(pages)[1] == "a\n"


def test_the_fleet_is_written_as_the_program_has_read_it(run: Run, tmp_path: Path) -> None:
    """Also where the commit is in no checkout any more, as after a branch was rewritten."""
    file = tmp_path / "before.yaml"
    code, out, err = run([[update()]], "--write", str(file))
    assert (code, out) == (0, "")
    assert "no commit" in err
    declared = tmp_path / "declared.yaml"
    declared.write_text(json.dumps({"config": {"slicewright:fleet": FLEET}}))
    assert plan.read_file(file) == plan.read_file(declared)


@pytest.mark.parametrize("setting", [None, {"secret": True}, {"value": "nonsense"}, "x"])
def test_a_fleet_that_the_history_does_not_have_is_not_written(
    run: Run, tmp_path: Path, setting: Any
) -> None:
    entry = update("a")
    entry["config"] = {"slicewright:fleet": setting} if setting is not None else None
    file = tmp_path / "before.yaml"
    assert run([[entry]], "--write", str(file))[:2] == (0, "a\n")
    assert not file.exists()


def test_a_fleet_with_base_files_is_not_written_because_the_history_lacks_them(
    run: Run, tmp_path: Path
) -> None:
    entry = update("a")
    entry["config"]["slicewright:fleet"]["objectValue"] = {"extends": "base.yaml", **FLEET}
    file = tmp_path / "before.yaml"
    file.write_text("of an earlier run")
    code, out, err = run([[entry]], "--write", str(file))
    assert (code, out) == (0, "a\n")
    assert f"{file} is not written: the deployed fleet extends base files" in err
    assert not file.exists()
    assert "is not written" not in run([[entry]])[2]


@pytest.mark.parametrize("text", ["", "{}", "[1]", "Stack has never been updated"])
def test_an_invalid_history_is_refused(text: str) -> None:
    with pytest.raises(NotAHistory):
        read_page(text)


def test_a_failing_pulumi_is_reported_in_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin" / "pulumi").write_text("#!/bin/sh\necho 'error: no key' >&2; exit 1\n")
    code, out, err = run([])
    assert (code, out) == (cli.CANNOT_RUN, "")
    assert err == "slicewright deployed: `pulumi stack history` failed: error: no key\n"


def test_a_file_that_cannot_be_written_is_reported_in_one_line(run: Run, tmp_path: Path) -> None:
    code, _, err = run([[update("a")]], "--write", str(tmp_path / "missing" / "before.yaml"))
    assert code == cli.CANNOT_RUN
    assert "No such file or directory" in err
