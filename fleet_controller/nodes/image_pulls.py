"""Explains why a container's image does not arrive, and names the remedy. Pure.

The registry's answer is read from the error of containerd, CRI-O or Docker that the kubelet quotes.

Sources of the reasons: k8s.io/kubernetes, pkg/kubelet/images/types.go; k8s.io/cri-api, pkg/errors.
Sources of the words: containerd, core/remotes/docker; containers/image, docker/errors.go;
moby/moby, distribution/errors.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from slicewright.apis.image_names import DOCKER_HUB, registry_of, short

PULLING: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
"""The kubelet's reasons for a container that waits for its image."""


@dataclass(frozen=True, kw_only=True)
class Keys:
    """The keys in a stack file for the images of some pods, and for the Secrets to pull them."""

    image: str
    secrets: str


SLICEWRIGHT: Final = Keys(image="image", secrets="image_pull_secrets")
"""The keys for agents and controller."""
OPERATOR: Final = Keys(image="gpu_operator.registry", secrets="gpu_operator.image_pull_secrets")
"""The keys for NVIDIA's operands."""

_NAMES: Final = re.compile(r'"[^"]*"|https?://\S+')

_LIMITED, _LOGIN, _PLATFORM, _MISSING = "limited", "login", "platform", "missing"
_CERTIFICATE, _UNREACHED, _BROKEN, _DISK = "certificate", "unreached", "broken", "disk"
_WORDS: Final[Mapping[str, str]] = {
    _DISK: r"no space left on device",
    _LIMITED: r"toomanyrequests|429 Too Many Requests|pull rate limit|too many requests",
    _PLATFORM: r"no match for platform|no matching manifest for|no image found in (image index|"
    r"manifest list)|does not match the specified platform",
    _LOGIN: r"401 Unauthorized|403 Forbidden|pull access denied|authentication required|"
    r"insufficient_scope|authorization failed|failed to authorize|no basic auth credentials|"
    r"unauthorized|access to the resource is denied|invalid username/password|denied:",
    _CERTIFICATE: r"x509:|certificate|gave HTTP response to HTTPS client",
    _UNREACHED: r"no such host|i/o timeout|TLS handshake timeout|connection refused|"
    r"connection reset|no route to host|network is unreachable|deadline exceeded|"
    r"Client\.Timeout|server misbehaving|proxyconnect|: EOF|dial tcp|request canceled",
    _BROKEN: r"\b50[0234] [A-Z]|registry is unavailable",
    _MISSING: r"manifest unknown|name unknown|404 Not Found|not found",
}
"""Cause -> the words that identify it. The first match counts."""


@dataclass(frozen=True, kw_only=True)
class _Cause:
    answer: str
    """The registry's behaviour, as a whole clause that follows its name."""
    remedy: str
    """The remedy, with the fields of `Keys`."""


_CAUSES: Final[Mapping[str, _Cause]] = {
    _LIMITED: _Cause(
        answer="answers 429, too many pulls{shared}",
        remedy="name a copy in another registry in `{image}`, or a Secret with a login in "
        "`{secrets}`; the kubelet keeps trying",
    ),
    _LOGIN: _Cause(
        answer="requires a login, or has no such image",
        remedy="name a Secret with a login for {registry} in `{secrets}`{there}, or correct "
        "`{image}`",
    ),
    _PLATFORM: _Cause(
        answer="has the image, but not for this node's architecture",
        remedy="name an image for all architectures of the fleet in `{image}`; a digest must be "
        "that of the index, not of the image for one architecture",
    ),
    _MISSING: _Cause(
        answer="has no such image: no repository, tag or digest of this name",
        remedy="correct `{image}`, or copy the image to this registry",
    ),
    _CERTIFICATE: _Cause(
        answer="presents a certificate that the node does not trust",
        remedy="give the registry a certificate that nodes trust, or the nodes its authority; or "
        "name another registry in `{image}`",
    ),
    _UNREACHED: _Cause(
        answer="cannot be reached from the node",
        remedy="allow the connection (NAT, proxy, firewall, DNS), or name in `{image}` a registry "
        "that the nodes reach",
    ),
    _BROKEN: _Cause(
        answer="answers with a server error",
        remedy="wait: the kubelet keeps trying; or name another registry in `{image}`",
    ),
    _DISK: _Cause(
        answer="is not to blame: the node's disk is full",
        remedy="give the pool's nodes larger disks",
    ),
}
_UNKNOWN: Final = _Cause(
    answer="does not deliver the image, and the node does not say why",
    remedy="`kubectl describe pod` shows the last answer; name another registry in "
    "`{image}`, or a login in `{secrets}`",
)
_SHARED: Final = " from this address without a login (100 in 6 hours, for all nodes behind it)"


def explained(reason: str, message: str, image: str, keys: Keys, *, namespace: str = "") -> str:
    """Returns the registry, its answer and the remedy, for one of the reasons in `PULLING`.

    namespace: the pod's namespace, which must hold its Secrets.
    """
    if not image:
        return message
    named = short(image)
    if reason == "InvalidImageName":
        return f"{named} is not a valid image name: correct `{keys.image}`"
    if reason == "ErrImageNeverPull":
        return f"{named} is not on the node, and is never pulled: put it into the node's image"
    if reason == "SignatureValidationFailed":
        return f"the node does not accept the signature of {named}: {message}"
    cause = _cause(message, image)
    if cause is None and not _says_nothing(message):
        return f"{registry_of(image)}, {named}: {message}"
    chosen = _CAUSES[cause] if cause else _UNKNOWN
    registry = registry_of(image)
    alone = registry == DOCKER_HUB and "unauthenticated" in message
    answer = chosen.answer.format(shared=_SHARED if alone else "")
    remedy = chosen.remedy.format(
        image=keys.image,
        secrets=keys.secrets,
        registry=registry,
        there=f" (of namespace {namespace})" if namespace else "",
    )
    return f"{registry} {answer} ({named}); {remedy}"


def _cause(message: str, image: str) -> str | None:
    # Names and URLs may contain any word.
    text = _NAMES.sub("", message).replace(image, "")
    return next(
        (cause for cause, words in _WORDS.items() if re.search(words, text, re.IGNORECASE)), None
    )


def _says_nothing(message: str) -> bool:
    """True if the message says no more than that the kubelet waits. Up to Kubernetes 1.31, the
    kubelet does not repeat the answer while it waits.
    """
    return re.fullmatch(r'(Back-off pulling image "[^"]*")?', message) is not None
