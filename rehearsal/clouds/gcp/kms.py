"""The simulated Cloud KMS: which keys there are. Nothing is encrypted with them."""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.gcp.account import account_of
from slicewright.rehearsal.clouds.gcp.errors import google_error


class CloudKms:
    def __init__(self, context: Context) -> None:
        self._context = context

    def methods(self) -> Methods:
        return {"projects.locations.keyRings.cryptoKeys.get": self._get}

    def _get(self, params: JsonObject, body: JsonObject) -> JsonObject:
        name = params["name"]
        keys = account_of(self._context).keys
        state = "ENABLED" if keys is None else keys.get(name)
        if state is None:
            raise google_error(404, f"CryptoKey {name} not found.")
        version = f"{name}/cryptoKeyVersions/1"
        return {
            "name": name,
            "purpose": "ENCRYPT_DECRYPT",
            "primary": {"name": version, "state": state},
        }
