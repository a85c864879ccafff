"""Customer-managed keys: what GKE refuses of them, and how it answers.

Sources: GKE API, DatabaseEncryption; GKE docs, encrypt secrets at the application layer, and use
customer-managed encryption keys. The rights of the service agents on a key are not simulated.
"""

from __future__ import annotations

import re

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.gcp.account import account_of
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.gke.defaults import region_of

_KEY = re.compile(r"projects/[^/]+/locations/([^/]+)/keyRings/[^/]+/cryptoKeys/[^/]+")


def check_secrets_key(requested: JsonObject, location: str) -> None:
    """Raises CloudError. location: of the cluster."""
    if requested.get("state") != "ENCRYPTED":
        return
    key_location = _location("database_encryption.key_name", requested.get("keyName"))
    if key_location != region_of(location):
        raise google_error(
            400,
            f'Database encryption key "{requested["keyName"]}" is in {key_location}; it must be in '
            f"{region_of(location)}, the region of the cluster.",
        )


def check_disk_key(config: JsonObject, location: str) -> None:
    """Raises CloudError. config: of a node pool. location: of the cluster."""
    key = config.get("bootDiskKmsKey")
    if key is None:
        return
    key_location = _location("node_config.boot_disk_kms_key", key)
    if re.search("-.*[0-9]$", key_location) and key_location != region_of(location):
        raise google_error(
            400,
            f"Cloud KMS key {key} is in {key_location}; disks in {region_of(location)} cannot "
            "use it.",
        )


def check_key_there(context: Context, key: object) -> None:
    """Raises CloudError 400 where the account file says that there are keys, and not this one, or
    that it is not enabled. How GKE words it is not published.
    """
    keys = account_of(context).keys
    if key is None or keys is None or keys.get(str(key)) == "ENABLED":
        return
    raise google_error(400, f"Cloud KMS key {key} does not exist or is not enabled.")


def database_encryption(requested: JsonObject) -> JsonObject:
    """As GKE answers."""
    state = requested.get("state") or "DECRYPTED"
    return {**requested, "state": state, "currentState": f"CURRENT_STATE_{state}"}


def _location(field: str, key: object) -> str:
    parts = _KEY.fullmatch(str(key or ""))
    if parts is None:
        raise google_error(400, f'Invalid value for field "{field}": "{key or ""}".')
    return parts[1]
