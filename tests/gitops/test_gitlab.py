"""GitLab's pipeline by what follows from it: which token runs beside whose code, from where a role
that writes can be had, and what is cancelled while it waits.

Sources: GitLab's documentation, "CI/CD YAML syntax reference" (rules, extends, resource_group,
workflow:auto_cancel, needs), "Predefined CI/CD variables", "Configure runners" (GIT_STRATEGY).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from slicewright.infra import manifests
from slicewright.rehearsal.clouds.core import access, tokens
from slicewright.rehearsal.clouds.gcp import gke_auth
from tests.gitops.pipelines import ACCOUNT, GITLAB, extended, runner_variables

_KEYWORDS: Final = frozenset({"workflow", "stages", "variables", "default", "include"})
FILE: Final[Mapping[str, Any]] = yaml.safe_load(GITLAB.read_text())
JOBS: Final[Mapping[str, Mapping[str, Any]]] = {
    name: extended(FILE, name)
    for name in FILE
    if name not in _KEYWORDS and not name.startswith(".")
}
TOKEN: Final = "NOTES_TOKEN"
EVENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "request": {
        "CI_PIPELINE_SOURCE": "merge_request_event",
        "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "7",
        "CI_COMMIT_REF_PROTECTED": "false",
    },
    "request of a fork": {
        "CI_PIPELINE_SOURCE": "merge_request_event",
        "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "8",
    },
    "push": {"CI_PIPELINE_SOURCE": "push"},
    "schedule": {"CI_PIPELINE_SOURCE": "schedule"},
    "destroy by hand": {"CI_PIPELINE_SOURCE": "web", "CONFIRM": "production", "JOB": "destroy"},
    "recover by hand": {"CI_PIPELINE_SOURCE": "web", "CONFIRM": "production", "JOB": "recover"},
    "by hand": {"CI_PIPELINE_SOURCE": "web"},
}


def holds(condition: str, variables: Mapping[str, str]) -> bool:
    """An `if` of a rule: conjunctions of comparisons, as far as the file has them."""
    for part in condition.split("&&"):
        sides = [side.strip() for side in part.split("==")]
        values = [side[1:-1] if side[0] == '"' else variables.get(side[1:], "") for side in sides]
        assert all(re.fullmatch(r'\$\w+|"[^"]*"', side) for side in sides), part
        if not (values[0] == values[1] if len(values) == 2 else values[0]):
            return False
    return True


def run_by(event: str, branch: str | None, *, is_protected: bool = True) -> set[str]:
    """The jobs of a pipeline; branch: None in those of requests."""
    on_branch = {} if branch is None else {"CI_COMMIT_BRANCH": branch}
    variables = {
        "CI_PROJECT_ID": "7",
        "CI_DEFAULT_BRANCH": "main",
        "CI_COMMIT_REF_PROTECTED": str(is_protected).lower(),
        **on_branch,
        **EVENTS[event],
    }
    if not any(holds(rule["if"], variables) for rule in FILE["workflow"]["rules"]):
        return set()
    return {
        name
        for name, job in JOBS.items()
        if any(holds(rule["if"], variables) for rule in job["rules"])
    }


def of_requests() -> set[str]:
    return run_by("request", None)


def changes_a_stack(job: Mapping[str, Any]) -> bool:
    return "id_tokens" in job and not job["environment"]["name"].endswith("-preview")


CHANGING: Final = sorted(name for name, job in JOBS.items() if changes_a_stack(job))


def test_each_event_runs_its_jobs_and_no_others() -> None:
    assert of_requests() == {
        f"{job}-{stack}" for job in ("preview", "note") for stack in ("staging", "production")
    }
    assert run_by("request of a fork", None) == set()
    assert run_by("push", "main") == {"deploy-staging", "deploy-production"}
    assert run_by("schedule", "main") == {"drift-staging", "drift-production"}
    assert run_by("destroy by hand", "main") == {"destroy"}
    assert run_by("recover by hand", "main") == {"recover"}
    assert run_by("by hand", "main") == set()


@pytest.mark.parametrize("event", [event for event in EVENTS if "request" not in event])
def test_a_role_that_writes_is_taken_on_the_protected_default_branch_only(event: str) -> None:
    assert run_by(event, "other") == set()
    assert not run_by(event, "main", is_protected=False) & set(CHANGING)


@pytest.mark.parametrize("name", CHANGING)
def test_each_job_that_changes_a_stack_names_the_branch_itself(name: str) -> None:
    """Whatever becomes of the pipeline's own rules."""
    for rule in JOBS[name]["rules"]:
        parts = {part.strip() for part in rule["if"].split("&&")}
        assert "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH" in parts
        assert '$CI_COMMIT_REF_PROTECTED == "true"' in parts
        assert "||" not in rule["if"]


