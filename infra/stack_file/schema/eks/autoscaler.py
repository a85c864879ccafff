"""`cluster.autoscaler` of an EKS fleet: the controller that adds and removes nodes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from slicewright.infra.stack_file.schema import charts
from slicewright.infra.stack_file.schema.constraints import IntRange, Pattern
from slicewright.infra.stack_file.schema.model import Shorthand, SpecModel

_FAQ = "kubernetes/autoscaler, cluster-autoscaler/FAQ.md"
_Minutes = Annotated[
    int,
    IntRange(
        minimum=1,
        maximum=1440,
        unit="minute",
        why_maximum="an idle GPU node is billed all the time",
        source=_FAQ,
        alternative="scale_down: {enabled: false}",
    ),
]


class ScaleDown(SpecModel):
    """Conditions to remove nodes, down to a pool's `min`."""

    enabled: bool = True
    unneeded_minutes: _Minutes = 10
    """How long a node must be unneeded before it is removed."""
    after_scale_up_minutes: _Minutes = 10
    """How long no node is removed after a node was added."""
    utilization_percent: Annotated[
        int,
        IntRange(
            minimum=1,
            maximum=100,
            unit="percent",
            source=_FAQ,
            alternative="scale_down: {enabled: false}",
        ),
    ] = 50
    """A node is unneeded if its pods request less than this share of its CPUs and memory, and all
    fit on other nodes. Partitions and pods of DaemonSets do not count.
    """


class ClusterAutoscaler(SpecModel):
    """cluster-autoscaler of the Kubernetes project, on the system pool."""

    mode: Literal["cluster-autoscaler"] = "cluster-autoscaler"
    chart_version: (
        Annotated[
            str,
            Pattern(
                pattern=r"[0-9]+\.[0-9]+\.[0-9]+",
                is_not="a version of cluster-autoscaler's chart: one exact version, not a range",
                examples=("9.59.0",),
                source="kubernetes/autoscaler, charts/cluster-autoscaler",
            ),
        ]
        | None
    ) = None
    """Version of the chart. By default the catalog's version."""
    repository: Annotated[
        str,
        charts.repository("https://kubernetes.github.io/autoscaler"),
    ] = "https://kubernetes.github.io/autoscaler"
    image: (
        Annotated[
            str,
            Pattern(
                pattern=r"[a-z0-9](?:[-a-z0-9._/]*[a-z0-9])?(?::[0-9]{1,5}/[-a-z0-9._/]*[a-z0-9])?"
                r":v[0-9]+\.[0-9]+\.[0-9]+(?:@sha256:[0-9a-f]{64})?",
                is_not="an image of cluster-autoscaler: <registry>/<name>:v<version>, optionally "
                "with @sha256:<digest>",
                examples=("registry.example.com/cluster-autoscaler:v1.35.1",),
                source="distribution/reference, grammar of image references",
            ),
        ]
        | None
    ) = None
    """Image, for a mirror or a digest. By default the release at registry.k8s.io for the cluster's
    Kubernetes version.
    """
    expander: Literal["least-waste", "least-nodes", "most-pods", "random"] = "least-waste"
    """How to choose among several suitable pools."""
    scale_down: ScaleDown = ScaleDown()


_DISRUPTION = "karpenter.sh docs, disruption"


class Karpenter(SpecModel):
    """Karpenter, on the system pool. It creates the nodes of pools with `nodes: {min, max}`."""

    mode: Literal["karpenter"]
    chart_version: (
        Annotated[
            str,
            Pattern(
                pattern=r"[0-9]+\.[0-9]+\.[0-9]+",
                is_not="a version of Karpenter's charts: one exact version, not a range",
                examples=("1.15.1",),
                source="aws/karpenter-provider-aws, charts/karpenter",
            ),
        ]
        | None
    ) = None
    """Version of both charts, `karpenter` and `karpenter-crd`. By default the catalog's version."""
    repository: Annotated[
        str,
        Pattern(
            pattern=r"oci://[^/].*[^/]",
            is_not="the URL of an OCI registry with Karpenter's charts, without a slash at its end",
            examples=("oci://public.ecr.aws/karpenter", "oci://registry.example.com/karpenter"),
            source="karpenter.sh docs, getting started",
        ),
    ] = "oci://public.ecr.aws/karpenter"
    interruption_queue: (
        Annotated[
            str,
            Pattern(
                pattern=r"[A-Za-z0-9_-]{1,80}",
                is_not="the name of a standard SQS queue",
                examples=("my-cluster",),
                source="SQS developer guide, queue names",
            ),
        ]
        | None
    ) = None
    """Name of an existing queue, in the cluster's account and region, for EventBridge's notices
    about reclaimed spot instances and retired machines. Spot needs it.
    """
    consolidation: Literal["empty", "underutilized"] = "empty"
    """`empty` removes nodes without pods, except pods of DaemonSets. `underutilized` also removes
    nodes whose pods fit elsewhere or on a cheaper machine, and evicts these pods.
    """
    empty_minutes: Annotated[
        int,
        IntRange(
            minimum=1,
            maximum=1440,
            unit="minute",
            why_maximum="an idle GPU node is billed all the time",
            source=_DISRUPTION,
        ),
    ] = 10
    """How long a node must be empty or underutilized before it is removed."""
    drain_minutes: (
        Annotated[
            int,
            IntRange(
                minimum=1,
                maximum=10_080,
                unit="minute",
                why_maximum="a node that is not drained within a week will never be",
                source=_DISRUPTION,
                alternative="remove it: then Karpenter waits without a limit",
            ),
        ]
        | None
    ) = None
    """Time until pods on a node to be removed are ended despite disruption budgets and
    `karpenter.sh/do-not-disrupt`. By default Karpenter waits for them, and so does `destroy`.
    """


EksAutoscaler = Annotated[
    ClusterAutoscaler | Karpenter,
    Field(discriminator="mode"),
    Shorthand("cluster-autoscaler", "karpenter"),
]
