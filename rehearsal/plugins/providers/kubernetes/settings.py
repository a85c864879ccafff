"""The provider's configuration: its inputs, else PULUMI_K8S_… environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slicewright.rehearsal.plugins.engine.properties import UNKNOWN, unwrap


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The provider inputs that the rehearsal supports."""

    kubeconfig: str | None
    context: str | None
    cluster: str | None
    namespace: str | None
    delete_unreachable: bool
    skip_update_unreachable: bool
    patch_force: bool
    upsert: bool
    config_maps_mutable: bool
    secrets_mutable: bool
    await_all: bool

    @classmethod
    def from_inputs(cls, inputs: Mapping[str, Any]) -> Settings:
        """From the inputs of Configure."""
        plain = unwrap(dict(inputs))
        return cls(
            kubeconfig=_text(plain, "kubeconfig"),
            context=_text(plain, "context"),
            cluster=_text(plain, "cluster"),
            namespace=_text(plain, "namespace"),
            delete_unreachable=_flag(plain, "deleteUnreachable", "DELETE_UNREACHABLE"),
            skip_update_unreachable=_flag(
                plain, "skipUpdateUnreachable", "SKIP_UPDATE_UNREACHABLE"
            ),
            patch_force=_flag(plain, "enablePatchForce", "ENABLE_PATCH_FORCE"),
            upsert=_flag(plain, "upsertExistingObjects", "UPSERT_EXISTING_OBJECTS"),
            config_maps_mutable=_flag(plain, "enableConfigMapMutable", "ENABLE_CONFIGMAP_MUTABLE"),
            secrets_mutable=_flag(plain, "enableSecretMutable", "ENABLE_SECRET_MUTABLE"),
            await_all=os.environ.get("PULUMI_K8S_AWAIT_ALL", "") == "true",
        )


def _text(plain: Mapping[str, Any], key: str) -> str | None:
    value = plain.get(key)
    return value if isinstance(value, str) and value else None


def _flag(plain: Mapping[str, Any], key: str, variable: str) -> bool:
    value = plain.get(key)
    if value is None or value is UNKNOWN:
        value = os.environ.get(f"PULUMI_K8S_{variable}", "")
    return value is True or str(value).lower() in ("true", "1")
