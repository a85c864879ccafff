"""The manners of the simulated AWS account: E/cloud/aws-account.json, read at every use.

Without the file the account is an ordinary one: it has quota, and its roles spread and its
leftovers go as in AWS, in seconds instead of minutes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from rehearsal.clouds.core.context import Context

FILE = "aws-account.json"
ORDINARY_VCPUS: Mapping[str, int] = {
    "L-417A185B": 1536,
    "L-7212CCBC": 1536,
    "L-DB2E81BA": 1536,
    "L-3819A6DF": 1536,
}
EMPTY: Mapping[str, object] = {"vcpus": dict.fromkeys(ORDINARY_VCPUS, 0)}
"""Settings of a new account: it must ask for P and G instances first."""


class AccountSettingsError(Exception):
    """aws-account.json cannot be used; the message says what is wrong in it."""


@dataclass(frozen=True, kw_only=True)
class Account:
    vcpus: Mapping[str, int] = field(default_factory=lambda: ORDINARY_VCPUS)
    """Quota code -> vCPU that instances of its families may have together, in one region."""
    stock: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Instance type -> zone id -> instances that EC2 has; a type without an entry never runs out.
    """
    zones: Mapping[str, str] = field(default_factory=dict)
    """Zone name -> zone id, where they are not as `zones.zone_ids` gives them."""
    iam_spread_s: float = 1.0
    """Until other services know of a new role or attachment, in seconds; in AWS some seconds."""
    unseen_reads: int = 1
    """How many Describe calls do not show a new EC2 resource yet."""
    leftovers_s: float = 1.5
    """How long interfaces outlive their node, in seconds; in AWS some minutes."""


def account_of(context: Context) -> Account:
    """Raises AccountSettingsError."""
    path = context.store.root / FILE
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return Account()
    except ValueError as e:
        raise AccountSettingsError(f"{path}: is not JSON: {e}") from None
    known = {f.name for f in fields(Account)}
    if not isinstance(found, dict) or set(found) - known:
        raise AccountSettingsError(
            f"{path}: must be an object with some of the members {', '.join(sorted(known))}"
        )
    return Account(**found)


def write_account(environment: Path, **settings: object) -> None:
    """Gives the environment's account these settings, and the ordinary ones for the rest."""
    path = environment / "cloud" / FILE
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(settings))
    temporary.replace(path)


PROMPT: Mapping[str, object] = {"iam_spread_s": 0.0, "unseen_reads": 0, "leftovers_s": 0.0}
"""Settings of an account without delays, for tests of something else."""
