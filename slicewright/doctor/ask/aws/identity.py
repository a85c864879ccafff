"""Asks who the AWS command line is, whose tokens the kubeconfigs of EKS use."""

from __future__ import annotations

import re
from typing import Final

from slicewright.doctor.ask.aws.session import LOGIN
from slicewright.doctor.ask.credential_plugin import is_installed, output_of, token_of
from slicewright.doctor.checks.credentials import ClusterCredentials
from slicewright.doctor.findings import Answer, NotAnswered
from slicewright.infra.manifests import eks_plugin
from slicewright.infra.plan import EksFleetPlan

_SESSION: Final = re.compile(r"(:assumed-role/[^/]+)/.*")


def ask_credentials(fleet: EksFleetPlan, profile: str | None, arn: str) -> ClusterCredentials:
    """arn: the caller, as STS names it to the SDK."""
    plugin = eks_plugin(fleet.cluster.name, fleet.cluster.region, profile)
    token = token_of(plugin)
    return ClusterCredentials(
        command=plugin.command,
        installed=is_installed(plugin),
        identity=token if isinstance(token, NotAnswered) else _caller(profile),
        pulumi=_principal(arn),
        install="install the AWS CLI, version 2: https://docs.aws.amazon.com/cli/latest/userguide/",
        login=LOGIN,
    )


def _caller(profile: str | None) -> Answer[str]:
    option = [] if profile is None else ["--profile", profile]
    query = ["sts", "get-caller-identity", "--query", "Arn", "--output", "text"]
    arn = output_of(["aws", *query, *option])
    return arn if isinstance(arn, NotAnswered) else _principal(arn)


def _principal(arn: str) -> str:
    """The ARN without the name of a session: each login of a role has another one."""
    return _SESSION.sub(r"\1", arn)
