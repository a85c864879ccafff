"""The commands of the pipelines in `gitops/`, as GitHub and GitLab would run them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / "gitops" / "github"
GITLAB = ROOT / "gitops" / "gitlab" / ".gitlab-ci.yml"
JOBS = ("preview", "deploy", "drift", "recover", "destroy")
BY_HAND = ("recover", "destroy")


@dataclass(frozen=True)
class Job:
    """What one job runs on a stack: commands of ours, and their variables."""

    commands: tuple[str, ...]
    variables: Mapping[str, str]
    """As the file has them, with the platform's expressions."""

    def expanded(self, known: Mapping[str, str]) -> dict[str, str]:
        """Their values, where `known` are the expressions that the platform resolves."""
        return {name: _resolved(value, known) for name, value in self.variables.items()}


def github(job: str, stack: str) -> Job:
    file = yaml.safe_load((GITHUB / "workflows" / f"{job}.yaml").read_text())["jobs"][job]
    runs = (step.get("run", "") for step in file["steps"])
    return Job(tuple(run for run in runs if run.startswith("gitops/bin/")), file["env"])


def gitlab(job: str, stack: str) -> Job:
    file = yaml.safe_load(GITLAB.read_text())
    name = job if job in BY_HAND else f"{job}-{stack}"
    merged = extended(file, name)
    commands = (*merged["script"], *merged.get("after_script", ()))
    return Job(tuple(c for c in commands if c.startswith("gitops/bin/")), merged["variables"])


def known(platform: str, *, stack: str, main: str) -> dict[str, str]:
    """What the platform would put in place of its expressions for a push or request of `main`."""
    if platform == "github":
        return {
            "matrix.stack": stack,
            "matrix.policy": stack,
            "inputs.stack": stack,
            "inputs.confirm": stack,
        }
    return {
        "CI_DEFAULT_BRANCH": main,
        "STACK": stack,
        "CONFIRM": stack,
    }


ACCOUNT = "deploy@acme.iam.gserviceaccount.com"
"""The environment's variable GOOGLE_ACCOUNT."""


def runner_variables(job: str, stack: str, directory: Path) -> dict[str, str]:
    """A GitLab job's variables once its own script has written its credential files.

    directory: takes the place of the runner's /tmp.
    """
    merged = extended(yaml.safe_load(GITLAB.read_text()), job)
    directory.mkdir(parents=True, exist_ok=True)
    here = {k: v.replace("/tmp/", f"{directory}/") for k, v in merged["variables"].items()}
    provider = "projects/1/locations/global/workloadIdentityPools/gitlab/providers/gitlab"
    given = {"GOOGLE_PROVIDER": provider, "GOOGLE_ACCOUNT": ACCOUNT, "STACK": stack}
    ids = {name: f"the token {name}" for name in merged["id_tokens"]}
    writing = [line for line in merged["before_script"] if "/tmp/" in line]
    script = "\n".join(writing).replace("/tmp/", f"{directory}/")
    subprocess.run(
        ["bash", "-e", "-c", script],
        env={"PATH": os.defpath, **here, **given, **ids},
        check=True,
    )
    return {**here, **given}


def extended(file: Mapping[str, Any], name: str) -> dict[str, Any]:
    """As GitLab merges a job with the one that it extends: mappings deeply, all else replaced."""
    job = dict(file[name])
    parent = job.pop("extends", None)
    return _merged(extended(file, parent), job) if parent else job


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = _merged(old, value) if both else value  # type: ignore[arg-type]
    return merged


def _resolved(value: str, known: Mapping[str, str]) -> str:
    def one(found: re.Match[str]) -> str:
        # The backend is the test's own: what is not known stays out of the environment.
        return known.get((found["github"] or found["gitlab"]).strip(), "")

    return re.sub(r"\$\{\{(?P<github>[^}]*)\}\}|\$(?P<gitlab>\w+)", one, value)
