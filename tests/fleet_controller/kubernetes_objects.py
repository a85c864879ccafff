"""Pools and reports as the API server takes them; pods as the controller knows them."""

from __future__ import annotations

import time
from typing import Any

from slicewright.apis import names
from slicewright.fleet_controller.objects.bounds import stamp
from slicewright.fleet_controller.objects.node_pods import NodePod

REPORTS = f"/apis/{names.API_VERSION}/{names.REPORT_PLURAL}"
POOLS = f"/apis/{names.API_VERSION}/{names.POOL_PLURAL}"
HASH = "a" * 64


def pool(name: str, *, fewest: int = 1, **spec: Any) -> dict[str, Any]:
    wanted = {
        "selector": {"matchLabels": {names.POOL_LABEL: name}},
        "layoutHash": HASH,
        "expectedNodes": {"min": fewest, "max": 8},
        **spec,
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.POOL_KIND,
        "metadata": {"name": name},
        "spec": wanted,
    }


def report(node: dict[str, Any], pool: str, **report: Any) -> dict[str, Any]:
    """The report of a Node, owned by it; all in order, but for what is given."""
    name = node["metadata"]["name"]
    words = {
        "verdict": "Match",
        "reason": "PartitionsMatch",
        "message": "2 GPUs as wanted (3g.40gb x2).",
        "pool": pool,
        "observedHash": HASH,
        "bootID": f"boot-of-{name}",
        "time": stamp(time.time()),
        "gpus": [{"indexes": [0], "mig": "enabled", "instances": {"3g.40gb": 2}}],
        **report,
    }
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.REPORT_KIND,
        "metadata": {"name": name, "ownerReferences": [owner]},
        "report": words,
    }


def later_report(node: dict[str, Any], pool: str) -> dict[str, Any]:
    """What the agent writes once the node's layout is set: what it wrote before does not count."""
    return report(node, pool, time=stamp(time.time() + 2))


def bare(path: str) -> NodePod:
    """`namespace/name`, with GPUs and without a controller: nobody may evict it."""
    namespace, _, name = path.partition("/")
    return NodePod(namespace=namespace, name=name, uid=path, gpus=True, controlled=False)
