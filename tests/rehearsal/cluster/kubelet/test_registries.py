"""Pods whose images a registry does not serve, on a real API server: states, events, recovery."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from slicewright.fleet_controller.nodes.waiting_pods import waits_for
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.rehearsal.cluster.kubelet.simulated_cluster import (
    PYTHON,
    SimulatedCluster,
    running_cluster,
)

OWN = "registry.example.com/team/python:3.13"
WAIT = "import signal\nsignal.pause()\n"
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"


@pytest.fixture(scope="module")
def registries(
    tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain
) -> Iterator[SimulatedCluster]:
    """Pulls that failed are tried again after 2 s, not 10."""
    directory = tmp_path_factory.mktemp("registries")
    with running_cluster(directory, toolchain, "--image-pull-back-off", "2") as made:
        made.add_node("n1")
        yield made


def answers(cluster: SimulatedCluster, *faults: dict[str, Any]) -> None:
    """From now on registries answer so."""
    path = cluster.environment / "faults.json"
    new = path.with_suffix(".new")
    new.write_text(json.dumps([{"fault": "registry", **fault} for fault in faults]))
    new.replace(path)


def eventually(holds: Callable[[], bool], timeout_s: float = 180) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come to it in time"
        time.sleep(0.1)


def waiting(pod: dict[str, Any] | None, reason: str) -> dict[str, Any] | None:
    """The pod, where a container waits for that."""
    status = (pod or {}).get("status") or {}
    found = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    said = {((one.get("state") or {}).get("waiting") or {}).get("reason") for one in found}
    return pod if reason in said else None


def events_of(cluster: SimulatedCluster, path: str) -> list[tuple[str, str, str]]:
    name = path.rpartition("/")[2]
    found = cluster.client.get(
        "/api/v1/namespaces/default/events", fieldSelector=f"involvedObject.name={name}"
    )
    return [(e["type"], e["reason"], e["message"]) for e in found["items"]]


@pytest.mark.parametrize(
    ("answer", "image", "says"),
    [
        ("unauthorized", OWN, "registry.example.com requires a login"),
        ("not-found", OWN, "registry.example.com has no such image"),
        ("too-many-requests", PYTHON, "docker.io answers 429, too many pulls from this address"),
        ("no-platform", PYTHON, "but not for this node's architecture"),
        ("timeout", PYTHON, "docker.io cannot be reached from the node"),
    ],
)
def test_a_pod_shows_what_the_registry_answers_and_starts_when_it_serves(
    registries: SimulatedCluster, answer: str, image: str, says: str
) -> None:
    registry = image.partition("/")[0]
    answers(registries, {"registry": registry, "answer": answer})
    name = f"pulls-{answer}"
    container = {"image": image, "imagePullPolicy": "Always"}
    path = registries.run_python(name, WAIT, container=container)
    pod = registries.until(path, lambda pod: waiting(pod, "ImagePullBackOff"))
    why = waits_for(pod)
    assert why is not None
    assert says in why
    assert pod["status"]["phase"] == "Pending"
    (state,) = (one["state"] for one in pod["status"]["containerStatuses"])
    back_off = f'Back-off pulling image "{image}"'
    assert state["waiting"]["message"].startswith(f"{back_off}: ErrImagePull: ")

    def told() -> bool:
        seen = {(kind, reason) for kind, reason, _ in events_of(registries, path)}
        return seen >= {("Normal", "Pulling"), ("Warning", "Failed"), ("Normal", "BackOff")}

    eventually(told)
    messages = [message for _, _, message in events_of(registries, path)]
    assert {"Error: ErrImagePull", "Error: ImagePullBackOff", back_off} <= set(messages)
    assert any(m.startswith(f'Failed to pull image "{image}": ') for m in messages)
    answers(registries)
    registries.ready(path)
    eventually(lambda: "Pulled" in {reason for _, reason, _ in events_of(registries, path)})


def test_the_images_of_init_containers_are_pulled_too(registries: SimulatedCluster) -> None:
    answers(registries, {"registry": "registry.example.com", "answer": "forbidden"})
    image = "registry.example.com/init/python:3.13"
    init = {"name": "first", "image": image, "command": ["python", "-c", "pass"]}
    path = registries.run_python("pulls-init", WAIT, initContainers=[init])
    pod = registries.until(path, lambda pod: waiting(pod, "ImagePullBackOff"))
    (main,) = pod["status"]["containerStatuses"]
    assert main["state"]["waiting"]["reason"] == "ContainerCreating"
    answers(registries)
    registries.ready(path)


def test_only_nodes_of_an_architecture_lack_the_image(registries: SimulatedCluster) -> None:
    answers(registries, {"registry": "docker.io", "answer": "no-platform", "architecture": "arm64"})
    container = {"imagePullPolicy": "Always"}
    registries.ready(registries.run_python("pulls-amd64", WAIT, container=container))


def pull_secret(name: str, login: str) -> dict[str, Any]:
    user, _, password = login.partition(":")
    entry = {"username": user, "password": password}
    config = json.dumps({"auths": {"registry.example.com": entry}})
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "default"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(config.encode()).decode()},
    }


def references(*names: str) -> Sequence[dict[str, str]]:
    return [{"name": name} for name in names]


def test_a_pull_secret_may_come_after_the_pod(registries: SimulatedCluster) -> None:
    """Until then the kubelet pulls without a login, and says which Secret is missing."""
    private = {"registry": "registry.example.com", "answer": "unauthorized", "login": "ci:s3"}
    answers(registries, private)
    path = registries.run_python(
        "pulls-later",
        WAIT,
        container={"image": OWN, "imagePullPolicy": "Always"},
        imagePullSecrets=references("later"),
    )
    registries.until(path, lambda pod: waiting(pod, "ImagePullBackOff"))
    missing = "Unable to retrieve some image pull secrets (later); attempting to pull the image"
    eventually(lambda: any(missing in m for _, _, m in events_of(registries, path)))
    registries.create(pull_secret("later", "ci:s3"))
    registries.ready(path)


def test_the_pull_secrets_of_the_service_account_are_the_pods(
    registries: SimulatedCluster,
) -> None:
    """The API server puts them into its spec."""
    private = {"registry": "registry.example.com", "answer": "unauthorized", "login": "sa:s3"}
    answers(registries, private)
    registries.create(pull_secret("of-account", "sa:s3"))
    account = registries.client
    account.patch(ACCOUNT, {"imagePullSecrets": references("of-account")}, kind="merge")
    try:
        container = {"image": OWN, "imagePullPolicy": "Always"}
        registries.ready(registries.run_python("pulls-by-account", WAIT, container=container))
    finally:
        account.patch(ACCOUNT, {"imagePullSecrets": None}, kind="merge")


@pytest.mark.parametrize(
    ("image", "policy", "reason", "says"),
    [
        ("Registry.example.com/Team/python:1", "IfNotPresent", "InvalidImageName", "correct"),
        ("registry.example.com/preloaded/python:1", "Never", "ErrImageNeverPull", "node's image"),
    ],
)
def test_a_pull_that_is_not_tried_has_its_own_state(
    registries: SimulatedCluster, image: str, policy: str, reason: str, says: str
) -> None:
    answers(registries)
    container = {"image": image, "imagePullPolicy": policy}
    path = registries.run_python(f"pulls-{reason.lower()}", WAIT, container=container)
    pod = registries.until(path, lambda pod: waiting(pod, reason))
    why = waits_for(pod)
    assert why is not None
    assert says in why


def test_a_fault_file_that_cannot_be_read_is_no_fault(registries: SimulatedCluster) -> None:
    Path(registries.environment, "faults.json").write_text("{")
    container = {"imagePullPolicy": "Always"}
    registries.ready(registries.run_python("pulls-anyway", WAIT, container=container))
    answers(registries)
