"""The device plugin of an engine, in a pod on a GPU node: `python -m … volcano`."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Final

import grpc

from slicewright.kubeapi import JsonObject
from slicewright.kubeapi.client import ApiError, Client, Unreachable, path_of
from slicewright.node_agent.nvml.probe import probe
from slicewright.rehearsal.cluster.vgpu.engine import Engine
from slicewright.rehearsal.cluster.vgpu.hami import HAMI
from slicewright.rehearsal.cluster.vgpu.plugin import Plugin
from slicewright.rehearsal.cluster.vgpu.volcano import VOLCANO
from slicewright.telemetry.signals import at_signal

_ENGINES: Final[dict[str, Engine]] = {engine.name: engine for engine in (VOLCANO, HAMI)}
_CONFIG_MAP: Final = "volcano-vgpu-device-config"
_CONFIG_NAMESPACE: Final = "kube-system"
_CONFIG_FILE: Final = Path("/device-config.yaml")
"""In HAMi's pods."""
_SOCKETS: Final = Path("/var/lib/kubelet/device-plugins")
_LOOK_EVERY_S: Final = 1.0


def main(arguments: list[str]) -> int:
    engine = _ENGINES[arguments[0]]
    node = os.environ["NODE_NAME"]
    stop = threading.Event()
    at_signal(stop.set)
    client = Client.in_cluster(user_agent=f"{engine.name}-vgpu-device-plugin")
    print(f"simulated: device plugin of {engine.name} on node {node}", flush=True)
    try:
        sharing = engine.sharing(_config(engine, client))
        plugin = Plugin(engine, node, client, probe, sharing, _SOCKETS)
        _serve(plugin, stop)
    except (ApiError, Unreachable, OSError, grpc.RpcError) as e:
        print(f"device plugin: {e}", file=sys.stderr)
        return 1
    return 0


def _config(engine: Engine, client: Client) -> JsonObject:
    """The ConfigMap with the plugin's settings. Volcano's plugin reads it from the API server."""
    if engine is HAMI:
        return {"data": {_CONFIG_FILE.name: _CONFIG_FILE.read_text()}}
    path = path_of("v1", "configmaps", _CONFIG_MAP, namespace=_CONFIG_NAMESPACE)
    return client.get(path)


def _serve(plugin: Plugin, stop: threading.Event) -> None:
    """Until `stop`. A kubelet that starts anew has another socket, and wants a registration."""
    kubelet = _kubelet()
    plugin.start()
    while not stop.is_set():
        plugin.refresh()
        if _kubelet() != kubelet:
            kubelet = _kubelet()
            plugin.start()
        stop.wait(_LOOK_EVERY_S)
    plugin.stop()


def _kubelet() -> int | None:
    """The inode of the kubelet's socket. None while the kubelet is down."""
    try:
        return (_SOCKETS / "kubelet.sock").stat().st_ino
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
