"""`nfd-master -prune`, which NFD's chart runs after it is uninstalled: takes back what NFD wrote.

Source: kubernetes-sigs/node-feature-discovery, pkg/nfd-master (prune).
"""

from __future__ import annotations

import sys
import time
from typing import Final

from slicewright.kubeapi.client import ApiError, Client, Unreachable, path_of
from slicewright.rehearsal.cluster.feature_discovery import objects

_AGAIN_S: Final = 1.0
"""The master may still be ending; the Job looks again."""


def prune(client: Client) -> int:
    """How many nodes had something of NFD's. Raises ApiError, Unreachable."""
    changed = 0
    for node in client.get("/api/v1/nodes")["items"]:
        if patch := objects.taken_back(node):
            name = node["metadata"]["name"]
            client.patch(path_of("v1", "nodes", name), {"metadata": patch})
            print(f"pruned node {name}", flush=True)
            changed += 1
    return changed


def main() -> int:
    try:
        client = Client.in_cluster(user_agent="slicewright-nfd-prune")
        prune(client)
        time.sleep(_AGAIN_S)
        while prune(client):
            time.sleep(_AGAIN_S)
    except (ApiError, Unreachable, OSError) as e:
        print(f"nfd-master: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
