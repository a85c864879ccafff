"""What `kubectl get` and `kubectl explain` show of the custom resources, as the API server says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from slicewright.apis import names as api
from slicewright.apis.custom_resources import crds
from tests.fleet_controller import kubernetes_objects as objects
from tests.fleet_controller.kubernetes_objects import POOLS

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
"""What kubectl asks for. Source: kubernetes.io/docs/reference/using-api/api-concepts/."""


def _answer(api_server: Any, path: str, accept: str) -> dict[str, Any]:
    client = api_server.admin
    answer = client._current_pool().request(
        "GET", f"{client.server}{path}", headers={"Accept": accept}
    )
    assert answer.status == 200, answer.data
    found: dict[str, Any] = json.loads(answer.data)
    return found


def test_a_list_of_pools_shows_what_is_wanted_and_what_there_is(api_server: Any) -> None:
    wanted = objects.pool("printed", fewest=3, migConfig="all-balanced")
    api_server.admin.create(POOLS, wanted)
    status = {
        "layout": "all-1g.5gb",
        "nodes": {
            "total": 4,
            "verified": 2,
            "failing": 1,
            "unknown": 1,
            "changing": 2,
            "failed": 1,
        },
        "conditions": [
            {
                "type": "Verified",
                "status": "False",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-11-25T12:00:00Z",
                "reason": "RollingOut",
                "message": "2 of 4 nodes have layout all-balanced",
            }
        ],
    }
    api_server.admin.patch(f"{POOLS}/printed/status", {"status": status})
    table = _answer(api_server, f"{POOLS}?fieldSelector=metadata.name%3Dprinted", _TABLE)
    names = [column["name"] for column in table["columnDefinitions"]]
    (row,) = table["rows"]
    shown = dict(zip(names, row["cells"], strict=True))
    assert shown.pop("Age")
    assert shown == {
        "Name": "printed",
        "Verified": "False",
        "Reason": "RollingOut",
        "Wanted": 3,
        "Nodes": 4,
        "Proven": 2,
        "Changing": 2,
        "Failed": 1,
        "Failing": 1,
        "Layout": "all-1g.5gb",
        "Message": "2 of 4 nodes have layout all-balanced",
    }
    wide = [one["name"] for one in table["columnDefinitions"] if one["priority"]]
    assert wide == ["Message"]
    api_server.admin.delete(f"{POOLS}/printed")


@pytest.mark.parametrize("kind", [api.POOL_KIND, api.REPORT_KIND])
def test_explain_describes_every_field(kind: str, api_server: Any) -> None:
    document = _answer(api_server, f"/openapi/v3/apis/{api.API_VERSION}", "application/json")
    published = document["components"]["schemas"]
    (schema,) = [
        one
        for one in published.values()
        if any(
            (known["group"], known["kind"]) == (api.GROUP, kind)
            for known in one.get("x-kubernetes-group-version-kind", ())
        )
    ]
    described = dict(_described(schema))
    assert [path for path, text in described.items() if len(text.split()) < 2] == []
    (ours,) = [crd for crd in crds() if crd["spec"]["names"]["kind"] == kind]
    declared = ours["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert dict(_described(declared)).items() <= described.items()


def _described(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Path -> description, of a field and those below it; metadata's are Kubernetes' own."""
    for name, field in (schema.get("properties") or {}).items():
        where = f"{path}.{name}"
        yield where, field.get("description", "")
        if where != ".metadata":
            yield from _described(field.get("items") or field, where)
