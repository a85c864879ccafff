"""`slicewright load` with Locust, against servers on this machine; no model runs in any of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from slicewright.cli import BAD_INPUT, CANNOT_RUN, NOT_VERIFIED, VERIFIED, main
from slicewright.load import engine
from tests.rehearsal.cluster.model_server import replica

pytestmark = pytest.mark.clouds

STACK = str(Path(__file__).parents[2] / "infra/golden/autoscaling.yaml")
KEY = "sk-only-for-this-test"
SOME = ("--duration", "2s", "--users", "2", "--json")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[replica.Replica]]:
    """Two of the rehearsal's stand-ins for vLLM."""
    made = [
        replica.start(tmp_path_factory.mktemp(name), "--served-model-name=org/small", key=KEY)
        for name in ("one", "two")
    ]
    yield made
    for one in made:
        one.process.kill()
        one.process.wait()


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    return str(file)


class Model(BaseHTTPRequestHandler):
    """A model of two inputs by the Open Inference Protocol, which checks what it is asked."""

    protocol_version = "HTTP/1.1"
    wrong: list[str]
    INPUTS = (
        {"name": "picture", "datatype": "FP32", "shape": [-1, 3, 2]},
        {"name": "text", "datatype": "BYTES", "shape": [2]},
    )

    def do_GET(self) -> None:
        known = self.path == "/v2/models/densenet_onnx"
        self._answer(200 if known else 400, {"inputs": self.INPUTS} if known else {"error": "?"})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        length = int(self.headers.get("Inference-Header-Content-Length", len(raw)))
        asked = json.loads(raw[:length])
        sizes = [(one["shape"], one["parameters"]["binary_data_size"]) for one in asked["inputs"]]
        if sizes != [([1, 3, 2], 24), ([2], 8)] or raw[length:] != bytes(32):
            self.wrong.append(f"{self.path}: {sizes}, {len(raw) - length} bytes")
        self._answer(200, {"outputs": []})

    def _answer(self, code: int, body: Any) -> None:
        text = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Not to the test's output."""


@pytest.fixture
def model() -> Iterator[tuple[str, list[str]]]:
    """Its address, and what was wrong with requests."""
    wrong: list[str] = []
    handler = type("Handler", (Model,), {"wrong": wrong})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", wrong
        server.shutdown()


def url(of: replica.Replica) -> str:
    return f"http://127.0.0.1:{of.port}"


def test_chats_give_tokens_and_times_replica_by_replica(
    servers: list[replica.Replica],
    key_file: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    urls = [part for one in servers for part in ("--url", url(one))]
    code = main(
        [
            *("load", "-s", STACK, "llm", *urls, *SOME),
            *("--tokens=400", "--key-file", key_file),
        ]
    )
    out, progress = capsys.readouterr()
    assert code == VERIFIED, progress
    found = json.loads(out)
    assert (found["workload"], found["api"], found["model"]) == ("ai/llm", "chat", "org/small")
    whole = found["whole"]
    assert whole["answered"] > 0
    assert whole["failed"] == 0
    assert whole["tokens"] == 400 * whole["answered"]
    assert 0 < whole["latency_ms"]["p50"] <= whole["latency_ms"]["p99"]
    assert 0 < whole["first_token_ms"]["p50"] < whole["latency_ms"]["p50"]
    assert 0 < whole["inter_token_ms"]["p50"] <= whole["longest_gap_ms"]["p50"]
    replicas = found["replicas"]
    assert [one["url"] for one in replicas] == [url(one) for one in servers]
    assert sum(one["answered"] for one in replicas) == whole["answered"]
    assert all(one["answered"] > 0 for one in replicas)
    assert KEY not in out + progress
    assert "in flight" in progress


def test_a_key_that_is_wrong_fails_every_request(
    servers: list[replica.Replica], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["load", "-s", STACK, "llm", "--url", url(servers[0]), *SOME]
    assert main(arguments) == NOT_VERIFIED
    out, error = capsys.readouterr()
    assert "slicewright load: HTTP 401: " in error
    found = json.loads(out)
    assert found["whole"]["answered"] == 0
    assert found["whole"]["failed"] > 0
    assert found["whole"]["latency_ms"] is None


def test_triton_gets_the_inputs_of_its_model(
    model: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    address, wrong = model
    arguments = ["load", "-s", STACK, "tritonserver", "--url", address, "--duration", "2s"]
    code = main([*arguments, "--rate", "20"])
    out = capsys.readouterr().out
    assert code == VERIFIED, out
    assert wrong == []
    assert "default/tritonserver: 20 requests a second for 2 s at 1 address" in out
    assert "whole answer    p50" in out


def test_a_model_that_the_server_lacks_ends_it_with_the_servers_words(
    model: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["load", "-s", STACK, "tritonserver", "--url", model[0], *SOME]
    assert main([*arguments, "--model", "other"]) == CANNOT_RUN
    out, error = capsys.readouterr()
    assert out == ""
    assert "/v2/models/other: HTTP 400" in error


def test_a_request_of_ones_own_takes_the_place_of_the_scripts(
    servers: list[replica.Replica],
    key_file: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    body = tmp_path / "body.json"
    message = {"role": "user", "content": "one two"}
    body.write_text(json.dumps({"model": "org/small", "messages": [message], "max_tokens": 3}))
    arguments = ["load", "-s", STACK, "llm", "--url", url(servers[0]), *SOME]
    assert main([*arguments, "--key-file", key_file, "--body", str(body)]) == VERIFIED
    whole = json.loads(capsys.readouterr().out)["whole"]
    assert whole["tokens"] == 3 * whole["answered"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["other"], "the stack file has no serving workload other; it has tritonserver, llm"),
        (["llm", "--body", "/nothing"], "--body /nothing: No such file"),
        (["llm", "--key-file", "/nothing"], "--key-file /nothing: No such file"),
        (["llm", "--url", "ftp://a"], "--url ftp://a: write it like http://203.0.113.7:8000"),
    ],
)
def test_wrong_use_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["load", "-s", STACK, *arguments]) == BAD_INPUT
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["llm", "--users", "1", "--rate", "1"],
        ["llm", "--users", "0"],
        ["llm", "--duration", "0s"],
        ["llm", "--duration", "30"],
        ["llm", "--pods", "--url", "http://a"],
    ],
)
def test_options_that_cannot_be_meant_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["load", "-s", STACK, *arguments])
    assert refused.value.code == BAD_INPUT


