"""The images that a stack file names, against what their registries have."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from slicewright.doctor.ask.registry import architectures, is_open
from slicewright.doctor.checks.images import (
    WantedImage,
    chart_registries,
    image_findings,
    registry_finding,
    wanted_images,
)
from slicewright.doctor.findings import NotAnswered
from slicewright.infra import plan, stack_file

TOKEN = "anybody"
INDEX = {
    "manifests": [
        {"platform": {"os": "linux", "architecture": "amd64"}},
        {"platform": {"os": "linux", "architecture": "arm64", "variant": "v8"}},
        {"platform": {"os": "windows", "architecture": "riscv64"}},
        {"platform": {"os": "unknown", "architecture": "unknown"}},
    ]
}


class Registry(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        here = f"http://{self.headers['host']}"
        if self.path.startswith("/token"):
            self.answer(200, {"token": TOKEN})
        elif "/closed/" in self.path:
            self.answer(401, {}, **{"www-authenticate": 'Basic realm="mirror"'})
        elif self.headers.get("authorization") != f"Bearer {TOKEN}":
            self.answer(401, {}, **{"www-authenticate": f'Bearer realm="{here}/token"'})
        elif self.path in ("/v2/team/many/manifests/1", "/v2/team/many/manifests/sha256:ab"):
            assert "application/vnd.oci.image.index.v1+json" in self.headers["accept"]
            self.answer(200, INDEX)
        elif self.path == "/v2/team/single/manifests/latest":
            self.answer(200, {"config": {"digest": "sha256:cd"}})
        elif self.path == "/v2/team/single/blobs/sha256:cd":
            self.answer(307, {}, location=f"{here}/v2/content")
        elif self.path == "/v2/content":
            self.answer(200, {"os": "linux", "architecture": "amd64"})
        elif "/limited/" in self.path:
            self.answer(429, {})
        elif "/denied/" in self.path:
            self.answer(403, {})
        elif "/broken/" in self.path:
            self.answer(503, {})
        else:
            self.answer(404, {})

    def answer(self, status: int, body: dict[str, Any], **headers: str) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_the_processors_of_an_index_and_of_one_image_are_read(served: str) -> None:
    both = {"amd64", "arm64"}
    assert architectures(f"{served}/team/many:1") == both
    assert architectures(f"{served}/team/many:1@sha256:ab") == both
    assert architectures(f"{served}/team/single") == {"amd64"}
    assert architectures(f"{served}/team/many:2") is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("closed/a:1", "requires credentials"),
        ("denied/a:1", "requires credentials"),
        ("limited/a:1", "429: too many pulls"),
        ("broken/a:1", "HTTP 503"),
    ],
)
def test_a_registry_that_does_not_give_it_is_not_seen(served: str, name: str, why: str) -> None:
    found = architectures(f"{served}/{name}")
    assert isinstance(found, NotAnswered)
    assert why in found.why


def test_an_unreachable_registry_is_not_seen() -> None:
    found = architectures("127.0.0.1:1/a:1")
    assert isinstance(found, NotAnswered)
    assert "cannot be reached from here" in found.why


def wanted(**more: Any) -> tuple[WantedImage, ...]:
    pool = {
        "name": "a",
        "machine_type": "p6e-gb200.36xlarge",
        "nodes": {"count": 1},
        "partition": "none",
        "capacity": {"mode": "capacity-block", "reservation": "cr-0123456789abcdef0"},
    }
    raw = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "us-east-1"},
        "system_pool": {"machine_type": "m7i.large", "nodes": {"count": 1}},
        "node_pools": [pool],
        "allow_unlisted": True,
        **more,
    }
    return wanted_images(plan.read(json.dumps(raw), stack_file.Source("test", raw)))


def test_agents_and_controller_need_the_processors_of_pools_and_system_pool() -> None:
    (own,) = wanted()
    assert own.architectures == {"amd64", "arm64"}


def test_a_missing_image_or_one_for_another_processor_fails() -> None:
    (own,) = wanted(image="docker.io/team/python:1")
    (missing,) = image_findings(own, None)
    assert (missing.verdict, missing.remedy) == (
        "fails",
        "correct image, or copy the image to this registry",
    )
    (other,) = image_findings(own, frozenset({"amd64"}))
    assert other.verdict == "fails"
    assert other.detail == "exists for amd64, but nodes of the stack have arm64"
    (there,) = image_findings(own, frozenset({"amd64", "arm64"}))
    assert (there.verdict, there.subject) == ("ok", "image docker.io/team/python:1 in docker.io")


def test_an_image_behind_a_login_is_not_seen_and_names_the_pull_secret() -> None:
    unseen = NotAnswered(why="not seen: the registry requires credentials")
    (bare,) = wanted(image="ghcr.io/team/python:1")
    (found,) = image_findings(bare, unseen)
    assert found.verdict == "not seen"
    assert "name a Secret in image_pull_secrets" in found.remedy
    (named,) = wanted(image="ghcr.io/team/python:1", image_pull_secrets=["mirror"])
    (found,) = image_findings(named, unseen)
    assert found.remedy == "nodes pull it with mirror; this check does not use those credentials"


def test_an_open_registry_is_distinguished_from_one_that_requires_credentials(
    served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_open(served) is True, "it gives anonymous clients a token"
    closed = {"www-authenticate": 'Basic realm="mirror"'}
    monkeypatch.setattr(Registry, "do_GET", lambda self: self.answer(401, {}, **closed))
    assert is_open(served) is False
    monkeypatch.setattr(Registry, "do_GET", lambda self: self.answer(503, {}))
    answer = is_open(served)
    assert isinstance(answer, NotAnswered)
    assert "HTTP 503" in answer.why
    unreachable = is_open("127.0.0.1:1")
    assert isinstance(unreachable, NotAnswered)
    assert "cannot be reached from here" in unreachable.why


def test_registries_of_charts_are_checked_once_each() -> None:
    fleet = planned_eks()
    charts = chart_registries(fleet)
    assert [images.registry for images in charts] == ["nvcr.io", "registry.k8s.io"]
    nvidia = charts[0]
    assert registry_finding(nvidia, True).verdict == "ok"
    closed = registry_finding(nvidia, False)
    assert closed.verdict == "not seen"
    assert "requires credentials" in closed.detail
    assert "image_pull_secrets" in closed.remedy
    with_secret = dataclasses.replace(nvidia, pull_secrets=("ngc",))
    assert registry_finding(with_secret, False).verdict == "ok"
    silent = registry_finding(nvidia, NotAnswered(why="not seen: it cannot be reached from here"))
    assert (silent.verdict, silent.remedy) == (
        "not seen",
        "if the nodes cannot reach it either, name a mirror in gpu_operator.registry",
    )


def planned_eks() -> plan.FleetPlan:
    raw = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "us-west-2"},
        "node_pools": [
            {
                "name": "a100",
                "machine_type": "p4d.24xlarge",
                "nodes": {"count": 1},
                "partition": {"mode": "operator", "config": "all-1g.5gb"},
            }
        ],
    }
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))
