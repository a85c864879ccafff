"""The stand-in for vLLM over HTTP, with a device that is given."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.model_server.turns import Turns
from tests.rehearsal.cluster.model_server import replica

KEY = "sk-only-for-this-test"


LONG = "--max-model-len=1000000"


@contextmanager
def serving(tmp_path: Path, *flags: str, turns: Path | None = None) -> Iterator[replica.Replica]:
    made = replica.start(tmp_path, *flags, key=KEY, turns=turns)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()


def stream(server: replica.Replica, *, tokens: int) -> http.client.HTTPConnection:
    """A connection on which a stream of so many tokens was asked for."""
    connection = server.connect()
    asked = {"model": "org/model", "prompt": "a", "max_tokens": tokens, "stream": True}
    headers = {"Authorization": f"Bearer {KEY}"}
    connection.request("POST", "/v1/completions", json.dumps(asked), headers)
    return connection


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[replica.Replica]:
    with serving(tmp_path_factory.mktemp("server"), "--max-model-len=400") as made:
        yield made


def test_it_serves_once_it_is_loaded_and_says_that_no_model_runs(server: replica.Replica) -> None:
    assert server.get("/health").status == 200
    version = server.get("/version").json
    assert version["version"] == "0.6.2"
    assert "no model runs" in version["simulated"]
    assert version["devices"] == [{"uuid": "MIG-1", "name": "MIG 3g.40gb", "multiprocessors": 60}]
    said = server.said()
    order = ["downloading", "Starting to load", "Capturing", "Uvicorn running"]
    assert sorted(order, key=said.index) == order
    assert all("simulated: " in line for line in said.splitlines())


def test_models_and_completions_need_the_key_and_health_does_not(server: replica.Replica) -> None:
    assert server.get("/v1/models", key="").status == 401
    assert server.get("/v1/models", key="wrong").status == 401
    (model,) = server.get("/v1/models").json["data"]
    assert (model["id"], model["max_model_len"]) == ("org/model", 400)
    assert server.get("/health", key="").status == 200
    assert server.get("/metrics", key="").status == 200


def test_a_completion_has_as_many_tokens_as_were_asked_for(server: replica.Replica) -> None:
    answer = server.post("/v1/completions", {"prompt": "one two three", "max_tokens": 7})
    body = answer.json
    assert body["object"] == "text_completion"
    assert body["choices"][0]["text"] == " simulated" * 7
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["usage"] == {"prompt_tokens": 3, "completion_tokens": 7, "total_tokens": 10}
    assert answer.headers["x-simulated-device"] == "MIG-1"


def test_a_chat_ends_by_itself(server: replica.Replica) -> None:
    messages = [{"role": "user", "content": "Say something."}]
    body = server.post("/v1/chat/completions", {"messages": messages}).json
    (choice,) = body["choices"]
    assert (body["object"], choice["finish_reason"]) == ("chat.completion", "stop")
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"].split() == ["simulated"] * 64


def test_a_stream_has_the_same_tokens_in_parts(server: replica.Replica) -> None:
    messages = [{"role": "user", "content": "Say something."}]
    asked = {
        "messages": messages,
        "max_tokens": 200,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    answer = server.post("/v1/chat/completions", asked)
    events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    assert events[-1] == "[DONE]"
    *parts, usage = (json.loads(event) for event in events[:-1])
    assert usage["usage"]["completion_tokens"] == 200
    assert len(parts) > 1
    assert {part["object"] for part in parts} == {"chat.completion.chunk"}
    assert parts[0]["choices"][0]["delta"]["role"] == "assistant"
    text = "".join(part["choices"][0]["delta"]["content"] for part in parts)
    assert text == " simulated" * 200
    assert [part["choices"][0]["finish_reason"] for part in parts[-2:]] == [None, "length"]


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        ({"model": "other", "prompt": "a"}, 404, "The model `other` does not exist."),
        ({"prompt": "a", "max_tokens": 500}, 400, "maximum context length is 400 tokens"),
        ({"prompt": ""}, 400, "prompt is required"),
        ({"prompt": "a", "max_tokens": 0}, 400, "max_tokens must be at least 1"),
        ({"prompt": 1}, 400, "texts or lists"),
    ],
)
def test_requests_that_vllm_refuses_are_refused(
    server: replica.Replica, body: dict[str, Any], status: int, why: str
) -> None:
    answer = server.post("/v1/completions", body)
    assert answer.status == status
    assert why in answer.json["message"]


def test_other_paths_and_methods_are_not_there(server: replica.Replica) -> None:
    assert server.get("/v1/nothing").status == 404
    assert server.get("/v1/completions").status == 405
    assert server.send(b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_metrics_count_served_requests(tmp_path: Path) -> None:
    with serving(tmp_path) as one:
        for _ in range(3):
            one.post("/v1/completions", {"prompt": "one two", "max_tokens": 5})
        found = one.metrics()
    model = 'model_name="org/model"'
    assert found[f"vllm:generation_tokens_total{{{model}}}"] == 15
    assert found[f"vllm:prompt_tokens_total{{{model}}}"] == 6
    assert found[f"vllm:num_requests_running{{{model}}}"] == 0
    assert found[f"vllm:num_requests_waiting{{{model}}}"] == 0
    assert found[f"vllm:gpu_cache_usage_perc{{{model}}}"] == 0
    assert found[f'vllm:request_success_total{{finished_reason="length",{model}}}'] == 3
    assert found[f"vllm:time_to_first_token_seconds_count{{{model}}}"] == 3
    assert found[f'vllm:request_generation_tokens_bucket{{le="2",{model}}}'] == 0
    assert found[f'vllm:request_generation_tokens_bucket{{le="5",{model}}}'] == 3
    assert found[f'vllm:e2e_request_latency_seconds_bucket{{le="+Inf",{model}}}'] == 3
    assert found[f"simulated_tokens_per_second{{{model}}}"] == 1200


def test_more_requests_than_sequences_wait(tmp_path: Path) -> None:
    with serving(tmp_path, "--max-num-seqs=2", LONG) as one:
        leaving = [stream(one, tokens=900_000) for _ in range(5)]
        model = 'model_name="org/model"'

        def numbers() -> tuple[float, float]:
            found = one.metrics()
            return (
                found[f"vllm:num_requests_running{{{model}}}"],
                found[f"vllm:num_requests_waiting{{{model}}}"],
            )

        one.until(lambda: numbers() == (2, 3))
        usage = f"vllm:gpu_cache_usage_perc{{{model}}}"
        one.until(lambda: 0 < one.metrics()[usage] <= 1)
        for connection in leaving:
            connection.close()
        one.until(lambda: numbers() == (0, 0))


def test_sigterm_finishes_running_requests_and_accepts_no_new_ones(tmp_path: Path) -> None:
    with serving(tmp_path) as one:
        connection = stream(one, tokens=1000)
        answer = connection.getresponse()
        first = answer.readline()
        one.process.send_signal(signal.SIGTERM)
        text = (first + answer.read()).decode()
        assert text.endswith("data: [DONE]\n\n")
        assert text.count(" simulated") == 1000
        connection.close()
        assert one.process.wait(timeout=120) == 0
        with pytest.raises(ConnectionError):
            one.get("/health")


def test_a_client_that_leaves_ends_its_generation(tmp_path: Path) -> None:
    with serving(tmp_path, LONG) as one:
        leaving = stream(one, tokens=900_000)
        answer = leaving.getresponse()
        assert answer.readline()
        answer.close()
        leaving.close()
        aborted = 'vllm:request_success_total{finished_reason="abort",model_name="org/model"}'
        one.until(lambda: one.metrics().get(aborted) == 1)


def test_the_second_start_finds_the_model_in_the_cache(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        assert "downloading org/model" in first.said()
    with serving(tmp_path) as second:
        assert "downloading" not in second.said()
        assert "org/model is in the cache" in second.said()


def test_the_key_is_in_no_line_that_it_writes(tmp_path: Path) -> None:
    with serving(tmp_path) as one:
        one.get("/v1/models", key="wrong")
        one.post("/v1/completions", {"prompt": KEY, "max_tokens": 2})
        assert KEY not in one.said()
        assert KEY.encode() not in Path(f"/proc/{one.process.pid}/cmdline").read_bytes()


def test_without_a_driver_or_with_a_wrong_flag_it_ends_with_one_line() -> None:
    for flag, code, why in (("--model=a", 1, "Failed to infer device"), ("--x", 2, "--x")):
        ended = subprocess.run(
            [sys.executable, "-m", "slicewright.rehearsal.cluster.model_server", flag],
            env={**os.environ, "SLICEWRIGHT_REHEARSAL_RELEASE": "0.6.2", "LD_LIBRARY_PATH": ""},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (ended.returncode, ended.stdout) == (code, "")
        assert why in ended.stderr
        assert len(ended.stderr.splitlines()) == 1


def test_servers_on_one_device_share_its_time_while_both_compute(tmp_path: Path) -> None:
    other = Turns(tmp_path / "MIG-1", "other")
    with serving(tmp_path, LONG, turns=tmp_path) as one, serving(tmp_path, turns=tmp_path) as two:
        assert other.sharers() == 0, "who waits for requests has no part"
        connection = stream(one, tokens=900_000)
        with connection.getresponse():
            one.until(lambda: other.sharers() == 1)
            # What the second one makes meanwhile is of half the time.
            assert two.post("/v1/completions", {"prompt": "a", "max_tokens": 5}).status == 200
            two.until(lambda: other.sharers() == 1)
            one.process.kill()
            one.until(lambda: other.sharers() == 0)
        connection.close()
