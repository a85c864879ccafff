"""The scripts, run by the real k6 against servers on this machine; no model runs in any of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from slicewright.cli import BAD_INPUT, CANNOT_RUN, NOT_PROVEN, PROVEN, main
from slicewright.load import k6
from slicewright.load.asked import as_json
from tests.rehearsal.cluster.model_server import replica
from tests.slicewright.load.test_asked import load

STACK = str(Path(__file__).parents[2] / "infra/golden/autoscaling.yaml")
KEY = "sk-only-for-this-test"
SOME = ("--duration", "2s", "--users", "2", "--json")


@pytest.fixture(scope="module")
def program() -> str:
    """Under the AGPL, so it is not built here: only where a person has installed it."""
    installed = shutil.which("k6")
    return installed or pytest.skip("no k6 on PATH; it is not built here")


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


@pytest.mark.parametrize("api", ["chat", "infer"])
def test_k6_accepts_the_script(api: str, program: str, tmp_path: Path) -> None:
    asked = load(api=api)
    (tmp_path / "load.json").write_text(as_json(asked))
    environment = os.environ | {"SLICEWRIGHT_LOAD": str(tmp_path / "load.json")}
    command = [program, "inspect", "--include-system-env-vars", str(k6.script(asked))]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    inspected = json.loads(found.stdout)
    assert inspected["scenarios"]["load"]["executor"] == "constant-vus"
    assert inspected["scenarios"]["load"]["exec"] == "load_"


def test_chats_give_tokens_and_times_replica_by_replica(
    program: str,
    servers: list[replica.Replica],
    key_file: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    urls = [part for one in servers for part in ("--url", url(one))]
    code = main(
        [
            *("load", "-s", STACK, "llm", *urls, *SOME),
            *("--tokens=8", "--k6", program, "--key-file", key_file),
        ]
    )
    out, progress = capsys.readouterr()
    assert code == PROVEN, progress
    found = json.loads(out)
    assert (found["workload"], found["api"], found["model"]) == ("ai/llm", "chat", "org/small")
    whole = found["whole"]
    assert whole["answered"] > 0
    assert whole["failed"] == 0
    assert whole["tokens"] == 8 * whole["answered"]
    assert 0 < whole["latency_ms"]["p50"] <= whole["latency_ms"]["p99"]
    assert whole["first_token_ms"]["p50"] > 0
    replicas = found["replicas"]
    assert [one["url"] for one in replicas] == [url(one) for one in servers]
    assert sum(one["answered"] for one in replicas) == whole["answered"]
    assert all(one["answered"] > 0 for one in replicas)
    assert KEY not in out + progress
    assert "VUs" in progress


def test_a_key_that_is_wrong_fails_every_request(
    program: str, servers: list[replica.Replica], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["load", "-s", STACK, "llm", "--url", url(servers[0]), *SOME, "--k6", program]
    assert main(arguments) == NOT_PROVEN
    out, error = capsys.readouterr()
    assert "slicewright load: HTTP 401: " in error
    found = json.loads(out)
    assert found["whole"]["answered"] == 0
    assert found["whole"]["failed"] > 0
    assert found["whole"]["latency_ms"] is None


def test_triton_is_asked_for_what_its_model_takes(
    program: str, model: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    address, wrong = model
    arguments = ["load", "-s", STACK, "tritonserver", "--url", address, "--duration", "2s"]
    code = main([*arguments, "--rate", "20", "--k6", program])
    out = capsys.readouterr().out
    assert code == PROVEN, out
    assert wrong == []
    assert "default/tritonserver: 20 requests a second for 2 s at 1 address" in out
    assert "whole answer    p50" in out


def test_a_model_that_the_server_lacks_ends_it_with_the_servers_words(
    program: str, model: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["load", "-s", STACK, "tritonserver", "--url", model[0], *SOME, "--k6", program]
    assert main([*arguments, "--model", "other"]) == CANNOT_RUN
    out, error = capsys.readouterr()
    assert out == ""
    assert "/v2/models/other: HTTP 400" in error


def test_a_request_of_ones_own_takes_the_place_of_the_scripts(
    program: str,
    servers: list[replica.Replica],
    key_file: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    body = tmp_path / "body.json"
    message = {"role": "user", "content": "one two"}
    body.write_text(json.dumps({"model": "org/small", "messages": [message], "max_tokens": 3}))
    arguments = ["load", "-s", STACK, "llm", "--url", url(servers[0]), *SOME, "--k6", program]
    assert main([*arguments, "--key-file", key_file, "--body", str(body)]) == PROVEN
    whole = json.loads(capsys.readouterr().out)["whole"]
    assert whole["tokens"] == 3 * whole["answered"]


def test_without_k6_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["load", "-s", STACK, "llm", "--url", "http://127.0.0.1:1"]) == CANNOT_RUN
    said = capsys.readouterr().err
    assert said.startswith("slicewright load: k6 is not on PATH. ")
    assert "grafana.com/docs/k6" in said
    assert main(["load", "-s", STACK, "llm", "--k6", "k7"]) == CANNOT_RUN
    assert "--k6 k7: there is no such program" in capsys.readouterr().err


def test_a_program_that_is_not_k6_is_shown_by_its_last_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "k6"
    program.write_text("#!/bin/sh\necho 'level=error msg=\"no\"' >&2\nexit 7\n")
    program.chmod(0o755)
    arguments = ["load", "-s", STACK, "llm", "--url", "http://127.0.0.1:1", "--k6", str(program)]
    assert main(arguments) == CANNOT_RUN
    assert "k6 could not begin: no\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["other"], "the stack file has no workload other that serves; it has tritonserver, llm"),
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


def test_an_interrupt_ends_k6_with_what_was_done_by_then(
    program: str, servers: list[replica.Replica], key_file: str
) -> None:
    command = [sys.executable, "-m", "slicewright.cli", "load", "-s", STACK, "llm"]
    command += ["--url", url(servers[0]), "--duration", "10m", "--users", "1", "--json"]
    with subprocess.Popen(
        [*command, "--key-file", key_file, "--k6", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        assert "VUs" in told
        process.stderr.readline()  # five seconds later: something was answered
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    found = json.loads(out)
    assert found["interrupted"] is True
    assert found["whole"]["answered"] > 0
