"""The trust policies of docs/how-to/gitops.md, judged for the tokens that jobs get.

Sources: GitHub's "OpenID Connect reference" (claims, subjects, customisation); AWS, "Service
Authorization Reference", condition keys of STS; Google Cloud, "Workload Identity Federation",
attribute conditions; GitLab, "ID token authentication" (payload).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

import pytest

from tests.gitops.pipelines import ROOT
from tests.gitops.workflow_model import Job, all_jobs

PAGE: Final = (ROOT / "docs" / "how-to" / "gitops.md").read_text()
ISSUER: Final = "token.actions.githubusercontent.com"
PREFIXES: Final = {"older": "repo:ORG/REPO", "newer": "repo:ORG@ORG_ID/REPO@REPO_ID"}
CUSTOM: Final = re.findall(r"include_claim_keys\[\]=(\w+)", PAGE)
JOBS: Final = all_jobs()
OF_MAIN: Final = [job for job in JOBS if job.environment == "production"]
OTHERS: Final = [job for job in JOBS if job.environment != "production"]


def blocks(language: str) -> Iterator[str]:
    for match in re.finditer(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        yield match[1]


POLICIES: Final = [json.loads(block) for block in blocks("json")]
BY_REF, BY_SUBJECT = POLICIES
GOOGLE, GOOGLE_PREVIEW, GOOGLE_OF_GITLAB = (block.strip() for block in blocks("cel"))


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a job's token comes from."""

    event: str
    ref: str
    environment: str | None


def claims(origin: Origin, form: str) -> dict[str, str]:
    """Of a token of repository ORG/REPO. form: of its subject."""
    plain = {
        "aud": "sts.amazonaws.com",
        "ref": origin.ref,
        "repository": "ORG/REPO",
        "repository_id": "REPO_ID",
        "repository_owner_id": "ORG_ID",
        "event_name": origin.event,
        **({} if origin.environment is None else {"environment": origin.environment}),
    }
    if form == "custom":
        subject = ":".join(f"{key}:{plain.get(key, '')}" for key in CUSTOM)
    elif origin.environment is not None:
        subject = f"{PREFIXES[form]}:environment:{origin.environment}"
    elif origin.event == "pull_request":
        subject = f"{PREFIXES[form]}:pull_request"
    else:
        subject = f"{PREFIXES[form]}:ref:{origin.ref}"
    return {**plain, "sub": subject}


def trusts(policy: Mapping[str, Any], token: Mapping[str, str]) -> bool:
    """As AWS judges: every condition, of which a claim that is not there meets none."""
    (statement,) = policy["Statement"]
    assert statement["Effect"] == "Allow"
    assert statement["Action"] == "sts:AssumeRoleWithWebIdentity"
    return all(
        operator in ("StringEquals", "StringLike")
        and key.startswith(f"{ISSUER}:")
        and (claim := token.get(key.removeprefix(f"{ISSUER}:"))) is not None
        and (fnmatchcase(claim, value) if operator == "StringLike" else claim == value)
        for operator, conditions in statement["Condition"].items()
        for key, value in conditions.items()
    )


def admits(condition: str, token: Mapping[str, str]) -> bool:
    """As Google Cloud judges a conjunction of comparisons."""
    for part in condition.split("&&"):
        match = re.fullmatch(r'assertion\.(\w+) == "([^"]*)"', part.strip())
        assert match, part
        if token.get(match[1]) != match[2]:
            return False
    return True


def origins(job: Job, ref: str = "refs/heads/main") -> list[Origin]:
    """Of a job, as each of its events starts it; a dispatch and a push may be of any branch."""
    return [
        Origin(
            event=event,
            ref="refs/pull/7/merge" if event == "pull_request" else ref,
            environment=job.environment,
        )
        for event in sorted(job.events)
    ]


def policy_of(form: str) -> Mapping[str, Any]:
    """As the page says it for a repository of that form."""
    if form == "custom":
        return BY_SUBJECT
    text = json.dumps(BY_REF).replace(PREFIXES["newer"], PREFIXES[form])
    return dict(json.loads(text))


FORMS: Final = ("older", "newer", "custom")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("job", OF_MAIN, ids=lambda job: job.id)
def test_each_job_of_main_gets_its_role(job: Job, form: str) -> None:
    assert origins(job)
    for origin in origins(job):
        token = claims(origin, form)
        assert trusts(policy_of(form), token)
        assert admits(GOOGLE, token)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ref", ["refs/heads/feature", "refs/tags/main", "refs/pull/7/merge"])
