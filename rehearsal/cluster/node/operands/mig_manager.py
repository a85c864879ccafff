"""nvidia-mig-manager: what it does to its node after a change of the label `nvidia.com/mig.config`.

Its steps are a generator: each yields what is to be done, and gets the node as it is afterwards.
That it has the validator's pod recreated is left out.
Source: NVIDIA/mig-parted v0.13.1 and v0.15.1, pkg/mig/reconfigure/reconfigure.go,
cmd/nvidia-mig-manager.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Final

from slicewright.rehearsal.cluster.node.operands import mig_parted
from slicewright.rehearsal.cluster.node.operands.mig_parted import Layout, NotApplied
from slicewright.rehearsal.cluster.silicon.node_silicon import NodeSilicon

CONFIG: Final = "nvidia.com/mig.config"
STATE: Final = "nvidia.com/mig.config.state"
PAUSED: Final = "paused-for-mig-change"
CLIENTS: Final[tuple[str, ...]] = tuple(
    f"nvidia.com/gpu.deploy.{operand}"
    for operand in ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "nvsm")
)
"""Labels of the DaemonSets that it pauses; it makes those that a node lacks."""
_THIRD_PARTY: Final = "nvidia.com/gpu.deploy.client"
"""The label of other makers' DaemonSets, from v0.15.0 on: paused only if the node has it."""
_FAILS_FROM: Final = (0, 15, 1)
"""The first version that writes `failed` if pods of clients do not end in time; older ones leave
`pending` for ever.
"""


def writes_failed(image: str) -> bool:
    """Whether the mig-manager of an image writes `failed` after waiting for pods in vain.

    True for an image without a version: it is the newest.
    """
    version = re.search(r":v?(\d+)\.(\d+)\.(\d+)", image)
    return version is None or tuple(map(int, version.groups())) >= _FAILS_FROM


@dataclass(frozen=True, kw_only=True)
class Node:
    """What it sees of its node."""

    labels: Mapping[str, str]
    silicon: NodeSilicon
    applied: bool = True
    """Whether its last `Partition` ended without an error."""
    clients_gone: bool = True
    """Whether the pods of the paused operands have ended in time."""


@dataclass(frozen=True, kw_only=True)
class Label:
    """One merge patch of the node."""

    labels: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class ClientsGone:
    """Wait until no pod of the paused operands is left on the node."""


@dataclass(frozen=True, kw_only=True)
class Partition:
    """`nvidia-mig-parted apply`."""

    layout: Layout
    mode_only: bool

    def of(self, silicon: NodeSilicon) -> tuple[NodeSilicon, bool]:
        """What the GPUs become, and whether it ended without an error."""
        try:
            return mig_parted.apply(silicon, self.layout, mode_only=self.mode_only), True
        except NotApplied as e:
            return e.left, False


@dataclass(frozen=True, kw_only=True)
class Reboot:
    """`chroot /host reboot`. The generator ends with it."""


Step = Label | ClientsGone | Partition | Reboot
Steps = Generator[Step, Node, None]


class MigManager:
    """One process, from the start of its container to its end."""

    def __init__(self, *, with_reboot: bool, writes_failed: bool = True) -> None:
        self._with_reboot = with_reboot
        self._writes_failed = writes_failed
        self._handed: str | None = None
        self._has_restarted_clients = False
        """NoRestartK8sDaemonsetsOnExit: true from its first success on, which is never reset. A
        later failure therefore leaves the operands paused.
        """

    def reacts(self, labels: Mapping[str, str]) -> bool:
        """Whether it starts `reconfigure` on a node with these labels: only a new value makes it,
        and a label that is removed does not.
        """
        wanted = labels.get(CONFIG, "")
        return wanted not in ("", self._handed)

    def reconfigure(self, node: Node, layouts: Mapping[str, Layout]) -> Steps:
        """One run, for the layout that the node's label names now, of those in the config file."""
        name = self._handed = node.labels.get(CONFIG, "")
        was = node.labels
        layout = layouts.get(name)
        if layout is None:
            yield from self._end(was, "failed")
            return
        if mig_parted.is_applied(node.silicon, layout):
            yield from self._end(was, "success")
            return
        if not mig_parted.has_mode(node.silicon, layout) and was.get(STATE) == "rebooting":
            yield from self._end(was, "failed")
            return
        yield Label(labels={STATE: "pending"})
        yield Label(labels=_set(was, PAUSED))
        node = yield ClientsGone()
        if not node.clients_gone:
            if self._writes_failed:
                yield from self._end(was, "failed")
            return
        node = yield Partition(layout=layout, mode_only=True)
        has_mode = node.applied and mig_parted.has_mode(node.silicon, layout)
        if not has_mode and self._with_reboot:
            yield Label(labels={STATE: "rebooting"})
            yield Reboot()
            return
        node = yield Partition(layout=layout, mode_only=False)
        if not node.applied:
            yield from self._end(was, "failed")
            return
        self._has_restarted_clients = True
        yield Label(labels=_set(was, "true"))
        yield from self._end(was, "success")

    def _end(self, was: Mapping[str, str], state: str) -> Steps:
        if not self._has_restarted_clients:
            yield Label(labels=_set(was, "true"))
        yield Label(labels={STATE: state})


def _set(was: Mapping[str, str], value: str) -> dict[str, str]:
    """The operands' labels with this value, but for those that were switched off before."""
    labels = (*CLIENTS, *((_THIRD_PARTY,) if was.get(_THIRD_PARTY) else ()))
    return {label: "false" if was.get(label) == "false" else value for label in labels}
