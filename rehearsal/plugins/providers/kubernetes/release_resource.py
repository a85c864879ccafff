"""`helm.v3.Release` towards the engine: what is checked, stored and said. Source: pulumi-kubernetes
`helm_release.go`.
"""

# ruff: noqa: A001, A002 - `id` is the protocol's word

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubeapi import ApiError, Unreachable
from rehearsal.plugins.charts import NoSuchChart
from rehearsal.plugins.engine.plugin import (
    UNKNOWN,
    Checked,
    Created,
    Difference,
    InitFailed,
    Properties,
    ProviderError,
    ReadBack,
    Secret,
    has_unknown,
    unwrap,
)
from rehearsal.plugins.providers.kubernetes import release_storage
from rehearsal.plugins.providers.kubernetes.cluster import Cluster
from rehearsal.plugins.providers.kubernetes.normalise import copy_marks
from rehearsal.plugins.providers.kubernetes.release import (
    Failed,
    Helm,
    NotLoaded,
    Options,
    resource_names,
)
from rehearsal.plugins.providers.kubernetes.release_inputs import (
    chart_of,
    check_inputs,
    difference_of,
)
from rehearsal.plugins.providers.kubernetes.release_storage import Record
from rehearsal.plugins.providers.kubernetes.scopes import Scopes
from rehearsal.plugins.providers.kubernetes.waiting import NotReady, Say

TYPE = "kubernetes:helm.sh/v3:Release"
_FAILED = "failed to initialize completely. Use Helm CLI to investigate"


@dataclass(frozen=True)
class Releases:
    """All releases of one provider. `cluster` raises ProviderError where it cannot be reached."""

    cluster: Callable[[], Cluster]
    default_namespace: str
    scopes: Scopes

    def check(self, name: str, olds: Properties, news: Properties) -> Checked:
        checked = check_inputs(news, olds, f"{name}-{secrets.token_hex(4)}", self.default_namespace)
        if not checked.failures and not has_unknown(checked.inputs.get("chart")):
            try:
                for crd in chart_of(unwrap(checked.inputs)).crds():
                    self.scopes.learn(crd)
            except NoSuchChart:
                pass  # not known in this preview
        return checked

    def diff(self, old_outputs: Properties, old_inputs: Properties, news: Properties) -> Difference:
        stored = old_outputs.get("__inputs")
        return difference_of(old_inputs or unwrap(stored) or {}, news)

    def create(
        self, inputs: Properties, preview: bool, say: Say, cancelled: threading.Event
    ) -> Created:
        plain = unwrap(inputs)
        if preview:
            return Created("", {**inputs, "status": UNKNOWN, "resourceNames": UNKNOWN})
        helm = self._helm(plain, say, cancelled)
        options = Options.of(plain)
        id = f"{plain['namespace']}/{plain['name']}"
        try:
            record = helm.install(chart_of(plain), plain["values"], options)
        except Failed as e:
            if plain.get("atomic"):
                helm.uninstall(options, None)
                raise ProviderError(
                    f"release {plain['name']} failed, and has been uninstalled due to "
                    f"atomic being set: {_why(id, str(e))}"
                ) from e
            text = f'Helm release "{id}" was created, but {_FAILED}: {_why(id, str(e))}'
            raise InitFailed(id, _outputs(inputs, e.record), None, [text]) from e
        except (ApiError, Unreachable, NoSuchChart) as e:
            raise ProviderError(str(e)) from e
        return Created(id, _outputs(inputs, record))

    def update(
        self, id: str, news: Properties, preview: bool, say: Say, cancelled: threading.Event
    ) -> Properties:
        plain = unwrap(news)
        if preview:
            return {**news, "status": UNKNOWN, "resourceNames": UNKNOWN}
        helm = self._helm(plain, say, cancelled)
        try:
            record = helm.upgrade(chart_of(plain), plain["values"], Options.of(plain))
        except Failed as e:
            text = f'Helm release "{id}" {_FAILED}: {_why(id, str(e))}'
            raise InitFailed(id, _outputs(news, e.record), None, [text]) from e
        except (ApiError, Unreachable, NotLoaded, NoSuchChart) as e:
            raise ProviderError(str(e)) from e
        return _outputs(news, record)

    def read(self, id: str, outputs: Properties, inputs: Properties) -> ReadBack | None:
        namespace, _, name = id.rpartition("/")
        try:
            record = release_storage.latest(self.cluster(), namespace, name)
        except (ApiError, Unreachable) as e:
            raise ProviderError(str(e)) from e
        if record is None:
            return None
        if not inputs:
            inputs = _inputs_of(record)
        return ReadBack(id, inputs, _outputs(inputs, record))

    def delete(self, id: str, outputs: Properties, say: Say, cancelled: threading.Event) -> None:
        plain = unwrap(outputs)
        namespace, _, name = id.rpartition("/")
        helm = Helm(self.cluster(), namespace, name, say, cancelled)
        try:
            chart = chart_of(plain)
        except NoSuchChart:
            chart = None
        try:
            helm.uninstall(Options.of(plain), chart)
        except NotReady as e:
            raise ProviderError(
                f"uninstall: {name}: context deadline exceeded, these are left: "
                f"{e.live.get('kind')}"
            ) from e
        except (ApiError, Unreachable, NotLoaded) as e:
            raise ProviderError(str(e)) from e

    def _helm(self, plain: dict[str, Any], say: Say, cancelled: threading.Event) -> Helm:
        return Helm(self.cluster(), plain["namespace"], plain["name"], say, cancelled)


def _why(id: str, error: str) -> str:
    if error == "context deadline exceeded":
        return (
            f"failed to become available within allocated timeout. Error: Helm Release {id}: "
            f"{error}"
        )
    return f"Helm Release {id}: {error}"


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
    shown = copy_marks(unwrap(inputs), inputs)
    return {
        **shown,
        "status": status,
        "resourceNames": resource_names(record),
        "__inputs": Secret(unwrap(inputs)),
    }


def _inputs_of(record: Record) -> Properties:
    """For get() and import: as much as the record knows."""
    return {
        "chart": record.chart_name,
        "name": record.name,
        "namespace": record.namespace,
        "values": record.values,
        "version": record.chart_version,
    }
