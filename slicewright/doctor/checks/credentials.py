"""Checks who `pulumi up` would be in a cloud's cluster: the kubeconfig asks a program. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slicewright.doctor.findings import Answer, Finding, NotAnswered, checks, fails, not_seen, ok


@dataclass(frozen=True, kw_only=True)
class ClusterCredentials:
    """The answers about the credential program of a cluster's kubeconfig."""

    command: str
    installed: bool
    """True if the command is on the PATH."""
    identity: Answer[str]
    """The identity of the command's token, as the cluster would see it."""
    pulumi: Answer[str]
    """The identity of Pulumi's calls to the cloud."""
    install: str
    """How to install the command."""
    login: str
    """How to log in, so that the command and Pulumi use the same identity."""
    ignored: str | None = None
    """A variable with credentials that Pulumi obeys and the command ignores. None: none is set."""


@checks("credentials")
def credential_findings(answers: ClusterCredentials) -> Iterator[Finding]:
    subject = f"credentials of kubeconfigs ({answers.command})"
    consequence = "`up` would create the cluster, and then fail at its first Kubernetes object"
    if not answers.installed:
        detail = f"{answers.command} is not on the PATH, but the cluster's kubeconfig runs it: "
        yield fails(subject, detail + consequence, answers.install)
    elif isinstance(answers.identity, NotAnswered):
        detail = f"{answers.command} gives no token ({answers.identity.why}): {consequence}"
        yield fails(subject, detail, answers.login)
    elif answers.ignored is not None:
        yield fails(
            subject,
            f"Pulumi uses {answers.ignored}, which {answers.command} ignores: {consequence}, "
            "or be another user there",
            answers.login,
        )
    elif isinstance(answers.pulumi, NotAnswered):
        yield not_seen(subject, answers.pulumi)
    elif answers.identity != answers.pulumi:
        yield fails(
            subject,
            f"Pulumi is {answers.pulumi}, but {answers.command} gives a token of "
            f"{answers.identity}, who is another user of the cluster and may lack all rights",
            answers.login,
        )
    else:
        yield ok(subject, f"a token of {answers.identity}, like Pulumi's")
