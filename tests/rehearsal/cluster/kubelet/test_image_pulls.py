"""How the kubelet stand-in pulls images, and what it shows where a registry does not serve one."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.clouds.core import fault_file
from slicewright.rehearsal.cluster.kubelet.containers.backoff import PullPauses
from slicewright.rehearsal.cluster.kubelet.containers.pulling import ImagePull
from slicewright.rehearsal.cluster.kubelet.containers.state import ContainerState
from slicewright.rehearsal.cluster.kubelet.images import references
from slicewright.rehearsal.cluster.kubelet.images.credentials import logins
from slicewright.rehearsal.cluster.kubelet.images.registries import Puller, Registries
from slicewright.rehearsal.cluster.kubelet.images.store import ImageStore, NotPulled

DIGEST = "sha256:" + "6" * 64
PYTHON = f"docker.io/library/python:3.13-slim@{DIGEST}"
OWN = "registry.example.com/team/agent:1"
NODE = Puller(architecture="amd64", address="n1", shared=False, asks_googles_cache=False)


def pull_secret(host: str, login: str, *, encoded: bool = False) -> dict[str, Any]:
    user, _, password = login.partition(":")
    entry = (
        {"auth": base64.b64encode(login.encode()).decode()}
        if encoded
        else {"username": user, "password": password}
    )
    config = json.dumps({"auths": {host: entry}}).encode()
    return {
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(config).decode()},
    }


class Node:
    """The images of one node, and the events of its pods."""

    def __init__(self, directory: Path, *faults: dict[str, Any], puller: Puller = NODE) -> None:
        self.faults = directory / "faults.json"
        self.puller = puller
        self.events: list[tuple[str, str, str]] = []
        self.break_registries(*faults)
        self.store = ImageStore(Registries(self.faults))

    def break_registries(self, *faults: dict[str, Any]) -> None:
        text = json.dumps([{"fault": "registry", **fault} for fault in faults])
        fault_file.read(text)
        new = self.faults.with_suffix(".new")
        new.write_text(text)
        new.replace(self.faults)

    def pull(
        self,
        image: str,
        *secrets: dict[str, Any],
        policy: str = "IfNotPresent",
        by: Puller | None = None,
    ) -> NotPulled | None:
        async def held() -> Sequence[dict[str, Any]]:
            return secrets

        def say(kind: str, reason: str, message: str) -> None:
            self.events.append((kind, reason, message))

        container = {"name": "main", "image": image, "imagePullPolicy": policy}
        try:
            asyncio.run(self.store.ensure(container, by or self.puller, held, say))
        except NotPulled as e:
            return e
        return None

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.events]


@pytest.mark.parametrize(
    ("image", "resolved", "registry"),
    [
        ("python", "docker.io/library/python:latest", "docker.io"),
        ("vllm/vllm-openai:v1", "docker.io/vllm/vllm-openai:v1", "docker.io"),
        (PYTHON, f"docker.io/library/python@{DIGEST}", "docker.io"),
        ("localhost:5000/a/b:1", "localhost:5000/a/b:1", "localhost:5000"),
        ("nvcr.io/nvidia/cuda:13.0", "nvcr.io/nvidia/cuda:13.0", "nvcr.io"),
    ],
)
def test_a_reference_is_read_as_containerd_reads_it(
    image: str, resolved: str, registry: str
) -> None:
    read = references.parse(image)
    assert (read.resolved, read.registry) == (resolved, registry)


@pytest.mark.parametrize("image", ["", "Python:3", "a b", "docker.io/", "x@sha256:12", "a/:1"])
def test_invalid_reference_is_an_invalid_image_name(image: str, tmp_path: Path) -> None:
    node = Node(tmp_path)
    failure = node.pull(image)
    assert failure is not None
    assert failure.reason == "InvalidImageName"
    assert node.reasons == ["InspectFailed"]


def test_an_image_is_pulled_once_and_is_there_then(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert node.pull(PYTHON) is None
    assert node.pull(PYTHON) is None
    assert node.reasons == ["Pulling", "Pulled", "Pulled"]
    node.break_registries({"registry": "docker.io", "answer": "timeout"})
    assert node.pull(PYTHON) is None, "it is on the node"
    assert node.pull(PYTHON, policy="Always") is not None


def test_an_image_that_is_never_pulled_must_be_there(tmp_path: Path) -> None:
    node = Node(tmp_path)
    failure = node.pull(OWN, policy="Never")
    assert failure is not None
    assert failure.reason == "ErrImageNeverPull"
    assert node.pull("cos-nvidia-installer:fixed", policy="Never") is None


@pytest.mark.parametrize(
    ("answer", "image", "words"),
    [
        ("unauthorized", OWN, "server message: insufficient_scope: authorization failed"),
        ("forbidden", OWN, "manifests/1: 403 Forbidden"),
        ("not-found", OWN, "rpc error: code = NotFound desc = failed to pull and unpack image"),
        ("too-many-requests", PYTHON, "You have reached your unauthenticated pull rate limit."),
        ("too-many-requests", OWN, "toomanyrequests: Rate exceeded"),
        ("no-platform", OWN, "no match for platform in manifest: not found"),
        ("unavailable", OWN, "503 Service Unavailable"),
        ("timeout", PYTHON, "dial tcp 192.0.2.1:443: i/o timeout"),
        ("no-such-host", PYTHON, "lookup registry-1.docker.io on 192.0.2.53:53: no such host"),
        ("unknown-authority", OWN, "x509: certificate signed by unknown authority"),
    ],
)
def test_each_answer_has_containerds_words(
    answer: str, image: str, words: str, tmp_path: Path
) -> None:
    registry = references.parse(image).registry
    node = Node(tmp_path, {"registry": registry, "answer": answer})
    failure = node.pull(image)
    assert failure is not None
    assert failure.reason == "ErrImagePull"
    assert words in str(failure)
    assert node.events[0] == ("Normal", "Pulling", f'Pulling image "{image}"')
    assert node.events[1][:2] == ("Warning", "Failed")
    node.break_registries()
    assert node.pull(image) is None


def test_a_fault_concerns_its_repository_and_architecture_only(tmp_path: Path) -> None:
    node = Node(
        tmp_path,
        {"registry": "nvcr.io", "repository": "nvidia/cuda", "answer": "not-found"},
        {"registry": "docker.io", "answer": "no-platform", "architecture": "arm64"},
    )
    assert node.pull("nvcr.io/nvidia/driver:1") is None
    assert node.pull("nvcr.io/nvidia/cuda:1") is not None
    arm = Puller(architecture="arm64", address="n2", shared=False, asks_googles_cache=False)
    assert node.pull(PYTHON, by=arm) is not None
    assert node.pull(PYTHON) is None
    node.break_registries({"registry": "quay.io", "answer": "timeout", "pool": "a100"})
    assert node.pull("quay.io/a:1", by=replace(NODE, pools=("a100", "gke-a100"))) is not None
    assert node.pull("quay.io/a:1", by=replace(NODE, pools=("h100",))) is None


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("host", ["registry.example.com", "https://*.example.com/v2/"])
def test_the_login_of_a_pull_secret_is_served(host: str, encoded: bool, tmp_path: Path) -> None:
    private = {"registry": "registry.example.com", "answer": "unauthorized", "login": "ci:s3"}
    node = Node(tmp_path, private)
    assert node.pull(OWN) is not None
    wrong = node.pull(OWN, pull_secret(host, "ci:old", encoded=encoded))
    assert "failed to fetch oauth token" in str(wrong)
    assert node.pull(OWN, pull_secret(host, "ci:s3", encoded=encoded)) is None
    assert node.pull(OWN) is not None, "the node has the image, and this pod no right to it"


def test_a_secret_of_another_registry_or_kind_holds_no_login() -> None:
    image = references.parse(OWN)
    assert logins([pull_secret("ghcr.io", "a:b")], image) == ()
    opaque = {**pull_secret("registry.example.com", "a:b"), "type": "Opaque"}
    assert logins([opaque, {"type": "kubernetes.io/dockerconfigjson"}], image) == ()
    broken = {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="}}
    assert logins([broken], image) == ()
    hub = pull_secret("https://index.docker.io/v1/", "me:token")
    assert logins([hub], references.parse("vllm/vllm-openai:v1")) == ("me:token",)


def test_nodes_behind_one_address_share_docker_hubs_pulls(tmp_path: Path) -> None:
    """A hundred are served without a login; one more is refused, and any other address is not."""
    registries = Registries(tmp_path / "faults.json")

    def pulls(address: str, *, shared: bool) -> list[bool]:
        node = Node(tmp_path)
        served = []
        for number in range(101):
            node.store = ImageStore(registries)
            puller = Puller(
                architecture="amd64",
                address=address if shared else f"{address}-{number}",
                shared=shared,
                asks_googles_cache=False,
            )
            served.append(node.pull(PYTHON, by=puller) is None)
        return served

    assert pulls("nat-1", shared=True) == [*([True] * 100), False]
    assert all(pulls("node", shared=False))


def test_gke_asks_googles_cache_before_docker_hub(tmp_path: Path) -> None:
    hub = {"registry": "docker.io", "answer": "too-many-requests"}
    gke = Puller(architecture="amd64", address="n1", shared=False, asks_googles_cache=True)
    assert Node(tmp_path, hub, puller=gke).pull(PYTHON) is None
    cache = {"registry": "mirror.gcr.io", "answer": "not-found"}
    failure = Node(tmp_path, hub, cache, puller=gke).pull(PYTHON)
    assert "429 Too Many Requests" in str(failure)
    assert Node(tmp_path, hub).pull(PYTHON) is not None


class _Images:
    """A pod whose image comes with the pull number `served`."""

    def __init__(self, served: int, reason: str = "ErrImagePull") -> None:
        self._served, self._reason = served, reason
        self.pulls = 0
        self.events: list[tuple[str, str]] = []

    async def pull(self, container: Any) -> None:
        self.pulls += 1
        if self.pulls < self._served:
            raise NotPulled(self._reason, "no")

    def report(self, container: str | None, kind: str, reason: str, message: str) -> None:
        self.events.append((reason, message))

    def changed(self) -> None: ...


def _pulled(images: _Images, most_pauses: int = 99) -> tuple[bool, list[float], ContainerState]:
    state, paused = ContainerState(name="main", image="i:1"), []

    async def pause(seconds: float) -> bool:
        paused.append(seconds)
        return len(paused) >= most_pauses

    pull = ImagePull(
        container={"name": "main", "image": "i:1"},
        state=state,
        images=images,
        pauses=PullPauses(),
        paused=pause,
    )
    return asyncio.run(pull.done()), paused, state


def test_a_failed_pull_is_shown_then_backed_off_from_10_s_doubled_to_300() -> None:
    images = _Images(served=9)
    done, paused, state = _pulled(images)
    assert done
    rounds = [a + b for a, b in zip(paused[::2], paused[1::2], strict=True)]
    assert rounds == [10, 20, 40, 80, 160, 300, 300, 300]
    assert images.events[:3] == [
        ("Failed", "Error: ErrImagePull"),
        ("BackOff", 'Back-off pulling image "i:1"'),
        ("Failed", "Error: ImagePullBackOff"),
    ]
    assert state.waiting_reason == "ImagePullBackOff"
    assert state.waiting_message == 'Back-off pulling image "i:1": ErrImagePull: no'


def test_a_name_that_cannot_be_pulled_is_not_backed_off() -> None:
    done, paused, state = _pulled(_Images(served=3, reason="InvalidImageName"))
    assert done
    assert paused == [10, 10]
    assert state.waiting_reason == "InvalidImageName"


def test_a_container_that_is_stopped_meanwhile_is_not_pulled_for_again() -> None:
    images = _Images(served=99)
    done, _, _ = _pulled(images, most_pauses=3)
    assert (done, images.pulls) == (False, 2)
