"""A Pulumi project: its directory, and the directory of its stack files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

PROJECT_FILE: Final = "Pulumi.yaml"


def find_project(start: Path) -> Path | None:
    """The nearest directory with Pulumi.yaml, at `start` or above it. None if there is none."""
    return next((at for at in (start, *start.parents) if (at / PROJECT_FILE).is_file()), None)


def stack_directory(project: Path) -> Path:
    """The directory of a project's stack files: `stackConfigDir`, or beside Pulumi.yaml.

    A Pulumi.yaml that is no mapping has no stackConfigDir; every command of the engine refuses it.
    Source: pulumi/pulumi, sdk/go/common/workspace/paths.go, DetectProjectStackPath.
    """
    try:
        settings = yaml.safe_load((project / PROJECT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return project
    directory = settings.get("stackConfigDir") if isinstance(settings, dict) else None
    return project / directory if isinstance(directory, str) else project


def stack_path(project: Path, stack: str) -> Path:
    """The path of a stack's file, which need not exist."""
    return stack_directory(project) / f"Pulumi.{stack}.yaml"
