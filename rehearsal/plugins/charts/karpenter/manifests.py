"""What the charts install. Source: aws/karpenter-provider-aws v1.15.1, charts/karpenter/templates,
pkg/apis/crds. The kinds of features that are off by default (CapacityBuffer) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.charts import crd_files
from slicewright.rehearsal.plugins.charts.karpenter.values import VERSION, merged

_RBAC: Final = "rbac.authorization.k8s.io"
_NAME: Final = "karpenter"
_READ_VERBS: Final = ("get", "list", "watch")
_KINDS: Final = ("nodepools", "nodeclaims", "nodeoverlays")
_GATES: Final = {
    "ReservedCapacity": "reservedCapacity",
    "SpotToSpotConsolidation": "spotToSpotConsolidation",
    "NodeRepair": "nodeRepair",
    "NodeOverlay": "nodeOverlay",
    "StaticCapacity": "staticCapacity",
    "CapacityBuffer": "capacityBuffer",
}


def definitions(values: Mapping[str, Any], release: str, namespace: str) -> list[JsonObject]:
    return crd_files.read(Path(__file__).parent / "crds")


def render(values: Mapping[str, Any], release: str, namespace: str) -> list[JsonObject]:
    """The manifests, in no particular order. The values must have passed `check`."""
    full = merged(values)
    name = full["fullnameOverride"] or (_NAME if _NAME in release else f"{release}-{_NAME}")
    chosen = {"app.kubernetes.io/name": _NAME, "app.kubernetes.io/instance": release}
    labels = {
        "helm.sh/chart": f"karpenter-{VERSION}",
        **chosen,
        "app.kubernetes.io/version": VERSION,
        "app.kubernetes.io/managed-by": "Helm",
        **full["additionalLabels"],
    }

    def manifest(
        api: str, kind: str, suffix: str = "", *, namespaced: bool = True, **body: Any
    ) -> JsonObject:
        metadata: JsonObject = {"name": f"{name}{suffix}", "labels": dict(labels)}
        if namespaced:
            metadata["namespace"] = namespace
        if full["additionalAnnotations"]:
            metadata["annotations"] = dict(full["additionalAnnotations"])
        return {"apiVersion": api, "kind": kind, "metadata": metadata, **body}

    account = full["serviceAccount"]
    account_name = account["name"] or (name if account["create"] else "default")
    manifests: list[JsonObject] = []
    if account["create"]:
        service_account = manifest("v1", "ServiceAccount", automountServiceAccountToken=False)
        service_account["metadata"] |= {"name": account_name}
        if account["annotations"]:
            service_account["metadata"]["annotations"] = dict(account["annotations"])
        manifests.append(service_account)
    subjects = [{"kind": "ServiceAccount", "name": account_name, "namespace": namespace}]
    for kind, suffix, rules in (
        ("ClusterRole", "", _class_rules()),
        ("ClusterRole", "-core", [*_core_rules(), *full["additionalClusterRoleRules"]]),
        ("Role", "", _lease_rules()),
        ("Role", "-dns", [_rule("", ["services"], ("get",), "kube-dns")]),
    ):
        namespaced = kind == "Role"
        manifests.append(manifest(f"{_RBAC}/v1", kind, suffix, namespaced=namespaced, rules=rules))
        role = {"apiGroup": _RBAC, "kind": kind, "name": f"{name}{suffix}"}
        bound = {"roleRef": role, "subjects": subjects}
        manifests.append(
            manifest(f"{_RBAC}/v1", f"{kind}Binding", suffix, namespaced=namespaced, **bound)
        )
    budget = full["podDisruptionBudget"]
    limits = {"maxUnavailable": budget["maxUnavailable"], "selector": {"matchLabels": chosen}}
    disruption_budget = manifest("policy/v1", "PodDisruptionBudget", spec=limits)
    disruption_budget["metadata"]["name"] = budget["name"]
    port = {
        "name": "http-metrics",
        "port": full["controller"]["metrics"]["port"],
        "targetPort": "http-metrics",
        "protocol": "TCP",
    }
    service = {"type": "ClusterIP", "ports": [port], "selector": chosen}
    return [
        *manifests,
        disruption_budget,
        manifest("v1", "Service", spec=service),
        manifest("apps/v1", "Deployment", spec=_deployment(full, chosen, account_name, name)),
    ]


def _deployment(full: JsonObject, chosen: Mapping[str, str], account: str, name: str) -> JsonObject:
    controller = full["controller"]
    image = controller["image"]
    digest = f"@{image['digest']}" if image["digest"] else ""
    metrics, health = controller["metrics"]["port"], controller["healthProbe"]["port"]
    container: JsonObject = {
        "name": controller["containerName"],
        "image": f"{image['repository']}:{image['tag']}{digest}",
        "imagePullPolicy": full["imagePullPolicy"],
        "securityContext": {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "capabilities": {"drop": ["ALL"]},
        },
        "env": _environment(full, name, metrics=metrics, health=health),
        "ports": [
            {"name": "http-metrics", "containerPort": metrics, "protocol": "TCP"},
            {"name": "http", "containerPort": health, "protocol": "TCP"},
        ],
        "livenessProbe": _probe("/healthz", 30),
        "readinessProbe": _probe("/readyz", 5),
    }
    if controller["resources"]:
        container["resources"] = controller["resources"]
    pod: JsonObject = {
        "automountServiceAccountToken": True,
        "serviceAccountName": account,
        "securityContext": full["podSecurityContext"],
        "priorityClassName": full["priorityClassName"],
        "dnsPolicy": full["dnsPolicy"],
        "schedulerName": full["schedulerName"],
        "containers": [container],
        "nodeSelector": full["nodeSelector"],
        "affinity": _with_selectors(full["affinity"], chosen),
        "topologySpreadConstraints": [
            {"labelSelector": {"matchLabels": dict(chosen)}, **constraint}
            for constraint in full["topologySpreadConstraints"]
        ],
        "tolerations": full["tolerations"],
    }
    if full["hostNetwork"]:
        pod["hostNetwork"] = True
    return {
        "replicas": full["replicas"],
        "revisionHistoryLimit": full["revisionHistoryLimit"],
        "strategy": full["strategy"],
        "selector": {"matchLabels": dict(chosen)},
        "template": {
            "metadata": {
                "labels": {**chosen, **full["podLabels"]},
                "annotations": full["podAnnotations"],
            },
            "spec": pod,
        },
    }


def _environment(full: JsonObject, name: str, *, metrics: int, health: int) -> list[JsonObject]:
    settings, gates = full["settings"], full["settings"]["featureGates"]
    stated = {
        "KUBERNETES_MIN_VERSION": "1.19.0-0",
        "KARPENTER_SERVICE": name,
        "LOG_LEVEL": full["logLevel"],
        "METRICS_PORT": metrics,
        "HEALTH_PROBE_PORT": health,
        "FEATURE_GATES": ",".join(
            f"{gate}={str(gates[key]).lower()}" for gate, key in _GATES.items()
        ),
        "BATCH_MAX_DURATION": settings["batchMaxDuration"],
        "BATCH_IDLE_DURATION": settings["batchIdleDuration"],
        "CLUSTER_NAME": settings["clusterName"],
        "CLUSTER_ENDPOINT": settings["clusterEndpoint"],
        "VM_MEMORY_OVERHEAD_PERCENT": settings["vmMemoryOverheadPercent"],
        "INTERRUPTION_QUEUE": settings["interruptionQueue"],
        "RESERVED_ENIS": settings["reservedENIs"],
    }
    variables = [{"name": key, "value": str(value)} for key, value in stated.items() if value != ""]
    return [*variables, *full["controller"]["env"]]


def _probe(path: str, delay_s: int) -> JsonObject:
    request = {"path": path, "port": "http"}
    return {"initialDelaySeconds": delay_s, "timeoutSeconds": 30, "httpGet": request}


def _with_selectors(affinity: JsonObject, chosen: Mapping[str, str]) -> JsonObject:
    """The chart's own labels where a term of pod anti-affinity states none."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    apart = affinity.get("podAntiAffinity", {})
    terms = [{"labelSelector": {"matchLabels": dict(chosen)}, **t} for t in apart.get(required, ())]
    return {**affinity, "podAntiAffinity": {**apart, required: terms}} if terms else affinity


