"""What Compute Engine's answers share: links, operations, and the refusals of what is in use and of
a network that is not there.
"""

from __future__ import annotations

import re
import secrets

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import now_precisely
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.store import Store
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.state import NETWORKS

API = "https://www.googleapis.com/compute/v1"


def common(link: str, kind: str) -> JsonObject:
    return {
        "kind": kind,
        "id": str(secrets.randbits(62)),
        "selfLink": link,
        "creationTimestamp": now_precisely(),
    }


def done(project: str, scope: str, target: str, kind: str) -> JsonObject:
    """An operation that is already done: changes of networks take no time worth simulating.

    scope: `global`, or as in `regions/us-central1`.
    """
    name = f"operation-{secrets.token_hex(12)}"
    return {
        "kind": "compute#operation",
        "name": name,
        "operationType": kind,
        "status": "DONE",
        "progress": 100,
        "targetLink": target,
        "selfLink": f"{API}/projects/{project}/{scope}/operations/{name}",
    }


def referenced_network(store: Store, project: str, body: JsonObject) -> JsonObject:
    """The network that a new resource names, in whatever way. The store's lock is held."""
    name = str(body.get("network", "")).rpartition("/")[2]
    network = store.get(NETWORKS, f"{project}/{name}")
    if network is None:
        raise google_error(
            400,
            "The referenced network resource "
            f"'projects/{project}/global/networks/{name}' cannot be found.",
        )
    return network


def in_use(link: str, by: str) -> CloudError:
    """Wording: hashicorp/terraform-provider-google #5948."""
    plural = re.sub(r"(?<!^)(?=[A-Z])", "_", link.split("/")[-2]).lower()
    kind = re.sub("ies$", "y", plural).removesuffix("s")
    return google_error(
        400,
        f"The {kind} resource '{link.removeprefix(API + '/')}' is already being used by "
        f"'{by.removeprefix(API + '/')}'",
        status="RESOURCE_IN_USE_BY_ANOTHER_RESOURCE",
    )
