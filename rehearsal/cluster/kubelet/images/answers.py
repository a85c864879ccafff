"""What a simulated registry answers, and what containerd makes of it, in its own words. Pure.

Sources: containerd 2.1, core/remotes/docker (resolver.go, authorizer.go, fetcher.go,
errors.go) and core/images/image.go; the words of Docker Hub: docker/docs #21908; of the missing
platform: FoundationDB/fdb-kubernetes-operator #2294.
"""

from __future__ import annotations

from typing import Final, Literal

from slicewright.rehearsal.cluster.kubelet.images.references import Reference

Answer = Literal[
    "unauthorized",
    "forbidden",
    "not-found",
    "too-many-requests",
    "no-platform",
    "unavailable",
    "timeout",
    "no-such-host",
    "unknown-authority",
]
_NOT_FOUND: Final = "rpc error: code = NotFound desc = "
"""The kubelet leaves out the code of an error that is Unknown. Source: k8s.io/cri-client,
pkg/remote_image.go.
"""
_DOCKER_HUB: Final = "docker.io"
_RATE: Final = {
    _DOCKER_HUB: "You have reached your unauthenticated pull rate limit. "
    "https://www.docker.com/increase-rate-limit"
}
_OTHER_RATE: Final = "Rate exceeded"


def pull_error(answer: Answer, image: Reference, *, logged_in: bool) -> str:
    """The error of the pull, as the kubelet gets it from containerd.

    logged_in: the pull came with credentials.
    """
    name = image.resolved
    unpack = f'failed to pull and unpack image "{name}"'
    resolve = f'{unpack}: failed to resolve reference "{name}"'
    request = f'failed to do request: Head "{image.manifest_url}"'
    match answer:
        case "unauthorized" if logged_in:
            return (
                f"{resolve}: failed to authorize: failed to fetch oauth token: unexpected status "
                f"from GET request to https://{image.endpoint}/token?scope=repository%3A"
                f"{image.path.replace('/', '%2F')}%3Apull: 401 Unauthorized"
            )
        case "unauthorized":
            return (
                f"{resolve}: pull access denied, repository does not exist or may require "
                "authorization: server message: insufficient_scope: authorization failed"
            )
        case "forbidden":
            return (
                f"{resolve}: unexpected status from HEAD request to {image.manifest_url}: "
                "403 Forbidden"
            )
        case "not-found":
            return f"{_NOT_FOUND}{resolve}: {name}: not found"
        case "too-many-requests":
            return (
                f"{unpack}: failed to copy: httpReadSeeker: failed open: unexpected status code "
                f"{image.manifest_url}: 429 Too Many Requests - Server message: toomanyrequests: "
                f"{_RATE.get(image.registry, _OTHER_RATE)}"
            )
        case "no-platform":
            return f"{_NOT_FOUND}{unpack}: no match for platform in manifest: not found"
        case "unavailable":
            return (
                f"{resolve}: unexpected status from HEAD request to {image.manifest_url}: "
                "503 Service Unavailable"
            )
        case "timeout":
            return f"{resolve}: {request}: dial tcp 192.0.2.1:443: i/o timeout"
        case "no-such-host":
            return (
                f"{resolve}: {request}: dial tcp: lookup {image.endpoint.partition(':')[0]} on "
                "192.0.2.53:53: no such host"
            )
        case "unknown-authority":
            return (
                f"{resolve}: {request}: tls: failed to verify certificate: x509: certificate "
                "signed by unknown authority"
            )
