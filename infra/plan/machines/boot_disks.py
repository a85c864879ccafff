"""Boot disks of GKE nodes: some machine types cannot boot from the default one."""

from __future__ import annotations

from slicewright.infra.catalog import Machine
from slicewright.infra.stack_file import GkeDisk


def required_boot_disk(machine: Machine) -> str | None:
    """Returns a type of boot disk for a machine type that the default one does not suit. None: the
    default suits.
    """
    if machine.boot_disks is None or GkeDisk().type in machine.boot_disks:
        return None
    return machine.boot_disks[0]
