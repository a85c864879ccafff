"""Which pods come to GPUs without a request, and that the optional policy refuses them: asked of a
real API server with its controllers.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slicewright.apis import names
from slicewright.apis.admission import pod_policy
from slicewright.kubeapi import ApiError
from tests.fleet_controller.conftest import ApiServer, with_integers

POLICIES = "/apis/admissionregistration.k8s.io/v1"
NAME = "test-pods"
TENANT, EXEMPT = "tenant", "trusted"
VARIABLE = "NVIDIA_VISIBLE_DEVICES"
ALL = {"name": VARIABLE, "value": "all"}
VOID = {"name": VARIABLE, "value": "void"}
GPU = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
STARTUP = {"key": names.STARTUP_TAINT_KEY, "operator": "Exists"}
PARTITION = {"limits": {"nvidia.com/mig-1g.10gb": "1"}}
SETTINGS = {"configMapRef": {"name": "settings"}}
SECRET = {"secretRef": {"name": "settings"}}
FROM = {"configMapKeyRef": {"name": "settings", "key": "devices"}}
INIT = {"name": "first", "image": "i"}


def spec(*containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A pod's spec; `containers` say how they differ from a plain one."""
    listed = [{"name": f"c{i}", "image": "i", **c} for i, c in enumerate(containers or ({},))]
    return {"containers": listed, **fields}


