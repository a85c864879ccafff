"""A kubeconfig for a cluster of a cloud."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slicewright.infra.manifests.text import JsonObject


@dataclass(frozen=True, kw_only=True)
class CredentialPlugin:
    """A cloud's program that prints a token for the Kubernetes API."""

    command: str
    arguments: tuple[str, ...]


GKE_PLUGIN: Final = CredentialPlugin(
    command="gke-gcloud-auth-plugin",
    # Pulumi's provider uses application default credentials. Without the option the plugin would
    # use gcloud's account, which may be missing or another person's.
    arguments=("--use_application_default_credentials",),
)


def eks_plugin(cluster: str, region: str, profile: str | None) -> CredentialPlugin:
    """profile: the one that Pulumi's provider uses. None: AWS's default choice."""
    options = ("--cluster-name", cluster, "--region", region, "--output", "json")
    named = () if profile is None else ("--profile", profile)
    return CredentialPlugin(command="aws", arguments=("eks", "get-token", *options, *named))


def kubeconfig(
    *, cluster: str, server: str, ca_data: str | None, plugin: CredentialPlugin
) -> JsonObject:
    """A kubeconfig without a secret: the cloud's own command supplies credentials at every use.

    ca_data: base64 PEM, as both clouds return it. None if the certificate is a public one.
    """
    trusted = {} if ca_data is None else {"certificate-authority-data": ca_data}
    user: JsonObject = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": plugin.command,
        "args": list(plugin.arguments),
        "interactiveMode": "Never",
        "provideClusterInfo": True,
        "installHint": f"install {plugin.command}, which comes with the cloud's command line tools",
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": server, **trusted}}],
        "users": [{"name": cluster, "user": {"exec": user}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
        "current-context": cluster,
    }
