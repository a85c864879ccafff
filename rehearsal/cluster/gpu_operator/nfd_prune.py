"""`nfd-master -prune`, which NFD's chart runs after it is uninstalled: takes back what NFD wrote.

That is every label in NFD's own note on the node, of which those of GPU feature discovery are a
part, and the note. What the GPU operator itself wrote on nodes stays (NVIDIA/gpu-operator #1391).
Source: kubernetes-sigs/node-feature-discovery, pkg/nfd-master (prune).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from kubeapi import JsonObject
from kubeapi.client import ApiError, Client, Unreachable, path_of
from rehearsal.cluster.gpu_operator.labels import NFD_OWNED

_AGAIN_S = 1.0
"""The operator's stand-in, which plays nfd-master too, may still be ending; the Job looks again."""


def taken_back(node: JsonObject) -> Mapping[str, Mapping[str, None]]:
    """The patch of a node's metadata; empty where NFD has written nothing."""
    noted = (node["metadata"].get("annotations") or {}).get(NFD_OWNED)
    if noted is None:
        return {}
    labels = dict.fromkeys(name for name in noted.split(",") if name)
    return {"labels": labels, "annotations": {NFD_OWNED: None}}


def prune(client: Client) -> int:
    """How many nodes had something of NFD's. Raises ApiError, Unreachable."""
    changed = 0
    for node in client.get("/api/v1/nodes")["items"]:
        if patch := taken_back(node):
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
