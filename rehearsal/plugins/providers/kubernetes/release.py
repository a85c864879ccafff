"""The resource `helm.v3.Release`. Source: pulumi-kubernetes `helm_release.go`."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass

from slicewright.kubeapi import ApiError, JsonObject, Unreachable
from slicewright.rehearsal.plugins.charts import NoSuchChart
from slicewright.rehearsal.plugins.engine.plugin import (
    Checked,
    Created,
    Difference,
    InitFailed,
    ProviderError,
    ReadBack,
)
from slicewright.rehearsal.plugins.engine.properties import (
    UNKNOWN,
    Properties,
    Secret,
    has_unknown,
    unwrap,
)
from slicewright.rehearsal.plugins.engine.requests import (
    CheckRequest,
    CreateRequest,
    DeleteRequest,
    DiffRequest,
    ReadRequest,
    UpdateRequest,
)
from slicewright.rehearsal.plugins.providers.kubernetes import helm_storage
from slicewright.rehearsal.plugins.providers.kubernetes.cluster import Cluster
from slicewright.rehearsal.plugins.providers.kubernetes.helm import (
    Helm,
    NoRelease,
    Options,
    ReleaseFailed,
    resource_names,
)
from slicewright.rehearsal.plugins.providers.kubernetes.helm_storage import Record
from slicewright.rehearsal.plugins.providers.kubernetes.normalise import copy_marks
from slicewright.rehearsal.plugins.providers.kubernetes.release_inputs import (
    chart_of,
    check_inputs,
    difference_of,
)
from slicewright.rehearsal.plugins.providers.kubernetes.scopes import Scopes
from slicewright.rehearsal.plugins.providers.kubernetes.waiting import NotReady, ShowStatus

TYPE = "kubernetes:helm.sh/v3:Release"
_FAILED = "failed to initialize completely. Use Helm CLI to investigate"


@dataclass(frozen=True, kw_only=True)
class Releases:
    """Operations on releases. `cluster` raises ProviderError if it is unreachable."""

    cluster: Callable[[], Cluster]
    default_namespace: str
    scopes: Scopes
    show_status: ShowStatus
    cancelled: threading.Event

    def check(self, request: CheckRequest) -> Checked:
        name = f"{request.name}-{secrets.token_hex(4)}"
        checked = check_inputs(request.new_inputs, request.old_inputs, name, self.default_namespace)
        if not checked.failures and not has_unknown(checked.inputs.get("chart")):
            try:
                for crd in chart_of(unwrap(checked.inputs)).crds():
                    self.scopes.learn(crd)
            except NoSuchChart:
                pass  # a part of its name is not known in this preview
        return checked

    def diff(self, request: DiffRequest) -> Difference:
        stored = unwrap(request.old_outputs.get("__inputs"))
        return difference_of(request.old_inputs or stored or {}, request.new_inputs)

    def create(self, request: CreateRequest) -> Created:
        inputs, plain = request.inputs, unwrap(request.inputs)
        if request.preview:
            return Created("", {**inputs, "status": UNKNOWN, "resourceNames": UNKNOWN})
        helm = self._helm(plain["namespace"], plain["name"])
        options = Options.from_inputs(plain)
        release_id = f"{plain['namespace']}/{plain['name']}"
        try:
            record = helm.install(chart_of(plain), plain["values"], options)
        except ReleaseFailed as e:
            why = _failure_text(release_id, str(e))
            if plain.get("atomic"):
                helm.uninstall(options, None)
                raise ProviderError(
                    f"release {plain['name']} failed, and has been uninstalled due to "
                    f"atomic being set: {why}"
                ) from e
            text = f'Helm release "{release_id}" was created, but {_FAILED}: {why}'
            raise InitFailed(
                id=release_id, outputs=_outputs(inputs, e.record), reasons=[text]
            ) from e
        except (ApiError, Unreachable, NoSuchChart) as e:
            raise ProviderError(str(e)) from e
        return Created(release_id, _outputs(inputs, record))

    def update(self, request: UpdateRequest) -> Properties:
        inputs, plain = request.new_inputs, unwrap(request.new_inputs)
        if request.preview:
            return {**inputs, "status": UNKNOWN, "resourceNames": UNKNOWN}
        helm = self._helm(plain["namespace"], plain["name"])
        try:
            record = helm.upgrade(chart_of(plain), plain["values"], Options.from_inputs(plain))
        except ReleaseFailed as e:
            text = f'Helm release "{request.id}" {_FAILED}: {_failure_text(request.id, str(e))}'
            raise InitFailed(
                id=request.id, outputs=_outputs(inputs, e.record), reasons=[text]
            ) from e
        except (ApiError, Unreachable, NoRelease, NoSuchChart) as e:
            raise ProviderError(str(e)) from e
        return _outputs(inputs, record)

    def read(self, request: ReadRequest) -> ReadBack | None:
        namespace, _, name = request.id.rpartition("/")
        try:
            record = helm_storage.latest(self.cluster(), namespace, name)
        except (ApiError, Unreachable) as e:
            raise ProviderError(str(e)) from e
        if record is None:
            return None
        inputs = request.inputs or _inputs_of(record)
        return ReadBack(request.id, inputs, _outputs(inputs, record))

    def delete(self, request: DeleteRequest) -> None:
        plain = unwrap(request.outputs)
        namespace, _, name = request.id.rpartition("/")
        helm = self._helm(namespace, name)
        try:
            chart = chart_of(plain)
        except NoSuchChart:
            chart = None
        try:
            helm.uninstall(Options.from_inputs(plain), chart)
        except NotReady as e:
            raise ProviderError(
                f"uninstallation of {name} completed with 1 error(s): {'; '.join(e.reasons)}; "
                f"{_remains_text(e.live)}"
            ) from e
        except (ApiError, Unreachable, NoRelease) as e:
            raise ProviderError(str(e)) from e

    def _helm(self, namespace: str, name: str) -> Helm:
        return Helm(self.cluster(), namespace, name, self.show_status, self.cancelled)


def _failure_text(release_id: str, error: str) -> str:
    if error == "context deadline exceeded":
        return (
            "failed to become available within allocated timeout. "
            f"Error: Helm Release {release_id}: {error}"
        )
    return f"Helm Release {release_id}: {error}"


def _remains_text(live: JsonObject) -> str:
    """What an uninstall has waited for in vain, as last seen."""
    message = f"{live.get('kind')} {live.get('metadata', {}).get('name')} is still there"
    conditions = (live.get("status") or {}).get("conditions") or ()
    messages = [
        f"{condition['type']}={condition['status']} {condition.get('reason', '')}: "
        f"{condition.get('message', '')}"
        for condition in conditions
    ]
    return f"{message} ({'; '.join(messages)})" if messages else message


def _outputs(inputs: Properties, record: Record) -> Properties:
    status = {
        "appVersion": record.app_version,
        "chart": record.chart_name,
        "name": record.name,
        "namespace": record.namespace,
        "revision": record.revision,
        "status": record.status,
        "version": record.chart_version,
    }
    outputs = copy_marks(unwrap(inputs), inputs)
    return {
        **outputs,
        "status": status,
        "resourceNames": resource_names(record),
        "__inputs": Secret(unwrap(inputs)),
    }


def _inputs_of(record: Record) -> Properties:
    """For get() and import: what the record contains."""
    return {
        "chart": record.chart_name,
        "name": record.name,
        "namespace": record.namespace,
        "values": record.values,
        "version": record.chart_version,
    }
