"""Types of values that several parts of a stack file share: labels, names, quantities, counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from slicewright.infra.stack_file.schema.constraints import (
    IntRange,
    NotEmpty,
    NotNull,
    Pattern,
    QualifiedName,
)
from slicewright.infra.stack_file.schema.quantities import MemoryQuantity

LabelKey = Annotated[str, QualifiedName()]
LabelValue = Annotated[
    str,
    Pattern(
        pattern=r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?",
        is_not="a valid Kubernetes label value: at most 63 letters, digits, '-', '_' and '.', "
        "starting and ending with a letter or digit",
        examples=("h100", "team-a"),
        source="Kubernetes docs, labels",
    ),
]
Labels = Mapping[LabelKey, LabelValue]
NamespaceName = Annotated[
    str,
    Pattern(
        # DnsLabel would be wrong: a namespace may start with a digit.
        pattern=r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?",
        is_not="the name of a namespace: at most 63 lowercase letters, digits and '-', not "
        "starting or ending with '-'",
        examples=("monitoring",),
        source="Kubernetes docs, object names",
    ),
]
ObjectName = Annotated[
    str,
    Pattern(
        pattern=r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?",
        is_not="the name of a Kubernetes object: at most 253 lowercase letters, digits, '-' and "
        "'.', starting and ending with a letter or digit",
        examples=("models",),
        source="Kubernetes docs, object names",
    ),
]
_NAME = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
_HOST = r"[A-Za-z0-9](?:[-A-Za-z0-9.]*[A-Za-z0-9])?"
Image = Annotated[
    str,
    Pattern(
        # A name without a registry needs a letter: 3.13 alone is a forgotten `python:`.
        pattern=rf"(?:(?:(?=[^/]*[.:A-Z]|localhost/){_HOST}|\[[0-9a-fA-F:.]+\])(?::[0-9]{{1,5}})?/{_NAME}"
        rf"|(?=[^:@]*[a-z]){_NAME})"
        r"(?::[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?"
        r"(?:@sha256:[0-9a-f]{64}|@sha512:[0-9a-f]{128})?",
        is_not="a container image reference: <registry>/<name>:<tag>, optionally with "
        "@sha256:<digest>",
        examples=("docker.io/library/python:3.13-slim",),
        source="distribution/reference, grammar of image references",
    ),
]
ProfileName = Annotated[
    str,
    Pattern(
        pattern=r"(?:[1-9]c\.)?[1-9]g\.[0-9]{1,4}gb(?:[+-][a-z][a-z0-9.]*)?",
        is_not="a MIG profile, which has the form <slices>g.<memory>gb",
        examples=("1g.5gb", "1g.10gb+me"),
        source="NVIDIA MIG user guide",
    ),
]
_GCP_LABELS = "Compute Engine docs, labels: requirements"
CloudLabels = Mapping[
    Annotated[
        str,
        Pattern(
            pattern=r"[a-z\u00df-\uffff][-_a-z0-9\u00df-\uffff]{0,62}",
            is_not="a valid Google Cloud label key: at most 63 lowercase letters, digits, '-' and "
            "'_', starting with a letter",
            examples=("team", "cost-center"),
            source=_GCP_LABELS,
        ),
    ],
    Annotated[
        str,
        Pattern(
            pattern=r"[-_a-z0-9\u00df-\uffff]{0,63}",
            is_not="a valid Google Cloud label value: at most 63 lowercase letters, digits, '-' "
            "and '_'",
            examples=("research", "team-a"),
            source=_GCP_LABELS,
        ),
    ],
]
"""Google Cloud's labels, not Kubernetes'. International letters are not checked to be lowercase."""
_AWS_TAGS = "AWS docs, tag naming limits"
Tags = Mapping[
    Annotated[
        str,
        Pattern(
            pattern=r"(?![aA][wW][sS]:).{1,128}",
            is_not="a valid AWS tag key: 1 to 128 characters, without the reserved prefix aws:",
            examples=("team", "cost-center"),
            source=_AWS_TAGS,
        ),
    ],
    Annotated[
        str,
        Pattern(
            pattern=r".{0,256}",
            is_not="a valid AWS tag value: at most 256 characters on one line",
            examples=("research", "team-a"),
            source=_AWS_TAGS,
        ),
    ],
]
ResourceName = Annotated[
    str,
    Pattern(
        pattern=r"(?:nvidia\.com/)?(gpu|mig-[1-9]g\.[0-9]{1,4}gb(?:[.-][a-z][a-z0-9.]*)?)",
        is_not="a GPU resource: gpu, or mig- and the profile with '.' for '+'",
        examples=("gpu", "mig-1g.5gb", "mig-1g.5gb.me"),
        source="NVIDIA/k8s-device-plugin, internal/rm",
    ),
]
Memory = Annotated[
    str,
    MemoryQuantity(
        pattern=r"[0-9]{1,18}(?:\.[0-9]{1,9})?(?:[KMGTPE]i|[kMGTPE]|[eE][0-9]{1,2})?",
        is_not="an amount of memory: a number with the unit Mi or Gi, or another quantity of "
        "Kubernetes",
        examples=("18Gi", "6144Mi"),
        source="Kubernetes docs, quantities",
    ),
]
Zone = Annotated[
    str,
    Pattern(
        pattern=r"[a-z]+[0-9]*-[-a-z0-9]*[a-z0-9]",
        is_not="a zone: its name, or on AWS its id",
        examples=("us-central1-c", "eu-west-1a", "euw1-az2"),
        source="Google Cloud and AWS docs, regions and zones",
    ),
]
KmsKeyArn = Annotated[
    str,
    Pattern(
        pattern=r"arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]{1,64}",
        is_not="the ARN of a KMS key",
        examples=("arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",),
        source="KMS developer guide, key ARN",
    ),
]
ZoneNames = Annotated[
    tuple[Zone, ...],
    NotEmpty(
        why="nodes run in at least one zone",
        instead="name at least one zone",
        source="GKE and EC2 APIs",
    ),
]
OptionalZones = Annotated[
    ZoneNames | None,
    NotNull(
        why="nodes would run in the default zones",
        instead="name at least one zone, or leave it out for the default",
        source="GKE and EC2 APIs",
    ),
]
MAX_NODES = 65_000
NODE_LIMIT = "GKE docs, quotas and limits: 65,000 nodes per cluster, the most of any cloud"
NodeCount = Annotated[
    int,
    IntRange(
        minimum=1,
        maximum=MAX_NODES,
        unit="node",
        why_maximum="no cloud has larger clusters",
        source=NODE_LIMIT,
        alternative="{min: 0, max: …} for a pool that starts empty",
    ),
]
GpuIndex = Annotated[int, IntRange(minimum=0, source="NVML: GPUs are counted from 0")]
GpuCount = Annotated[
    int,
    IntRange(
        minimum=1,
        maximum=32,
        unit="GPU",
        why_maximum="NVIDIA's driver supports no more in one machine",
        source="NVIDIA/open-gpu-kernel-modules nvlimits.h, NV_MAX_DEVICES",
    ),
]
