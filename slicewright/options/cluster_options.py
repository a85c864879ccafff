"""Options that choose the cluster which a command reads, and the cluster they choose."""

from __future__ import annotations

import argparse
from pathlib import Path

from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN
from slicewright.infra import plan, stack_file
from slicewright.live.access import Access, NoCluster, NotAKubeconfig, access
from slicewright.options import stack_files


def add_arguments(
    parser: argparse.ArgumentParser, *, default: str = "$KUBECONFIG, else ~/.kube/config"
) -> None:
    """`default` is the text that the help shows as the default of --kubeconfig."""
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help=f"default: {default}; - reads stdin, as for `pulumi stack output kubeconfig "
        "--show-secrets`",
    )
    parser.add_argument("--context", metavar="NAME", help="default: the current one")


def stack_of(parsed: argparse.Namespace) -> tuple[Path, plan.FleetPlan] | None:
    """The stack file of -s and its plan; None without. Raises SpecError."""
    if not parsed.stack:
        return None
    file = stack_files.path_of(parsed.stack)
    return file, stack_files.read_plan(file)


def access_of(
    parsed: argparse.Namespace, stack: tuple[Path, plan.FleetPlan] | None = None
) -> Access:
    """Returns the cluster that the options name, else the existing cluster that the stack file
    names, else kubectl's current one. Raises NoCluster.
    """
    if stack is not None and isinstance(stack[1], plan.ExistingFleetPlan):
        file, cluster = stack[0], stack[1].cluster
        if cluster is None:
            raise NoCluster(
                f"{stack_files.display_path(file)} lists hosts without Kubernetes; run "
                "`slicewright-agent show` and `verify` on each host to see its state"
            )
        return existing_access(file, cluster, parsed.kubeconfig, parsed.context)
    return access(parsed.kubeconfig, parsed.context)


def existing_access(
    file: Path,
    cluster: plan.ExistingClusterPlan,
    kubeconfig: str | None = None,
    context: str | None = None,
) -> Access:
    """Returns the cluster of a stack file, unless `kubeconfig` or `context` name another.

    Raises NoCluster.
    """
    if kubeconfig is None and cluster.kubeconfig:
        # Relative to the project, as in `pulumi up`.
        written = Path(cluster.kubeconfig).expanduser()
        kubeconfig = str(_project(file) / written)
    return access(kubeconfig, context or cluster.context)


def code_of(error: Exception) -> int:
    """Returns the exit code for a cluster that is not known or does not answer."""
    return BAD_INPUT if isinstance(error, NotAKubeconfig) else CANNOT_RUN


def _project(file: Path) -> Path:
    here = file.absolute().parent
    return stack_file.find_project(here) or here
