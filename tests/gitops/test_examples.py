"""The examples as files: both platforms run the same commands, and nothing in them is loose."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
import yaml

from tests.gitops.pipelines import GITHUB, GITLAB, JOBS, ROOT, github, gitlab

WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yaml"))
# No public source for its commit was at hand; the file says so.
BY_VERSION = {"pulumi/actions@v7"}


def jobs(workflow: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(workflow.read_text())["jobs"]
    return loaded


def test_there_is_a_workflow_for_each_job_and_they_run_on_every_stack() -> None:
    assert {file.stem for file in WORKFLOWS} == set(JOBS)
    assert "production" in str(jobs(GITHUB / "workflows" / "deploy.yaml"))


@pytest.mark.parametrize("job", JOBS)
def test_both_platforms_run_the_same_commands(job: str) -> None:
    commands = github(job, "production").commands
    assert commands == gitlab(job, "production").commands
    assert commands
    for command in commands:
        assert os.access(ROOT / command, os.X_OK), command


def test_both_platforms_give_a_command_the_variables_that_it_reads() -> None:
    for job in JOBS:
        for found in (github(job, "production"), gitlab(job, "production")):
            given = {*found.variables, "STACK", "CONFIRM"}
            for command in found.commands:
                text = (ROOT / command).read_text()
                read = set(re.findall(r"\$\{?([A-Z]+)", text))
                assert read <= given, (job, command)


def test_actions_are_pinned_to_commits_but_for_one_that_says_so() -> None:
    files = [*WORKFLOWS, GITHUB / "actions" / "slicewright" / "action.yaml"]
    used = {u for f in files for u in re.findall(r"uses: (\S+)", f.read_text())}
    loose = {u for u in used if not re.search(r"@[0-9a-f]{40}$", u) and not u.startswith("./")}
    assert loose == BY_VERSION


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_has_no_rights_but_those_of_its_jobs(workflow: Any) -> None:
    assert yaml.safe_load(workflow.read_text())["permissions"] == {}
    for job in jobs(workflow).values():
        allowed = {"contents": "read", "id-token": "write", "pull-requests": "write"}
        assert job["permissions"].items() <= allowed.items()
        assert ("pull-requests" in job["permissions"]) == (workflow.stem == "preview")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)
def test_only_a_preview_is_ended_for_a_newer_one(workflow: Any) -> None:
    for job in jobs(workflow).values():
        cancels = job["concurrency"]["cancel-in-progress"]
        assert cancels == (workflow.stem == "preview")
        if not cancels:
            assert re.fullmatch(r"stack-\$\{\{.*\}\}", job["concurrency"]["group"])
        assert job["timeout-minutes"]


def test_a_preview_runs_no_code_of_a_fork_and_not_with_the_secrets_of_main() -> None:
    text = (GITHUB / "workflows" / "preview.yaml").read_text()
    assert "pull_request_target" not in yaml.safe_load(text)[True]  # YAML 1.1 reads `on` as true
    (job,) = jobs(GITHUB / "workflows" / "preview.yaml").values()
    assert job["if"] == "github.event.pull_request.head.repo.full_name == github.repository"
    assert "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_PROJECT_ID" in GITLAB.read_text()


def test_gitlab_deploys_one_at_a_time_and_ends_none() -> None:
    file = yaml.safe_load(GITLAB.read_text())
    assert file[".deploy"]["interruptible"] is False
    for name in (".deploy", ".drift", "recover"):
        assert file[name]["resource_group"] == "$STACK"


def test_nothing_that_looks_like_a_secret_is_in_the_examples() -> None:
    for file in (ROOT / "gitops").rglob("*"):
        if file.is_file():
            assert not re.search(r"AKIA|BEGIN [A-Z ]*PRIVATE KEY|ghp_|glpat-", file.read_text())
