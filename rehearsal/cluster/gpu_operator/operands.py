"""The objects that the operator creates for a ClusterPolicy. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kubeapi import JsonObject
from rehearsal.cluster.gpu_operator.policy import Operand, Policy, PolicyError

MANAGED = {"app.kubernetes.io/managed-by": "gpu-operator"}
_RBAC = "rbac.authorization.k8s.io/v1"
_DEFAULT_MIG_CONFIG = "default-mig-parted-config"
_NODE_NAME: JsonObject = {
    "name": "NODE_NAME",
    "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
}
_NAMESPACE: JsonObject = {
    "name": "NAMESPACE",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
}
_ALL_GPUS: tuple[JsonObject, ...] = (
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
)
# With an empty migManager.config.name, mig-manager 0.14 and newer generate all-<profile> for the
# hardware. The rehearsal builds 0.13.1, so here are only the two that need no hardware.
_DEFAULT_LAYOUTS = """\
version: v1
mig-configs:
  all-disabled:
    - devices: all
      mig-enabled: false
  all-enabled:
    - devices: all
      mig-enabled: true
      mig-devices: {}
"""


@dataclass(frozen=True, kw_only=True)
class _Part:
    """What differs between the operands' DaemonSets."""

    app: str
    deploy: str
    """Selected by the node label nvidia.com/gpu.deploy.<deploy>=true."""
    operand: Operand
    command: tuple[str, ...]
    env: tuple[JsonObject, ...] = ()
    volumes: tuple[JsonObject, ...] = ()
    mounts: tuple[JsonObject, ...] = ()
    cluster_rules: tuple[JsonObject, ...] = ()
    namespace_rules: tuple[JsonObject, ...] = ()
    host_pid: bool = False


def objects(policy: Policy, namespace: str) -> list[JsonObject]:
    """In the order in which to apply them. Raises PolicyError for unsupported settings."""
    if policy.device_plugin_config:
        raise PolicyError(
            f"devicePlugin.config.name is {policy.device_plugin_config!r}: the rehearsal's "
            "GPU operator does not support sharing configs; leave devicePlugin.config empty"
        )
    parts = [p for p in _parts(policy, namespace) if p.operand.enabled]
    made: list[JsonObject] = [
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": policy.runtime_class, "labels": dict(MANAGED)},
            "handler": "nvidia",
        }
    ]
    if policy.mig_manager.enabled and not policy.mig_config:
        made.append(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": _DEFAULT_MIG_CONFIG,
                    "namespace": namespace,
                    "labels": dict(MANAGED),
                },
                "data": {"config.yaml": _DEFAULT_LAYOUTS},
            }
        )
    for part in parts:
        made += _rbac(part, namespace)
        made.append(_daemonset(part, policy, namespace))
    owner = {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "name": policy.name,
        "uid": policy.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    for made_object in made:
        made_object["metadata"]["ownerReferences"] = [owner]
    return made


def daemonset_names(policy: Policy, namespace: str) -> list[str]:
    return [p.app for p in _parts(policy, namespace) if p.operand.enabled]


def _parts(policy: Policy, namespace: str) -> Sequence[_Part]:
    strategy: JsonObject = {"name": "MIG_STRATEGY", "value": policy.mig_strategy}
    monitor: JsonObject = {"name": "NVIDIA_MIG_MONITOR_DEVICES", "value": "all"}
    layouts = policy.mig_config or _DEFAULT_MIG_CONFIG
    clients: tuple[JsonObject, ...] = ()
    clients_volume: tuple[JsonObject, ...] = ()
    clients_mount: tuple[JsonObject, ...] = ()
    if policy.gpu_clients:
        clients = ({"name": "GPU_CLIENTS_FILE", "value": "/gpu-clients/clients.yaml"},)
        clients_volume = ({"name": "gpu-clients", "configMap": {"name": policy.gpu_clients}},)
        clients_mount = ({"name": "gpu-clients", "mountPath": "/gpu-clients"},)
    return (
        _Part(
            app="nvidia-operator-validator",
            deploy="operator-validator",
            operand=policy.validator,
            command=("nvidia-validator",),
        ),
        _Part(
            app="nvidia-device-plugin-daemonset",
            deploy="device-plugin",
            operand=policy.device_plugin,
            command=("nvidia-device-plugin",),
            env=(
                {"name": "FAIL_ON_INIT_ERROR", "value": "true"},
                # With cdi.enabled the real operator sets cdi-annotations,cdi-cri, which need files
                # of the driver that the rehearsal does not have. A pod's resources and device ids
                # are the same.
                {"name": "DEVICE_LIST_STRATEGY", "value": "envvar"},
                {"name": "DEVICE_ID_STRATEGY", "value": "uuid"},
                {"name": "PASS_DEVICE_SPECS", "value": "true"},
                strategy,
                monitor,
                *_ALL_GPUS,
            ),
            volumes=(
                {"name": "device-plugin", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}},
            ),
            mounts=({"name": "device-plugin", "mountPath": "/var/lib/kubelet/device-plugins"},),
        ),
        _Part(
            app="gpu-feature-discovery",
            deploy="gpu-feature-discovery",
            operand=policy.gfd,
            command=("gpu-feature-discovery",),
            env=(
                {"name": "GFD_SLEEP_INTERVAL", "value": "60s"},
                {"name": "GFD_FAIL_ON_INIT_ERROR", "value": "true"},
                {"name": "GFD_USE_NODE_FEATURE_API", "value": "true"},
                _NODE_NAME,
                _NAMESPACE,
                strategy,
                monitor,
                *_ALL_GPUS,
            ),
            namespace_rules=(
                {
                    "apiGroups": ["nfd.k8s-sigs.io"],
                    "resources": ["nodefeatures"],
                    "verbs": ["get", "list", "watch", "create", "update"],
                },
            ),
        ),
        _Part(
            app="nvidia-dcgm-exporter",
            deploy="dcgm-exporter",
            operand=policy.dcgm_exporter,
            command=(),
            env=(_NODE_NAME,),
        ),
        _Part(
            app="nvidia-mig-manager",
            deploy="mig-manager",
            operand=policy.mig_manager,
            command=("nvidia-mig-manager",),
            env=(
                _NODE_NAME,
                {"name": "CONFIG_FILE", "value": "/mig-parted-config/config.yaml"},
                {"name": "DEFAULT_GPU_CLIENTS_NAMESPACE", "value": namespace},
                # On a node with a host driver the real operator sets true: mig-manager then stops
                # host services, and sleeps 30 s at every change of MIG mode. The simulated nodes
                # have no host services; migManager.env can set true.
                {"name": "WITH_SHUTDOWN_HOST_GPU_CLIENTS", "value": "false"},
                *clients,
                *_ALL_GPUS,
            ),
            volumes=(
                {"name": "mig-parted-config", "configMap": {"name": layouts}},
                {"name": "host-root", "hostPath": {"path": "/"}},
                *clients_volume,
            ),
            mounts=(
                {"name": "mig-parted-config", "mountPath": "/mig-parted-config", "readOnly": True},
                {"name": "host-root", "mountPath": "/host", "mountPropagation": "HostToContainer"},
                *clients_mount,
            ),
            cluster_rules=(
                {
                    "apiGroups": [""],
                    "resources": ["nodes"],
                    "verbs": ["get", "list", "watch", "update", "patch"],
                },
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "delete"]},
                {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get", "list"]},
            ),
            host_pid=True,
        ),
    )


