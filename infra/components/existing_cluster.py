"""The Kubernetes provider of an existing cluster: a context of a kubeconfig, read in place."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pulumi_kubernetes as k8s
import yaml

from slicewright.infra.plan import ExistingClusterPlan
from slicewright.infra.stack_file import Problem, Source, SpecError


def provider(cluster: ExistingClusterPlan, root: Path) -> k8s.Provider:
    """The Kubernetes provider of the cluster. root: the directory of relative paths.

    The state gets the path of the kubeconfig at most, never its content, which may hold
    credentials.
    """
    return k8s.Provider(
        "kubernetes",
        # Empty: the provider reads $KUBECONFIG or ~/.kube/config itself. If it were absent, the SDK
        # would read the variable, and take a list of files in it for the content of a file.
        kubeconfig=input_of(cluster.kubeconfig, root) if cluster.kubeconfig else "",
        context=cluster.context,
        # Another path to a kubeconfig is still the same cluster. Another context is not.
        cluster_identifier=cluster.context,
    )


def check(cluster: ExistingClusterPlan, root: Path, source: Source) -> None:
    """Raises SpecError if the kubeconfig or its context does not exist.

    The provider would treat both as an unreachable cluster, and a preview would not mention it.
    Source: pulumi/pulumi-kubernetes, provider/pkg/provider/provider.go (Configure).
    """
    if problem := _problem(cluster, root):
        raise SpecError(source, (problem,))


def _problem(cluster: ExistingClusterPlan, root: Path) -> Problem | None:
    if cluster.kubeconfig:
        files = [_path(cluster.kubeconfig, root)]
        if not files[0].is_file():
            return Problem(
                path=("cluster", "kubeconfig"),
                reason=f"there is no file {files[0]}",
                instead="write the path of a kubeconfig, or remove the key to use $KUBECONFIG",
            )
    else:
        named = os.environ.get("KUBECONFIG") or "~/.kube/config"
        files = [Path(name).expanduser() for name in named.split(os.pathsep) if name]
    contexts = sorted({name for file in files for name in _contexts(file)})
    if cluster.context in contexts:
        return None
    where = ", ".join(map(str, files))
    return Problem(
        path=("cluster", "context"),
        reason=f"there is no context {cluster.context!r} in {where}",
        instead=f"write one of {', '.join(contexts)}"
        if contexts
        else "name a kubeconfig with this context",
    )


def input_of(written: str, root: Path) -> str:
    """The provider's input for the path in a stack file."""
    # The provider expands a ~ itself, so the state is the same for all users who share it.
    return written if written.startswith("~") else str(_path(written, root))


def _path(written: str, root: Path) -> Path:
    return root / Path(written).expanduser()


def _contexts(file: Path) -> Iterator[str]:
    """Names of a kubeconfig's contexts. No names if it cannot be read, as in kubectl."""
    try:
        config: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return
    contexts = config.get("contexts") if isinstance(config, Mapping) else None
    for context in contexts if isinstance(contexts, list) else ():
        if isinstance(context, Mapping) and isinstance(context.get("name"), str):
            yield context["name"]
