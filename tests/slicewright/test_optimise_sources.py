"""`slicewright optimise` with demand from a cluster or a trace."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from slicewright.cli import main
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, VERIFIED

STACK = """
config:
  slicewright:fleet:
    cloud: eks
    cluster: { name: demand, region: us-east-1 }
"""
Optimise = Callable[..., int]


def pod(name: str, owner: str, resource: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "ai",
            "uid": name,
            "labels": {"pod-template-hash": "77f"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": owner, "controller": True}],
        },
        "spec": {"containers": [{"resources": {"limits": {resource: "1"}}}]},
        "status": {"phase": "Running"},
    }


PODS = [
    pod("chat-1", "chat-77f", "nvidia.com/mig-3g.40gb"),
    pod("web", "web-77f", "cpu"),
    pod("chat-2", "chat-77f", "nvidia.com/mig-3g.40gb"),
]


@dataclass
class Api:
    """An API server that gives one pod per page."""

    pods: Sequence[Any] = field(default_factory=lambda: PODS)
    status: int = 200
    requests: list[tuple[str, str, dict[str, list[str]]]] = field(default_factory=list)
    url: str = ""

    def answer(self, method: str, target: str) -> tuple[int, dict[str, Any]]:
        address = urlsplit(target)
        query = parse_qs(address.query)
        self.requests.append((method, address.path, query))
        if self.status != 200:
            message = 'pods is forbidden: User "u" cannot list resource "pods"'
            return self.status, {"kind": "Status", "message": message, "code": self.status}
        position = int(query.get("continue", ["0"])[0])
        following = position + 1
        token = {"continue": str(following)} if following < len(self.pods) else {}
        metadata = {"resourceVersion": "7", **token}
        return 200, {"metadata": metadata, "items": self.pods[position:following]}


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            status, body = api.answer(self.command, self.path)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        # The names that the base class calls.
        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815

        def log_message(self, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    api.url = f"http://127.0.0.1:{http.server_port}"
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield api
    finally:
        http.shutdown()
        http.server_close()


@pytest.fixture
def optimise(tmp_path: Path, api: Api) -> Optimise:
    """Runs the command on a stack file without demand, and a kubeconfig with the stand-in."""
    (tmp_path / "Pulumi.demand.yaml").write_text(STACK)
    kubeconfig = {
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": api.url}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))

    def run(*words: str, cluster: bool = True) -> int:
        named = ["--from-cluster", "--kubeconfig", str(tmp_path / "kubeconfig")] if cluster else []
        return main(["optimise", str(tmp_path / "Pulumi.demand.yaml"), *named, *words])

    return run


def test_pods_of_every_page_are_demand(
    optimise: Optimise, api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    assert optimise("--json") == VERIFIED
    (served,) = json.loads(capsys.readouterr().out)["classes"]
    assert served["name"] == "ai-chat"
    assert [(part["profile"], part["replicas"]) for part in served["devices"]] == [("3g.40gb", 2)]
    assert [(method, path) for method, path, _ in api.requests] == [("GET", "/api/v1/pods")] * 3
    selectors = {tuple(query["fieldSelector"]) for _, _, query in api.requests}
    assert selectors == {("status.phase!=Succeeded,status.phase!=Failed",)}


def test_a_cluster_without_gpu_pods_has_no_demand(
    optimise: Optimise, api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    api.pods = PODS[1:2]
    assert optimise() == BAD_INPUT
    assert f"context test ({api.url}): no pod requests nvidia.com/gpu" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (403, "HTTP 403: pods is forbidden"),
        (401, "does not accept the credentials"),
        (500, "HTTP 500"),
    ],
)
def test_a_refused_request_is_one_message(
    optimise: Optimise, api: Api, capsys: pytest.CaptureFixture[str], status: int, reason: str
) -> None:
    api.status = status
    assert optimise() == CANNOT_RUN
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("slicewright optimise: context test (")
    assert reason in line


@pytest.mark.parametrize(
    "broken",
    [
        [{"metadata": {"name": "odd", "namespace": "ai", "uid": "u"}}],
        [{**PODS[0], "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": []}}}]}}],
        [{**PODS[0], "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "x"}}}]}}],
    ],
)
def test_a_pod_that_cannot_be_read_is_one_message(
    optimise: Optimise, api: Api, capsys: pytest.CaptureFixture[str], broken: Sequence[Any]
) -> None:
    api.pods = broken
    assert optimise() == CANNOT_RUN
    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot be read" in line


def test_a_cluster_that_does_not_answer_is_one_message(
    optimise: Optimise, tmp_path: Path, capsys: pytest.CaptureFixture[str], api: Api
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(file.read_text().replace(api.url, "http://127.0.0.1:1"))
    assert optimise() == CANNOT_RUN
    assert "context test (http://127.0.0.1:1) does not answer" in capsys.readouterr().err


def test_a_file_that_is_no_kubeconfig_is_wrong_use(
    optimise: Optimise, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kubeconfig").write_text("[]")
    assert optimise() == BAD_INPUT
    assert "not a kubeconfig" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_trace_is_demand_in_each_encoding_of_spreadsheets(
    optimise: Optimise, tmp_path: Path, capsys: pytest.CaptureFixture[str], encoding: str
) -> None:
    trace = tmp_path / "trace.csv"
    rows = "class,gpu_memory_mib,start,duration\r\nchat,38000,0,10\r\nchat,38000,9,10\r\n"
    trace.write_bytes((rows + "chat,38000,30,70\r\n").encode(encoding))
    assert optimise("--from-trace", str(trace), "--json", cluster=False) == VERIFIED
    (peak,) = json.loads(capsys.readouterr().out)["classes"]
    assert sum(part["replicas"] for part in peak["devices"]) == 2
    words = ("--from-trace", str(trace), "--percentile", "90", "--json")
    assert optimise(*words, cluster=False) == VERIFIED
    (usual,) = json.loads(capsys.readouterr().out)["classes"]
    assert sum(part["replicas"] for part in usual["devices"]) == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "trace.csv, line 1: has no columns"),
        ("gpus,class\n1,Bücher\n".encode("latin-1"), "trace.csv: not valid UTF-8"),
        (b"gpus\n1\n-1\n", "trace.csv, line 3: gpus '-1' is not a number"),
        (b"gpus,class\n1,\x1b[2J\nx,a\n", "trace.csv, line 3: gpus 'x' is not a number"),
        (b"gpus\n\x1b[2J\n", "line 2: gpus '\\x1b[2J' is not a number"),
        (None, "trace.csv: No such file or directory"),
    ],
)
def test_a_trace_that_cannot_be_read_is_one_message(
    optimise: Optimise,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: bytes | None,
    reason: str,
) -> None:
    trace = tmp_path / "trace.csv"
    if content is not None:
        trace.write_bytes(content)
    assert optimise("--from-trace", str(trace), cluster=False) == BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("slicewright optimise: ")
    assert reason in line


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--percentile", "95"], "--percentile needs --from-trace"),
        (["--context", "test"], "--kubeconfig and --context need --from-cluster or --live"),
        (["--live"], "--live needs --current"),
    ],
)
def test_an_option_without_effect_is_wrong_use(
    optimise: Optimise, capsys: pytest.CaptureFixture[str], words: list[str], reason: str
) -> None:
    assert optimise(*words, cluster=False) == BAD_INPUT
    assert reason in capsys.readouterr().err


def test_all_sources_add_up(
    optimise: Optimise, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trace.csv").write_text("class,gpus\ntrain,8\n")
    (tmp_path / "job.yaml").write_text(
        "{kind: Pod, metadata: {name: job}, spec: {containers: [{resources: "
        "{limits: {nvidia.com/mig-1g.10gb: 1}}}]}}"
    )
    words = ("--from-trace", str(tmp_path / "trace.csv"), "--from-manifests", str(tmp_path))
    assert optimise(*words, "--json") == VERIFIED
    classes = json.loads(capsys.readouterr().out)["classes"]
    assert sorted(demand["name"] for demand in classes) == ["ai-chat", "job", "train"]
