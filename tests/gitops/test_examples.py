"""The examples as files: both platforms run the same commands, and nothing in them is loose."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gitops.pipelines import GITHUB, GITLAB, JOBS, ROOT, github, gitlab

WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yaml"))


def jobs(workflow: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(workflow.read_text())["jobs"]
    return loaded


def test_every_job_has_a_workflow_that_runs_on_every_stack() -> None:
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
            # GitLab's are of the environment, or typed by who starts the pipeline.
            typed = {"CLOUD_ONLY", "HOST", "DISKS", "LOGS", "UNPROVEN", "PULUMI_BACKEND_URL"}
            # A person's, who compares with another commit than the last deployed one.
            optional = {"BASE", *(typed if found == gitlab(job, "production") else ())}
            for command in found.commands:
                text = (ROOT / command).read_text()
                read = set(re.findall(r"\$\{?([A-Z_]+)", text))
                assert read <= given | optional, (job, command)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_has_no_rights_but_those_of_its_jobs(workflow: Any) -> None:
    """Beside whose code a job's rights are: test_workflows.py."""
    assert yaml.safe_load(workflow.read_text())["permissions"] == {}
    for job in jobs(workflow).values():
        assert "permissions" in job
        assert job["timeout-minutes"]


@pytest.mark.parametrize("job", ["deploy", "destroy"])
def test_a_job_that_was_cancelled_still_removes_its_own_lock(job: str) -> None:
    """On the runner that took it: elsewhere nobody can see that its process has ended."""
    steps = jobs(GITHUB / "workflows" / f"{job}.yaml")[job]["steps"]
    (unlock,) = (step for step in steps if step.get("run") == "gitops/bin/unlock")
    assert unlock["if"] == "always()"
    # The job fails where its work has failed, and not for a lock of another host.
    assert unlock["continue-on-error"]
    assert gitlab(job, "production").commands[-1] == "gitops/bin/unlock"


def test_a_runner_has_the_programs_that_the_clusters_kubeconfigs_name() -> None:
    """GKE's credential plugin and AWS's command line."""
    action = (GITHUB / "actions" / "slicewright" / "action.yaml").read_text()
    assert "install_components: gke-gcloud-auth-plugin" in action
    assert "aws, which the runners' images have" in action
    image = yaml.safe_load(GITLAB.read_text())[".pulumi"]["image"]
    assert image["name"].startswith("pulumi/pulumi:"), "the other images have neither"
    assert image["entrypoint"] == [""], "the image's own is pulumi, which runs no script"


def test_actionlint_finds_nothing_in_the_workflows(one_tool: Callable[[str], Path]) -> None:
    """With what it knows of expressions, contexts, events and inputs of actions."""
    config = GITHUB / "actionlint.yaml"
    assert config.read_text() == (ROOT / ".github" / "actionlint.yaml").read_text().replace(
        "gitops/github/workflows", ".github/workflows"
    )
    lint = [str(one_tool("actionlint")), "-no-color", "-shellcheck=", "-pyflakes="]
    newer = r'^unexpected key "queue" for "concurrency" section'
    found = subprocess.run(
        [*lint, "-ignore", newer, *(str(file) for file in WORKFLOWS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout) == (0, ""), found.stdout + found.stderr
    wrong = (GITHUB / "workflows" / "drift.yaml").read_text().replace("matrix.stack", "matrix.of")
    found = subprocess.run([*lint, "-"], input=wrong, capture_output=True, text=True, check=False)
    assert 'property "of" is not defined' in found.stdout


def test_nothing_that_looks_like_a_secret_is_in_the_examples() -> None:
    for file in (ROOT / "gitops").rglob("*"):
        if file.is_file():
            assert not re.search(r"AKIA|BEGIN [A-Z ]*PRIVATE KEY|ghp_|glpat-", file.read_text())