def test_a_stack_file_with_problems_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text("config: {slicewright:fleet: {cloud: gke}}\n")
    assert main(["load", "-s", str(file), "llm"]) == BAD_INPUT
    assert "cluster" in capsys.readouterr().err


def test_an_interrupted_load_test_reports_its_requests(
    servers: list[replica.Replica], key_file: str
) -> None:
    command = [sys.executable, "-m", "slicewright.cli", "load", "-s", STACK, "llm"]
    command += ["--url", url(servers[0]), "--duration", "10m", "--users", "1", "--json"]
    with subprocess.Popen(
        [*command, "--key-file", key_file],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        _read_progress(process)
        _read_progress(process)  # five seconds later: something was answered
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    found = json.loads(out)
    assert found["interrupted"] is True
    assert found["whole"]["answered"] > 0


def test_a_missing_locust_is_reported_with_its_installation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine.importlib.util, "find_spec", lambda _: None)
    assert main(["load", "-s", STACK, "llm", "--url", "http://127.0.0.1:1"]) == CANNOT_RUN
    message = capsys.readouterr().err
    assert message.startswith("slicewright load: Locust is not installed.")
    assert "pip install 'slicewright[load]'" in message


def test_an_engine_that_ends_early_is_shown_by_its_last_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "_MODULE", "no_such_module_of_ours")
    assert main(["load", "-s", STACK, "llm", "--url", "http://127.0.0.1:1"]) == CANNOT_RUN
    message = capsys.readouterr().err
    assert "the load engine ended early: " in message
    assert "No module named no_such_module_of_ours" in message


def test_nothing_of_gevent_gets_into_this_process() -> None:
    program = "import sys, slicewright.cli, slicewright.load.engine; print('gevent' in sys.modules)"
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


class Streaming(BaseHTTPRequestHandler):
    """A chat server whose tokens arrive at set times, or whose stream goes wrong."""

    protocol_version = "HTTP/1.1"
    first_s, gap_s, tokens = 0.3, 0.1, 4
    ends: str = "whole"
    connections: set[Any]
    prompts: list[str]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.prompts.append(body["messages"][0]["content"])
        self.connections.add(self.client_address)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
        for number in range(self.tokens):
            time.sleep(self.gap_s if number else self.first_s)
            self._event({"choices": [{"delta": {"content": "x"}}]})
        if self.ends == "error":
            self._event({"object": "error", "message": "the engine is dead"})
        if self.ends == "cut":
            self.close_connection = True
            return
        if self.ends != "silent":
            self._write(b"data: [DONE]\n\n")
        self._write(b"")

    def _event(self, chunk: Any) -> None:
        self._write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    def _write(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, *_: Any) -> None:
        """Not to the test's output."""


class Streams(ThreadingHTTPServer):
    request_queue_size = 128


