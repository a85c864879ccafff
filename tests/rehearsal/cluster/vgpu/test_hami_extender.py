"""HAMi's simulated extender: what it answers, and what it writes."""

from __future__ import annotations

import base64
import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.vgpu import allocation, hami, kube_scheduler
from slicewright.rehearsal.cluster.vgpu.cards import Card, Sharing
from slicewright.rehearsal.cluster.vgpu.hami import ALLOCATED, HAMI, LOCK
from slicewright.rehearsal.cluster.vgpu.hami_extender import Extender
from slicewright.rehearsal.cluster.vgpu.hami_server import serve

SHARE = {hami.NUMBER: "1", hami.MEMORY: "6144", hami.CORES: "80"}


class Api:
    """Nodes with two cards of 16384 MiB each, and pods."""

    def __init__(self, nodes: int) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        for n in range(nodes):
            cards = [
                Card(index=i, uuid=f"GPU-{n}-{i}", model="Tesla T4", memory_mib=16384)
                for i in range(2)
            ]
            annotations = dict(HAMI.registration(cards, Sharing()))
            self.nodes[f"n{n}"] = {"metadata": {"name": f"n{n}", "annotations": annotations}}
        self.pods: dict[str, dict[str, Any]] = {}
        self.bound: dict[str, str] = {}

    def get(self, path: str, **_: str) -> dict[str, Any]:
        if path == "/api/v1/nodes":
            return {"items": list(self.nodes.values())}
        if path == "/api/v1/pods":
            return {"items": list(self.pods.values())}
        kind, name = path.split("/")[-2:]
        return (self.nodes if kind == "nodes" else self.pods)[name]

    def patch(self, path: str, body: dict[str, Any]) -> None:
        annotations = self.get(path)["metadata"]["annotations"]
        for key, value in body["metadata"]["annotations"].items():
            if value is None:
                annotations.pop(key, None)
            else:
                annotations[key] = value

    def create(self, path: str, body: dict[str, Any]) -> None:
        assert path.endswith("/binding")
        self.bound[body["metadata"]["name"]] = body["target"]["name"]


def pod(api: Api, name: str, *limits: dict[str, str]) -> dict[str, Any]:
    containers = [{"name": f"c{i}", "resources": {"limits": one}} for i, one in enumerate(limits)]
    api.pods[name] = {
        "metadata": {"name": name, "namespace": "d", "uid": name, "annotations": {}},
        "spec": {"containers": containers},
        "status": {"phase": "Pending"},
    }
    return api.pods[name]


@pytest.fixture
def api() -> Api:
    return Api(2)


@pytest.fixture
def extender(api: Api) -> Extender:
    client: Any = api
    return Extender(client, "hami-scheduler", "binpack", "spread")


def arguments(one: dict[str, Any], api: Api) -> dict[str, Any]:
    return {"Pod": one, "Nodes": None, "NodeNames": list(api.nodes)}


def bind(extender: Extender, name: str, node: str) -> str:
    asked = {"PodName": name, "PodNamespace": "d", "PodUID": name, "Node": node}
    return str(extender.bind(asked)["Error"])


def test_a_pod_gets_one_node_and_its_cards_are_written_on_it(api: Api, extender: Extender) -> None:
    one = pod(api, "a", {}, SHARE)
    answer = extender.filter(arguments(one, api))
    assert answer == {"NodeNames": ["n0"], "FailedNodes": {}, "Error": ""}
    annotations = one["metadata"]["annotations"]
    assert annotations[HAMI.keys.node] == "n0"
    # The first container asks for nothing.
    assert annotations[ALLOCATED] == ";GPU-0-1,NVIDIA,6144,80:;"
    assert annotations[HAMI.keys.to_allocate] == annotations[ALLOCATED]
    assert bind(extender, "a", "n0") == ""
    assert api.bound == {"a": "n0"}
    assert annotations[HAMI.keys.phase] == allocation.ALLOCATING
    given = allocation.allocate(allocation.pending_pod([one], "n0", HAMI), 1, HAMI)
    assert [share.uuid for share in given.shares] == ["GPU-0-1"]
    assert dict(given.annotations) == {HAMI.keys.to_allocate: ";;", HAMI.keys.phase: "success"}


