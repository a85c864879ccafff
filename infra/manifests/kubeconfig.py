"""A kubeconfig for a cluster of a cloud."""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.infra.manifests.text import JsonObject


def kubeconfig(
    *, cluster: str, server: str, ca_data: str | None, command: str, arguments: Sequence[str] = ()
) -> JsonObject:
    """A kubeconfig without a secret: the cloud's own command supplies credentials at every use.

    ca_data: base64 PEM, as both clouds return it. None if the certificate is a public one.
    """
    trusted = {} if ca_data is None else {"certificate-authority-data": ca_data}
    user: JsonObject = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": command,
        "args": list(arguments),
        "interactiveMode": "Never",
        "provideClusterInfo": True,
        "installHint": f"install {command}, which comes with the cloud's command line tools",
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": server, **trusted}}],
        "users": [{"name": cluster, "user": {"exec": user}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
        "current-context": cluster,
    }
