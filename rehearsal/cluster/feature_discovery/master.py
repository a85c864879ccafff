"""`nfd-master`: makes labels of the NodeFeature objects, whenever one of them changes."""

from __future__ import annotations

import json
import sys
import threading

from slicewright.kubeapi.client import ApiError, Client, JsonObject, Unreachable, path_of
from slicewright.kubeapi.watch import Event, list_and_watch
from slicewright.rehearsal.cluster.feature_discovery import health, objects
from slicewright.rehearsal.cluster.node.operands import node_features
from slicewright.telemetry.signals import at_signal

_AGAIN_S = 1.0


class Master:
    """It looks at a node only when a NodeFeature object of the node has changed."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._features: dict[tuple[str, str], JsonObject] = {}

    def run(self, stop: threading.Event) -> None:
        path = node_features.feature_path(None, None)
        for event in list_and_watch(self._client, path, stop=stop, backoff_max_s=5.0):
            for node in sorted(self.take(event)):
                while not stop.is_set() and not self._label(node):
                    stop.wait(_AGAIN_S)

    def take(self, event: Event) -> set[str]:
        """The nodes that the event is about."""
        if event.type == "LISTED":
            before = set(map(objects.node_of, self._features.values()))
            self._features = {_key(one): one for one in event.items}
            return (before | set(map(objects.node_of, self._features.values()))) - {""}
        if event.type not in ("ADDED", "MODIFIED", "DELETED"):
            return set()
        key = _key(event.object)
        if event.type == "DELETED":
            self._features.pop(key, None)
        else:
            self._features[key] = event.object
        return {objects.node_of(event.object)} - {""}

    def _label(self, name: str) -> bool:
        """False where it has to be tried again."""
        path = path_of("v1", "nodes", name)
        of_node = [one for one in self._features.values() if objects.node_of(one) == name]
        try:
            node = self._client.get(path)
            if patch := objects.changes(node, objects.merged(of_node)):
                uid = {"uid": node["metadata"]["uid"]}
                self._client.patch(path, {"metadata": {**uid, **patch}})
                print(f"node {name}: {json.dumps(patch['labels'], sort_keys=True)}", flush=True)
        except ApiError as e:
            # A node that is gone has no labels; one that was made again is looked at again.
            return e.status == 404
        except Unreachable:
            return False
        return True


def _key(feature: JsonObject) -> tuple[str, str]:
    return feature["metadata"]["namespace"], feature["metadata"]["name"]


def main() -> int:
    stop = threading.Event()
    at_signal(stop.set)
    try:
        client = Client.in_cluster(user_agent="slicewright-nfd-master")
        health.answer(sys.argv[1:])
    except (Unreachable, OSError) as e:
        print(f"nfd-master: {e}", file=sys.stderr)
        return 1
    print("simulated nfd-master", flush=True)
    Master(client).run(stop)
    return 0


if __name__ == "__main__":
    sys.exit(main())
