"""Where servers are reached, from what the API server says of a workload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from slicewright.infra import plan, stack_file
from slicewright.kubeapi import ApiError, Client
from slicewright.load import targets
from slicewright.load.load import Target

GOLDEN = Path(__file__).parents[2] / "infra/golden"
SERVICE = "/api/v1/namespaces/ai/services/llm"
PODS = "/api/v1/namespaces/ai/pods"


class Answers:
    """What an API server has, by path."""

    def __init__(self, **found: Any) -> None:
        self.found = {SERVICE: found.get("service"), PODS: found.get("pods")}

    def get(self, path: str, **query: str) -> Any:
        if self.found[path] is None:
            raise ApiError(404, {"message": "not found"})
        if path == PODS:
            assert query == {"labelSelector": "slicewright.io/workload=llm"}
        return self.found[path]


def client(**found: Any) -> Client:
    return cast(Client, Answers(**found))


def workload() -> plan.DeploymentPlan:
    raw = yaml.safe_load((GOLDEN / "autoscaling.yaml").read_text())["config"]["slicewright:fleet"]
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    return next(one for one in fleet.deployments if one.name == "llm")


def service(kind: str, *ingress: dict[str, str]) -> dict[str, Any]:
    status = {"loadBalancer": {"ingress": list(ingress)} if ingress else {}}
    return {"spec": {"type": kind}, "status": status}


def pod(name: str, address: str | None, *, ready: bool = True, **metadata: str) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"nodeName": f"node-of-{name}"},
        "status": {"conditions": conditions} | ({"podIP": address} if address else {}),
    }


@pytest.mark.parametrize(
    ("ingress", "url"),
    [
        ({"ip": "203.0.113.7"}, "http://203.0.113.7:8000"),
        ({"hostname": "lb.example.com"}, "http://lb.example.com:8000"),
        ({"ip": "2001:db8::7"}, "http://[2001:db8::7]:8000"),
    ],
)
def test_a_load_balancer_has_an_address(ingress: dict[str, str], url: str) -> None:
    (found,) = targets.service_targets(client(service=service("LoadBalancer", ingress)), workload())
    assert found == Target(name="Service ai/llm", url=url)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("LoadBalancer", "has no address yet"),
        ("ClusterIP", "is reachable only from inside the cluster"),
    ],
)
def test_a_workload_without_an_address_names_other_ways(kind: str, why: str) -> None:
    with pytest.raises(targets.NoAddress) as refused:
        targets.service_targets(client(service=service(kind)), workload())
    said = str(refused.value)
    assert why in said
    for way in ("--pods", "--url http://llm.ai.svc:8000", "kubectl -n ai port-forward service/llm"):
        assert way in said


def test_a_missing_service_is_named() -> None:
    with pytest.raises(targets.NoAddress, match="no Service ai/llm; has `pulumi up` finished"):
        targets.service_targets(client(), workload())


def test_each_ready_pod_is_a_target_with_its_node_and_partition() -> None:
    pods = [
        pod("llm-b", "10.0.0.2"),
        pod("llm-a", "fd00::1"),
        pod("llm-c", "10.0.0.3", ready=False),
        pod("llm-d", None),
        pod("llm-e", "10.0.0.5", deletionTimestamp="2026-01-01T00:00:00Z"),
    ]
    asked = workload()
    assert asked.profiles
    (partition,) = asked.profiles
    assert targets.pod_targets(client(pods={"items": pods}), asked) == (
        Target(
            name="llm-a",
            url="http://[fd00::1]:8000",
            node="node-of-llm-a",
            partition=partition,
        ),
        Target(name="llm-b", url="http://10.0.0.2:8000", node="node-of-llm-b", partition=partition),
    )


def test_a_service_without_a_ready_pod_has_no_targets() -> None:
    for pods in ([], [pod("llm-a", "10.0.0.1", ready=False)]):
        with pytest.raises(targets.NoAddress, match="no replica of ai/llm is ready"):
            targets.pod_targets(client(pods={"items": pods}), workload())


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000",
        "ftp://a",
        "http://",
        "http://a/?b=c",
        "http://a:99999",
        "http://[::1",
    ],
)
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(targets.BadUrl, match="write it like http"):
        targets.given_targets([url])


@pytest.mark.parametrize("port", ["8000", "99999"])
def test_a_password_in_an_address_is_refused_and_not_repeated(port: str) -> None:
    with pytest.raises(targets.BadUrl) as refused:
        targets.given_targets([f"http://me:secret@a:{port}"])
    assert "secret" not in str(refused.value)
