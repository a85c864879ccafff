"""The bases of the controller's actions: the object that an action changes, and its log line. Pure.

The rooms define the actions that they decide on; `decision.actions` lists all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, kw_only=True)
class LoggedAction:
    """The common part of all actions."""

    LOG_MESSAGE: ClassVar[str]
    """The message of the log line, once the action is carried out."""

    @property
    def subject(self) -> str:
        """The object that the action changes. After a failure, its other actions are skipped."""
        raise NotImplementedError

    @property
    def lane(self) -> str:
        """The object whose actions are carried out one after the other."""
        return self.subject

    @property
    def log_message(self) -> str:
        return self.LOG_MESSAGE

    @property
    def log_fields(self) -> Mapping[str, object]:
        raise NotImplementedError

    @property
    def included(self) -> tuple[LoggedAction, ...]:
        """Other actions that the same request carries out."""
        return ()


@dataclass(frozen=True, kw_only=True)
class NodeAction(LoggedAction):
    """An action on a node."""

    node: str

    @property
    def subject(self) -> str:
        return f"node {self.node}"

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"node": self.node}


@dataclass(frozen=True, kw_only=True)
class PoolAction(LoggedAction):
    """An action on a GPUPool."""

    pool: str

    @property
    def subject(self) -> str:
        return f"pool {self.pool}"

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"pool": self.pool}


@dataclass(frozen=True, kw_only=True)
class EventAction(LoggedAction):
    """An action on a Warning Event of the controller."""

    name: str

    @property
    def subject(self) -> str:
        return f"event {self.name}"

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"event": self.name}