@pytest.mark.parametrize("name", sorted(of_requests()))
def test_the_token_is_in_no_job_that_has_a_requests_code(name: str) -> None:
    job = JOBS[name]
    has_code = job["variables"].get("GIT_STRATEGY") != "none"
    assert has_code == name.startswith("preview")
    assert (TOKEN in str(job)) == (not has_code)
    assert job["environment"]["name"].endswith("-preview") == has_code, (
        "the token is a variable of the environment `notes` only"
    )
    if not has_code:
        assert job["environment"]["name"] == "notes"
        assert "id_tokens" not in job, "nor a role"
        assert "before_script" not in job
        assert not re.search(r"make |gitops/bin|git (clone|fetch|pull)", str(job["script"]))
        assert job["needs"] == [name.replace("note", "preview")]


def test_nothing_gives_the_token_to_every_job() -> None:
    assert "variables" not in FILE
    assert "default" not in FILE
    assert GITLAB.read_text().count("glpat-") == 0


@pytest.mark.parametrize("name", CHANGING)
def test_one_job_for_a_stack_at_a_time_and_none_is_cancelled_for_another(name: str) -> None:
    """Jobs of a resource group wait. A newer commit cancels what may be interrupted, and no more:
    GitLab's default cancels a whole pipeline of which no other job has begun.
    """
    job = JOBS[name]
    assert job["resource_group"] == "$STACK"
    assert job["interruptible"] is False
    assert FILE["workflow"]["auto_cancel"] == {"on_new_commit": "interruptible"}


def test_a_look_for_drift_waits_for_an_update_and_is_not_cancelled() -> None:
    for name in ("drift-staging", "drift-production"):
        assert JOBS[name]["resource_group"] == "$STACK"
        assert not JOBS[name].get("interruptible", False)


def test_report_ignores_the_previous_commit_of_the_platform() -> None:
    assert "CI_COMMIT_BEFORE_SHA" not in GITLAB.read_text()
    assert all("BASE" not in job["variables"] for job in JOBS.values())


@pytest.mark.parametrize("name", ["preview-production", "deploy-production", "drift-production"])
def test_kubeconfig_of_gke_gives_the_account_of_the_job(name: str, tmp_path: Path) -> None:
    """The job's own script writes the file that Pulumi and the credential plugin read."""
    keys = access.new_credentials()
    access.save(tmp_path, access.Access(port=20001, credentials=keys))
    kubeconfig = manifests.kubeconfig(
        cluster="c", server="https://c", ca_data=None, plugin=manifests.GKE_PLUGIN
    )
    arguments = kubeconfig["users"][0]["user"]["exec"]["args"]
    runner = runner_variables(name, "production", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "slicewright.rehearsal.clouds.gcp.gke_auth", *arguments],
        env={**runner, "PATH": os.defpath, "SLICEWRIGHT_REHEARSAL": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    token = json.loads(done.stdout)["status"]["token"].removeprefix(gke_auth.PREFIX)
    assert tokens.read(token, secret=keys.google_access_token)["account"] == ACCOUNT
