"""Runs the credential program of a cluster's kubeconfig, as kubectl and Pulumi's provider do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Final

from slicewright.doctor.findings import Answer, NotAnswered
from slicewright.infra.manifests import CredentialPlugin
from slicewright.telemetry.plain import shortened

_API: Final = "client.authentication.k8s.io/v1beta1"
_TIMEOUT_S: Final = 60
_LONGEST: Final = 400
"""Longest message of a program that is shown, in characters."""


def is_installed(plugin: CredentialPlugin) -> bool:
    return shutil.which(plugin.command) is not None


def token_of(plugin: CredentialPlugin) -> Answer[str]:
    """The token that the program prints for a cluster."""
    output = output_of([plugin.command, *plugin.arguments])
    if isinstance(output, NotAnswered):
        return output
    try:
        token = json.loads(output)["status"]["token"]
    except (ValueError, KeyError, TypeError):
        return NotAnswered(why="its answer is not an ExecCredential with a token")
    return str(token)


def output_of(command: Sequence[str]) -> Answer[str]:
    """The output of a program, which may not ask the user anything."""
    info = {"apiVersion": _API, "kind": "ExecCredential", "spec": {"interactive": False}}
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        return NotAnswered(why=shortened(str(e), _LONGEST))
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").split("\n")
        message = next((line for line in reversed(lines) if line.strip()), "no message")
        return NotAnswered(why=shortened(f"exit code {done.returncode}: {message}", _LONGEST))
    return done.stdout.decode(errors="replace").strip()
