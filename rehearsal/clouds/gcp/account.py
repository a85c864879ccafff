"""What the simulated Google projects have: E/cloud/google-account.json, read at every use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from annotated_types import Ge

from rehearsal.clouds.core import account_file
from rehearsal.clouds.core.context import Context
from rehearsal.clouds.core.strict import Strict

FILE = "google-account.json"


@dataclass(frozen=True, kw_only=True)
class Account(Strict):
    quotas: Mapping[str, Annotated[float, Ge(0)]] = field(default_factory=dict)
    """Compute Engine's regional quotas by name; one that is not named is unlimited."""
    leftovers_s: Annotated[float, Ge(0)] = 1.5
    """How long network endpoint groups outlive their cluster, in seconds; at Google minutes."""


def account_of(context: Context) -> Account:
    """Raises AccountFileError."""
    return account_file.read(context.store.root / FILE, Account) or Account()


def write_account(environment: Path, settings: Mapping[str, object]) -> None:
    """Gives the environment's projects these settings, for example `gke.quotas.EMPTY`."""
    account_file.write(environment, FILE, settings)
