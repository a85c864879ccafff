"""What a stack file says of the stack's secrets, which the engine does not tell a pack."""

from __future__ import annotations

from pathlib import Path

import yaml

PASSPHRASE = "passphrase"  # noqa: S105 - the name of a way, not one
OF_THE_BACKEND = "the backend's default"


def secrets_provider(directory: Path, urn: str) -> str | None:
    """Of the stack with this URN; None where the directory has no file of it that can be read.

    Source: pulumi/pulumi, sdk/go/common/workspace/project.go, ProjectStack: secretsprovider is
    absent for a passphrase, of which there is only the salt, and for Pulumi Cloud's own.
    """
    stack = urn.split(":", 3)[2]
    try:
        found = yaml.safe_load((directory / f"Pulumi.{stack}.yaml").read_text())
    except (OSError, ValueError, yaml.YAMLError):
        return None
    said = found if isinstance(found, dict) else {}
    if named := said.get("secretsprovider"):
        return str(named)
    return PASSPHRASE if said.get("encryptionsalt") else OF_THE_BACKEND