VOID_ENV = {"env": [VOID]}
ON_GPUS = {"tolerations": [GPU]}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "tolerates the startup taint": (
        spec(VOID_ENV, tolerations=[STARTUP]),
        "the pod tolerates the startup taint",
    ),
    "tolerates it by its value": (
        spec(VOID_ENV, tolerations=[{**names.STARTUP_TAINT, "operator": "Equal"}]),
        "the pod tolerates the startup taint",
    ),
    "tolerates it in quarantine": (
        spec(VOID_ENV, tolerations=[{**STARTUP, "effect": "NoExecute"}]),
        "the pod tolerates the startup taint",
    ),
    "tolerates everything": (
        spec(VOID_ENV, tolerations=[{"operator": "Exists"}]),
        "the pod tolerates the startup taint",
    ),
    "tolerates everything that keeps pods away": (
        spec(VOID_ENV, tolerations=[{"operator": "Exists", "effect": "NoSchedule"}]),
        "the pod tolerates the startup taint",
    ),
    "tolerates it among others": (
        spec(VOID_ENV, tolerations=[GPU, {"key": "a", "operator": "Exists"}, STARTUP]),
        "the pod tolerates the startup taint",
    ),
    "names its node": (spec(nodeName="nowhere"), "the pod has a nodeName"),
    "asks for all": (spec({"env": [ALL]}, **ON_GPUS), f"containers c0 set {VARIABLE}"),
    "asks for all without a toleration": (spec({"env": [ALL]}), f"containers c0 set {VARIABLE}"),
    "asks for one": (
        spec({"env": [{"name": VARIABLE, "value": "0:0"}]}, **ON_GPUS),
        f"containers c0 set {VARIABLE}",
    ),
    "asks with another value than void that holds it": (
        spec({"env": [{"name": VARIABLE, "value": "void,all"}]}, **ON_GPUS),
        f"containers c0 set {VARIABLE}",
    ),
    "asks for nothing in words": (
        spec({"env": [{"name": VARIABLE, "value": ""}]}, **ON_GPUS),
        f"containers c0 set {VARIABLE}",
    ),
    "asks by another variable": (
        spec({"env": [{"name": "A", "value": "all"}, {"name": VARIABLE, "value": "$(A)"}]}),
        f"containers c0 set {VARIABLE}",
    ),
    "asks from a ConfigMap": (
        spec({"env": [{"name": VARIABLE, "valueFrom": FROM}]}, **ON_GPUS),
        f"containers c0 set {VARIABLE}",
    ),
    "asks from its own annotations": (
        spec(
            {
                "env": [
                    {
                        "name": VARIABLE,
                        "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['a']"}},
                    }
                ]
            }
        ),
        f"containers c0 set {VARIABLE}",
    ),
    "says void first and all then": (
        spec({"env": [VOID, ALL]}, **ON_GPUS),
        f"containers c0 set {VARIABLE}",
    ),
    "says all first and void then": (
        spec({"env": [ALL, VOID]}, **ON_GPUS),
        f"containers c0 set {VARIABLE}",
    ),
    "requests a partition and asks for all": (
        spec({"env": [ALL], "resources": PARTITION}, **ON_GPUS),
        f"containers c0 set {VARIABLE}",
    ),
    "asks in a second container": (
        spec({"resources": PARTITION}, {"env": [ALL]}, **ON_GPUS),
        f"containers c1 set {VARIABLE}",
    ),
    "asks in an init container": (
        spec({"env": [VOID]}, initContainers=[{**INIT, "env": [ALL]}], **ON_GPUS),
        f"containers first set {VARIABLE}",
    ),
    "asks in a sidecar": (
        spec(
            {"env": [VOID]},
            initContainers=[{**INIT, "env": [ALL], "restartPolicy": "Always"}],
            **ON_GPUS,
        ),
        f"containers first set {VARIABLE}",
    ),
    "leaves it to the image": (spec(**ON_GPUS), "containers c0 may run beside GPUs"),
    "leaves it to the image, with Equal": (
        spec(tolerations=[{"key": "nvidia.com/gpu", "value": "present"}]),
        "containers c0 may run beside GPUs",
    ),
    "leaves it to the image of an init container": (
        spec({"resources": PARTITION}, initContainers=[INIT], **ON_GPUS),
        "containers first may run beside GPUs",
    ),
    "leaves it to the images of two": (
        spec({}, VOID_ENV, {}, **ON_GPUS),
        "containers c0, c2 may run beside GPUs",
    ),
    "leaves it to a ConfigMap": (
        spec({"envFrom": [SETTINGS]}, **ON_GPUS),
        "containers c0 may run beside GPUs",
    ),
    "sets the variable of an old image": (
        spec({"env": [{"name": "CUDA_VERSION", "value": "9.0"}]}, **ON_GPUS),
        "containers c0 may run beside GPUs",
    ),
    "requests none": (
        spec({"resources": {"limits": {"nvidia.com/gpu": "0"}}}, **ON_GPUS),
        "containers c0 may run beside GPUs",
    ),
    "requests another device of NVIDIA": (
        spec({"resources": {"limits": {"nvidia.com/hostdev": "1"}}}, **ON_GPUS),
        "containers c0 may run beside GPUs",
    ),
    "requests a partition and has a ConfigMap": (
        spec({"resources": PARTITION, "envFrom": [SETTINGS]}, **ON_GPUS),
        "containers c0 request GPUs and have an envFrom",
    ),
    "requests a partition and has a Secret whose prefix makes the name": (
        spec({"resources": PARTITION, "envFrom": [{**SECRET, "prefix": "NVIDIA_"}]}, **ON_GPUS),
        "containers c0 request GPUs and have an envFrom",
    ),
}
ALLOWED: dict[str, dict[str, Any]] = {
    "has nothing to do with GPUs": spec({}, {"envFrom": [SETTINGS]}),
    "says void": spec(VOID_ENV, initContainers=[{**INIT, "env": [VOID]}], **ON_GPUS),
    "says none": spec({"env": [{"name": VARIABLE, "value": "none"}]}, **ON_GPUS),
    "says void whatever a ConfigMap says": spec({**VOID_ENV, "envFrom": [SETTINGS]}, **ON_GPUS),
    "requests a partition": spec({"resources": PARTITION}, **ON_GPUS),
    "requests shared GPUs": spec({"resources": {"limits": {"nvidia.com/gpu.shared": "1"}}}),
    "requests a partition, with variables of its own": spec(
        {
            "resources": PARTITION,
            "env": [{"name": "A", "valueFrom": FROM}],
            "envFrom": [{**SETTINGS, "prefix": "APP_"}],
        },
        **ON_GPUS,
    ),
    "requests a partition beside a container that says void": spec(
        {"resources": PARTITION}, VOID_ENV, **ON_GPUS
    ),
    "tolerates other taints": spec(tolerations=[{"key": "spot", "operator": "Exists"}]),
}


def pod(name: str, pod_spec: dict[str, Any], namespace: str = TENANT) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec}


def pods(namespace: str = TENANT) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


