"""`nfd-gc`: deletes the NodeFeature objects of nodes that are gone.

Source: kubernetes-sigs/node-feature-discovery v0.18.3, pkg/nfd-gc.
"""

from __future__ import annotations

import sys
import threading
from typing import Final

from slicewright.kubeapi.client import ApiError, Client, Unreachable, path_of
from slicewright.kubeapi.watch import list_and_watch
from slicewright.rehearsal.cluster.feature_discovery import health, objects
from slicewright.rehearsal.cluster.node.operands import node_features
from slicewright.telemetry.signals import at_signal

_DEFAULT_PORT: Final = "-port=8080"
"""NFD's chart probes it without naming it."""


def collect(client: Client) -> int:
    """How many objects were deleted. Raises ApiError, Unreachable."""
    nodes = {node["metadata"]["name"] for node in client.get(path_of("v1", "nodes"))["items"]}
    deleted = 0
    for feature in client.get(node_features.feature_path(None, None))["items"]:
        node, metadata = objects.node_of(feature), feature["metadata"]
        if node and node not in nodes:
            client.delete(node_features.feature_path(metadata["name"], metadata["namespace"]))
            print(f"deleted NodeFeature {metadata['name']}: node {node} is gone", flush=True)
            deleted += 1
    return deleted


def main() -> int:
    stop = threading.Event()
    at_signal(stop.set)
    try:
        client = Client.in_cluster(user_agent="slicewright-nfd-gc")
        health.answer([_DEFAULT_PORT])
        print("simulated nfd-gc", flush=True)
        for event in list_and_watch(client, path_of("v1", "nodes"), stop=stop, backoff_max_s=5.0):
            if event.type in ("LISTED", "DELETED"):
                try:
                    collect(client)
                except (ApiError, Unreachable) as e:
                    # As NFD's own, it says so and goes on: they are found with the next node.
                    print(f"nfd-gc: {e}", file=sys.stderr)
    except (Unreachable, OSError) as e:
        print(f"nfd-gc: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
