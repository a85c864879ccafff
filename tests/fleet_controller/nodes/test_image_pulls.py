"""What is said of a pod whose image does not come: the registry, its answer, and what helps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slicewright.apis.image_names import registry_of, short
from slicewright.fleet_controller.nodes import absent_agents, absent_operands, waiting_pods
from slicewright.fleet_controller.nodes.image_pulls import SLICEWRIGHT, explained
from slicewright.fleet_controller.objects.node import Node
from slicewright.rehearsal.cluster.kubelet.images.answers import Answer, pull_error
from slicewright.rehearsal.cluster.kubelet.images.references import parse

DIGEST = "sha256:" + "67" * 32
HUB = f"docker.io/library/python:3.13-slim@{DIGEST}"
ECR = f"public.ecr.aws/docker/library/python:3.13-slim@{DIGEST}"
TAGGED = "registry.example.com:5000/team/not-found/agent:x509"
"""A name with words of errors in it."""

OF_CONTAINERD: dict[Answer, tuple[str, str]] = {
    "unauthorized": ("requires a login", "`image_pull_secrets`"),
    "forbidden": ("requires a login", "`image_pull_secrets`"),
    "not-found": ("has no such image", "correct `image`"),
    "too-many-requests": ("answers 429", "another registry in `image`"),
    "no-platform": ("not for this node's architecture", "that of the index"),
    "unavailable": ("a server error", "wait"),
    "timeout": ("cannot be reached", "NAT, proxy, firewall, DNS"),
    "no-such-host": ("cannot be reached", "NAT, proxy, firewall, DNS"),
    "unknown-authority": ("certificate that the node does not trust", "authority"),
}


@pytest.mark.parametrize("logged_in", [False, True])
@pytest.mark.parametrize("image", [HUB, ECR, TAGGED])
@pytest.mark.parametrize("answer", OF_CONTAINERD)
def test_every_answer_of_a_registry_is_named_with_its_remedy(
    answer: Answer,
    image: str,
    logged_in: bool,
) -> None:
    error = pull_error(answer, parse(image), logged_in=logged_in)
    says, helps = OF_CONTAINERD[answer]
    for reason, message in (
        ("ErrImagePull", error),
        ("ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {error}'),
    ):
        text = explained(reason, message, image, SLICEWRIGHT)
        assert text.startswith(f"{registry_of(image)} ")
        assert says in text
        assert helps in text
        assert short(image) in text
        assert "sha256" not in text


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("Error response from daemon: manifest for a/b:1 not found: manifest unknown", "no such"),
        ("no matching manifest for linux/arm64/v8 in the manifest list entries", "architecture"),
        ('no image found in image index for architecture "arm64", variant "v8"', "architecture"),
        ("reading manifest 1 in r.example.com/a: toomanyrequests: Rate exceeded", "429"),
        ("reading manifest 1: unauthorized: authentication required", "login"),
        ("failed to authorize: failed to fetch anonymous token: 403 Forbidden", "login"),
        ("authorization failed: no basic auth credentials", "login"),
        ("image pull failed because the registry is unavailable: connection refused", "reached"),
        ("net/http: request canceled (Client.Timeout exceeded)", "reached"),
        ('Get "https://r/v2/": http: server gave HTTP response to HTTPS client', "certificate"),
        ("failed to extract layer: write /x: no space left on device", "disk is full"),
        ("unexpected status from HEAD request to https://r/v2/: 502 Bad Gateway", "server error"),
    ],
)
def test_the_words_of_other_runtimes_are_known_too(message: str, says: str) -> None:
    assert says in explained("ErrImagePull", message, "r.example.com/a:1", SLICEWRIGHT)


def test_a_wait_without_an_answer_names_the_registry_and_what_may_help() -> None:
    """As up to Kubernetes 1.31."""
    text = explained("ImagePullBackOff", f'Back-off pulling image "{HUB}"', HUB, SLICEWRIGHT)
    assert text.startswith("docker.io does not deliver the image")
    assert "kubectl describe pod" in text
    assert "`image_pull_secrets`" in text


def test_words_that_nobody_knows_are_quoted() -> None:
    text = explained("ErrImagePull", "the moon is full", HUB, SLICEWRIGHT)
    assert text == "docker.io, docker.io/library/python:3.13-slim: the moon is full"


def test_a_pull_that_is_never_tried_has_another_remedy() -> None:
    assert "correct `image`" in explained("InvalidImageName", "bad", "A:b", SLICEWRIGHT)
    assert "node's image" in explained("ErrImageNeverPull", "never", "a:b", SLICEWRIGHT)


@pytest.mark.parametrize(
    ("image", "registry", "name"),
    [
        ("python", "docker.io", "python"),
        ("vllm/vllm-openai:v1", "docker.io", "vllm/vllm-openai:v1"),
        ("localhost/a", "localhost", "localhost/a"),
        (TAGGED, "registry.example.com:5000", TAGGED),
        (f"ghcr.io/a@{DIGEST}", "ghcr.io", "ghcr.io/a@sha256:676767676767…"),
        (HUB, "docker.io", "docker.io/library/python:3.13-slim"),
    ],
)
def test_the_registry_and_the_short_name_of_an_image(image: str, registry: str, name: str) -> None:
    assert (registry_of(image), short(image)) == (registry, name)


def _pod(name: str, image: str, answer: Answer, namespace: str) -> Any:
    error = pull_error(answer, parse(image), logged_in=False)
    message = f'Back-off pulling image "{image}": ErrImagePull: {error}'
    state = {"waiting": {"reason": "ImagePullBackOff", "message": message}}
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"nodeName": "n1"},
        "status": {"containerStatuses": [{"name": "c", "image": image, "state": state}]},
    }


@pytest.mark.parametrize("answer", OF_CONTAINERD)
def test_answer_and_remedy_are_not_cut_off_in_an_agents_condition(answer: Answer) -> None:
    pod = _pod("node-agent-h100-training-x7x7x", ECR, answer, "slicewright-system")
    kept = waiting_pods.trim(pod)
    (why,) = absent_agents.reasons({"n1": "h100-training"}, [kept], []).values()
    says, _ = OF_CONTAINERD[answer]
    assert says in why
    whole = waiting_pods.waits_for(pod)
    assert why == whole, "all of it"


def test_a_login_is_wanted_in_the_pods_own_namespace() -> None:
    pod = _pod("node-agent-a-x", TAGGED, "unauthorized", "slicewright-system")
    why = waiting_pods.waits_for(waiting_pods.trim(pod))
    assert why is not None
    assert "`image_pull_secrets` (of namespace slicewright-system)" in why


def test_failed_pull_of_an_operand_names_the_operators_keys(node: Node) -> None:
    image = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
    pod = _pod("nvidia-device-plugin-daemonset-x7x7x", image, "unauthorized", "gpu-operator")
    policy = {"metadata": {"name": "p"}, "status": {"state": "notReady"}}
    held = replace(node, name="n1", labels={"nvidia.com/gpu.present": "true"})
    why = absent_operands.reasons([held], [waiting_pods.trim(pod)], [policy])["n1"]
    assert "`gpu_operator.image_pull_secrets` (of namespace gpu-operator)" in why
    assert "`gpu_operator.registry`" in why
