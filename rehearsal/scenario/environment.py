"""One rehearsal environment: a directory that holds a simulated cloud, its clusters and Pulumi's
state; nothing lies outside.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rehearsal.cluster import control_plane
from rehearsal.host import processes
from rehearsal.host.toolchain import Toolchain

PROJECT = Path(__file__).resolve().parents[2]
"""The checkout: Pulumi.yaml, infra/, stacks/ and .venv lie here."""

_PLUGINS: Mapping[str, str] = {
    "pulumi-language-python": "rehearsal.plugins.engine.language_host",
    "pulumi-resource-gcp": "rehearsal.plugins.providers.gcp",
    "pulumi-resource-aws": "rehearsal.plugins.providers.aws",
    "pulumi-resource-kubernetes": "rehearsal.plugins.providers.kubernetes",
    "gke-gcloud-auth-plugin": "rehearsal.clouds.gcp.gke_auth",
    "aws": "rehearsal.clouds.aws.cli",
}
_PASSPHRASE = "rehearsal: nothing secret is kept in this state"  # noqa: S105 - says itself that it protects nothing
_CLOUD_READY_S = 20.0


class RehearsalError(Exception):
    """The environment cannot be made, started or used; the message says what to do."""


@dataclass(frozen=True)
class Environment:
    """`root` is the environment's directory; everything that a rehearsal writes lies below it."""

    root: Path

    @property
    def project(self) -> Path:
        """The project as `pulumi` sees it: the checkout's Pulumi.yaml, infra/ and .venv by link,
        and stack files to play with.
        """
        return self.root / "project"

    @property
    def exists(self) -> bool:
        """Whether this directory was made by `create`; whatever else is there is somebody's own."""
        return (self.root / "processes").is_dir()

    @property
    def kept(self) -> Path:
        """A file that is there while a person keeps the environment for their own use."""
        return self.root / "kept"

    @property
    def toolchain(self) -> Toolchain:
        path = self.root / "toolchain.json"
        if not path.exists():
            raise RehearsalError(
                f"{self.root} is no rehearsal environment (no toolchain.json); make one "
                "with `make rehearse KEEP=1`"
            )
        return Toolchain.load(path)

    def stack_file(self, stack: str) -> Path:
        return self.project / "stacks" / f"Pulumi.{stack}.yaml"

    def variables(self) -> dict[str, str]:
        """What to set, on top of the caller's environment, so that plain `pulumi` works in this
        environment.
        """
        return {
            "PATH": f"{self.root / 'bin'}:{os.environ.get('PATH', os.defpath)}",
            "SLICEWRIGHT_REHEARSAL": str(self.root),
            "PULUMI_HOME": str(self.root / "pulumi" / "home"),
            "PULUMI_BACKEND_URL": f"file://{self.root / 'pulumi' / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE_FILE": str(self.root / "pulumi" / "passphrase"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        }

    def kubeconfigs(self) -> Mapping[str, Path]:
        """Admin kubeconfig of every cluster that the simulated cloud has made here, by cluster
        name.
        """
        return {p.parent.name: p for p in sorted(self.root.glob("clusters/*/kubeconfig.json"))}

    def exports(self) -> str:
        """Shell lines for a person who wants to use `pulumi` and `kubectl` by hand."""
        shown = dict(self.variables())
        shown["PATH"] = f"{self.root / 'bin'}:$PATH"
        if kubeconfigs := self.kubeconfigs():
            shown["KUBECONFIG"] = ":".join(map(str, kubeconfigs.values()))
            # Else kubectl keeps what it learns of a server that is soon gone in the home directory.
            shown["KUBECACHEDIR"] = str(self.root / "kubectl-cache")
        return "\n".join(f'export {name}="{value}"' for name, value in shown.items())

    def inventory(self) -> dict[str, Any]:
        """Everything that exists in the simulated cloud, as the cloud itself says; {} when it holds
        nothing.
        """
        listed: dict[str, Any] = self.cloud("GET", "/inventory")
        return {kind: items for kind, items in listed.items() if items}

    def cloud(self, method: str, path: str, body: Any = None) -> Any:
        """One request to the simulated cloud's service. Raises RehearsalError when it does not
        answer.
        """
        connection = _UnixConnection(self.root / "cloud.sock")
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body))
            response = connection.getresponse()
            answer = json.loads(response.read() or b"null")
        except (OSError, http.client.HTTPException) as e:
            raise RehearsalError(
                f"the simulated cloud of {self.root} does not answer ({e}); its log: "
                f"{self.root}/log/cloud.log"
            ) from e
        finally:
            connection.close()
        if response.status >= 400:
            raise RehearsalError(f"the simulated cloud refused {method} {path}: {answer}")
        return answer