def _rule(group: str, resources: list[str], verbs: tuple[str, ...], *names: str) -> JsonObject:
    only = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs), **only}


def _class_rules() -> list[JsonObject]:
    group, kind = "karpenter.k8s.aws", "ec2nodeclasses"
    return [
        _rule(group, [kind], _READ_VERBS),
        _rule(group, [kind, f"{kind}/status"], ("patch", "update")),
    ]


def _core_rules() -> list[JsonObject]:
    api_group = "karpenter.sh"
    every = [name for kind in _KINDS for name in (kind, f"{kind}/status")]
    claims = ["nodeclaims", "nodeclaims/status"]
    watched = ["pods", "nodes", "persistentvolumes", "persistentvolumeclaims"]
    changed = ["nodepools", "nodepools/status", "nodeoverlays/status"]
    return [
        _rule(api_group, every, _READ_VERBS),
        _rule("", [*watched, "replicationcontrollers", "namespaces", "events"], _READ_VERBS),
        _rule("storage.k8s.io", ["storageclasses", "csinodes", "volumeattachments"], _READ_VERBS),
        _rule("apps", ["daemonsets", "deployments", "replicasets", "statefulsets"], _READ_VERBS),
        _rule("policy", ["poddisruptionbudgets"], _READ_VERBS),
        _rule(api_group, claims, ("create", "delete", "update", "patch")),
        _rule(api_group, changed, ("update", "patch")),
        _rule("", ["events"], ("create", "patch")),
        _rule("", ["nodes"], ("patch", "delete", "update")),
        _rule("", ["pods/eviction"], ("create",)),
        _rule("", ["pods"], ("delete",)),
    ]


def _lease_rules() -> list[JsonObject]:
    group = "coordination.k8s.io"
    return [
        _rule(group, ["leases"], ("get", "watch")),
        _rule(group, ["leases"], ("patch", "update"), "karpenter-leader-election"),
        _rule(group, ["leases"], ("create",)),
    ]
