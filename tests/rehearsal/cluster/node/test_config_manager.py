"""NVIDIA's config-manager, unchanged: it follows its node's label, and signals the plugin."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from slicewright.rehearsal.cluster.node.launcher import Bind
from tests.rehearsal.cluster.node.stub_api import StubApi

_LABEL = "nvidia.com/device-plugin.config"


def _until(holds: Any, log: Path) -> None:
    deadline = time.monotonic() + 180
    while not holds():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def test_a_new_label_links_another_config_and_signals_the_pods_plugin(
    make_node: Any, tmp_path: Path
) -> None:
    node = make_node(count=1)
    processes, available, config = (tmp_path / n for n in ("processes", "available", "config"))
    for directory in (available, config):
        directory.mkdir()
    (config / "config.yaml").symlink_to("/dev/null")  # as its init container leaves it
    for name in ("four", "two"):
        (available / name).write_text(name)
    script = "trap 'echo rereads; exit 0' HUP; echo runs; while :; do sleep 0.05; done"
    _, plugin = node.start(
        "/bin/bash",
        "-c",
        f'exec -a nvidia-device-plugin bash -c "{script}"',
        processes=processes,
    )
    _until(lambda: "runs" in plugin.read_text(), plugin)
    with StubApi("n1") as api:
        api.label({_LABEL: "four"})
        api.kubeconfig(available.parent / "kubeconfig")
        _, log = node.start(
            node.toolchain.config_manager,
            env={
                "NODE_NAME": "n1",
                "KUBECONFIG": "/etc/access/kubeconfig",
                "CONFIG_FILE_SRCDIR": "/available-configs",
                "CONFIG_FILE_DST": "/config/config.yaml",
                "FALLBACK_STRATEGIES": "empty",
                "PROCESS_TO_SIGNAL": "nvidia-device-plugin",
            },
            binds=(
                Bind(source=available, target=Path("/available-configs")),
                Bind(source=config, target=Path("/config"), read_only=False),
                Bind(source=tmp_path / "kubeconfig", target=Path("/etc/access/kubeconfig")),
            ),
            processes=processes,
        )
        _until(lambda: "rereads" in plugin.read_text(), log)
        assert (config / "config.yaml").readlink() == Path("/available-configs/four")
