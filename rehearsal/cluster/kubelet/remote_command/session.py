"""One remote command: its output and its end, as the channels of a WebSocket.

A message's first byte is its channel. Source: k8s.io/apimachinery, pkg/util/remotecommand and
k8s.io/kubelet, pkg/cri/streaming/remotecommand (v4.channel.k8s.io, v5.channel.k8s.io).

The command's two outputs are one here, and it reads nothing: its input is empty.
"""

from __future__ import annotations

import json
import select
import signal
import socket
import subprocess
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import Final

from slicewright.rehearsal.cluster.kubelet.remote_command import websocket

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDOUT, _STATUS = b"\x01", b"\x03"
_LOOK_MS: Final = 50
_CHUNK: Final = 32 * 1024


def protocol(offered: str) -> str | None:
    """Which of those that the client offers is spoken."""
    names = [name.strip() for name in offered.split(",")]
    return next((name for name in names if name in PROTOCOLS), None)


@dataclass(frozen=True, kw_only=True)
class Session:
    """A connection whose handshake is done."""

    connection: socket.socket
    reading: BufferedIOBase
    writing: BufferedIOBase

    def run(self, process: subprocess.Popen[bytes], output: Path) -> None:
        """Streams what the process writes to its file until it ends, or the client goes."""
        try:
            with output.open("rb") as file:
                # A client starts when something comes.
                self._send(_STDOUT)
                while process.poll() is None:
                    self._copy(file)
                    self._listen()
                self._copy(file)
            self._send(_STATUS + status(process.returncode))
            self._write(websocket.frame(websocket.CLOSE, (1000).to_bytes(2)))
        except (websocket.Ended, OSError):
            pass  # the other side has gone

    def _copy(self, file: BufferedReader) -> None:
        while data := file.read(_CHUNK):
            self._send(_STDOUT + data)

    def _listen(self) -> None:
        """Waits a moment for what the client sends: a sign of life, its input, or its end."""
        # Not select.select: in a large fleet the connection's descriptor may be above 1023.
        waiting = select.poll()
        waiting.register(self.connection, select.POLLIN)
        if not waiting.poll(_LOOK_MS):
            return
        opcode, payload = websocket.read_frame(self.reading)
        if opcode == websocket.CLOSE:
            raise websocket.Ended
        if opcode == websocket.PING:
            self._write(websocket.frame(websocket.PONG, payload))

    def _send(self, message: bytes) -> None:
        self._write(websocket.frame(websocket.BINARY, message))

    def _write(self, data: bytes) -> None:
        self.writing.write(data)
        self.writing.flush()


def status(code: int) -> bytes:
    """The last message. code: the exit code, negative for a signal."""
    if code == 0:
        return _object({"status": "Success"})
    code = code if code > 0 else 128 + signal.Signals(-code)
    return _object(
        {
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "message": f"command terminated with non-zero exit code: exit status {code}",
            "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
        }
    )


def _object(fields: dict[str, object]) -> bytes:
    return json.dumps({"kind": "Status", "apiVersion": "v1", "metadata": {}, **fields}).encode()