@pytest.fixture(scope="module")
def guarded(api_server: ApiServer) -> Iterator[ApiServer]:
    """With the policy, in two namespaces of this module only."""
    for namespace in (TENANT, EXEMPT):
        api_server.apply(
            "/api/v1/namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        )
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        api_server.wait(lambda at=account: _there(api_server, at), account)
    # Pods of before the policy.
    api_server.admin.create(pods(), pod("older", spec(tolerations=[{"operator": "Exists"}])))
    api_server.admin.create(pods(), pod("older-plain", spec()))
    policy, binding = pod_policy.pod_policy(exempt_namespaces=[EXEMPT], name=NAME)
    # Other modules of this session know no such policy.
    policy["spec"]["matchConditions"].append(
        {
            "name": "of-this-test",
            "expression": f"request.namespace in ['{TENANT}', '{EXEMPT}', 'kube-system', "
            f"'{names.NAMESPACE}']",
        }
    )
    api_server.apply(f"{POLICIES}/validatingadmissionpolicies", policy)
    api_server.apply(f"{POLICIES}/validatingadmissionpolicybindings", binding)

    def in_force() -> bool:
        refused = pod("probe", REFUSED["asks for all"][0])
        return _refusal(api_server, refused, dryRun="All") is not None

    api_server.wait(in_force, "the policy is in force")
    yield api_server
    for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        api_server.admin.delete(f"{POLICIES}/{kind}/{NAME}")
    for namespace in (TENANT, EXEMPT):
        api_server.admin.delete(f"/api/v1/namespaces/{namespace}")


def _there(server: ApiServer, path: str) -> bool:
    try:
        server.admin.get(path)
    except ApiError:
        return False
    return True


def _refusal(server: ApiServer, body: dict[str, Any], **query: str) -> str | None:
    """The API server's message, or None where it takes the pod."""
    namespace = body["metadata"]["namespace"]
    try:
        server.admin.create(pods(namespace), body, **query)
    except ApiError as e:
        return e.message
    return None


@pytest.mark.parametrize("case", REFUSED)
def test_it_refuses_a_pod_that(guarded: ApiServer, case: str) -> None:
    pod_spec, why = REFUSED[case]
    message = _refusal(guarded, pod("p", pod_spec), dryRun="All")
    assert message is not None
    assert why in message
    assert "exempt_namespaces" in message


@pytest.mark.parametrize("case", ALLOWED)
def test_it_takes_a_pod_that(guarded: ApiServer, case: str) -> None:
    assert _refusal(guarded, pod("p", ALLOWED[case]), dryRun="All") is None


@pytest.mark.parametrize("namespace", [EXEMPT, "kube-system", names.NAMESPACE])
def test_an_exempt_namespace_may_do_all_of_it(guarded: ApiServer, namespace: str) -> None:
    for pod_spec, _ in REFUSED.values():
        assert _refusal(guarded, pod("p", pod_spec, namespace), dryRun="All") is None


def test_a_toleration_that_comes_later_is_refused(guarded: ApiServer) -> None:
    """The scheduler would take the pod then."""
    guarded.admin.create(pods(), pod("later", spec()))
    where = f"{pods()}/later"
    live = guarded.admin.get(where)["spec"].get("tolerations", [])
    for added, why in ((STARTUP, "the pod tolerates the startup"), (GPU, "c0 may run beside GPUs")):
        with pytest.raises(ApiError, match=why):
            guarded.admin.patch(
                where, {"spec": {"tolerations": [*live, added]}}, kind="merge", dryRun="All"
            )
    spot = {"key": "spot", "operator": "Exists"}
    guarded.admin.patch(where, {"spec": {"tolerations": [*live, spot]}}, kind="merge")
    guarded.admin.delete(where)


def test_pods_from_before_the_policy_can_be_changed_and_deleted(guarded: ApiServer) -> None:
    where = f"{pods()}/older"
    guarded.admin.patch(where, {"metadata": {"labels": {"a": "b"}}})
    changed = {"spec": {"containers": [{"name": "c0", "image": "other"}]}}
    guarded.admin.patch(where, changed, kind="strategic")
    guarded.admin.delete(where)


def _debug(guarded: ApiServer, name: str, **fields: Any) -> None:
    ephemeral = {"name": "debugger", "image": "i", **fields}
    guarded.admin.patch(
        f"{pods()}/{name}/ephemeralcontainers",
        {"spec": {"ephemeralContainers": [ephemeral]}},
        kind="strategic",
        dryRun="All",
    )


def test_an_ephemeral_container_gets_no_gpus_that_its_pod_did_not_request(
    guarded: ApiServer,
) -> None:
    guarded.admin.create(pods(), pod("served", spec({"resources": PARTITION}, **ON_GPUS)))
    for refused, why in (
        ({"env": [ALL]}, f"debugger set {VARIABLE}"),
        ({"env": [{"name": VARIABLE, "valueFrom": FROM}]}, f"debugger set {VARIABLE}"),
        ({}, "debugger may run beside GPUs"),
        ({"envFrom": [SETTINGS]}, "debugger may run beside GPUs"),
    ):
        with pytest.raises(ApiError, match=why):
            _debug(guarded, "served", **refused)
    _debug(guarded, "served", env=[VOID])
    with pytest.raises(ApiError, match=f"debugger set {VARIABLE}"):
        _debug(guarded, "older-plain", env=[ALL])
    _debug(guarded, "older-plain")
    guarded.admin.delete(f"{pods()}/served")


CONTROLLERS = {
    "ReplicaSet": ("/apis/apps/v1", "replicasets"),
    "DaemonSet": ("/apis/apps/v1", "daemonsets"),
    "Job": ("/apis/batch/v1", "jobs"),
}


@pytest.mark.parametrize("kind", CONTROLLERS)
def test_a_controller_that_makes_such_pods_says_why_there_are_none(
    guarded: ApiServer, kind: str
) -> None:
    base, plural = CONTROLLERS[kind]
    name = kind.lower()
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": copy.deepcopy(REFUSED["asks for all"][0]),
    }
    wanted: dict[str, Any] = {"template": template}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    else:
        wanted["selector"] = {"matchLabels": {"app": name}}
    if kind == "DaemonSet":
        guarded.make_node("for-daemons")
        template["spec"]["tolerations"] = [GPU, STARTUP]
    body = {
        "apiVersion": base.removeprefix("/apis/"),
        "kind": kind,
        "metadata": {"name": name},
        "spec": wanted,
    }
    where = f"{base}/namespaces/{TENANT}/{plural}"
    guarded.admin.create(where, body)
    events = f"/api/v1/namespaces/{TENANT}/events"

    def told() -> bool:
        return any(
            e["involvedObject"]["kind"] == kind
            and e["reason"] == "FailedCreate"
            and NAME in e["message"]
            for e in guarded.admin.get(events)["items"]
        )

    guarded.wait(told, f"an event of the {kind}")
    assert not [
        p for p in guarded.admin.get(pods())["items"] if p["metadata"]["labels"]["app"] == name
    ]
    guarded.admin.delete(f"{where}/{name}")