def test_a_node_that_is_locked_gets_no_second_pod_until_its_plugin_has_answered(
    api: Api, extender: Extender
) -> None:
    for name in ("a", "b"):
        extender.filter(arguments(pod(api, name, SHARE), api))
    assert bind(extender, "a", "n0") == ""
    assert api.nodes["n0"]["metadata"]["annotations"][LOCK].endswith(",d,a")
    assert bind(extender, "b", "n0").startswith("node n0 has been locked by ")
    api.nodes["n0"]["metadata"]["annotations"][LOCK] = "2026-01-01T00:00:00Z,d,a"
    assert bind(extender, "b", "n0") == ""


def test_pods_that_have_ended_hold_nothing_and_a_pod_does_not_stand_in_its_own_way(
    api: Api, extender: Extender
) -> None:
    whole = {hami.NUMBER: "2", hami.CORES: "100"}
    first = pod(api, "a", whole)
    for _ in range(2):
        assert extender.filter(arguments(first, api))["NodeNames"] == ["n0"]
    second = pod(api, "b", whole)
    assert extender.filter(arguments(second, api))["NodeNames"] == ["n1"]
    third = pod(api, "c", whole)
    refused = extender.filter(arguments(third, api))
    assert (refused["NodeNames"], sorted(refused["FailedNodes"])) == ([], ["n0", "n1"])
    first["status"]["phase"] = "Succeeded"
    assert extender.filter(arguments(third, api))["NodeNames"] == ["n0"]


def test_an_amount_that_the_api_server_shortens_is_read(api: Api, extender: Extender) -> None:
    one = pod(api, "a", {hami.NUMBER: "1", hami.MEMORY: "6k", hami.CORES: "80"})
    extender.filter(arguments(one, api))
    assert one["metadata"]["annotations"][ALLOCATED] == "GPU-0-1,NVIDIA,6000,80:;"


def test_a_policy_of_a_pod_comes_before_the_schedulers(api: Api, extender: Extender) -> None:
    for name, node in (("a", "n0"), ("b", "n1"), ("c", "n0")):
        one = pod(api, name, {hami.NUMBER: "1", hami.MEMORY: "128", hami.CORES: "1"})
        one["metadata"]["annotations"]["hami.io/node-scheduler-policy"] = "spread"
        assert extender.filter(arguments(one, api))["NodeNames"] == [node]


def test_other_pods_pass_unchanged(api: Api, extender: Extender) -> None:
    one = pod(api, "a", {"cpu": "1"})
    assert extender.filter(arguments(one, api))["NodeNames"] == ["n0", "n1"]
    assert one["metadata"]["annotations"] == {}
    assert bind(extender, "a", "n1") == ""
    assert LOCK not in api.nodes["n1"]["metadata"]["annotations"]


def review(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "u", "object": one},
    }


def test_over_http_a_pod_with_a_share_is_given_to_hamis_scheduler(
    api: Api, extender: Extender
) -> None:
    server = serve(extender, ("127.0.0.1", 0), None, None)
    url = f"http://127.0.0.1:{server.server_address[1]}"

    def post(path: str, body: dict[str, Any]) -> dict[str, Any]:
        asked = urllib.request.Request(url + path, json.dumps(body).encode())
        with urllib.request.urlopen(asked, timeout=30) as answer:
            answered: dict[str, Any] = json.load(answer)
            return answered

    try:
        response = post("/webhook", review(pod(api, "a", SHARE)))["response"]
        assert json.loads(base64.b64decode(response["patch"])) == [
            {"op": "add", "path": "/spec/schedulerName", "value": "hami-scheduler"}
        ]
        assert "patch" not in post("/webhook", review(pod(api, "b", {})))["response"]
        assert post("/filter", arguments(api.pods["a"], api))["NodeNames"] == ["n0"]
    finally:
        server.shutdown()
        server.server_close()


def test_the_scheduler_finds_its_extender_on_the_pods_address(tmp_path: Path) -> None:
    (tmp_path / "given.yaml").write_text('extenders: [{urlPrefix: "https://127.0.0.1:9443"}]')
    placed = kube_scheduler.arguments_with(
        tmp_path / "own.yaml", [f"--config={tmp_path}/given.yaml", "-v=4"], "127.5.0.3"
    )
    assert placed == [f"--config={tmp_path}/own.yaml", "-v=4", "--secure-port=0"]
    assert "https://127.5.0.3:9443" in (tmp_path / "own.yaml").read_text()