@contextmanager
def streaming(**changes: Any) -> Iterator[tuple[str, type[Streaming]]]:
    handler = type("Handler", (Streaming,), {"connections": set(), "prompts": [], **changes})
    with Streams(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", handler
        server.shutdown()


def figures(
    capsys: pytest.CaptureFixture[str], *options: str, code: int = VERIFIED
) -> dict[str, Any]:
    assert main(["load", "-s", STACK, "llm", "--json", *options]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_times_of_tokens_are_those_at_which_the_server_writes_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with streaming() as (url, handler):
        whole = figures(capsys, "--url", url, "--users", "2", "--duration", "2s")["whole"]
    # A busy machine makes them longer, never shorter.
    assert 295 <= whole["first_token_ms"]["p50"] < 450
    assert 98 <= whole["inter_token_ms"]["p50"] < 150
    assert 595 <= whole["latency_ms"]["p50"] < 900
    assert whole["tokens"] == 4 * whole["answered"]
    # No prefix cache answers, and one address has a connection for each request.
    assert len({prompt.split(":")[0] for prompt in handler.prompts}) == len(handler.prompts)
    assert len(handler.connections) == len(handler.prompts)


def test_several_addresses_keep_their_connections(capsys: pytest.CaptureFixture[str]) -> None:
    with streaming(first_s=0.01, gap_s=0.01) as (a, of_a), streaming() as (b, _):
        figures(capsys, "--url", a, "--url", b, "--users", "1", "--duration", "3s")
    assert len(of_a.prompts) > len(of_a.connections) == 1


def test_a_rate_is_kept_while_no_request_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    """An open model: each answer takes longer than all requests take to be sent."""
    with streaming(first_s=3.0, tokens=1) as (url, handler):
        found = figures(capsys, "--url", url, "--rate", "10", "--duration", "2s")
    assert found["whole"]["answered"] == len(handler.prompts) == 20
    assert found["not_sent"] == 0


def test_requests_beyond_ten_times_the_rate_under_way_are_not_sent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with streaming(first_s=14.0, tokens=1) as (url, _):
        found = figures(capsys, "--url", url, "--rate", "1", "--duration", "13s", code=NOT_VERIFIED)
    assert found["whole"]["answered"] == 10
    assert found["not_sent"] == 3


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ("error", "the engine is dead"),
        ("cut", "HTTPParseError: Incomplete response"),
        ("silent", "the stream ended before its answer was complete"),
    ],
)
def test_a_stream_that_goes_wrong_after_its_status_has_failed(
    ends: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with streaming(ends=ends, gap_s=0.01, first_s=0.01) as (url, _):
        options = ["load", "-s", STACK, "llm", "--json", "--url", url, "--duration", "1s"]
        assert main(options) == NOT_VERIFIED
    out, error = capsys.readouterr()
    whole = json.loads(out)["whole"]
    assert whole["answered"] == 0
    assert whole["failed"] > 0
    assert f"slicewright load: {reason}" in error


def test_an_unreachable_server_fails_every_request(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["load", "-s", STACK, "llm", "--url", "http://127.0.0.1:1", *SOME]) == NOT_VERIFIED
    assert "refused" in capsys.readouterr().err


def test_the_key_is_in_no_process_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(KEY)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    with streaming() as (url, _):
        command = [
            sys.executable,
            "-m",
            "slicewright.cli",
            "load",
            "-s",
            STACK,
            "llm",
            "--url",
            url,
        ]
        command += ["--duration", "10m", "--users", "1", "--key-file", str(key_file)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            _read_progress(process)
            seen = [
                file.read_bytes()
                for name in ("cmdline", "environ")
                for file in _files_of_family(process.pid, name)
            ]
            assert len(seen) == 4
            seen += [file.read_bytes() for file in (tmp_path / "temporary").rglob("*")]
            process.send_signal(signal.SIGINT)
            out, error = process.communicate(timeout=120)
    assert KEY not in out + error
    assert not [text for text in seen if KEY.encode() in text]


def _read_progress(process: subprocess.Popen[str]) -> str:
    """Returns the next line of progress. A slow machine also announces what it waits for."""
    assert process.stderr is not None
    return next(line for line in process.stderr if "in flight" in line)


def _files_of_family(pid: int, name: str) -> list[Path]:
    """Of a process and its one child."""
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [Path(f"/proc/{pid}/{name}"), Path(f"/proc/{child}/{name}")]


def test_an_engine_that_is_killed_leaves_the_figures_until_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with streaming(first_s=0.05, gap_s=0.01) as (url, handler):
        killed = threading.Thread(target=_kill_child_after, args=(handler,), daemon=True)
        killed.start()
        options = ["load", "-s", STACK, "llm", "--json", "--url", url, "--duration", "10m"]
        assert main(options) == CANNOT_RUN
    out, error = capsys.readouterr()
    assert json.loads(out)["whole"]["answered"] > 0
    assert "the load engine was killed before the end" in error


def _kill_child_after(handler: type[Streaming]) -> None:
    while len(handler.prompts) < 50:
        time.sleep(0.02)
    # While threads come and go, a single look can miss a child (proc_pid_children(5)).
    while not (engines := [pid for pid in _children() if _is_engine(pid)]):
        time.sleep(0.02)
    for pid in engines:
        os.kill(pid, signal.SIGKILL)


def _children() -> Iterator[int]:
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):
            yield from map(int, (task / "children").read_text().split())


def _is_engine(pid: int) -> bool:
    with suppress(FileNotFoundError):
        return b"locust_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
