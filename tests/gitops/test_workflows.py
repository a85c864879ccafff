"""GitHub's workflows by what follows from them: who is cancelled, which token runs beside whose
code, and from where a role that writes can be had.
"""

from __future__ import annotations

import re

import pytest
import yaml

from tests.gitops.pipelines import GITHUB
from tests.gitops.workflow_model import QUEUE, Groups, Job, all_jobs, jobs

JOBS = all_jobs()
DEPLOYING = [job for job in JOBS if job.deploys]
MAIN = "github.ref == 'refs/heads/main'"


def first(workflow: str, *changes: tuple[str, str]) -> Job:
    """The first job of a workflow, with its text changed."""
    text = (GITHUB / "workflows" / f"{workflow}.yaml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return next(iter(jobs(text, workflow)))


def by_id(job: Job) -> str:
    return job.id


def cancelled_by(waiting: Job, coming: Job) -> bool:
    """Whether a job that waits for another one of its kind is cancelled when a third one comes."""
    groups = Groups()
    assert groups.come(waiting) == []
    assert groups.come(waiting) == []
    return bool(groups.come(coming))


def test_every_stack_has_a_deploy_job() -> None:
    assert {(job.workflow, job.environment) for job in DEPLOYING} == {
        (workflow, stack)
        for workflow in ("deploy", "destroy", "recover")
        for stack in ("staging", "production")
    }


@pytest.mark.parametrize("waiting", DEPLOYING, ids=by_id)
@pytest.mark.parametrize("coming", JOBS, ids=by_id)
def test_waiting_jobs_that_change_a_stack_are_never_cancelled(waiting: Job, coming: Job) -> None:
    """Not one of its own kind either: a `recover` must not cost a merge its deployment."""
    assert not cancelled_by(waiting, coming)
    assert not waiting.ends_the_running


@pytest.mark.parametrize("job", DEPLOYING, ids=by_id)
def test_jobs_that_change_a_stack_wait_for_each_other(job: Job) -> None:
    assert job.group
    groups = {other.group for other in DEPLOYING if other.environment == job.environment}
    assert groups == {job.group}
    assert not any(
        other.group == job.group for other in DEPLOYING if other.environment != job.environment
    )


@pytest.mark.parametrize("job", DEPLOYING, ids=by_id)
def test_nothing_that_comes_by_itself_fills_their_queue(job: Job) -> None:
    """It holds 100. A deployment may wait for days for its reviewers, while hours pass."""
    mates = [other for other in JOBS if other.group == job.group]
    assert all("schedule" not in mate.events for mate in mates)


def test_a_job_of_a_shared_group_without_a_queue_is_seen_to_cancel() -> None:
    """The fault that was: an hourly look for drift in the deployments' group."""
    drift = first("drift", ('group: "drift-', 'group: "stack-'))
    deploy = first("deploy", (", queue: max", ""))
    assert cancelled_by(deploy, drift)
    assert cancelled_by(first("deploy"), drift), "the one that comes decides"
    assert cancelled_by(deploy, deploy)
    full = Groups()
    for _ in range(QUEUE + 1):
        assert full.come(first("deploy")) == []
    assert len(full.come(first("deploy"))) == 1


@pytest.mark.parametrize("job", JOBS, ids=by_id)
def test_a_group_queues_only_as_github_allows(job: Job) -> None:
    given = job.text["concurrency"]
    assert given.keys() <= {"group", "cancel-in-progress", "queue"}
    assert given.get("queue", "single") in ("single", "max")
    assert not (job.queues and job.ends_the_running), "GitHub refuses both together"


@pytest.mark.parametrize("job", JOBS, ids=by_id)
def test_jobs_with_code_of_a_request_have_no_secret_and_no_writing_token(job: Job) -> None:
    if not job.runs_a_requests_code:
        return
    writes = {scope for scope, right in job.permissions.items() if right == "write"}
    # A token of OIDC's buys the role of the job's environment, which reads only.
    assert writes <= {"id-token"}
    assert not job.deploys
    assert job.secrets == frozenset()
    for step in job.steps:
        if "actions/checkout@" in str(step.get("uses")):
            assert step["with"]["persist-credentials"] is False
    assert "pull_request_target" not in job.events, "it runs with what main has"


def test_check_finds_every_token_in_a_job_with_code_of_a_request() -> None:
    reads = ("permissions: { contents: read, id-token: write }", "")
    assert first("preview").permissions == {"contents": "read", "id-token": "write"}
    unsaid = first("preview", reads, ("permissions: {}\n", ""))
    assert unsaid.permissions["pull-requests"] == "write"
    assert first("preview", ("permissions: {}", "permissions: write-all"), reads).permissions
    for place in (
        ("permissions: {}\n", "permissions: {}\nenv: { A: '${{ github.token }}' }\n"),
        ("      OUT: preview\n", "      OUT: preview\n      A: ${{ secrets.A }}\n"),
    ):
        assert first("preview", place).secrets


@pytest.mark.parametrize("job", JOBS, ids=by_id)
def test_a_job_with_a_token_that_writes_has_none_of_the_repositorys_files(job: Job) -> None:
    writes = {scope for scope, right in job.permissions.items() if right == "write"} - {"id-token"}
    if writes:
        assert not job.has_checkout
        assert writes == {"pull-requests"}
        assert job.permissions.keys() == {"pull-requests"}
        assert job.environment is None, "nor a role"


@pytest.mark.parametrize("job", JOBS, ids=by_id)
def test_a_role_that_writes_is_taken_on_main_only(job: Job) -> None:
    """The condition stands alone: an `||` beside it would let others in."""
    condition = str(job.text.get("if", ""))
    if job.deploys or not job.events & {"pull_request"}:
        assert condition == MAIN
    if job.deploys:
        assert job.events <= {"push", "workflow_dispatch"}
        branches = (job.of_workflow[True].get("push") or {"branches": ["main"]})["branches"]
        assert branches == ["main"]


@pytest.mark.parametrize("job", JOBS, ids=by_id)
def test_a_job_for_requests_takes_none_of_a_fork(job: Job) -> None:
    if "pull_request" not in job.events:
        return
    own = "github.event.pull_request.head.repo.full_name == github.repository"
    names = job.text.get("needs", [])
    needed = [names] if isinstance(names, str) else names
    conditions = [str(job.text.get("if", "")), *(job.of_workflow["jobs"][n]["if"] for n in needed)]
    assert own in conditions
    # A job that was left out has the result `skipped`.
    if str(job.text.get("if")) != own:
        assert re.fullmatch(
            r"!cancelled\(\) && \(needs\.(\w+)\.result == 'success' \|\| "
            r"needs\.\1\.result == 'failure'\)",
            str(job.text["if"]),
        )


@pytest.mark.parametrize("job", JOBS, ids=by_id)
def test_report_ignores_the_previous_commit_of_an_event(job: Job) -> None:
    """That is the last push, and not the last deployment."""
    assert "BASE" not in job.text.get("env", {})
    assert not re.search(r"github\.event\.(before|commits)", str(job.text))


@pytest.mark.parametrize("job", DEPLOYING, ids=by_id)
def test_credentials_live_as_long_as_the_job_may(job: Job) -> None:
    """An `up` whose credentials end half way leaves resources that Pulumi does not know."""
    (prepared,) = (step for step in job.steps if step.get("uses", "").startswith("./"))
    action = yaml.safe_load((GITHUB / "actions" / "slicewright" / "action.yaml").read_text())
    default = action["inputs"]["aws-seconds"]["default"]
    seconds = int(prepared["with"].get("aws-seconds", default))
    assert seconds >= 60 * job.text["timeout-minutes"]
    assert (
        "role-duration-seconds: ${{ inputs.aws-seconds }}"
        in (GITHUB / "actions" / "slicewright" / "action.yaml").read_text()
    )


def test_scripts_contain_no_text_of_a_request() -> None:
    """GitHub puts expressions into a script before a shell reads it: text comes by `env`."""
    for job in JOBS:
        for step in job.steps:
            assert "${{" not in str(step.get("run", "")), job.id
