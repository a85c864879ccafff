"""The NFS servers that a stack's workloads load models from: a rehearsal fills directories.

On a real cluster the share is filled by whoever owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slicewright.infra.plan import FleetPlan
from slicewright.infra.stack_file import ModelShare, TritonWorkload
from slicewright.rehearsal.cluster.kubelet.pods import shares
from slicewright.rehearsal.cluster.model_server.triton import repository
from slicewright.rehearsal.scenario.environment import Environment


def wanted(fleet: FleetPlan) -> Mapping[ModelShare, tuple[str, ...]]:
    """By share, the models that workloads name, else the model of Triton's own examples."""
    found: dict[ModelShare, set[str]] = {}
    for one in fleet.deployments:
        asked = one.workload
        if isinstance(asked, TritonWorkload) and isinstance(asked.model_repository, ModelShare):
            # Read-only or not, it is the same directory.
            share = asked.model_repository.model_copy(update={"read_only": True})
            models = found.setdefault(share, set())
            # `*` is Triton's word for all that are there.
            named = set(asked.load_models) - {"*"}
            models.update(named or (repository.DEFAULT_MODEL,))
    return {share: tuple(sorted(models)) for share, models in found.items()}


def fill(environment: Environment, fleet: FleetPlan, say: Callable[[str], None]) -> None:
    """Writes them all. Raises OSError, and Unsupported for a share that no directory stands for."""
    for share, models in wanted(fleet).items():
        directory = shares.directory(environment.root, share.server, share.path)
        repository.write(directory, models)
        say(
            f"simulated: {directory} is {share.server}:{share.path}, with {', '.join(models)}: "
            "without trained weights"
        )
