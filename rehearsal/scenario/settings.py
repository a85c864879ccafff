"""The environment variables that a rehearsal reads, checked before anything starts.

Most of them are read by processes that start later, whose errors only a log would show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slicewright.rehearsal.clouds.gcp.gke import driver_delay
from slicewright.rehearsal.cluster.control_plane import process_images
from slicewright.rehearsal.cluster.kubelet.pods import large_fleets
from slicewright.rehearsal.cluster.node import container_runtime
from slicewright.rehearsal.host.toolchain import ToolchainError
from slicewright.rehearsal.host.toolchain.settings import from_environment
from slicewright.rehearsal.scenario import checkpoints, official_plugins
from slicewright.rehearsal.scenario.errors import WrongUse

_CHECKS: tuple[Callable[[Mapping[str, str]], object], ...] = (
    container_runtime.mode_of,
    process_images.mode_of,
    large_fleets.mode_of,
    driver_delay.seconds,
    checkpoints.engine_variables,
    official_plugins.all_wanted,
    official_plugins.kubernetes_kept_out,
    from_environment,
)


def check(environment: Mapping[str, str]) -> None:
    """Raises WrongUse that names every variable with a wrong value, and what it may be."""
    problems = []
    for read in _CHECKS:
        try:
            read(environment)
        except (ValueError, WrongUse, ToolchainError) as e:
            problems.append(str(e))
    if problems:
        raise WrongUse("; ".join(problems))
