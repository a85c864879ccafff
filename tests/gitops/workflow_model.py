"""What GitHub makes of the workflows: which jobs there are, what each may do, who waits for whom.

Sources: GitHub's documentation, "Workflow syntax for GitHub Actions" (permissions, concurrency),
"Control the concurrency of workflows and jobs", "Events that trigger workflows".
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from tests.gitops.pipelines import GITHUB

OF_REQUESTS: Final = frozenset(
    {"pull_request", "pull_request_target", "workflow_run", "issue_comment", "merge_group"}
)
"""Events by which somebody who may not push to `main` decides what a job gets to see."""
SCOPES: Final = (
    *("actions", "attestations", "checks", "contents", "deployments", "discussions", "id-token"),
    *("issues", "packages", "pages", "pull-requests", "repository-projects", "security-events"),
    "statuses",
)
QUEUE: Final = 100
"""Jobs that may wait in a group with `queue: max`; what comes then is cancelled."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job of a run, with its matrix and inputs filled in."""

    workflow: str
    name: str
    values: Mapping[str, str]
    """Expression -> value, of matrix and inputs."""
    text: Mapping[str, Any]
    of_workflow: Mapping[str, Any]

    @property
    def id(self) -> str:
        return "-".join((self.workflow, self.name, *self.values.values()))

    @property
    def events(self) -> frozenset[str]:
        on = self.of_workflow[True]  # YAML 1.1 reads `on` as true
        return frozenset([on] if isinstance(on, str) else on)

    @property
    def steps(self) -> Sequence[Mapping[str, Any]]:
        return tuple(self.text["steps"])

    @property
    def permissions(self) -> Mapping[str, str]:
        """Of its token. Without any statement, as permissive as a repository may be set."""
        given = self.text.get("permissions", self.of_workflow.get("permissions", "write-all"))
        if isinstance(given, str):
            return dict.fromkeys(SCOPES, given.removesuffix("-all"))
        return {scope: right for scope, right in given.items() if right != "none"}

    @property
    def environment(self) -> str | None:
        given = self.text.get("environment")
        name = given["name"] if isinstance(given, Mapping) else given
        return None if name is None else self.resolved(name)

    @property
    def deploys(self) -> bool:
        """Whether its environment's variables name a role that writes."""
        return self.environment is not None and not self.environment.endswith("-preview")

    @property
    def group(self) -> str | None:
        """Groups are of the repository, not of a workflow, and case does not count."""
        given = self.text.get("concurrency")
        name = given["group"] if isinstance(given, Mapping) else given
        return None if name is None else self.resolved(name).lower()

    @property
    def queues(self) -> bool:
        given = self.text.get("concurrency")
        return isinstance(given, Mapping) and given.get("queue") == "max"

    @property
    def ends_the_running(self) -> bool:
        given = self.text.get("concurrency")
        return isinstance(given, Mapping) and bool(given.get("cancel-in-progress", False))

    @property
    def runs_a_requests_code(self) -> bool:
        """Whether files of the request reach it, as code or as what a program reads as such."""
        return bool(self.events & OF_REQUESTS) and self.has_checkout

    @property
    def has_checkout(self) -> bool:
        words = r"actions/checkout@|\bgit (clone|fetch|pull)\b|gh pr checkout|gh repo clone"
        return any(
            re.search(words, str(step)) or str(step.get("uses", "")).startswith("./")
            for step in self.steps
        )

    @property
    def secrets(self) -> frozenset[str]:
        """Expressions of secrets and of the token, wherever they are written."""
        parts = (self.of_workflow.get("env", {}), {k: v for k, v in self.text.items() if k != "if"})
        return frozenset(
            re.findall(r"\b(?:secrets\.\w+|secrets: inherit|github\.token)\b", str(parts))
        )

    def resolved(self, text: str) -> str:
        """Other expressions stay as they are, so that what differs by event differs here."""

        def value(match: re.Match[str]) -> str:
            return self.values.get(match[1].strip(), match[0])

        return re.sub(r"\$\{\{([^}]*)\}\}", value, text)


def jobs(text: str, workflow: str) -> Iterator[Job]:
    """Every job of a workflow, once for each value of its matrix and of its choices."""
    loaded = yaml.safe_load(text)
    for name, job in loaded["jobs"].items():
        for values in _values(loaded, job):
            yield Job(workflow=workflow, name=name, values=values, text=job, of_workflow=loaded)


def all_jobs() -> list[Job]:
    files = sorted((GITHUB / "workflows").glob("*.y*ml"))
    return [job for file in files for job in jobs(file.read_text(), file.stem)]


def _values(workflow: Mapping[str, Any], job: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    on = workflow[True]
    dispatched = (on.get("workflow_dispatch") or {}) if isinstance(on, Mapping) else {}
    inputs = {
        f"inputs.{name}": tuple(given["options"])
        for name, given in dispatched.get("inputs", {}).items()
        if given.get("type") == "choice" and name == "stack"
    }
    matrix = job.get("strategy", {}).get("matrix", {})
    lists = {f"matrix.{name}": tuple(v) for name, v in matrix.items() if name != "include"}
    axes = inputs | lists
    included = matrix.get("include") or [{}]
    for chosen in itertools.product(*axes.values()):
        for more in included:
            yield {
                **dict(zip(axes, chosen, strict=True)),
                **{f"matrix.{name}": str(value) for name, value in more.items()},
            }


@dataclass
class Groups:
    """Who works and who waits, as jobs come."""

    working: dict[str, Job] = field(default_factory=dict)
    waiting: dict[str, list[Job]] = field(default_factory=dict)

    def come(self, job: Job) -> list[Job]:
        """The jobs that are cancelled because this one has come."""
        if job.group is None:
            return []
        if job.group not in self.working:
            self.working[job.group] = job
            return []
        ended = []
        if job.ends_the_running:
            ended.append(self.working[job.group])
            self.working[job.group] = job
        waiting = self.waiting.setdefault(job.group, [])
        if not job.queues:
            ended += waiting
            waiting.clear()
        elif len(waiting) >= QUEUE:
            return [*ended, job]
        if not job.ends_the_running:
            waiting.append(job)
        return ended
