"""The images of one node, and how the kubelet gets one that a container needs.

Source: k8s.io/kubernetes v1.36.2, pkg/kubelet/images/image_manager.go, EnsureImageExists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.kubelet.images import references
from slicewright.rehearsal.cluster.kubelet.images.answers import pull_error
from slicewright.rehearsal.cluster.kubelet.images.credentials import logins
from slicewright.rehearsal.cluster.kubelet.images.references import Reference
from slicewright.rehearsal.cluster.kubelet.images.registries import Puller, Registries, refused

PULL, NEVER, INVALID = "ErrImagePull", "ErrImageNeverPull", "InvalidImageName"
"""Reasons of a waiting container."""
_ALWAYS, _NEVER = "Always", "Never"
_PRELOADED: Final = (
    "docker.io/library/cos-nvidia-installer:fixed",
    "docker.io/library/gke-nvidia-installer:fixed",
)
"""What GKE puts on every node. Source: GoogleCloudPlatform/container-engine-accelerators."""

Say = Callable[[str, str, str], None]
"""Sends an event of the pod: type, reason, message."""


class NotPulled(Exception):
    """The container's image is not there; the message is the waiting state's.

    reason: of that state.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class PullSecrets(Protocol):
    async def __call__(self) -> Sequence[JsonObject]:
        """The pull Secrets of the pod that are there."""
        ...


@dataclass
class ImageStore:
    """For the event loop only."""

    registries: Registries
    _present: dict[str, set[str | None]] = field(
        default_factory=lambda: {image: {None} for image in _PRELOADED}
    )
    """Image -> the logins that it was pulled with; None: without one."""

    async def ensure(
        self, container: JsonObject, puller: Puller, secrets: PullSecrets, say: Say
    ) -> None:
        """Returns when the image is there. Raises NotPulled."""
        named = container["image"]
        policy = container.get("imagePullPolicy", "IfNotPresent")
        try:
            image = references.parse(named)
        except references.InvalidReference as e:
            message = f'Failed to apply default image tag "{named}": {e}'
            say("Warning", "InspectFailed", message)
            raise NotPulled(INVALID, message) from None
        pulled_with = self._present.get(image.resolved, set())
        if policy == _NEVER and not pulled_with:
            message = f'Container image "{named}" is not present with pull policy of Never'
            say("Warning", NEVER, message)
            raise NotPulled(NEVER, message)
        held = logins(await secrets(), image)
        # Whoever has no right to the image must ask the registry, though the node has it.
        accessible = None in pulled_with or not pulled_with.isdisjoint(held)
        if policy != _ALWAYS and accessible:
            message = f'Container image "{named}" already present on machine and can be accessed'
            say("Normal", "Pulled", f"{message} by the pod")
            return
        self._pull(image, named, puller, held, say)

    def _pull(
        self, image: Reference, named: str, puller: Puller, held: Sequence[str], say: Say
    ) -> None:
        say("Normal", "Pulling", f'Pulling image "{named}"')
        errors = []
        for login in held or (None,):
            answer = self.registries.answer(image, puller, login)
            if answer is None:
                self._present.setdefault(image.resolved, set()).add(login)
                say("Normal", "Pulled", _PULLED.format(image=named))
                return
            errors.append(pull_error(answer, image, logged_in=login is not None))
        error = refused(errors)
        say("Warning", "Failed", f'Failed to pull image "{named}": {error}')
        raise NotPulled(PULL, error)


_PULLED: Final = (
    'Successfully pulled image "{image}" in 0s (0s including waiting). Image size: 0 bytes.'
)
"""Simulated images have no content."""
