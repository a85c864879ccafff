"""What the cluster has of a GPU operator."""

from __future__ import annotations

import base64
import binascii
import gzip
import json
from collections.abc import Mapping
from typing import Any, Final

from infra import values
from infra.plan import FleetPlan
from kubeapi import ApiError, Client
from kubeapi.client import path_of
from slicewright.drift.gpu_operator import Installed, is_adopted, policy_name

_NVIDIA: Final = "nvidia.com/v1"


class Unreadable(Exception):
    """An object is not as its program writes it."""


def read_operator(client: Client, fleet: FleetPlan) -> Installed:
    """fleet: with an operator. Raises ApiError, Unreachable, Unreadable."""
    operator = fleet.operator
    assert operator is not None
    policy = _found(client, path_of(_NVIDIA, "clusterpolicies", policy_name(fleet)))
    configs = {}
    for file in values.operator_files(fleet):
        config = _found(client, path_of("v1", "configmaps", file.name, operator.namespace))
        if config is not None:
            configs[file.name] = config.get("data") or {}
    return Installed(
        policy=None if policy is None else policy.get("spec") or {},
        chart=None
        if is_adopted(fleet)
        else chart_version(client, operator.namespace, operator.release),
        configs=configs,
    )


def chart_version(client: Client, namespace: str, release: str) -> str | None:
    """Of the newest revision that is deployed. Of the record, which also holds the release's
    values, only this is kept.

    Format: Helm's release as JSON, gzipped, in base64, and that in base64 as Secret data. Source:
    helm.sh/helm/v3 pkg/storage/driver/secrets.go, util.go. Raises as `read_operator`.
    """
    found = client.get(
        path_of("v1", "secrets", namespace=namespace),
        labelSelector=f"owner=helm,name={release},status=deployed",
    )
    records = [_record(secret) for secret in found.get("items") or ()]
    newest = max(records, key=lambda record: int(record["version"]), default=None)
    return None if newest is None else str(newest["chart"]["metadata"]["version"])


def _record(secret: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        packed = base64.b64decode(base64.b64decode(secret["data"]["release"]))
        record: Mapping[str, Any] = json.loads(gzip.decompress(packed))
        _ = int(record["version"]), record["chart"]["metadata"]["version"]
    except (KeyError, TypeError, ValueError, OSError, EOFError, binascii.Error) as e:
        name = secret.get("metadata", {}).get("name")
        raise Unreadable(
            f"Secret {name} is not as Helm writes a release ({type(e).__name__})"
        ) from None
    return record


def _found(client: Client, path: str) -> Mapping[str, Any] | None:
    try:
        return client.get(path)
    except ApiError as e:
        if e.status == 404:
            return None
        raise
