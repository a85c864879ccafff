"""The operations that the resources of the simulated EC2 have in common."""

from __future__ import annotations

from typing import ClassVar

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.ec2.resources import (
    API_NAMES,
    Resources,
    dependency_violation,
)
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.store import Kind


class Operations:
    """The operations on one kind of resource. All kinds are described and deleted alike."""

    kind: ClassVar[Kind[JsonObject]]

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store
        self._ec2 = Resources(context)
        self._names = API_NAMES[self.kind]

    def methods(self) -> Methods:
        return {
            self._names.describe_operation: self._ec2.describe(self.kind),
            self._names.delete_operation: self._delete,
        }

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            identity = body.get(self._names.id_field, "")
            self._check_unused(params, self._ec2.find(self.kind, params, identity))
            self._ec2.delete(self.kind, params, identity)
        return {}

    def _check_unused(self, params: JsonObject, resource: JsonObject) -> None:
        """Raises CloudError if something still needs the resource, so it cannot be deleted."""

    def _has_dependencies(self, resource: JsonObject) -> CloudError:
        return dependency_violation(
            f"The {self._names.noun} '{resource[self._names.id_field]}' has dependencies and "
            "cannot be deleted."
        )