@pytest.mark.parametrize("event", ["push", "workflow_dispatch", "pull_request"])
def test_trust_refuses_other_refs_even_if_the_environment_admits_them(
    ref: str, event: str, form: str
) -> None:
    """A branch may bring a workflow of its own, with any environment and without any `if`."""
    token = claims(Origin(event=event, ref=ref, environment="production"), form)
    assert not trusts(policy_of(form), token)
    assert not admits(GOOGLE, token)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("job", OTHERS, ids=lambda job: job.id)
def test_no_job_of_another_environment_or_of_none_gets_it(job: Job, form: str) -> None:
    for origin in origins(job):
        token = claims(origin, form)
        assert not trusts(policy_of(form), token)
        assert not admits(GOOGLE, token)


@pytest.mark.parametrize(("trusted", "sent"), [("older", "newer"), ("newer", "older")])
def test_the_form_matters_to_aws(trusted: str, sent: str) -> None:
    """So the page gives both, and how to see which one a repository has."""
    origin = Origin(event="push", ref="refs/heads/main", environment="production")
    assert not trusts(policy_of(trusted), claims(origin, sent))
    for prefix in PREFIXES.values():
        assert f"`{prefix}:environment:production`" in PAGE
    assert "actions/oidc/customization/sub --jq" in PAGE
    assert "use_immutable_subject" in PAGE


@pytest.mark.parametrize("form", FORMS)
def test_a_preview_gets_the_reading_role_and_nothing_else_does(form: str) -> None:
    reading = [job for job in JOBS if job.environment == "production-preview"]
    assert {job.workflow for job in reading} == {"preview", "drift"}
    for job in JOBS:
        for origin in origins(job):
            assert admits(GOOGLE_PREVIEW, claims(origin, form)) == (job in reading)


def test_a_policy_without_the_branch_is_seen() -> None:
    """The fault that was: the environment alone."""
    loose = json.loads(json.dumps(BY_REF))
    del loose["Statement"][0]["Condition"]["StringEquals"][f"{ISSUER}:ref"]
    origin = Origin(event="push", ref="refs/heads/feature", environment="production")
    assert trusts(loose, claims(origin, "newer"))


@pytest.mark.parametrize(
    ("changes", "is_admitted"),
    [
        ({}, True),
        ({"ref": "feature"}, False),
        ({"ref_type": "tag"}, False),
        ({"ref_protected": "false"}, False),
        ({"environment": "production-preview"}, False),
        ({"project_id": "8"}, False),
    ],
)
def test_gitlabs_role_is_of_the_protected_branch(
    changes: Mapping[str, str], is_admitted: bool
) -> None:
    token = {
        "project_id": "PROJECT_ID",
        "environment": "production",
        "ref": "main",
        "ref_type": "branch",
        "ref_protected": "true",
        **changes,
    }
    assert admits(GOOGLE_OF_GITLAB, token) == is_admitted


def test_the_page_says_how_an_environment_is_closed_to_other_branches() -> None:
    step = PAGE[PAGE.index("4. **Environments.**") : PAGE.index("5. **Two roles")]
    assert "**Selected branches and tags**" in step
    assert re.search(r"administrators to bypass[^:]*: ?\s*\*\*off\*\*", step)
    assert "deployment-branch-policies" in step


NOT_RUN: Final = frozenset(
    {"docs", "tests", "stacks", "benchmarks", "build", "dist", "mutants", ".pre-commit-config.yaml"}
)
"""What a deployment does not run, or what everybody is to change."""


def test_everything_that_a_deployment_runs_has_code_owners() -> None:
    (text,) = (block for block in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL))
    owned = {line.split()[0].strip("/") for line in text.split("\n") if line.strip()[:1] == "/"}
    assert owned >= {"gitops", "infra", "Makefile", "requirements.lock", ".github", "policy"}
    code = {
        entry.name
        for entry in ROOT.iterdir()
        if (entry.is_dir() and any(entry.glob("**/*.py")) and not entry.name.startswith("."))
        or entry.suffix in (".toml", ".lock", ".yaml")
        or entry.name in ("Makefile", "requirements.txt")
    }
    assert code - NOT_RUN - owned == set()
