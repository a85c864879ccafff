"""The driver that the GPU operator is to install, against a registry's tags."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from slicewright.doctor import preflight
from slicewright.doctor.ask import registry
from slicewright.doctor.checks.driver_images import DriverImage, driver_image, driver_image_findings
from slicewright.doctor.findings import Finding, NotAnswered
from slicewright.infra import plan, stack_file

IMAGE = DriverImage(registry="nvcr.io", repository="nvidia/driver", version="580.126.20")
TOKEN = "anybody"


class Registry(BaseHTTPRequestHandler):
    """Two pages of tags, for who has asked for a token before: as nvcr.io answers."""

    def do_GET(self) -> None:
        here = f"http://{self.headers['host']}"
        if self.path.startswith("/proxy_auth"):
            assert "scope=repository%3Anvidia%2Fdriver%3Apull" in self.path
            self.answer(200, {"token": TOKEN})
        elif self.path.startswith("/v2/closed"):
            self.answer(401, {}, **{"www-authenticate": 'Basic realm="mirror"'})
        elif self.path.startswith("/v2/elsewhere"):
            self.answer(200, {"tags": []}, link='<http://127.0.0.1:1/v2/x>; rel="next"')
        elif self.headers.get("authorization") != f"Bearer {TOKEN}":
            scope = "repository:nvidia/driver:pull"
            challenge = f'Bearer realm="{here}/proxy_auth?account=a",scope="{scope}"'
            self.answer(401, {}, **{"www-authenticate": challenge})
        elif "last=" in self.path:
            self.answer(200, {"tags": ["580.126.20-ubuntu24.04", "580.126.20-rhel9.6"]})
        else:
            more = "/v2/nvidia/driver/tags/list?last=a"
            self.answer(200, {"tags": ["570.1.1-ubuntu22.04"]}, link=f'<{more}>; rel="next"')

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


def byo(**operator: Any) -> plan.ExistingFleetPlan:
    pool = {"name": "a", "gpu": {"model": "A100-40", "count": 1}, "nodes": {"count": 1}}
    raw = {
        "cloud": "byo",
        "cluster": {"name": "c", "context": "c"},
        "gpu_operator": operator,
        "node_pools": [pool],
    }
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, plan.ExistingFleetPlan)
    return found


def test_all_pages_are_read_with_a_token_that_anybody_gets(served: str) -> None:
    found = registry.tags(served, "nvidia/driver")
    assert found == {"570.1.1-ubuntu22.04", "580.126.20-ubuntu24.04", "580.126.20-rhel9.6"}


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("closed", "the registry requires credentials"),
        ("elsewhere", "redirects to another server"),
    ],
)
def test_a_silent_registry_is_not_seen(served: str, path: str, why: str) -> None:
    found = registry.tags(served, path)
    assert isinstance(found, NotAnswered)
    assert why in found.why


def test_an_unreachable_registry_is_not_seen() -> None:
    found = registry.tags("127.0.0.1:1", "nvidia/driver")
    assert isinstance(found, NotAnswered)
    assert "cannot be reached from here" in found.why
    (said,) = driver_image_findings(IMAGE, found)
    assert said.verdict == "not seen"


def test_only_images_that_the_operator_would_pull_are_looked_up() -> None:
    driver = {"enabled": True, "version": "580.126.20"}
    assert driver_image(byo(driver=driver)) == IMAGE
    mirror = driver_image(byo(driver=driver, registry="mirror.example.com/nvidia-mirror"))
    assert mirror == DriverImage(
        registry="mirror.example.com",
        repository="nvidia-mirror/nvidia/driver",
        version="580.126.20",
    )
    assert driver_image(byo(driver={"enabled": True})) is None
    assert driver_image(byo()) is None


def said(served: str, version: str) -> Finding:
    fleet = byo(driver={"enabled": True, "version": version}, registry=served)
    (found,) = preflight._driver(fleet)
    return found


def test_only_a_driver_version_with_an_image_passes(served: str) -> None:
    there = said(served, "580.126.20")
    assert (there.verdict, there.detail) == ("ok", "available for rhel9.6, ubuntu24.04")
    missing = said(served, "580.126")
    assert missing.verdict == "fails"
    assert "no image of this version exists for any operating system" in missing.detail
