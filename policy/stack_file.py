"""The secrets provider in a stack file, which the engine does not pass to a pack."""

from __future__ import annotations

from pathlib import Path

import yaml

PASSPHRASE = "passphrase"  # noqa: S105 - the name of a method, not a secret
BACKEND_DEFAULT = "the backend's default"


def stack_directory(project: Path) -> Path:
    """The directory of stack files of the project around the pack: `stackConfigDir` of its
    Pulumi.yaml, or beside it.
    """
    try:
        settings = yaml.safe_load((project / "Pulumi.yaml").read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return project
    directory = settings.get("stackConfigDir") if isinstance(settings, dict) else None
    return project / directory if isinstance(directory, str) else project


def secrets_provider(directory: Path, urn: str) -> str | None:
    """The secrets provider of the stack with this URN, None if its stack file is not readable.

    Source: pulumi/pulumi, sdk/go/common/workspace/project.go, ProjectStack: secretsprovider is
    absent for a passphrase, which has only encryptionsalt, and for Pulumi Cloud's default provider.
    """
    stack = urn.split(":", 3)[2]
    try:
        parsed = yaml.safe_load((directory / f"Pulumi.{stack}.yaml").read_text())
    except (OSError, ValueError, yaml.YAMLError):
        return None
    config = parsed if isinstance(parsed, dict) else {}
    if named := config.get("secretsprovider"):
        return str(named)
    return PASSPHRASE if config.get("encryptionsalt") else BACKEND_DEFAULT
