"""Checks whether a plan's encryption keys exist and are usable. Pure, for both clouds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from slicewright.doctor.findings import Answer, Finding, NotAnswered, checks, fails, not_asked, ok


@dataclass(frozen=True, kw_only=True)
class Key:
    encrypts: bool
    """True if it is a key for symmetric encryption. Disks and secrets accept no other keys."""
    state: str | None
    """The cloud's name of the state. Google: the primary version's state, or None without one."""


Keys = Mapping[str, Answer[Key | None]]
"""ARN, or Google's path -> the key. None: there is no such key."""


@dataclass(frozen=True, kw_only=True)
class Remedies:
    """The cloud's description of the key's state, and the commands that fix it."""

    not_enabled: str
    list_all: str
    make: str
    enable: str


@checks("key")
def key_findings(
    needed: Mapping[str, str], answers: Keys, remedies: Callable[[str, str | None], Remedies]
) -> Iterator[Finding]:
    """needed: key -> its first user. remedies: returns the remedies for a key and its state."""
    for name, user in needed.items():
        subject = f"key {name} ({user})"
        answer = answers[name]
        if isinstance(answer, NotAnswered):
            yield not_asked(subject, answer)
            continue
        remedy = remedies(name, answer.state if answer is not None else None)
        if answer is None:
            yield fails(subject, "does not exist", remedy.list_all)
        elif not answer.encrypts:
            yield fails(subject, "is not a key for symmetric encryption", remedy.make)
        elif (answer.state or "").lower() == "enabled":
            yield ok(subject, "enabled")
        else:
            yield fails(subject, remedy.not_enabled, remedy.enable)