@pytest.mark.parametrize("stack", ["gke-h100-serving", "existing-a100-t4-serving"])
def test_the_servers_of_a_stack_pass(guarded: ApiServer, stack: str) -> None:
    """Those that its pools' nodes run; agents and operands have namespaces that are exempt."""
    from slicewright.infra import plan
    from tests.recorder import recorded

    file = Path(__file__).parents[3] / "stacks" / f"Pulumi.{stack}.yaml"
    templates = {
        m.name: with_integers(m.inputs)["spec"]["template"]
        for m in recorded(plan.read_file(file), stack)
        if m.inputs.get("kind") in ("Deployment", "DaemonSet")
        and m.inputs["metadata"].get("namespace") not in pod_policy.ALWAYS_EXEMPT
    }
    assert templates
    for name, template in templates.items():
        wanted = {**template["spec"]}
        # These need objects of their own namespace, which the API server looks for first.
        wanted.pop("serviceAccountName", None)
        wanted.pop("priorityClassName", None)
        assert _refusal(guarded, pod("p", wanted), dryRun="All") is None, name


def test_a_policy_that_the_api_server_types_has_no_warnings(guarded: ApiServer) -> None:
    """The API server checks expressions against the types of Pod, after the policy is there."""
    where = f"{POLICIES}/validatingadmissionpolicies/{NAME}"
    guarded.wait(lambda: "typeChecking" in guarded.admin.get(where)["status"], "types are checked")
    assert not guarded.admin.get(where)["status"]["typeChecking"].get("expressionWarnings")
