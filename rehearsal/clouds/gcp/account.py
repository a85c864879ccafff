"""What the simulated Google projects have: E/cloud/google-account.json, read at every use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge

from slicewright.rehearsal.clouds.core import account_file
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.core.strict import Strict

FILE = "google-account.json"
_Machines = Annotated[int, Ge(0)]


@dataclass(frozen=True, kw_only=True)
class Block(Strict):
    """A part of a reservation whose machines are close to each other."""

    count: _Machines
    sub_blocks: Mapping[str, _Machines] = field(default_factory=dict)
    """By name: machines of each."""


@dataclass(frozen=True, kw_only=True)
class Reservation(Strict):
    """Machines of one type that are kept in a zone."""

    name: str
    zone: str
    machine_type: str
    count: _Machines
    specific: bool = True
    """Whether nodes must name it."""
    project: str | None = None
    """Its owner; None = the project that asks."""
    shared_with: tuple[str, ...] = ()
    """Other projects that may use it."""
    taken: _Machines = 0
    """Machines of others that run in it."""
    blocks: Mapping[str, Block] = field(default_factory=dict)

    def machines(self, block: str | None, sub_block: str | None) -> int | None:
        """Of a part of it; None where there is no such part."""
        if block is None:
            return self.count
        machines = self.blocks.get(block)
        if machines is None or sub_block is None:
            return None if machines is None else machines.count
        return machines.sub_blocks.get(sub_block)


Constraint = Literal[
    "compute.requireShieldedVm", "compute.vmExternalIpAccess", "iam.disableServiceAccountCreation"
]
KeyState = Literal["ENABLED", "DISABLED", "DESTROY_SCHEDULED", "DESTROYED"]


@dataclass(frozen=True, kw_only=True)
class Account(Strict):
    quotas: Mapping[str, Annotated[float, Ge(0)]] = field(default_factory=dict)
    """Compute Engine's regional quotas by name; one that is not named is unlimited."""
    reservations: tuple[Reservation, ...] | None = None
    """None: there is one for whatever a node pool asks for."""
    keys: Mapping[str, KeyState] | None = None
    """Keys of Cloud KMS by their path, with the state of the primary version. None: whatever key
    is asked for is there, and enabled."""
    constraints: tuple[Constraint, ...] = ()
    """Constraints of the organisation that are enforced in its projects, without exceptions."""
    lacks: tuple[str, ...] = ()
    """Permissions that the caller does not have, in any project; asked for, and never enforced."""
    application_default: str | None = "rehearsal@rehearsal.example"
    """The account of application default credentials, which Pulumi uses. None: there are none."""
    gcloud: str | None = None
    """The account that gcloud is logged in as. None: it is logged out, as after `gcloud auth
    application-default login` only.
    """
    container_admins: tuple[str, ...] | None = None
    """Accounts that have all rights of `roles/container.admin` in the project's clusters. None:
    that of application default credentials only.
    """
    leftovers_s: Annotated[float, Ge(0)] = 1.5
    """How long network endpoint groups outlive their cluster, in seconds; at Google minutes."""

    @property
    def cluster_admins(self) -> tuple[str, ...]:
        if self.container_admins is not None:
            return self.container_admins
        return () if self.application_default is None else (self.application_default,)


def account_of(context: Context) -> Account:
    """Raises AccountFileError."""
    return account_file.read(context.store.root / FILE, Account) or Account()


def write_account(environment: Path, settings: Mapping[str, object]) -> None:
    """Gives the environment's projects these settings, for example `gke.quotas.EMPTY`."""
    account_file.write(environment, FILE, settings)
