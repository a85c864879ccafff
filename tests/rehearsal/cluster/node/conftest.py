"""Simulated nodes for the tests of what runs on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.node import launcher, root
from slicewright.rehearsal.cluster.node.launcher import Bind, LaunchSpec
from slicewright.rehearsal.cluster.node.machine import Machine
from slicewright.rehearsal.cluster.node.root import NodeFiles
from slicewright.rehearsal.host.toolchain import Toolchain

_DRIVER = Path("/usr/local/nvidia")


@dataclass
class Node:
    """One node, and the programs that a test has started on it."""

    files: NodeFiles
    toolchain: Toolchain
    directory: Path
    started: list[Any] = field(default_factory=list)
    runs: int = 0

    def start(
        self,
        *argv: str | Path,
        uid: int = 0,
        env: dict[str, str] | None = None,
        binds: tuple[Bind, ...] = (),
        host_paths: tuple[Path, ...] = (),
        sees_gpus: bool = True,
        processes: Path | None = None,
        cwd: Path = Path("/"),
        read_only_root: bool = False,
        start: Callable[[LaunchSpec], Any] = launcher.start,
    ) -> tuple[Any, Path]:
        """Starts a program; returns it and its log. sees_gpus: mounts NVML's library. start: of
        launcher.py, or of forks.py.
        """
        self.runs += 1
        log = self.directory / f"log-{self.runs}"
        known = {"PATH": f"{self.toolchain.mig_parted.parent}:/usr/bin:/bin", "HOME": "/tmp"}
        if sees_gpus:
            known["LD_LIBRARY_PATH"] = f"{_DRIVER}/lib64"
            binds = (
                *binds,
                Bind(source=self.files.root / "usr", target=_DRIVER),
            )
        process = start(
            LaunchSpec(
                argv=tuple(map(str, argv)),
                env={**known, **(env or {})},
                node_root=self.files.root,
                log=log,
                uid=uid,
                gid=uid,
                binds=binds,
                host_paths=host_paths,
                processes=processes,
                cwd=cwd,
                read_only_root=read_only_root,
            )
        )
        self.started.append(process)
        return process, log

    def run(self, *argv: str | Path, **options: Any) -> tuple[int, str]:
        """Exit code and output, without NVIDIA's warnings about a host without iommufd, which most
        hosts are. options: as of `start`.
        """
        process, log = self.start(*argv, **options)
        code = process.wait(timeout=180)
        lines = log.read_text().splitlines(keepends=True)
        return code, "".join(line for line in lines if "unable to detect IOMMU FD" not in line)

    def sharing(self, replicas: Mapping[str, int], *, rename: bool = False) -> tuple[str, Bind]:
        """Flag and file for time-slicing by NVIDIA's programs: replicas per device, by resource."""
        resources = [{"name": name, "replicas": count} for name, count in replicas.items()]
        shared = {
            "timeSlicing": {
                "renameByDefault": rename,
                "failRequestsGreaterThanOne": True,
                "resources": resources,
            }
        }
        config = self.directory / "plugin"
        config.mkdir()
        (config / "config.json").write_text(json.dumps({"version": "v1", "sharing": shared}))
        return "--config-file=/etc/plugin/config.json", Bind(
            source=config, target=Path("/etc/plugin")
        )


MakeNode = Callable[..., Node]


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Skips where mount namespaces cannot be created."""
    if reason := launcher.why_not():
        pytest.skip(reason)


@pytest.fixture
def make_node(tmp_path: Path, toolchain: Toolchain, namespaces: None) -> Iterator[MakeNode]:
    """Nodes whose programs are ended after the test."""
    made: list[Node] = []

    def make(
        model: str = "H100-80", count: int = 8, driver_version: str = "550.90.07", **machine: object
    ) -> Node:
        directory = tmp_path / f"node{len(made)}"
        known = Machine(
            cloud="eks", gpu_model=model, gpu_count=count, driver_version=driver_version, **machine
        )  # type: ignore[arg-type]
        node = Node(root.build(directory, known, toolchain), toolchain, directory)
        made.append(node)
        return node

    yield make
    for node in made:
        for process in node.started:
            launcher.stop(process, grace_s=5)
