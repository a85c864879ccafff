"""Helm's release records: Secrets that the real `helm list`, `get` and `history` can read.

Format: the release as JSON, gzipped, in base64, and that in base64 as Secret data. Source:
helm.sh/helm/v3 `pkg/storage/driver/secrets.go`, `util.go`.
"""

from __future__ import annotations

import base64
import gzip
import json
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from slicewright.kubeapi import ApiError, JsonObject
from slicewright.kubeapi.client import path_of
from slicewright.rehearsal.plugins.providers.kubernetes.cluster import Cluster

Status = Literal[
    "pending-install", "pending-upgrade", "deployed", "failed", "superseded", "uninstalling"
]

_TYPE = "helm.sh/release.v1"


@dataclass(frozen=True, kw_only=True)
class Record:
    """One revision of one release."""

    name: str
    namespace: str
    revision: int
    status: Status
    description: str
    first_deployed: str
    chart_name: str
    chart_version: str
    app_version: str
    values: JsonObject
    manifests: tuple[JsonObject, ...]

    @property
    def secret_name(self) -> str:
        return f"sh.helm.release.v1.{self.name}.v{self.revision}"

    def with_status(self, status: Status, description: str) -> Record:
        """The same revision with another status."""
        return replace(self, status=status, description=description)


def now() -> str:
    """The current time in the records' format."""
    return datetime.now(UTC).isoformat()


def latest(cluster: Cluster, namespace: str, name: str) -> Record | None:
    """The newest revision; None without one. Raises ApiError, Unreachable."""
    secrets = _secrets(cluster, namespace, name)
    return max(
        (_decode(secret) for secret in secrets), key=lambda record: record.revision, default=None
    )


def save(cluster: Cluster, record: Record) -> None:
    """Creates or replaces the revision's record. Raises ApiError, Unreachable."""
    secret = _encode(record)
    collection = path_of("v1", "secrets", namespace=record.namespace)
    try:
        cluster.create(collection, secret, fieldManager="helm")
    except ApiError as e:
        if e.status != 409:
            raise
        cluster.replace(f"{collection}/{record.secret_name}", secret, fieldManager="helm")


def delete(cluster: Cluster, namespace: str, name: str) -> None:
    """Deletes every revision of the release. Raises ApiError, Unreachable."""
    for secret in _secrets(cluster, namespace, name):
        try:
            cluster.delete(
                path_of("v1", "secrets", secret["metadata"]["name"], namespace),
                {"propagationPolicy": "Background"},
            )
        except ApiError as e:
            if e.status != 404:
                raise


def _secrets(cluster: Cluster, namespace: str, name: str) -> list[JsonObject]:
    listed = cluster.get(
        path_of("v1", "secrets", namespace=namespace), labelSelector=f"owner=helm,name={name}"
    )
    secrets: list[JsonObject] = [
        secret for secret in listed.get("items") or [] if secret.get("type") == _TYPE
    ]
    return secrets


def _encode(record: Record) -> JsonObject:
    at = now()
    chart = {
        "name": record.chart_name,
        "version": record.chart_version,
        "appVersion": record.app_version,
        "apiVersion": "v2",
    }
    body = {
        "name": record.name,
        "namespace": record.namespace,
        "version": record.revision,
        "info": {
            "first_deployed": record.first_deployed,
            "last_deployed": at,
            "deleted": "",
            "description": record.description,
            "status": record.status,
        },
        "chart": {
            "metadata": chart,
            "lock": None,
            "templates": [],
            "values": {},
            "schema": None,
            "files": None,
        },
        "config": record.values,
        # JSON is YAML, and can be read back without a YAML parser.
        "manifest": "".join(
            f"---\n{json.dumps(manifest, sort_keys=True)}\n" for manifest in record.manifests
        ),
        "hooks": [],
    }
    packed = base64.b64encode(gzip.compress(json.dumps(body).encode())).decode()
    labels = {
        "owner": "helm",
        "name": record.name,
        "status": record.status,
        "version": str(record.revision),
        "modifiedAt": str(int(time.time())),
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": record.secret_name, "namespace": record.namespace, "labels": labels},
        "type": _TYPE,
        "data": {"release": base64.b64encode(packed.encode()).decode()},
    }


def _decode(secret: JsonObject) -> Record:
    body = json.loads(
        gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"])))
    )
    info, chart = body["info"], body["chart"]["metadata"]
    return Record(
        name=body["name"],
        namespace=body["namespace"],
        revision=body["version"],
        status=info["status"],
        description=info.get("description", ""),
        first_deployed=info.get("first_deployed", ""),
        chart_name=chart["name"],
        chart_version=chart["version"],
        app_version=chart.get("appVersion", ""),
        values=body.get("config") or {},
        manifests=tuple(_parse_manifest(body.get("manifest", ""))),
    )


def _parse_manifest(text: str) -> list[JsonObject]:
    documents = [part for part in text.split("---\n") if part.strip()]
    try:
        return [json.loads(document) for document in documents]
    except ValueError:
        import yaml  # needed only if the real Helm has written the revision

        return [document for document in yaml.safe_load_all(text) if document]
