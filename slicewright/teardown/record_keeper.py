"""Keeps the record of a cluster's life in Pulumi's state, for as long as a sweep may need it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from slicewright.teardown.engine import EngineFailed, NoStack
from slicewright.teardown.record import STACK, record_text, with_record
from slicewright.teardown.subject import Subject
from slicewright.teardown.sweep.life import Life


class Engine(Protocol):
    def exported(self) -> Mapping[str, Any]:
        """Raises EngineFailed."""

    def replace_state(self, state: Mapping[str, Any]) -> None:
        """Raises EngineFailed."""


@dataclass
class RecordKeeper:
    pulumi: Engine
    subject: Subject
    tell: Callable[[str], None]
    _stack: Mapping[str, Any] | None = field(default=None, init=False)
    """The stack's resource before `pulumi destroy` deleted it."""

    def write(self, life: Life | None) -> None:
        """life: None if there is nothing to write."""
        if life is not None and life != Life():
            self._put(record_text(life, self.subject.cluster, self.subject.location))

    def remove(self) -> None:
        self._put("")

    def _put(self, text: str) -> None:
        """Tolerates a failure: without a record, a later run keeps unproven resources."""
        try:
            exported = self.pulumi.exported()
            resources = exported["deployment"].get("resources") or ()
            self._stack = next((r for r in resources if r["type"] == STACK), self._stack)
            changed = with_record(exported, self._stack, text)
            if changed is not None:
                self.pulumi.replace_state(changed)
        except NoStack:
            return
        except EngineFailed as e:
            self.tell(
                "the record that identifies the cluster's leftovers could not be written into "
                f"Pulumi's state ({e}): if this run is interrupted, the next one cannot prove "
                "which leftovers belong to the cluster"
            )
