"""A container's probes: httpGet, tcpSocket and exec, their periods and thresholds."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.kubelet.containers.environment_variables import Unsupported

_USER_AGENT = "kube-probe/1.36"
Run = Callable[[Sequence[str]], Awaitable[int]]
"""Runs a command with a container's files; its exit code. Cancelling it ends the command."""


@dataclass(frozen=True, kw_only=True)
class HttpGet:
    host: str
    port: int
    path: str
    https: bool
    headers: Mapping[str, str]

    async def ask(self) -> str | None:
        context = None
        if self.https:
            # Like the real kubelet, it does not verify the certificate.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        reader, writer = await asyncio.open_connection(self.host, self.port, ssl=context)
        try:
            headers = {
                "Host": f"{self.host}:{self.port}",
                "User-Agent": _USER_AGENT,
                "Accept": "*/*",
                **self.headers,
            }
            lines = [
                f"GET {self.path} HTTP/1.1",
                *(f"{k}: {v}" for k, v in headers.items()),
                "Connection: close",
                "",
                "",
            ]
            writer.write("\r\n".join(lines).encode())
            await writer.drain()
            first = (await reader.readline()).decode(errors="replace").split(maxsplit=2)
            # Read to the end, so that the program does not see a connection reset.
            while await reader.read(65536):
                pass
        finally:
            writer.close()
            with contextlib.suppress(OSError, ssl.SSLError):
                await writer.wait_closed()
        if len(first) < 2 or not first[0].startswith("HTTP/") or not first[1].isdigit():
            return f"HTTP probe failed: no HTTP answer from {self.host}:{self.port}"
        if not 200 <= int(first[1]) < 400:
            return f"HTTP probe failed with statuscode: {first[1]}"
        return None


@dataclass(frozen=True, kw_only=True)
class TcpConnect:
    host: str
    port: int

    async def ask(self) -> str | None:
        _, writer = await asyncio.open_connection(self.host, self.port)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return None


@dataclass(frozen=True, kw_only=True)
class Execute:
    """A command in the container: exit code 0 is success."""

    command: Sequence[str]
    run: Run

    async def ask(self) -> str | None:
        code = await self.run(self.command)
        return None if code == 0 else f"exit code {code}"


class Question(Protocol):
    async def ask(self) -> str | None:
        """None for success, else what is wrong. An OSError counts as a failure."""
        ...


@dataclass(frozen=True, kw_only=True)
class Probe:
    question: Question
    initial_delay_s: float
    period_s: float
    timeout_s: float
    successes: int
    failures: int

    async def once(self) -> str | None:
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self.question.ask()
        except TimeoutError:
            return f"no answer within {self.timeout_s:g}s"
        except OSError as e:
            return str(e) or type(e).__name__


def parse(container: JsonObject, which: str, pod_ip: str, run: Run) -> Probe | None:
    """which: startupProbe, readinessProbe or livenessProbe. Raises Unsupported for grpc."""
    spec = container.get(which)
    if not spec:
        return None
    ports = {
        p["name"]: int(p["containerPort"]) for p in container.get("ports") or () if "name" in p
    }
    if get := spec.get("httpGet"):
        path = get.get("path") or "/"
        question: Question = HttpGet(
            host=get.get("host") or pod_ip,
            port=_port(get["port"], ports, which),
            path=path if path.startswith("/") else f"/{path}",
            https=get.get("scheme", "HTTP") == "HTTPS",
            headers={h["name"]: h["value"] for h in get.get("httpHeaders") or ()},
        )
    elif connect := spec.get("tcpSocket"):
        question = TcpConnect(
            host=connect.get("host") or pod_ip, port=_port(connect["port"], ports, which)
        )
    elif execute := spec.get("exec"):
        question = Execute(command=tuple(execute["command"]), run=run)
    else:
        kind = "grpc" if "grpc" in spec else "unknown"
        name = container["name"]
        raise Unsupported(
            f"{which} of container {name!r}: the kubelet stand-in supports httpGet, tcpSocket and "
            f"exec, not {kind}"
        )
    return Probe(
        question=question,
        initial_delay_s=float(spec.get("initialDelaySeconds") or 0),
        period_s=float(spec.get("periodSeconds") or 10),
        timeout_s=float(spec.get("timeoutSeconds") or 1),
        successes=int(spec.get("successThreshold") or 1),
        failures=int(spec.get("failureThreshold") or 3),
    )


def _port(value: int | str, ports: Mapping[str, int], which: str) -> int:
    if isinstance(value, int) or value.isdigit():
        return int(value)
    if value not in ports:
        raise Unsupported(
            f"{which}: the container has no port named {value!r}; it has "
            f"{', '.join(sorted(ports)) or 'none'}"
        )
    return ports[value]
