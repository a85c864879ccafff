"""Asks an existing cluster about everything that `pulumi up` needs from it. It only reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from slicewright.doctor.ask.gpu_owners import answered, daemonsets, device_owners, gpu_operators
from slicewright.doctor.checks.cluster import ClusterAnswers, Node
from slicewright.doctor.checks.cluster_requirements import (
    wanted_apis,
    wanted_definitions,
    wanted_namespaces,
)
from slicewright.doctor.findings import Answer, CannotAsk
from slicewright.infra.plan import ExistingFleetPlan
from slicewright.kubeapi import ApiError, Client, JsonObject, Unreachable, list_all
from slicewright.live.access import NoCluster, access, error_message

_EVERYTHING: Final = {"verb": "*", "group": "*", "resource": "*"}
"""The question that `kubectl auth can-i '*' '*' --all-namespaces` asks."""
_T = TypeVar("_T")


def ask(fleet: ExistingFleetPlan) -> ClusterAnswers:
    """Raises CannotAsk if the cluster of the stack's context does not answer."""
    assert fleet.cluster is not None
    try:
        connected = access(fleet.cluster.kubeconfig, fleet.cluster.context)
        client = connected.client()
        version = client.get("/version")
    except NoCluster as e:
        raise CannotAsk(str(e)) from None
    except (ApiError, Unreachable) as e:
        raise CannotAsk(error_message(e, connected)) from None

    def answer(question: Callable[[Client], _T]) -> Answer[_T]:
        return answered(question, client, connected)

    return ClusterAnswers(
        server=connected.context.server,
        version=_version(version),
        administrator=answer(_may_do_everything),
        nodes=answer(lambda c: tuple(_node(raw) for raw in _all(c, "/api/v1/nodes"))),
        daemonsets=answer(daemonsets),
        operators=answer(gpu_operators),
        owners=answer(device_owners),
        namespaces=answer(
            lambda c: frozenset(
                name
                for name in wanted_namespaces(fleet)
                if _exists(c, f"/api/v1/namespaces/{name}")
            )
        ),
        definitions=answer(
            lambda c: frozenset(
                name
                for name in wanted_definitions(fleet)
                if _exists(c, f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
            )
        ),
        apis=answer(lambda c: dict(_served(c, wanted_apis(fleet)))),
    )


def _version(answer: JsonObject) -> tuple[int, int]:
    """`{"major": "1", "minor": "33+"}` -> (1, 33)."""
    numbers = ("".join(filter(str.isdigit, str(answer.get(k, "")))) for k in ("major", "minor"))
    major, minor = (int(number or 0) for number in numbers)
    return major, minor


def _may_do_everything(client: Client) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": _EVERYTHING},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return bool(client.create(path, review)["status"].get("allowed"))


def _all(client: Client, path: str) -> tuple[JsonObject, ...]:
    return list_all(client, path).items


def _node(raw: JsonObject) -> Node:
    conditions = (raw.get("status") or {}).get("conditions") or ()
    taints = (raw.get("spec") or {}).get("taints") or ()
    return Node(
        name=raw["metadata"]["name"],
        labels=dict(raw["metadata"].get("labels") or {}),
        ready=any(c["type"] == "Ready" and c["status"] == "True" for c in conditions),
        # Kubernetes' own controller adds such a taint to a cordoned node.
        taints=tuple(t["key"] for t in taints if t["effect"] in ("NoSchedule", "NoExecute")),
    )


def _served(client: Client, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The APIServices that exist, each with the namespace of its Service."""
    for name in names:
        try:
            api_service = client.get(f"/apis/apiregistration.k8s.io/v1/apiservices/{name}")
        except ApiError as e:
            if e.status != 404:
                raise
            continue
        yield name, ((api_service.get("spec") or {}).get("service") or {}).get("namespace", "")


def _exists(client: Client, path: str) -> bool:
    try:
        client.get(path)
    except ApiError as e:
        if e.status != 404:
            raise
        return False
    return True
