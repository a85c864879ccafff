"""Where servers are reached, from what the API server says of a workload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from infra import plan, spec
from kubeapi import ApiError, Client
from slicewright.load import targets
from slicewright.load.asked import Target

GOLDEN = Path(__file__).parents[2] / "infra/golden"
SERVICE = "/api/v1/namespaces/ai/services/llm"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/ai/endpointslices"


class Answers:
    """What an API server has, by path."""

    def __init__(self, **found: Any) -> None:
        self.found = {SERVICE: found.get("service"), SLICES: found.get("slices")}

    def get(self, path: str, **query: str) -> Any:
        if self.found[path] is None:
            raise ApiError(404, {"message": "not found"})
        if path == SLICES:
            assert query == {"labelSelector": "kubernetes.io/service-name=llm"}
        return self.found[path]


def client(**found: Any) -> Client:
    return cast(Client, Answers(**found))


def workload() -> plan.DeploymentPlan:
    raw = yaml.safe_load((GOLDEN / "autoscaling.yaml").read_text())["config"]["slicewright:fleet"]
    fleet = plan.read(json.dumps(raw), spec.Source("test", raw))
    return next(one for one in fleet.deployments if one.name == "llm")


def service(kind: str, *ingress: dict[str, str]) -> dict[str, Any]:
    status = {"loadBalancer": {"ingress": list(ingress)} if ingress else {}}
    return {"spec": {"type": kind}, "status": status}


def endpoint(pod: str, address: str, *, ready: bool = True) -> dict[str, Any]:
    return {
        "addresses": [address],
        "conditions": {"ready": ready},
        "targetRef": {"kind": "Pod", "name": pod},
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
    (found,) = targets.of_service(client(service=service("LoadBalancer", ingress)), workload())
    assert found == Target(name="Service ai/llm", url=url)


@pytest.mark.parametrize(
    ("kind", "why"),
    [("LoadBalancer", "has no address yet"), ("ClusterIP", "is reached from the cluster only")],
)
def test_without_an_address_the_other_ways_are_told(kind: str, why: str) -> None:
    with pytest.raises(targets.NoAddress) as refused:
        targets.of_service(client(service=service(kind)), workload())
    said = str(refused.value)
    assert why in said
    for way in ("--pods", "--url http://llm.ai.svc:8000", "kubectl -n ai port-forward service/llm"):
        assert way in said


def test_a_service_that_is_not_there_is_told() -> None:
    with pytest.raises(targets.NoAddress, match="no Service ai/llm; is `pulumi up` done"):
        targets.of_service(client(), workload())


def test_each_ready_pod_is_a_target() -> None:
    ports = [{"name": "metrics", "port": 9000}, {"name": "http", "port": 8000}]
    slices = [
        {
            "ports": ports,
            "endpoints": [endpoint("llm-b", "10.0.0.2"), endpoint("llm-a", "fd00::1")],
        },
        {"ports": ports, "endpoints": [endpoint("llm-c", "10.0.0.3", ready=False)]},
        {"ports": [{"name": "grpc", "port": 1}], "endpoints": [endpoint("llm-d", "10.0.0.4")]},
    ]
    assert targets.of_pods(client(slices={"items": slices}), workload()) == (
        Target(name="llm-a", url="http://[fd00::1]:8000"),
        Target(name="llm-b", url="http://10.0.0.2:8000"),
    )


def test_without_a_ready_pod_there_is_nothing_to_ask() -> None:
    with pytest.raises(targets.NoAddress, match="no replica of ai/llm is ready"):
        targets.of_pods(client(slices={"items": []}), workload())


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
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(targets.BadUrl, match="write it like http"):
        targets.given([url])


@pytest.mark.parametrize("port", ["8000", "99999"])
def test_a_password_in_an_address_is_refused_and_not_repeated(port: str) -> None:
    with pytest.raises(targets.BadUrl) as refused:
        targets.given([f"http://me:secret@a:{port}"])
    assert "secret" not in str(refused.value)
