"""A client of Triton's HTTP protocol, KServe v2, and of its metrics."""

from __future__ import annotations

import http.client
import json
import re
from dataclasses import dataclass
from typing import Any

import grpc

from slicewright.rehearsal.cluster.model_server.triton import classifier

MODEL = "densenet_onnx"
HTTP, GRPC, METRICS = 8000, 8001, 8002


def picture(seed: int) -> list[float]:
    """Three planes of SIDE x SIDE, scaled to -1 … 1 as by `image_client -s INCEPTION`."""
    return [((seed * i) % 256) / 127.5 - 1 for i in range(3 * classifier.SIDE**2)]


def ask(address: str, path: str, body: Any = None, *, port: int = HTTP) -> tuple[int, str]:
    """GET, or POST of `body` as JSON. Status and text of the answer."""
    connection = http.client.HTTPConnection(address, port, timeout=240)
    try:
        connection.request("GET" if body is None else "POST", path, body and json.dumps(body))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@dataclass(frozen=True)
class Class:
    """One line of the answer to a classification."""

    score: float
    number: int
    label: str


def classify(
    address: str, of: list[float], *, count: int = 3, model: str = MODEL
) -> tuple[Class, ...]:
    """The classes that fit best, as `image_client -m MODEL -c COUNT -i http -u ADDRESS:8000` asks.

    Source: triton-inference-server/server, docs/protocol/extension_classification.md.
    """
    shape = [3, classifier.SIDE, classifier.SIDE]
    given = {"name": classifier.INPUT, "shape": shape, "datatype": "FP32", "data": of}
    wanted = {"name": classifier.OUTPUT, "parameters": {"classification": count}}
    status, text = ask(
        address, f"/v2/models/{model}/infer", {"inputs": [given], "outputs": [wanted]}
    )
    assert status == 200, text
    (output,) = json.loads(text)["outputs"]
    parts = [one.split(":", 2) for one in output["data"]]
    return tuple(Class(float(score), int(number), label) for score, number, label in parts)


def is_live(address: str) -> bool:
    """By gRPC: its answer has one field, number 1, which is true."""
    with grpc.insecure_channel(f"{address}:{GRPC}") as channel:
        ask_live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
        answer: bytes = ask_live(b"", timeout=240)
    return answer == b"\x08\x01"


def metric(address: str, name: str, model: str = MODEL) -> float:
    """The value of one of Triton's metrics, of the model's version 1."""
    status, text = ask(address, "/metrics", port=METRICS)
    assert status == 200, text
    (found,) = re.findall(rf'^{name}{{model="{model}",version="1"}} (\S+)$', text, re.MULTILINE)
    return float(found)
