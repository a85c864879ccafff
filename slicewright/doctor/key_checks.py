"""Whether the encryption keys that a plan names are there and can be used; pure. Of both clouds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from slicewright.doctor.findings import Answer, Finding, NotAnswered, fails, not_asked, ok


@dataclass(frozen=True, kw_only=True)
class Key:
    encrypts: bool
    """Whether it is one for symmetric encryption: disks and secrets take no others."""
    state: str | None
    """In the cloud's words; of Google's, that of the primary version. None: it has none."""


Keys = Mapping[str, Answer[Key | None]]
"""By ARN, or Google's path; None: there is no such key."""


@dataclass(frozen=True, kw_only=True)
class Remedies:
    """What the key's cloud says of the state that it is in, and its commands."""

    not_enabled: str
    list_all: str
    make: str
    enable: str


def key_findings(
    needed: Mapping[str, str], answers: Keys, remedies: Callable[[str, str | None], Remedies]
) -> Iterator[Finding]:
    """needed: key to the first that uses it. remedies: from a key and its state."""
    for name, user in needed.items():
        asked = f"key {name} ({user})"
        answer = answers[name]
        if isinstance(answer, NotAnswered):
            yield not_asked(asked, answer)
            continue
        known = remedies(name, answer.state if answer is not None else None)
        if answer is None:
            yield fails(asked, "does not exist", known.list_all)
        elif not answer.encrypts:
            yield fails(asked, "is not a key for symmetric encryption", known.make)
        elif (answer.state or "").lower() == "enabled":
            yield ok(asked, "enabled")
        else:
            yield fails(asked, known.not_enabled, known.enable)
