"""One stand-in for vLLM as a process, on a device of which a file tells."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROGRAM = """
import os, sys
from pathlib import Path
from slicewright.node_agent.nvml.observed import Engines, MigDevice, Observation, ObservedGpu
from slicewright.rehearsal.cluster.model_server import __main__ as program
engines = Engines(decoders=0, encoders=0, jpeg=0, ofa=0)
partition = MigDevice(uuid="MIG-1", gpu_instance=1, compute_instance=0, gpu_slices=3,
    compute_slices=3, memory_mib=40448, multiprocessors=60, engines=engines, name="MIG 3g.40gb")
seen = Observation(gpus=(ObservedGpu(index=0, uuid="GPU-1", mig="enabled", devices=(partition,)),))
program.probe = lambda: seen
# test_start_up.py says how long these take; here they are only waited for.
program.start_up._DOWNLOAD_S = program.start_up._LOAD_S = program.start_up._WARM_UP_S = 0.02
if turns := os.environ.get("TURNS"):
    program.turns.DIRECTORY = Path(turns)
sys.exit(program.main(sys.argv[1:], os.environ))
"""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text)
        return found


@dataclass(frozen=True)
class Replica:
    process: subprocess.Popen[bytes]
    port: int
    key: str
    log: Path

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def ask(self, method: str, path: str, key: str | None, body: str | None) -> Answer:
        connection = self.connect()
        headers = {"Authorization": f"Bearer {self.key if key is None else key}"}
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            lower = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, lower, answer.read().decode())
        finally:
            connection.close()

    def get(self, path: str, key: str | None = None) -> Answer:
        return self.ask("GET", path, key, None)

    def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        return self.ask("POST", path, None, json.dumps({"model": "org/model", **body}))

    def send(self, data: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=120) as connection:
            connection.sendall(data)
            return connection.recv(65536)

    def metrics(self) -> dict[str, float]:
        lines = self.get("/metrics").text.splitlines()
        samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    def said(self) -> str:
        return self.log.read_text()

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not holds():
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.02)


def start(directory: Path, *flags: str, key: str, turns: Path | None = None) -> Replica:
    """Returns when it serves. turns: for those that have the same device."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = directory / f"{port}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, "--model=org/model", f"--port={port}", *flags],
            env={
                **os.environ,
                "TURNS": str(turns or ""),
                "SLICEWRIGHT_REHEARSAL_RELEASE": "0.6.2",
                "SLICEWRIGHT_REHEARSAL_POD_ADDRESS": "127.0.0.1",
                "VLLM_API_KEY": key,
                "HF_HOME": str(directory / "cache"),
            },
            stdout=out,
            stderr=out,
        )
    made = Replica(process, port, key, log)

    def serves() -> bool:
        assert process.poll() is None, made.said()
        return "Uvicorn running" in made.said()

    made.until(serves)
    return made
