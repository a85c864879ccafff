"""The charts and images that slicewright deploys by default, as the program declares them.

Charts are rendered by the rehearsal's own versions of them, which name the images of the published
charts. Images that a managed Kubernetes brings by itself (GKE's, EKS' add-ons) are not among them:
no stack names them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel

from slicewright.infra import plan, stack_file
from slicewright.infra.stack_file.schema.fleet import Fleet
from slicewright.rehearsal.plugins import charts
from tests.recorder import recorded
from tests.repository_stacks import STACKS

_ROOT = Path(__file__).parents[2]
_OPERATOR: Mapping[str, Any] = {"mode": "operator", "layout": {"1g.5gb": 7}}
_GKE: Mapping[str, Any] = {
    "cloud": "gke",
    "cluster": {"name": "c", "location": "us-central1"},
    "node_pools": [
        {
            "name": "a",
            "machine_type": "a2-highgpu-1g",
            "zones": ["us-central1-a"],
            "nodes": {"count": 1},
            "partition": _OPERATOR,
        }
    ],
}
_EKS_POOL: Mapping[str, Any] = {
    "name": "a",
    "machine_type": "p4d.24xlarge",
    "nodes": {"min": 0, "max": 1},
    "partition": _OPERATOR,
}
_MONITORED: Mapping[str, Any] = {
    "prometheus": "stack",
    "create_namespace": False,
    "alertmanager": {"config_secret": "routes"},
}


_IMAGE_ARGUMENT = re.compile(r"--[\w-]+=([\w-]+(?:\.[\w-]+)+(?:/[\w.-]+)+:[\w.-]+)")
"""As `--prometheus-config-reloader=quay.io/prometheus-operator/prometheus-config-reloader:v1`."""


_PIPELINE_IMAGE = re.compile(
    r"^\s*image: *(?:&\w+ *)?(?:\{ *name: *)?\"?([a-z][\w./-]+[:@][\w.:@-]+)", re.M
)
CHART_REPOSITORIES: Mapping[str, str] = {
    "gpu-operator": "https://helm.ngc.nvidia.com/nvidia",
    "cluster-autoscaler": "https://kubernetes.github.io/autoscaler",
    "karpenter": "oci://public.ecr.aws/karpenter",
    "karpenter-crd": "oci://public.ecr.aws/karpenter",
    "kube-prometheus-stack": "https://prometheus-community.github.io/helm-charts",
    "keda": "https://kedacore.github.io/charts",
}


ENGINES: Mapping[str, tuple[str, ...]] = {
    "hami": (
        "docker.io/liangjw/kube-webhook-certgen",
        "docker.io/projecthami/hami",
        "registry.k8s.io/kube-scheduler",
    ),
    "volcano": ("docker.io/volcanosh/vc-controller-manager", "docker.io/volcanosh/vc-scheduler"),
    "volcano-vgpu-device-plugin": ("docker.io/projecthami/volcano-vgpu-device-plugin",),
}
"""Charts of engines for fractions -> the images of their values.yaml, without parts that are off.
"""


def _byo(**keys: Any) -> dict[str, Any]:
    stack = yaml.safe_load(
        (_ROOT / "stacks" / "Pulumi.existing-a100-t4-autoscaling.yaml").read_text()
    )
    fleet: dict[str, Any] = stack["config"]["slicewright:fleet"]
    return {**fleet, **keys}


def _eks(mode: str, **pool: Any) -> dict[str, Any]:
    cluster = {"name": "c", "region": "us-west-2", "version": "1.35", "autoscaler": {"mode": mode}}
    return {"cloud": "eks", "cluster": cluster, "node_pools": [{**_EKS_POOL, **pool}]}


def _shared(provider: str) -> dict[str, Any]:
    pool = {
        "name": "a",
        "machine_type": "g4dn.12xlarge",
        "nodes": {"count": 1},
        "sharing": "fractional",
    }
    cluster = {"name": "c", "region": "us-west-2"}
    fractional = {"provider": provider}
    return {"cloud": "eks", "cluster": cluster, "fractional": fractional, "node_pools": [pool]}


FLEETS: Mapping[str, Mapping[str, Any]] = {
    "monitoring": _byo(monitoring=_MONITORED),
    "KEDA": _byo(monitoring=_MONITORED, pod_autoscaling={}),
    "prometheus-adapter": _byo(monitoring=_MONITORED, pod_autoscaling={"by": "prometheus-adapter"}),
    "driver": _byo(gpu_operator={"driver": {"enabled": True}}),
    "HAMi": _shared("hami"),
    "Volcano": _shared("volcano"),
    "GKE": _GKE,
    "cluster-autoscaler": _eks("cluster-autoscaler"),
    "Karpenter": _eks("karpenter", release_version="1.35.0-20260714"),
}
"""All that a stack can deploy, each with the default chart and image."""


PARTS: Mapping[str, frozenset[str]] = {
    "gpu-operator": frozenset({"node-feature-discovery"}),
    "kube-prometheus-stack": frozenset({"kube-state-metrics"}),
}
"""Chart -> charts that it contains and that the values leave on. The prometheus stack's Grafana and
node exporter are off. Source: the charts' Chart.yaml, dependencies.
"""


@cache
def deployed() -> tuple[frozenset[str], frozenset[str]]:
    """The names of all charts, with those that they contain, and of all images."""
    names: set[str] = set()
    images: set[str] = set()
    fleets = [
        *(plan.read(json.dumps(raw), stack_file.Source(name, raw)) for name, raw in FLEETS.items()),
        *(plan.read_file(file) for file in STACKS),
    ]
    for fleet in fleets:
        if isinstance(fleet, plan.ExistingFleetPlan) and fleet.cluster is None:
            continue
        for resource in recorded(fleet, "licences"):
            if resource.type != "kubernetes:helm.sh/v3:Release":
                images |= set(images_in(resource.inputs))
                continue
            inputs = resource.inputs
            if inputs["chart"] in ENGINES:
                names.add(inputs["chart"])
                images |= set(ENGINES[inputs["chart"]])
                continue
            chart = charts.find(
                inputs["chart"],
                repository=(inputs.get("repositoryOpts") or {}).get("repo"),
                version=inputs["version"],
            )
            names |= {chart.name, *PARTS.get(chart.name, ())}
            # It refuses parts that the rehearsal does not render, Grafana for one.
            assert chart.check(inputs["values"]) == []
            release, namespace = inputs["name"], inputs["namespace"]
            images |= set(images_in(chart.render(inputs["values"], release, namespace)))
    return frozenset(names), frozenset(images)


def images_in(declared: Any) -> Iterator[str]:
    """The images of pods, those of operands that an operator is told by repository and name, and
    those in arguments of its pod; without tag and digest. An image that is never pulled is the
    node's.
    """
    if isinstance(declared, Mapping):
        if declared.get("enabled") is False:
            return
        image = declared.get("image")
        if isinstance(image, str) and image and declared.get("imagePullPolicy") != "Never":
            repository = declared.get("repository")
            yield name_of(f"{repository}/{image}" if repository else image)
        for value in declared.values():
            yield from images_in(value)
    elif isinstance(declared, Sequence) and not isinstance(declared, str):
        for item in declared:
            if isinstance(item, str) and (argument := _IMAGE_ARGUMENT.fullmatch(item)):
                yield name_of(argument[1])
            yield from images_in(item)


def pipeline_images() -> set[str]:
    """The images that the pipelines to copy run in."""
    files = [file for file in (_ROOT / "gitops").rglob("*") if file.suffix in (".yaml", ".yml")]
    text = "\n".join(file.read_text() for file in files)
    return {name_of(image) for image in _PIPELINE_IMAGE.findall(text)}


def name_of(image: str) -> str:
    """With the registry, without tag and digest."""
    path = image.partition("@")[0]
    first, _, rest = path.partition("/")
    if not rest or not {".", ":"} & set(first):
        path = f"docker.io/{path if rest else f'library/{path}'}"
    head, slash, last = path.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def default_addresses() -> Iterator[tuple[str, str]]:
    """Every default of `image` and `repository` in the models of a stack file, with its key."""
    seen: set[type[BaseModel]] = set()
    todo: list[Any] = [Fleet]
    while todo:
        found = todo.pop()
        if isinstance(found, type) and issubclass(found, BaseModel):
            if found in seen:
                continue
            seen.add(found)
            for key, field in found.model_fields.items():
                todo.append(field.annotation)
                if key in ("image", "repository") and isinstance(field.default, str):
                    yield f"{found.__name__}.{key}", field.default
        elif get_origin(found) in (Annotated, Union, UnionType) or get_args(found):
            todo += get_args(found)
