"""The API server's settings for the webhooks of a cloud, which decides who uses a cluster's API.

Without them the API server knows the users of its certificates and tokens only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class AccessWebhooks:
    url: str
    """The cluster's own, with a slash at its end. It has a secret in it: client-go sends no token
    of a kubeconfig over plain HTTP.
    """

    def files(self) -> Iterator[tuple[str, str]]:
        """Name in the cluster's directory -> content: a kubeconfig for each question."""
        for question in ("users", "rights"):
            yield _file(question), self._kubeconfig(question)

    def flags(self) -> tuple[str, ...]:
        """The API server keeps answers for seconds only: a right that is taken away is soon gone.

        It keeps tokens for 10 s, whatever the flag says.
        """
        return (
            f"--authentication-token-webhook-config-file={_file('users')}",
            "--authentication-token-webhook-version=v1",
            "--authentication-token-webhook-cache-ttl=10s",
            f"--authorization-webhook-config-file={_file('rights')}",
            "--authorization-webhook-version=v1",
            "--authorization-webhook-cache-authorized-ttl=1s",
            "--authorization-webhook-cache-unauthorized-ttl=1s",
        )

    def _kubeconfig(self, question: str) -> str:
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "cloud", "cluster": {"server": f"{self.url}{question}"}}],
                "contexts": [{"name": "cloud", "context": {"cluster": "cloud"}}],
                "current-context": "cloud",
            },
            indent=1,
        )


def _file(question: str) -> str:
    return f"access-{question}.json"