def _rbac(part: _Part, namespace: str) -> list[JsonObject]:
    account: JsonObject = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": part.app, "labels": dict(MANAGED), "namespace": namespace},
    }
    made = [account]
    if part.cluster_rules:
        made += _role("ClusterRole", part, part.cluster_rules, namespace)
    if part.namespace_rules:
        made += _role("Role", part, part.namespace_rules, namespace)
    return made


def _role(
    kind: str, part: _Part, rules: Sequence[JsonObject], namespace: str
) -> tuple[JsonObject, JsonObject]:
    """A Role or ClusterRole, and its binding to the operand's service account."""
    metadata: JsonObject = {"name": part.app, "labels": dict(MANAGED)}
    if kind == "Role":
        metadata["namespace"] = namespace
    role: JsonObject = {
        "apiVersion": _RBAC,
        "kind": kind,
        "metadata": dict(metadata),
        "rules": list(rules),
    }
    binding: JsonObject = {
        "apiVersion": _RBAC,
        "kind": f"{kind}Binding",
        "metadata": dict(metadata),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": part.app},
        "subjects": [{"kind": "ServiceAccount", "name": part.app, "namespace": namespace}],
    }
    return role, binding


def _daemonset(part: _Part, policy: Policy, namespace: str) -> JsonObject:
    labels = {"app": part.app, **MANAGED, **policy.daemonset_labels}
    container: JsonObject = {
        "name": part.app,
        "image": part.operand.image,
        "imagePullPolicy": part.operand.pull_policy,
        "env": _merged(part.env, part.operand.env),
        "securityContext": {"privileged": True},
    }
    if part.command:
        container["command"] = list(part.command)
    if part.operand.args:
        container["args"] = list(part.operand.args)
    if part.operand.resources:
        container["resources"] = dict(part.operand.resources)
    if part.mounts:
        container["volumeMounts"] = list(part.mounts)
    template_spec: JsonObject = {
        "serviceAccountName": part.app,
        "priorityClassName": policy.priority_class,
        "runtimeClassName": policy.runtime_class,
        "nodeSelector": {f"nvidia.com/gpu.deploy.{part.deploy}": "true"},
        "tolerations": list(policy.tolerations),
        "containers": [container],
    }
    if part.volumes:
        template_spec["volumes"] = list(part.volumes)
    if part.host_pid:
        template_spec.update({"hostPID": True, "hostIPC": True})
    template_metadata: JsonObject = {"labels": labels}
    if policy.daemonset_annotations:
        template_metadata["annotations"] = dict(policy.daemonset_annotations)
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": part.app, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "selector": {"matchLabels": {"app": part.app}},
            "updateStrategy": dict(policy.update_strategy),
            "template": {"metadata": template_metadata, "spec": template_spec},
        },
    }


def _merged(own: Sequence[JsonObject], given: Sequence[JsonObject]) -> list[JsonObject]:
    """The operand's environment; values of the ClusterPolicy take precedence."""
    merged: dict[str, JsonObject] = {e["name"]: dict(e) for e in own}
    merged.update({e["name"]: dict(e) for e in given})
    return list(merged.values())


PLURALS: Mapping[str, tuple[str, bool]] = {
    "RuntimeClass": ("runtimeclasses", False),
    "ConfigMap": ("configmaps", True),
    "ServiceAccount": ("serviceaccounts", True),
    "ClusterRole": ("clusterroles", False),
    "ClusterRoleBinding": ("clusterrolebindings", False),
    "Role": ("roles", True),
    "RoleBinding": ("rolebindings", True),
    "DaemonSet": ("daemonsets", True),
}
"""Kind -> its plural in API paths, and whether it is namespaced."""
