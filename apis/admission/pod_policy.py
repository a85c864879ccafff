"""The optional admission policy on pods, against access to GPUs that a pod has not requested.

Plain data. Under NVIDIA's runtime, GPU device nodes enter a container without any request: the
runtime obeys a variable that the pod, a ConfigMap or the image sets. A toleration is no permission
either, as every pod may have one. `docs/explanation/who-can-reach-a-partition.md` explains it at
length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from slicewright.apis.admission.cel import literal, literals, policy, rule
from slicewright.apis.names import NAMESPACE, STARTUP_TAINT_KEY, Manifest

VARIABLE: Final = "NVIDIA_VISIBLE_DEVICES"
"""The variable that NVIDIA's runtime obeys.

Source: NVIDIA/nvidia-container-toolkit, internal/config/image/cuda_image.go.
"""
_NO_GPU: Final = ("void", "none")
_GPU_TAINT: Final = "nvidia.com/gpu"
ALWAYS_EXEMPT: Final = ("kube-system", NAMESPACE)
"""Namespaces whose pods must run on every node, verified or not."""
_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")


def pod_policy(
    *, exempt_namespaces: Sequence[str], name: str = "slicewright-pods"
) -> tuple[Manifest, Manifest]:
    """ValidatingAdmissionPolicy and Binding: outside of the exempt namespaces, no pod gets to a
    node before it is verified, and no container gets GPUs that it has not requested.

    It judges new pods, tolerations added to a pod later (the only part of its scheduling that the
    API server lets anybody add to), and new ephemeral containers. Everything else that changes pods
    works as without the policy, also for pods that are older than it.

    Kubelets create only mirrors of the static pods that they run anyway (NodeRestriction).

    It fails closed, and its expressions have no error to fail with: every optional field is read as
    optional, and the API server validates a pod before it asks. Each list of containers has an
    expression of its own, because their types differ.
    """
    exempt = sorted({*ALWAYS_EXEMPT, *exempt_namespaces})
    return policy(
        name,
        rules=[
            rule(["CREATE", "UPDATE"], ["pods"]),
            rule(["UPDATE"], ["pods/ephemeralcontainers"]),
        ],
        conditions=[
            {
                "name": "not-in-an-exempt-namespace",
                "expression": f"!(request.namespace in {literals(exempt)})",
            },
            {
                "name": "not-a-kubelet",
                "expression": "!request.userInfo.?groups.orValue([]).exists(group, "
                "group == 'system:nodes')",
            },
        ],
        variables=_variables(),
        validations=_validations(),
    )


def _variables() -> list[Manifest]:
    tolerates_all = "t.?key.orValue('') == '' && t.?operator.orValue('') == 'Exists'"
    expressions = {
        "placed": "request.operation == 'CREATE' || "
        "object.spec.?tolerations != oldObject.spec.?tolerations",
        "tolerations": "object.spec.?tolerations.orValue([])",
        "toleratesAll": f"variables.tolerations.exists(t, {tolerates_all})",
        "toleratesStartup": "variables.toleratesAll || variables.tolerations.exists(t, "
        f"t.?key.orValue('') == {literal(STARTUP_TAINT_KEY)})",
        "toleratesGpu": "variables.toleratesAll || variables.tolerations.exists(t, "
        f"t.?key.orValue('') == {literal(_GPU_TAINT)})",
        "containers": "variables.placed ? object.spec.containers : []",
        "initContainers": "variables.placed ? object.spec.?initContainers.orValue([]) : []",
        # A pod is created without any, and none of them ever changes or disappears.
        "ephemeralContainers": "oldObject == null ? [] : "
        "object.spec.?ephemeralContainers.orValue([]).filter(c, "
        "!oldObject.spec.?ephemeralContainers.orValue([]).exists(old, old.name == c.name))",
        "taking": _container_names(
            f"c.?env.orValue([]).exists(e, e.name == {literal(VARIABLE)} && "
            f"!(e.?value.orValue('') in {literals(_NO_GPU)}))"
        ),
        "overriding": _container_names(
            f"{_REQUESTS} && c.?envFrom.orValue([]).exists(source, "
            f"{literal(VARIABLE)}.startsWith(source.?prefix.orValue('')))",
            lists=_LISTS[:2],
        ),
        "open": f"!variables.toleratesGpu ? [] : {_unguarded_containers()}",
    }
    return [{"name": name, "expression": text} for name, text in expressions.items()]


_REQUESTS: Final = (
    "c.?resources.?limits.orValue({}).exists(resource, "
    "(resource in ['nvidia.com/gpu', 'nvidia.com/gpu.shared', 'volcano.sh/vgpu-number'] || "
    "resource.startsWith('nvidia.com/mig-')) && "
    "quantity(c.resources.limits[resource]).isGreaterThan(quantity('0')))"
)
"""CEL expression: does the container get a GPU or partitions from a device plugin, which then sets
the variable for it? Other resources of `nvidia.com/`, such as network devices, leave the variable
as it is, and so does a request for 0.
"""


def _unguarded_containers() -> str:
    """Returns the names of the containers whose image or ConfigMap may set the variable."""
    closed = (
        f"c.?env.orValue([]).exists(e, e.name == {literal(VARIABLE)} && "
        f"e.?value.orValue('') in {literals(_NO_GPU)})"
    )
    # An ephemeral container can request nothing.
    return (
        f"{_container_names(f'!({_REQUESTS}) && !{closed}', lists=_LISTS[:2])} + "
        f"{_container_names(f'!{closed}', lists=_LISTS[2:])}"
    )


def _container_names(condition: str, *, lists: Sequence[str] = _LISTS) -> str:
    """Returns the names of the containers `c` that meet the condition."""
    return " + ".join(f"variables.{part}.filter(c, {condition}).map(c, c.name)" for part in lists)


_WHERE: Final = "; what must be able to runs in a namespace of pod_guard.exempt_namespaces"


def _validations() -> list[Manifest]:
    tolerating = (
        f"tolerates the startup taint {STARTUP_TAINT_KEY} (by its key, or by a toleration without "
        "a key): it would run on GPUs that are not verified. Tolerate the other taints of the "
        f"nodes by their keys{_WHERE}"
    )
    naming = (
        "has a nodeName, so it passes by the scheduler, and with it by the taints of nodes that "
        f"are not verified. Select the node by its label kubernetes.io/hostname{_WHERE}"
    )
    return [
        {
            "expression": "!variables.placed || !variables.toleratesStartup",
            "message": f"the pod {tolerating}",
            "reason": "Forbidden",
        },
        {
            "expression": "request.operation != 'CREATE' || "
            "object.spec.?nodeName.orValue('') == ''",
            "message": f"the pod {naming}",
            "reason": "Forbidden",
        },
        _forbid_containers(
            "taking",
            f"set {VARIABLE}, by which a container gets GPUs that it has not requested. "
            "Request a partition in resources.limits and leave the variable out, or write "
            "the value void",
        ),
        _forbid_containers(
            "overriding",
            f"request GPUs and have an envFrom that could set {VARIABLE}, which would count more "
            "than what was allocated. Give the envFrom a prefix, or name its keys in env",
        ),
        _forbid_containers(
            "open",
            "may run beside GPUs, which their pod tolerates, and request none: their image or a "
            f"ConfigMap could bring them all. Write the variable {VARIABLE} with the value "
            "void in env, or request a partition in resources.limits",
        ),
    ]


def _forbid_containers(variable: str, why: str) -> Manifest:
    """Returns the validation that a list of container names is empty."""
    return {
        "expression": f"variables.{variable}.size() == 0",
        "messageExpression": f"'containers ' + variables.{variable}.join(', ') + "
        f"{literal(f' {why}{_WHERE}')}",
        "message": f"containers of the pod {why}{_WHERE}",
        "reason": "Forbidden",
    }
