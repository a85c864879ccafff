"""Options that name further demand: manifests, the pods of a cluster, and a trace."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from slicewright.infra.plan.demand.cluster_pods import classes_of_cluster
from slicewright.infra.plan.demand.manifests import BadManifests, classes_of
from slicewright.infra.plan.demand.trace_classes import classes_of_trace
from slicewright.infra.plan.demand.trace_rows import BadTrace
from slicewright.live.looking import CannotLook, read_pods
from slicewright.options import cluster_options, ranges
from slicewright.processes.foreign_files import NotAFile, read_text


class BadDemand(Exception):
    """A file that an option names has no demand that could be read. The message says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from-manifests",
        type=Path,
        metavar="DIR",
        help="also serve the pods of the Kubernetes manifests in DIR that request GPUs or "
        "partitions",
    )
    parser.add_argument(
        "--from-cluster",
        action="store_true",
        help="also serve the pods of a cluster that request GPUs or partitions; only reads",
    )
    cluster_options.add_arguments(parser)
    parser.add_argument(
        "--from-trace",
        metavar="FILE",
        help="also serve the replicas of a CSV file that exist at the same time; - reads stdin",
    )
    parser.add_argument(
        "--percentile",
        type=ranges.whole(1, 100),
        metavar="P",
        help="with --from-trace: the replicas that are enough for P %% of the trace's time "
        "(default: 100, the peak)",
    )


def misuse(parsed: argparse.Namespace) -> str | None:
    """Returns a message for an option that has no effect without another one."""
    if parsed.percentile is not None and parsed.from_trace is None:
        return "--percentile needs --from-trace"
    if parsed.live and not parsed.current:
        return "--live needs --current"
    if not (parsed.from_cluster or parsed.live) and (parsed.kubeconfig or parsed.context):
        return "--kubeconfig and --context need --from-cluster or --live"
    return None


def classes(parsed: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns `demand.classes` of all named sources. Raises BadDemand, NoCluster and CannotLook."""
    demanded: list[dict[str, Any]] = []
    try:
        if parsed.from_manifests is not None:
            demanded += classes_of(parsed.from_manifests)
        if parsed.from_trace is not None:
            demanded += _of_trace(parsed.from_trace, parsed.percentile or 100)
    except (BadManifests, BadTrace) as e:
        raise BadDemand(str(e)) from None
    if parsed.from_cluster:
        demanded += _of_cluster(parsed)
    return demanded


def _of_trace(file: str, percentile: int) -> list[dict[str, Any]]:
    name = "stdin" if file == "-" else file
    try:
        return classes_of_trace(read_text(file), name, percentile=percentile)
    except NotAFile as e:
        raise BadDemand(f"{name}: {e}") from None


def _of_cluster(parsed: argparse.Namespace) -> list[dict[str, Any]]:
    access = cluster_options.access_of(parsed)
    place = f"context {access.context.name} ({access.context.server})"
    try:
        demanded = classes_of_cluster(read_pods(access))
    except (AttributeError, KeyError, TypeError, ValueError):
        # Only the API server knows all of a pod's schema; its own pods have it.
        raise CannotLook(f"{place}: a pod cannot be read") from None
    if not demanded:
        raise BadDemand(f"{place}: no pod requests nvidia.com/gpu or nvidia.com/mig-<profile>")
    return demanded