def create(root: Path, toolchain: Toolchain) -> Environment:
    """Makes the directory of an environment, or renews the links of one that exists; starts
    nothing.
    """
    environment = Environment(root.resolve())
    root = environment.root
    if root.exists() and not environment.exists and (not root.is_dir() or any(root.iterdir())):
        raise RehearsalError(
            f"{root} is there and is no rehearsal environment; it is left as it is. Choose "
            "another --directory"
        )
    for directory in (
        "bin",
        "log",
        "processes",
        "cloud",
        "clusters",
        "pulumi/home",
        "pulumi/state",
        "project/stacks",
    ):
        (root / directory).mkdir(parents=True, exist_ok=True)
    root.chmod(0o700)
    toolchain.dump(root / "toolchain.json")
    passphrase = root / "pulumi" / "passphrase"
    passphrase.write_text(_PASSPHRASE)
    passphrase.chmod(0o600)
    _write_commands(root / "bin", toolchain)
    for name in ("Pulumi.yaml", "infra", ".venv"):
        _link(environment.project / name, _venv() if name == ".venv" else PROJECT / name)
    for stack_file in sorted((PROJECT / "stacks").glob("Pulumi.*.yaml")):
        copy = environment.project / "stacks" / stack_file.name
        if not copy.exists():
            shutil.copy(stack_file, copy)
    return environment


def start(environment: Environment) -> None:
    """Starts the simulated cloud, which starts the rest when asked for a cluster. Does nothing if
    it answers already.
    """
    if _answers(environment):
        return
    stop(environment)
    (environment.root / "cloud.sock").unlink(missing_ok=True)
    processes.start(
        environment.root,
        "cloud",
        [sys.executable, "-m", "rehearsal.clouds", "--environment", str(environment.root)],
        env={
            k: v
            for k, v in (os.environ | environment.variables()).items()
            if k != "PYTHONDONTWRITEBYTECODE"
        },
    )
    deadline = time.monotonic() + _CLOUD_READY_S
    while not _answers(environment):
        if time.monotonic() > deadline:
            raise RehearsalError(
                f"the simulated cloud did not start within {_CLOUD_READY_S:.0f} s; its "
                f"log: {environment.root}/log/cloud.log"
            )
        time.sleep(0.05)


def stop(environment: Environment) -> list[str]:
    """Ends every process of the environment, in order, and returns what was still running; its
    files stay.
    """
    for cluster in environment.kubeconfigs():
        kubelet = processes.find(environment.root, f"kubelet-{cluster}")
        if kubelet is not None:
            processes.stop(kubelet, grace_s=5.0)
        control_plane.stop(environment.root, cluster)
    return processes.end_leftovers(environment.root)


def remove(environment: Environment) -> None:
    """Stops everything and deletes the directory."""
    stop(environment)
    shutil.rmtree(environment.root, ignore_errors=True)


def _write_commands(directory: Path, toolchain: Toolchain) -> None:
    for name, module in _PLUGINS.items():
        _script(directory / name, f'exec "{sys.executable}" -m {module} "$@"')
    if official := _official_kubernetes_plugin():
        (directory / "pulumi-resource-kubernetes").unlink()
        _link(directory / "pulumi-resource-kubernetes", official)
    _link(directory / "pulumi", toolchain.pulumi)
    _script(directory / "kubectl", f'exec "{toolchain.control_plane}" kubectl "$@"')


def _official_kubernetes_plugin() -> Path | None:
    """Pulumi's own kubernetes plugin where a person has installed it; the stand-in steps back
    then.
    """
    if os.environ.get("SLICEWRIGHT_KUBERNETES_PLUGIN") == "stand-in":
        return None
    home = Path(os.environ.get("PULUMI_HOME", Path.home() / ".pulumi"))
    found = sorted(home.glob("plugins/resource-kubernetes-v4.*/pulumi-resource-kubernetes"))
    return found[-1] if found else None


def _script(path: Path, line: str) -> None:
    # Replaced, not written in place: a running shell reads its script as it goes.
    new = path.with_suffix(".new")
    new.write_text(f"#!/bin/sh\n{line}\n")
    new.chmod(0o755)
    new.replace(path)


def _link(path: Path, target: Path) -> None:
    if path.is_symlink() or path.exists():
        path.unlink()
    path.symlink_to(target)


def _venv() -> Path:
    return Path(sys.prefix)


def _answers(environment: Environment) -> bool:
    try:
        environment.cloud("GET", "/healthz")
    except RehearsalError:
        return False
    return True


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        # A unix socket's address holds 107 bytes, a directory's path may be longer: reach it
        # through its directory's descriptor.
        directory = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            self.sock.connect(f"/proc/self/fd/{directory}/{self._path.name}")
        finally:
            os.close(directory)
