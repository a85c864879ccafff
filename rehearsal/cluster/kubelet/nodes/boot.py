"""The programs of a simulated node's user data, which run when it boots, before its kubelet starts.

cloud-init runs the shell scripts once, at the first boot. What they leave to systemd runs at every
boot: the units that nodeadm-run.service requires. `systemctl` and `nvidia-smi` are scripts. Source:
awslabs/amazon-eks-ami, templates/al2023/runtime, nodeadm-run.service; systemd.unit(5).
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from slicewright.rehearsal.cluster.node import launcher
from slicewright.rehearsal.cluster.node.root import NodeFiles
from slicewright.rehearsal.cluster.node.source_tree import PACKAGES, SOURCE
from slicewright.rehearsal.host.toolchain import Toolchain

_log = logging.getLogger(__name__)
_RUN: Final = Path("/run/slicewright")
_UNITS: Final = Path("/etc/systemd/system")
_KUBELETS_UNIT: Final = "nodeadm-run.service"
_DRIVER: Final = Path("/opt/nvidia/lib64")
_PATH: Final = "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
_ENVIRONMENT: Final = {
    "LD_LIBRARY_PATH": str(_DRIVER),
    "PYTHONPATH": str(SOURCE),
    "PYTHONDONTWRITEBYTECODE": "1",
    "HOME": "/root",
}
_NVIDIA_SMI: Final = "slicewright.rehearsal.cluster.node.nvidia_smi"
_SYSTEMCTL: Final = """\
#!/bin/sh
# systemctl of a simulated node: a unit's program runs in the foreground, once the driver is loaded.
units=/etc/systemd/system
[ "$1" = --no-block ] && shift
case "$1" in
daemon-reload | try-restart) ;;
enable)
  for by in $(sed -n 's/^RequiredBy=//p' "$units/$2"); do
    mkdir -p "$units/$by.requires"
    ln -sf "../$2" "$units/$by.requires/$2"
  done
  ;;
start)
  if grep -q '^Requires=nvidia-kmod-load.service' "$units/$2"; then
    until grep -q '^nvidia ' /proc/modules; do sleep 0.1; done
  fi
  exec $(sed -n 's/^ExecStart=//p' "$units/$2")
  ;;
reboot) echo reboot >/run/initctl ;;
*) echo "simulated: systemctl $*" >&2; exit 1 ;;
esac
"""


class Boot:
    """The boots of one node. Its console output is in `console`."""

    def __init__(self, files: NodeFiles, toolchain: Toolchain, scripts: Sequence[str]) -> None:
        self._files = files
        self._toolchain = toolchain
        self._scripts = tuple(scripts)
        self._system = files.directory / "system"
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._reboots = False
        self.console = files.directory / "console.log"

    @property
    def needed(self) -> bool:
        """True if the node has programs to run, and has not joined in this boot."""
        return bool(self._scripts) and not self._joined.exists()

    @property
    def _joined(self) -> Path:
        return self._directory("run") / "joined"

    def request_reboot(self) -> None:
        """A program has asked for a reboot: it ends, and `run` returns."""
        with self._lock:
            self._reboots = True
            if self._process is not None:
                self._process.kill()

    def forget(self) -> None:
        """Empties /run, as a reboot does."""
        shutil.rmtree(self._directory("run"))
        self._reboots = False

    def run(self) -> bool | None:
        """Runs the programs of one boot. True: the node joins. None: it reboots first."""
        first = self._directory("lib") / "first-boot"
        for name, text in self._programs().items():
            path = self._directory("bin") / name
            path.write_text(text)
            path.chmod(0o755)
        if first.exists():
            codes = [self._execute("systemctl", "start", unit) for unit in self._required()]
        else:
            codes = []
            for number in range(len(self._scripts)):
                # A script that fails does not keep the node from joining.
                self._execute(f"part-{number:03}")
            first.touch()
        if self._reboots:
            return None
        if any(codes) or self._asserted_are_missing():
            _log.error("node %s does not join: %s", self._files.directory.name, self.console)
            return False
        self._joined.touch()
        return True

    def _programs(self) -> dict[str, str]:
        smi = f'#!/bin/sh\nexec {sys.executable} -m {_NVIDIA_SMI} "$@"\n'
        parts = {f"part-{number:03}": script for number, script in enumerate(self._scripts)}
        return {"systemctl": _SYSTEMCTL, "nvidia-smi": smi, **parts}

    def _required(self) -> list[str]:
        requires = self._directory("units") / f"{_KUBELETS_UNIT}.requires"
        return sorted(unit.name for unit in requires.iterdir()) if requires.is_dir() else []

    def _asserted_are_missing(self) -> bool:
        """True if a file is missing that a drop-in of the kubelet's unit asserts."""
        drop_ins = self._directory("units") / f"{_KUBELETS_UNIT}.d"
        asserted = [
            Path(line.partition("=")[2])
            for drop_in in sorted(drop_ins.glob("*.conf"))
            for line in drop_in.read_text().splitlines()
            if line.startswith("AssertPathExists=")
        ]
        return not all((self._directory("run") / path.name).exists() for path in asserted)

    def _directory(self, name: str) -> Path:
        directory = self._system / name
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def _execute(self, program: str, *arguments: str) -> int:
        """Returns its exit code. As root, like every unit."""
        with self._lock:
            if self._reboots:
                return 1
            self._process = process = launcher.start(self._specify(program, arguments))
        process.wait()
        return launcher.stop(process, grace_s=0)

    def _specify(self, program: str, arguments: Sequence[str]) -> launcher.LaunchSpec:
        programs = self._directory("bin")
        return launcher.LaunchSpec(
            argv=(str(programs / program), *arguments),
            env={**_ENVIRONMENT, "PATH": f"{programs}:{_PATH}"},
            node_root=self._files.root,
            log=self.console,
            binds=(
                self._bind("run", _RUN),
                self._bind("units", _UNITS),
                self._bind("sbin", Path("/usr/local/sbin")),
                self._bind("lib", Path("/var/lib/slicewright")),
                launcher.Bind(source=self._toolchain.fake_nvml.parent, target=_DRIVER),
            ),
            host_paths=(
                programs,
                Path(sys.base_prefix),
                Path(sys.prefix),
                Path(os.path.realpath(sys.executable)).parent,
                *PACKAGES,
            ),
        )

    def _bind(self, name: str, target: Path) -> launcher.Bind:
        return launcher.Bind(source=self._directory(name), target=target, read_only=False)
