"""One rehearsal environment: a directory with a simulated cloud, its clusters and Pulumi's state.

Nothing that a rehearsal writes lies outside of it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from os.path import normpath
from pathlib import Path

from slicewright.infra import stack_file
from slicewright.rehearsal.clouds.core import access
from slicewright.rehearsal.clouds.core.client import CloudClient, CloudUnreachable
from slicewright.rehearsal.clouds.core.control_planes import USER_KUBECONFIG
from slicewright.rehearsal.cluster import control_plane
from slicewright.rehearsal.host import processes
from slicewright.rehearsal.host.processes import ENVIRONMENT_VARIABLE
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.scenario import cloud_variables, plugins_and_commands, settings
from slicewright.rehearsal.scenario.errors import NotRunning, RehearsalError
from slicewright.rehearsal.scenario.plugins_and_commands import link

PROJECT = Path(__file__).resolve().parents[2]
"""The checkout: Pulumi.yaml, infra/, stacks/ and .venv lie here."""
DEFAULT_DIRECTORY = PROJECT / ".rehearsal"
"""Where `make` keeps environments."""

_PASSPHRASE = "rehearsal: nothing secret is kept in this state"  # noqa: S105 - as it says
_CLOUD_READY_S = 20.0


@dataclass(frozen=True)
class Environment:
    """An environment, which need not exist yet, by its directory `root`."""

    root: Path

    @property
    def stack(self) -> str:
        """The stack that it is for: environments are named after their stack."""
        return self.root.name

    @property
    def project(self) -> Path:
        """The project as `pulumi` sees it: the checkout by links, and copies of the stack files."""
        return self.root / "project"

    @property
    def exists(self) -> bool:
        """Whether this directory was made by `create`; any other directory is left alone."""
        return (self.root / "processes").is_dir()

    def require_own_directory(self) -> None:
        """Raises RehearsalError where `root` is a directory with other content, or a file."""
        taken = self.root.exists() and (not self.root.is_dir() or any(self.root.iterdir()))
        if taken and not self.exists:
            raise RehearsalError(
                f"{self.root} exists and is not a rehearsal environment; it is left as it is. "
                "Choose another --directory"
            )

    @property
    def kept(self) -> Path:
        """A file that exists while a user keeps the environment for their own use."""
        return self.root / "kept"

    @property
    def toolchain(self) -> Toolchain:
        """The tools that it was made with. Raises RehearsalError where it does not exist."""
        path = self.root / "toolchain.json"
        if not path.exists():
            raise RehearsalError(
                f"{self.root} is not a rehearsal environment (no toolchain.json); make one with "
                f"`{self.command('run')}`"
            )
        return Toolchain.load(path)

    def stack_file(self, stack: str) -> Path:
        """The environment's own copy of the stack file."""
        return self.project / "stacks" / f"Pulumi.{stack}.yaml"

    def variables(self) -> dict[str, str]:
        """What to set, on top of the caller's variables, so that plain `pulumi` works here."""
        return {
            "PATH": f"{self.root / 'bin'}:{os.environ.get('PATH', os.defpath)}",
            ENVIRONMENT_VARIABLE: str(self.root),
            "PULUMI_HOME": str(self.root / "pulumi" / "home"),
            "PULUMI_BACKEND_URL": f"file://{self.root / 'pulumi' / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE_FILE": str(self.root / "pulumi" / "passphrase"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            **plugins_and_commands.engine_settings(self.root),
            # Set whether there is one or not: never one of the user's own clusters.
            "KUBECONFIG": str(self.user_kubeconfig),
            **self._cloud_access(),
        }

    def _cloud_access(self) -> dict[str, str]:
        """What clients of the real clouds obey; nothing before the clouds' first start."""
        found = access.load(self.root)
        return {} if found is None else cloud_variables.of(found, self.root)

    def kubeconfigs(self) -> Mapping[str, Path]:
        """The kubeconfig of every cluster in the simulated cloud, by cluster name, of a user in
        `system:masters`: for the rehearsal itself. No person has such rights in a cloud.
        """
        return {p.parent.name: p for p in sorted(self.root.glob("clusters/*/kubeconfig.json"))}

    @property
    def user_kubeconfig(self) -> Path:
        """Of the cluster that is there before the stack, with the context that its file names."""
        return self.root / "kubeconfig.json"

    def exports(self) -> str:
        """Shell lines after which plain `pulumi`, `kubectl` and `slicewright` work here."""
        shown = {k: shlex.quote(v) for k, v in self.variables().items()}
        shown["PATH"] = f'{shlex.quote(str(self.root / "bin"))}:"$PATH"'
        kubeconfigs = sorted(self.root.glob(f"clusters/*/{USER_KUBECONFIG}"))
        if kubeconfigs and not self.user_kubeconfig.exists():
            shown["KUBECONFIG"] = shlex.quote(":".join(map(str, kubeconfigs)))
        if kubeconfigs:
            # By default kubectl caches API discovery in the home directory.
            shown["KUBECACHEDIR"] = shlex.quote(str(self.root / "kubectl-cache"))
        lines = [f"export {name}={value}" for name, value in shown.items()]
        unset = [name for name in cloud_variables.USERS_OWN if name not in shown]
        return "\n".join([*lines, f"unset {' '.join(unset)}"])

    def command(self, action: str) -> str:
        """The command line to type for an action; `run` keeps the environment."""
        if self.root.parent != DEFAULT_DIRECTORY:
            place = f" --directory {shlex.quote(str(self.root.parent))}"
        elif action in ("run", "destroy"):
            make = "make" if Path.cwd() == PROJECT else f"make -C {shlex.quote(str(PROJECT))}"
            if action == "run":
                return f"{make} rehearse STACK={self.stack} KEEP=1"
            return f"{make} destroy STACK={self.stack}"
        else:
            place = ""
        keep = " --keep" if action == "run" else ""
        return f"slicewright rehearse {action} --stack {self.stack}{keep}{place}"

    def inventory(self) -> dict[str, list[str]]:
        """Everything in the simulated cloud, by kind; {} when it holds nothing.

        Raises RehearsalError where the cloud does not answer.
        """
        try:
            listed = CloudClient(self.root).inventory()
        except CloudUnreachable as e:
            raise RehearsalError(
                f"the simulated cloud of {self.root} does not answer ({e}); its log: "
                f"{self.root}/log/cloud.log"
            ) from e
        return {kind: items for kind, items in listed.items() if items}

    @property
    def is_running(self) -> bool:
        """Whether its simulated cloud answers."""
        return CloudClient(self.root).is_up()

    def require_running(self) -> None:
        """Raises RehearsalError where it does not exist, NotRunning where it has ended."""
        _ = self.toolchain
        if not self.is_running:
            raise NotRunning(
                f"{self.stack} in {self.root} is not running: it was stopped or interrupted. "
                f"Remove what is left with `{self.command('destroy')}`, then start it afresh with "
                f"`{self.command('run')}`"
            )


def create(root: Path, toolchain: Toolchain) -> Environment:
    """Makes the directory of an environment, or renews the links of one; starts nothing.

    Raises RehearsalError where `root` is a directory with other content.
    """
    environment = Environment(root.resolve())
    environment.require_own_directory()
    root = environment.root
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
    plugins_and_commands.install(root, toolchain)
    for name in ("Pulumi.yaml", "infra"):
        link(environment.project / name, PROJECT / name)
    link(environment.project / ".venv", Path(sys.prefix))
    for file in sorted((PROJECT / "stacks").glob("Pulumi.*.yaml")):
        copy = environment.project / "stacks" / file.name
        if not copy.exists():
            shutil.copy(file, copy)
        _copy_bases(file, environment.project)
    return environment


def _copy_bases(file: Path, project: Path) -> None:
    """Copies the files that a stack file extends, to the same places in the environment."""
    try:
        bases = stack_file.base_files(stack_file.read_single(file), file)
    except stack_file.NotReadable:
        return  # `check_stack` reports it, if this stack is to be rehearsed
    for base in (Path(normpath(base)) for base in bases):
        copy = project / base.relative_to(PROJECT)
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(base, copy)


def start(environment: Environment) -> None:
    """Starts the simulated cloud, which starts the rest on demand; does nothing where it runs.

    Raises RehearsalError where it does not answer in time, WrongUse for a wrong value of an
    environment variable.
    """
    if environment.is_running:
        return
    settings.check(os.environ)
    stop(environment)
    (environment.root / "cloud.sock").unlink(missing_ok=True)
    processes.start(
        environment.root,
        "cloud",
        [
            sys.executable,
            "-m",
            "slicewright.rehearsal.clouds",
            "--environment",
            str(environment.root),
        ],
        env={
            k: v
            for k, v in (os.environ | environment.variables()).items()
            if k != "PYTHONDONTWRITEBYTECODE"
        },
    )
    deadline = time.monotonic() + _CLOUD_READY_S
    while not environment.is_running:
        if time.monotonic() > deadline:
            raise RehearsalError(
                f"the simulated cloud did not start within {_CLOUD_READY_S:.0f} s; its "
                f"log: {environment.root}/log/cloud.log"
            )
        time.sleep(0.05)


def stop(environment: Environment) -> list[str]:
    """Ends every process of the environment and returns the names of those; its files stay."""
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
