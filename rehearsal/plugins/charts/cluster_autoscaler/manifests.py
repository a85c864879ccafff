"""What the chart installs on AWS. Source: kubernetes/autoscaler,
charts/cluster-autoscaler/templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.charts.cluster_autoscaler.values import VERSION, merged

_RBAC: Final = "rbac.authorization.k8s.io"
_NAME: Final = "aws-cluster-autoscaler"
_READ_VERBS: Final = ("watch", "list", "get")


def render(values: Mapping[str, Any], release: str, namespace: str) -> list[JsonObject]:
    """The manifests, in no particular order; without clusters to discover, as good as none."""
    full = merged(values)
    name = full["fullnameOverride"] or (_NAME if release == _NAME else f"{release}-{_NAME}")
    chosen = {"app.kubernetes.io/instance": release, "app.kubernetes.io/name": _NAME}
    labels = {
        **chosen,
        "app.kubernetes.io/managed-by": "Helm",
        "helm.sh/chart": f"cluster-autoscaler-{VERSION}",
        **full["additionalLabels"],
    }

    def manifest(api: str, kind: str, *, namespaced: bool = True, **body: Any) -> JsonObject:
        metadata: JsonObject = {"name": name, "labels": dict(labels)}
        if namespaced:
            metadata["namespace"] = namespace
        return {"apiVersion": api, "kind": kind, "metadata": metadata, **body}

    manifests: list[JsonObject] = []
    if full["podDisruptionBudget"]:
        budget = {"selector": {"matchLabels": chosen}}
        limits = {
            k: v
            for k, v in full["podDisruptionBudget"].items()
            if k in ("maxUnavailable", "minAvailable")
        }
        manifests.append(manifest("policy/v1", "PodDisruptionBudget", spec={**budget, **limits}))
    account = full["rbac"]["serviceAccount"]
    account_name = account["name"] or name
    if full["rbac"]["create"]:
        if account["create"]:
            service_account = manifest(
                "v1",
                "ServiceAccount",
                automountServiceAccountToken=account["automountServiceAccountToken"],
            )
            service_account["metadata"] |= {"name": account_name}
            if account["annotations"]:
                service_account["metadata"]["annotations"] = dict(account["annotations"])
            manifests.append(service_account)
        subjects = [{"kind": "ServiceAccount", "name": account_name, "namespace": namespace}]
        for kind, rules in (
            ("ClusterRole", [*_cluster_rules(), *full["rbac"]["additionalRules"]]),
            ("Role", _namespace_rules()),
        ):
            namespaced = kind == "Role"
            manifests.append(manifest(f"{_RBAC}/v1", kind, namespaced=namespaced, rules=rules))
            role = {"apiGroup": _RBAC, "kind": kind, "name": name}
            bound = manifest(
                f"{_RBAC}/v1",
                f"{kind}Binding",
                namespaced=namespaced,
                roleRef=role,
                subjects=subjects,
            )
            manifests.append(bound)
    if full["service"]["create"]:
        service = full["service"]
        port = {
            "port": service["servicePort"],
            "protocol": "TCP",
            "targetPort": 8085,
            "name": service["portName"],
        }
        spec = {"ports": [port], "selector": chosen, "type": service["type"]}
        manifests.append(manifest("v1", "Service", spec=spec))
    if full["autoDiscovery"]["clusterName"] or full["autoscalingGroups"]:
        deployment = _deployment(full, chosen, account_name, namespace)
        manifests.append(manifest("apps/v1", "Deployment", spec=deployment))
    return manifests


def _deployment(
    full: JsonObject, chosen: Mapping[str, str], account: str, namespace: str
) -> JsonObject:
    env = [_from_field("POD_NAMESPACE", "metadata.namespace")]
    env.append(_from_field("SERVICE_ACCOUNT", "spec.serviceAccountName"))
    if full["awsRegion"]:
        env.append({"name": "AWS_REGION", "value": full["awsRegion"]})
    env += [{"name": k, "value": str(v)} for k, v in sorted(full["extraEnv"].items())]
    image = full["image"]
    container: JsonObject = {
        "name": _NAME,
        "image": f"{image['repository']}:{image['tag']}",
        "imagePullPolicy": image["pullPolicy"],
        "command": _command(full, namespace),
        "env": env,
        "livenessProbe": {"httpGet": {"path": "/health-check", "port": 8085}},
        "ports": [{"containerPort": 8085}],
        "resources": full["resources"],
    }
    if full["containerSecurityContext"]:
        container["securityContext"] = full["containerSecurityContext"]
    pod: JsonObject = {
        "priorityClassName": full["priorityClassName"],
        "dnsPolicy": full["dnsPolicy"],
        "containers": [container],
        "serviceAccountName": account,
        "tolerations": full["tolerations"],
    }
    for key in ("affinity", "nodeSelector", "securityContext", "topologySpreadConstraints"):
        if full[key]:
            pod[key] = full[key]
    if image["pullSecrets"]:
        pod["imagePullSecrets"] = [{"name": secret} for secret in image["pullSecrets"]]
    labels = {**chosen, **full["podLabels"]}
    metadata: JsonObject = {"labels": labels}
    if full["podAnnotations"]:
        metadata["annotations"] = full["podAnnotations"]
    return {
        "replicas": full["replicaCount"],
        "revisionHistoryLimit": full["revisionHistoryLimit"],
        "selector": {"matchLabels": labels},
        "template": {"metadata": metadata, "spec": pod},
    }


def _command(full: JsonObject, namespace: str) -> list[str]:
    discovery = full["autoDiscovery"]
    command = ["./cluster-autoscaler", "--cloud-provider=aws", f"--namespace={namespace}"]
    for group in full["autoscalingGroups"]:
        command.append(f"--nodes={group['minSize']}:{group['maxSize']}:{group['name']}")
    if discovery["clusterName"]:
        variable = "{{ .Values.autoDiscovery.clusterName }}"
        tags = ",".join(discovery["tags"]).replace(variable, discovery["clusterName"])
        command.append(f"--node-group-auto-discovery=asg:tag={tags}")
    # Everything after an underscore only makes the key another one.
    for key, value in sorted(full["extraArgs"].items()):
        text = str(value).lower() if isinstance(value, bool) else _number(value)
        command.append(f"--{key.partition('_')[0]}={text}")
    return command + list(full["customArgs"])


def _number(value: Any) -> str:
    """Pulumi sends whole numbers as floats; Go's templates print them as 4."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _from_field(name: str, path: str) -> JsonObject:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _cluster_rules() -> list[JsonObject]:
    def rule(group: str, resources: list[str], verbs: tuple[str, ...], *names: str) -> JsonObject:
        only = {"resourceNames": list(names)} if names else {}
        return {"apiGroups": [group], "resources": resources, "verbs": list(verbs), **only}

    me = "cluster-autoscaler"
    return [
        rule("", ["events", "endpoints"], ("create", "patch")),
        rule("", ["pods/eviction"], ("create",)),
        rule("", ["pods/status"], ("update",)),
        rule("", ["endpoints"], ("get", "update"), me),
        rule("", ["nodes"], (*_READ_VERBS, "create", "delete", "update")),
        rule(
            "",
            [
                "namespaces",
                "pods",
                "services",
                "replicationcontrollers",
                "persistentvolumeclaims",
                "persistentvolumes",
            ],
            _READ_VERBS,
        ),
        rule("batch", ["jobs", "cronjobs"], (*_READ_VERBS, "patch")),
        rule("policy", ["poddisruptionbudgets"], ("watch", "list")),
        rule("apps", ["daemonsets", "replicasets", "statefulsets"], _READ_VERBS),
        rule(
            "storage.k8s.io",
            [
                "storageclasses",
                "csinodes",
                "csidrivers",
                "csistoragecapacities",
                "volumeattachments",
            ],
            _READ_VERBS,
        ),
        rule("", ["configmaps"], ("list", "watch", "get")),
        rule("coordination.k8s.io", ["leases"], ("create",)),
        rule("coordination.k8s.io", ["leases"], ("get", "update"), me),
    ]


def _namespace_rules() -> list[JsonObject]:
    status = "cluster-autoscaler-status"
    return [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [status],
            "verbs": ["delete", "get", "update"],
        },
    ]
