"""The files of a project, as text: made from the answers, checked as the commands check them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from slicewright.apis.version import VERSION
from slicewright.infra import geometry, plan, stack_file
from slicewright.infra.stack_file import json_schema
from slicewright.init import suggestions
from slicewright.init.answers import Answers

_STACKS: Final = "stacks"
_SCHEMA: Final = "stack-file.schema.json"
FIXED_NAMES: Final = ("Pulumi.yaml", "__main__.py", ".gitignore", "requirements.txt", _SCHEMA)
"""The files of every project, without the stack files."""


def _flow_yaml(value: Any) -> str:
    """The value on one line, quoted if it needs to be."""
    text: str = yaml.safe_dump(
        value, default_flow_style=True, width=100_000, allow_unicode=True, sort_keys=False
    )
    return text.removesuffix("\n").removesuffix("\n...")


_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    undefined=StrictUndefined,
    keep_trailing_newline=True,
    autoescape=select_autoescape(),
)
_TEMPLATES.filters["yaml"] = _flow_yaml


def stack_name(environment: str) -> str:
    """The path of an environment's stack file in the project."""
    return f"{_STACKS}/Pulumi.{environment}.yaml"


def project_files(answers: Answers) -> Mapping[str, str]:
    """Path in the project -> text. Every question has an answer."""
    return {
        "Pulumi.yaml": _render("Pulumi.yaml", answers=answers, stacks=_STACKS),
        "__main__.py": _render("main.py"),
        ".gitignore": _render("gitignore"),
        "requirements.txt": _render("requirements.txt", version=VERSION),
        _SCHEMA: json_schema.text(),
        **{stack_name(name): stack_text(answers, name) for name in answers.environments},
    }


def check(answers: Answers) -> Sequence[plan.FleetPlan]:
    """The plan of each environment's fleet, with suggestions for the open questions.

    Raises SpecError, as `slicewright check` and `pulumi up` would report it.
    """
    complete = suggestions.complete(answers)
    return [_plan(complete, name) for name in complete.environments]


def stack_text(answers: Answers, environment: str) -> str:
    """The stack file of an environment."""
    index = answers.environments.index(environment)
    return _render(
        "stack.yaml",
        answers=answers,
        environment=environment,
        schema=_SCHEMA,
        place=_place(answers),
        cluster=f"{answers.project}-{environment}",
        context=answers.contexts[index] if answers.cloud == "existing" else "",
        zones=_zones(answers),
        boot_disk=suggestions.gke_boot_disk(answers) if answers.cloud == "gke" else None,
        partition=_partition(answers),
    )


def _plan(answers: Answers, environment: str) -> plan.FleetPlan:
    name = stack_name(environment)
    try:
        source = stack_file.read_text(stack_text(answers, environment), name)
    except stack_file.NotReadable as e:
        raise stack_file.unreadable(str(e), name) from None
    return plan.deployable(plan.read_source(source), source)


def _place(answers: Answers) -> str:
    match answers.cloud:
        case "gke":
            return f"a GKE cluster in {answers.region}"
        case "eks":
            return f"an EKS cluster in {answers.region}"
        case "existing":
            return "an existing cluster"


def _zones(answers: Answers) -> list[str]:
    match answers.cloud:
        case "gke":
            return [suggestions.gke_zone(answers)]
        case "eks":
            return [*suggestions.eks_zones(answers)]
        case "existing":
            return []


def _partition(answers: Answers) -> Mapping[str, Any]:
    """The pool's `partition`. Empty: whole GPUs."""
    match answers.layout, answers.cloud:
        case None, _:
            return {}
        case str(profile), "gke":
            return {"mode": "native", "profile": profile}
        case str(profile), _:
            gpu = suggestions.gpu_of(answers)
            # The check refuses a profile that the GPU lacks, whatever its count.
            count = 0 if gpu is None else geometry.max_instances(gpu, profile)
            return {"mode": "operator", "layout": {profile: count or 1}}
        case layout, _:
            return {"mode": "operator", "layout": layout}


def _render(template: str, **values: object) -> str:
    return _TEMPLATES.get_template(f"{template}.j2").render(**values)
