"""Reads the GPU operator's objects from a cluster."""

from __future__ import annotations

import base64
import gzip
import io
import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

from slicewright.drift.gpu_operator import Installed, is_adopted, policy_name
from slicewright.infra import manifests
from slicewright.infra.plan import FleetPlan
from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.kubeapi.client import path_of
from slicewright.live.objects import Kind, UnreadObject, check, readable, unread_object
from slicewright.live.shapes import (
    Misfit,
    combined,
    fields,
    items,
    name,
    number,
    shallow,
    table,
    text,
    word,
)

_NVIDIA: Final = "nvidia.com/v1"
_LARGEST_RELEASE: Final = 64 * 2**20
"""The limit of an unpacked Helm release in bytes: some hundred times a Secret's capacity."""

_POLICY: Final = Kind(
    name="ClusterPolicy",
    shape=fields(
        spec=combined(
            shallow,
            fields(
                daemonsets=fields(tolerations=items(fields(key=text, operator=text, effect=text))),
                migManager=fields(env=items(fields(name=text, value=text))),
            ),
        )
    ),
)
_CONFIG_MAP: Final = Kind(name="ConfigMap", shape=fields(data=table(text)))
_SECRET: Final = Kind(
    name="Secret",
    shape=fields({"metadata": fields({"name": name}), "data": fields({"release": text})}),
)
_RELEASE: Final = fields(
    {"version": number, "chart": fields({"metadata": fields({"version": word})})}
)


def read_operator(client: Client, fleet: FleetPlan) -> Installed:
    """fleet: must have an operator. Raises ApiError or Unreachable."""
    operator = fleet.operator
    assert operator is not None
    unread: list[UnreadObject] = []
    policy = _object(
        client, _POLICY, path_of(_NVIDIA, "clusterpolicies", policy_name(fleet)), unread
    )
    configs = {}
    for file in manifests.operator_files(fleet):
        path = path_of("v1", "configmaps", file.name, operator.namespace)
        config = _object(client, _CONFIG_MAP, path, unread)
        if config is not None:
            configs[file.name] = config.get("data") or {}
    return Installed(
        policy=None if policy is None else policy.get("spec") or {},
        chart=None
        if is_adopted(fleet)
        else chart_version(client, operator.namespace, operator.release, unread),
        configs=configs,
        unread=tuple(unread),
    )


def read_scheduler_config(
    client: Client, fleet: FleetPlan, unread: list[UnreadObject]
) -> Mapping[str, Any] | None:
    """Returns the data of Volcano's scheduler's ConfigMap, None if there is none. unread: gets an
    unreadable one. Raises ApiError or Unreachable.
    """
    namespace = manifests.engine_namespace(fleet)
    assert namespace is not None
    path = path_of("v1", "configmaps", manifests.VOLCANO_CONFIG_MAP, namespace)
    config = _object(client, _CONFIG_MAP, path, unread)
    return None if config is None else config.get("data") or {}


def chart_version(
    client: Client, namespace: str, release: str, unread: list[UnreadObject]
) -> str | None:
    """Returns the chart version of the newest deployed revision.

    The record also holds the release's values, but only the version is kept. unread: gets the
    unreadable records.

    Format: Helm's release as JSON, gzipped, in base64, and that in base64 as Secret data. Source:
    helm.sh/helm/v3 pkg/storage/driver/secrets.go, util.go. Raises the same errors as
    `read_operator`.
    """
    answer = client.get(
        path_of("v1", "secrets", namespace=namespace),
        labelSelector=f"owner=helm,name={release},status=deployed",
    )
    secrets = answer.get("items") or []
    if not isinstance(secrets, list):
        raise Unreachable("the answer is not a list of Secrets")
    records = [record for _, record in readable(_SECRET, secrets, _record, unread)]
    newest = max(records, key=lambda record: int(record["version"]), default=None)
    return None if newest is None else str(newest["chart"]["metadata"]["version"])


def _record(secret: Mapping[str, Any]) -> Mapping[str, Any]:
    """Raises Misfit."""
    try:
        packed = base64.b64decode(base64.b64decode(secret["data"]["release"]))
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            unpacked = file.read(_LARGEST_RELEASE + 1)
        if len(unpacked) > _LARGEST_RELEASE:
            raise Misfit(f"its release is larger than {_LARGEST_RELEASE} bytes")
        record: Mapping[str, Any] = json.loads(unpacked)
    except Misfit:
        raise
    except (ValueError, OSError, EOFError, zlib.error, RecursionError):
        raise Misfit("it is not a Helm release") from None
    if not isinstance(record, dict):
        raise Misfit("its release is not an object")
    _RELEASE(record, "its release")
    return record


def _object(
    client: Client, kind: Kind, path: str, unread: list[UnreadObject]
) -> Mapping[str, Any] | None:
    """Returns None if the object does not exist, or cannot be read."""
    try:
        raw = client.get(path)
    except ApiError as e:
        if e.status == 404:
            return None
        raise
    try:
        check(kind, raw)
    except Misfit as e:
        # The name comes from the question, since the answer is not trusted.
        named = {"metadata": {"name": path.rpartition("/")[2]}}
        unread.append(unread_object(kind, named, str(e)))
        return None
    return raw
