"""The programs of `gitops/bin` in a git repository: `pulumi` and `slicewright` are stand-ins that
write down how they were called. With the real ones: test_pipelines.py.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from slicewright.commands import destroy
from tests.gitops.pipelines import GITHUB, ROOT

_SLICEWRIGHT = """\
#!/bin/sh
echo "slicewright $*" >> "{calls}"
case "$1" in
  deployed)
    cat "{state}/commit" 2> /dev/null || true
    if [ "${{4:-}}" = --write ] && [ -f "{state}/fleet" ]; then cp "{state}/fleet" "$5"; fi ;;
  unlock) test ! -f "{state}/lock" ;;
esac
"""
_PULUMI = """\
#!/bin/sh
echo "pulumi $*" >> "{calls}"
if [ -f "{state}/begins" ]; then mv "{state}/begins" "{state}/lock"; fi
case "$*" in *--expect-no-changes*) exit "$(cat "{state}/drift" 2> /dev/null || echo 0)" ;; esac
"""


@dataclass(frozen=True)
class Repository:
    """A clone with a branch `main` of a few commits."""

    root: Path

    @property
    def clone(self) -> Path:
        return self.root / "clone"

    def git(self, *arguments: str) -> str:
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        return subprocess.run(
            ["git", *who, *arguments], cwd=self.clone, check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(self) -> str:
        self.git("commit", "--quiet", "--allow-empty", "--message", "A change")
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")
        return self.git("rev-parse", "HEAD")

    def deployed(self, commit: str) -> None:
        (self.root / "state" / "commit").write_text(f"{commit}\n")
        (self.root / "state" / "fleet").write_text("config: {}\n")

    def run(self, program: str, **variables: str) -> tuple[int, str, list[str]]:
        """Exit code, stderr, and the calls of the stand-ins."""
        calls = self.root / "calls"
        calls.write_text("")
        done = subprocess.run(
            [str(ROOT / "gitops" / "bin" / program)],
            cwd=self.clone,
            env={
                "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
                "HOME": str(self.root),
                "STACK": "production",
                "POLICY": "production",
                "OUT": "out",
                "MAIN": "origin/main",
                **variables,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr, calls.read_text().splitlines()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    clone = Repository(tmp_path)
    for name in ("clone", "bin", "state"):
        (tmp_path / name).mkdir()
    paths = {"calls": str(tmp_path / "calls"), "state": str(tmp_path / "state")}
    for name, text in (("slicewright", _SLICEWRIGHT), ("pulumi", _PULUMI)):
        (tmp_path / "bin" / name).write_text(text.format(**paths))
        (tmp_path / "bin" / name).chmod(0o755)
    clone.git("init", "--quiet", "--initial-branch=main")
    return clone


def ups(calls: list[str]) -> list[str]:
    return [call for call in calls if call.startswith("pulumi up ")]


def report(calls: list[str]) -> str:
    (call,) = (call for call in calls if call.startswith("slicewright preview-report "))
    return call


def test_report_compares_with_the_last_deployment(repository: Repository) -> None:
    repository.commit()
    _, _, calls = repository.run("preview")
    assert "--before" not in report(calls), "a first deployment has nothing before it"
    repository.deployed("0" * 40)
    code, _, calls = repository.run("preview")
    assert code == 0
    assert "--before out/before.yaml" in report(calls)
    assert (repository.clone / "out" / "before.yaml").read_text() == "config: {}\n"


def test_report_compares_in_a_checkout_if_the_stack_extends_base_files(
    repository: Repository,
) -> None:
    """Neither the history of a stack nor the stack file alone has the base files."""
    stacks = repository.clone / "stacks"
    stacks.mkdir()
    (stacks / "Pulumi.production.yaml").write_text("config: {f: {extends: base.yaml}}\n")
    (stacks / "base.yaml").write_text("old\n")
    repository.git("add", "stacks")
    old = repository.commit()
    (stacks / "base.yaml").write_text("new\n")
    repository.git("add", "stacks")
    repository.commit()
    (repository.root / "state" / "commit").write_text(f"{old}\n")
    for variables in ({}, {"BASE": old}):
        code, err, calls = repository.run("preview", **variables)
        assert code == 0, err
        assert "--before out/before/stacks/Pulumi.production.yaml" in report(calls)
        assert (repository.clone / "out" / "before" / "stacks" / "base.yaml").read_text() == "old\n"
    (repository.root / "state" / "commit").write_text(f"{'1' * 40}\n")
    code, err, calls = repository.run("preview")
    assert code == 0, err
    assert "--before" not in report(calls), "the deployed commit is in no checkout any more"


def test_base_of_an_earlier_run_is_not_reused(repository: Repository) -> None:
    repository.commit()
    repository.deployed("0" * 40)
    repository.run("preview")
    (repository.root / "state" / "fleet").unlink()
    assert "--before" not in report(repository.run("preview")[2])


def test_the_first_deployment_goes(repository: Repository) -> None:
    repository.commit()
    assert ups(repository.run("deploy")[2])


def test_the_end_of_main_goes_whatever_was_deployed(repository: Repository) -> None:
    """Also after it was rewritten to an older commit, and where the deployed one is in no clone."""
    old = repository.commit()
    later = repository.commit()
    for deployed in (old, later, "f" * 40):
        repository.deployed(deployed)
        assert ups(repository.run("deploy")[2]), deployed
    repository.git("reset", "--quiet", "--hard", old)
    repository.git("update-ref", "refs/remotes/origin/main", old)
    repository.deployed(later)
    assert ups(repository.run("deploy")[2])


def test_a_commit_that_waited_while_later_ones_were_merged_goes(repository: Repository) -> None:
    first = repository.commit()
    second = repository.commit()
    repository.commit()
    repository.git("checkout", "--quiet", "--detach", second)
    for deployed in (first, second):
        repository.deployed(deployed)
        assert ups(repository.run("deploy")[2]), deployed


@pytest.mark.parametrize("deployed", ["later", "rewritten"])
def test_an_older_commit_takes_no_later_deployment_back(
    repository: Repository, deployed: str
) -> None:
    """A job that was started again, or that the platform let wait for longer than the next."""
    old = repository.commit()
    later = repository.commit()
    repository.git("checkout", "--quiet", "--detach", old)
    repository.deployed(later if deployed == "later" else "f" * 40)
    code, error, calls = repository.run("deploy")
    assert code == 2
    assert f"{old} does not follow " in error
    assert ups(calls) == []


@pytest.mark.parametrize("code", [0, 7, 255])
def test_drift_without_a_lock_is_pulumis_answer(repository: Repository, code: int) -> None:
    (repository.root / "state" / "drift").write_text(str(code))
    bucket = {"CLOUD_ONLY": "true", "PULUMI_BACKEND_URL": "gs://b"}
    assert repository.run("drift", **bucket)[0] == code


@pytest.mark.parametrize("when", ["lock", "begins"])
def test_nothing_is_called_drift_while_an_update_works(repository: Repository, when: str) -> None:
    """Whether it works already, or begins meanwhile."""
    (repository.root / "state" / when).touch()
    (repository.root / "state" / "drift").write_text("7")
    bucket = {"CLOUD_ONLY": "true", "PULUMI_BACKEND_URL": "gs://b"}
    assert repository.run("drift", **bucket)[0] == 3


def test_drift_does_not_read_locks_on_pulumi_cloud(repository: Repository) -> None:
    (repository.root / "state" / "lock").touch()
    code, _, calls = repository.run("drift", CLOUD_ONLY="true")
    assert code == 0
    assert all("unlock" not in call for call in calls)


@pytest.mark.parametrize(
    ("answers", "options"),
    [
        ({}, ""),
        ({"DISKS": "", "LOGS": "", "UNPROVEN": ""}, ""),
        ({"DISKS": "refuse", "LOGS": "proven", "UNPROVEN": "list"}, ""),
        ({"DISKS": "keep"}, " --disks keep"),
        ({"LOGS": "delete"}, " --logs delete"),
        ({"UNPROVEN": "delete"}, " --unproven delete"),
        (
            {"DISKS": "delete", "LOGS": "keep", "UNPROVEN": "keep"},
            " --disks delete --logs keep --unproven keep",
        ),
    ],
    ids=str,
)
def test_every_answer_of_a_person_reaches_destroy(
    repository: Repository, answers: dict[str, str], options: str
) -> None:
    code, _, calls = repository.run("destroy", STACK="prod", CONFIRM="prod", **answers)
    assert code == 0
    assert calls == [f"slicewright destroy --stack prod --yes{options}"]


def test_nothing_is_destroyed_without_the_name_of_the_stack(repository: Repository) -> None:
    code, error, calls = repository.run("destroy", STACK="prod", CONFIRM="staging", LOGS="delete")
    assert (code, calls) == (2, [])
    assert "nothing was done" in error


def test_destroy_accepts_every_choice_of_the_form() -> None:
    """GitHub asks by a form, whose first choice passes no option."""
    form = yaml.safe_load((GITHUB / "workflows" / "destroy.yaml").read_text())[True]
    inputs = form["workflow_dispatch"]["inputs"]
    parser = argparse.ArgumentParser()
    destroy.add_parser(parser.add_subparsers())
    for name in ("disks", "logs", "unproven"):
        none, *choices = inputs[name]["options"]
        assert inputs[name]["default"] == none
        for choice in choices:
            parsed = parser.parse_args(["destroy", "--stack", "prod", f"--{name}", choice])
            assert getattr(parsed, name) == choice
        assert f"${{{name.upper()}:-{none}}}" in (ROOT / "gitops/bin/destroy").read_text()
