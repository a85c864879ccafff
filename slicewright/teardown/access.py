"""A client of a stack's cluster, with the credentials that its kubeconfig names."""

from __future__ import annotations

from pathlib import Path

from slicewright.kubeapi import Client
from slicewright.kubeapi.exec_credentials import CredentialSource, NoCredentials
from slicewright.kubeapi.kubeconfig import BadKubeconfig, context_of
from slicewright.processes.credential_plugins import run_plugin
from slicewright.processes.foreign_json import read_object
from slicewright.processes.waits import announced


class NoAccess(Exception):
    """The cluster cannot be asked. The message says why."""


def client_of(kubeconfig: str) -> Client:
    """Returns a client. kubeconfig: JSON, as in the stack's Kubernetes provider. Raises NoAccess.

    The credential of its plugin lasts only minutes, so each phase creates a client of its own.
    """
    try:
        context = context_of(read_object(kubeconfig, "a kubeconfig", secret=True), Path.cwd())
        credentials = CredentialSource(context, run_plugin).current()
    except (BadKubeconfig, NoCredentials, ValueError) as e:
        reason = " ".join(str(e).split())
        raise NoAccess(f"the kubeconfig in the stack's state cannot be used: {reason}") from None
    return Client(
        credentials,
        user_agent="slicewright-destroy",
        waiting=lambda: announced(f"waiting for {context.server}, for up to 30 s per request"),
    )
