"""A whole run from a bare git repository: the environment's project is a clone of it, in which the
pipelines' own commands run, as in tests/gitops.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slicewright.rehearsal.host import processes
from slicewright.rehearsal.scenario import cloud_variables
from slicewright.rehearsal.scenario.engine_runs import Outcome
from slicewright.rehearsal.scenario.environment import Environment
from tests.gitops.pipelines import ROOT, github, gitlab, known, runner_variables

_LINKS = ("gitops", "policy")
"""Beside what an environment's project has already."""


@dataclass(frozen=True, kw_only=True)
class Pushed:
    """What became of a commit."""

    report: Outcome
    text: str
    """The report itself."""
    rules: Outcome
    """Of the policy pack, with the settings for development."""
    inventory: Mapping[str, list[str]]
    """What was in the cloud when both had ended."""
    deploy: Outcome
    unlock: Outcome


@dataclass(frozen=True)
class Repository:
    """A clone, in which stack files are committed, and pipelines run for one stack."""

    environment: Environment
    stack: str
    platform: Literal["github", "gitlab"] = "github"

    @classmethod
    def of(
        cls, environment: Environment, stack: str, platform: Literal["github", "gitlab"] = "github"
    ) -> Repository:
        """Its main branch has the project, and not yet the stack's file."""
        made = cls(environment, stack, platform)
        bare = environment.root / "repository.git"
        made._git("init", "--quiet", "--bare", "--initial-branch=main", str(bare))
        made._git("init", "--quiet", "--initial-branch=main")
        made._git("remote", "add", "origin", str(bare))
        for name in _LINKS:
            (environment.project / name).symlink_to(ROOT / name)
        ignored = ("/.venv", "/.gitignore", "/preview/", "/deploy/", "/stacks/")
        (environment.project / ".gitignore").write_text("\n".join(ignored) + "\n")
        made._git("add", "--all")
        made._git("commit", "--quiet", "--message", "A project")
        made._git("push", "--quiet", "origin", "main")
        return made

    def push(self) -> Pushed:
        """The stack's file as it is now goes by a request into main, and main into the cloud."""
        self._git("checkout", "--quiet", "-b", "fleet")
        self._git("add", "--force", f"stacks/Pulumi.{self.stack}.yaml")
        self._git("commit", "--quiet", "--message", "A fleet")
        self._git("push", "--quiet", "origin", "fleet")
        report, rules = self.run("preview")
        inventory = self.environment.inventory()
        self._git("push", "--quiet", "origin", "fleet:main")
        self._git("fetch", "--quiet", "origin")
        self._git("checkout", "--quiet", "--detach", "origin/main")
        deploy, unlock = self.run("deploy")
        return Pushed(
            report=report,
            text=(self.environment.project / "preview" / "report.md").read_text(),
            rules=rules,
            inventory=inventory,
            deploy=deploy,
            unlock=unlock,
        )

    def run(self, name: str) -> list[Outcome]:
        """The commands of a job, each whether or not the one before it failed."""
        on_gitlab = self.platform == "gitlab"
        job = gitlab(name, "production") if on_gitlab else github(name, self.stack)
        expressions = known(self.platform, stack=self.stack, main="main")
        given = {k: v for k, v in job.expanded(expressions).items() if v}
        if on_gitlab:
            directory = self.environment.root / "runner"
            runner = runner_variables(f"{name}-production", "production", directory)
            given |= {k: v for k, v in runner.items() if k.endswith(("_CREDENTIALS", "_FILE"))}
        # The published stacks' control planes are open to all, which production refuses.
        given |= {"STACK": self.stack, "POLICY": "development"}
        return [self._run(command, given) for command in job.commands]

    def _run(self, command: str, given: Mapping[str, str]) -> Outcome:
        environment = self.environment
        inherited = {k: v for k, v in os.environ.items() if k not in cloud_variables.USERS_OWN}
        variables = {
            **inherited,
            **environment.variables(),
            **processes.marks(environment.root, "pulumi"),
            "GOGC": "400",
            **given,
        }
        began = time.monotonic()
        done = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=environment.project,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        return Outcome(command, done.returncode, done.stdout, time.monotonic() - began)

    def _git(self, *arguments: str) -> None:
        who = {
            f"GIT_{role}_{key}": "t@example.org"
            for role in ("AUTHOR", "COMMITTER")
            for key in ("NAME", "EMAIL")
        }
        subprocess.run(
            ["git", *arguments],
            cwd=self.environment.project,
            env={**os.environ, **who},
            check=True,
            capture_output=True,
        )


def slicewright(environment: Environment, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line, in the environment's project."""
    inherited = {k: v for k, v in os.environ.items() if k not in cloud_variables.USERS_OWN}
    return subprocess.run(
        [Path(environment.root, "bin", "slicewright"), *arguments],
        cwd=environment.project,
        env={**inherited, **environment.variables()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
