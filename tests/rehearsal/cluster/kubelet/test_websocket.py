"""The server's side of WebSockets, and the last message of a remote command."""

from __future__ import annotations

import io
import json
import struct

import pytest

from slicewright.rehearsal.cluster.kubelet.remote_command import session, websocket


def masked(
    opcode: int, payload: bytes, *, mask: bytes = b"abcd", claims: int | None = None
) -> bytes:
    """A client's frame. claims: the length that it says it has."""
    length = len(payload) if claims is None else claims
    head = (
        struct.pack("!BB", 0x80 | opcode, 0x80 | length)
        if length < 126
        else struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, length)
    )
    return head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))


def test_the_handshake_is_that_of_the_rfc() -> None:  # section 1.3
    assert websocket.accept("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@pytest.mark.parametrize("length", [0, 5, 125, 126, 65_535, 65_536])
def test_a_servers_frame_says_its_length(length: int) -> None:
    sent = websocket.frame(websocket.BINARY, b"x" * length)
    head = len(sent) - length
    assert (sent[0], head) == (0x82, 2 if length < 126 else 4 if length < 65_536 else 10)
    said = sent[1] if head == 2 else int.from_bytes(sent[2:head])
    assert said == length


@pytest.mark.parametrize("length", [0, 7, 70_000])
def test_a_clients_frame_is_unmasked(length: int) -> None:
    stream = io.BytesIO(masked(websocket.PING, b"y" * length) + b"rest")
    assert websocket.read_frame(stream) == (websocket.PING, b"y" * length)
    assert stream.read() == b"rest"


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        masked(2, b"hello")[:-1],
        websocket.frame(2, b"not masked"),
        masked(2, b"", claims=1 << 40),
    ],
    ids=["the end", "half a frame", "without a mask", "too long"],
)
def test_invalid_frame_ends_the_connection(wrong: bytes) -> None:
    with pytest.raises(websocket.Ended):
        websocket.read_frame(io.BytesIO(wrong))


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ("v5.channel.k8s.io", "v5.channel.k8s.io"),
        ("v4.channel.k8s.io, v5.channel.k8s.io", "v4.channel.k8s.io"),
        ("base64.channel.k8s.io", None),
        ("", None),
    ],
)
def test_the_first_protocol_that_is_known_is_spoken(offered: str, chosen: str | None) -> None:
    assert session.protocol(offered) == chosen


@pytest.mark.parametrize(("code", "told"), [(3, "3"), (-9, "137"), (-15, "143")])
def test_the_exit_code_is_sent_as_kubelets_do(code: int, told: str) -> None:
    said = json.loads(session.status(code))
    assert (said["status"], said["reason"]) == ("Failure", "NonZeroExitCode")
    assert said["details"]["causes"] == [{"reason": "ExitCode", "message": told}]
    assert json.loads(session.status(0))["status"] == "Success"
