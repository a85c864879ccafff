"""Pods as real processes, against a real API server."""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from slicewright.kubeapi import ApiError

SERVER = """
import http.server, os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: (print("bye", flush=True), os._exit(0)))
state = {"ready": "/tmp/ready"}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/off": state["code"] = 503
        if self.path == "/die": os._exit(3)
        self.send_response(state.get("code", 200) if self.path == "/readyz" else 200)
        self.end_headers()
    def log_message(self, *a): pass
print("hello from", os.environ["POD_IP"], "as", os.getuid(), flush=True)
http.server.HTTPServer((os.environ["POD_IP"], 8000), Handler).serve_forever()
"""
READY = {
    "readinessProbe": {
        "httpGet": {"path": "/readyz", "port": 8000},
        "periodSeconds": 1,
        "failureThreshold": 1,
    }
}


def container_of(pod: dict[str, Any] | None) -> dict[str, Any]:
    statuses = ((pod or {}).get("status") or {}).get("containerStatuses") or [{}]
    return dict(statuses[0])


def get(address: str, path: str) -> None:
    import urllib.request

    try:
        urllib.request.urlopen(f"http://{address}:8000{path}", timeout=30).read()
    except OSError:
        assert path == "/die"


def test_a_pod_becomes_ready_by_its_own_probe_and_unready_again(cluster: Any) -> None:
    path = cluster.run_python("probed", SERVER, container=READY)
    pod = cluster.ready(path)
    address = pod["status"]["podIP"]
    assert address.startswith("127.")
    assert container_of(pod)["started"] is True
    assert pod["status"]["phase"] == "Running"
    get(address, "/off")
    pod = cluster.until(path, lambda p: p if container_of(p).get("ready") is False else None)
    conditions = {c["type"]: c for c in pod["status"]["conditions"]}
    assert conditions["Ready"]["reason"] == "ContainersNotReady"
    assert conditions["Initialized"]["status"] == conditions["PodScheduled"]["status"] == "True"


def test_logs_come_through_the_api_server(cluster: Any) -> None:
    path = cluster.run_python("logged", SERVER, container=READY)
    address = cluster.ready(path)["status"]["podIP"]
    cluster.says(path, lambda log: log == f"hello from {address} as 0\n")
    assert cluster.log(path, tailLines="0") == ""


def test_the_log_of_a_simulated_pod_says_that_there_is_none(cluster: Any) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain", "namespace": "default"}}
    cluster.create({**pod, "spec": {"containers": [{"name": "c", "image": "busybox"}]}})
    path = "/api/v1/namespaces/default/pods/plain"
    cluster.ready(path)
    assert cluster.log(path) == "this pod is simulated by kwok: it has no process and no log\n"
    cluster.client.delete(path)
    cluster.gone(path)


def kubectl(cluster: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The real one."""
    argv = [cluster.toolchain.control_plane, "kubectl", "--kubeconfig", cluster.kubeconfig]
    return subprocess.run(
        [*argv, *arguments], capture_output=True, text=True, timeout=180, check=False
    )


LOOKS = """
import os, sys
code = open("/code/main.py").read()
print(os.environ["POD_IP"], os.getuid(), code == sys.argv[2], sys.argv[3:], flush=True)
sys.exit(int(sys.argv[1]))
"""


def test_kubectl_exec_runs_a_command_with_the_containers_files_user_and_variables(
    cluster: Any,
) -> None:
    container = {**READY, "securityContext": {"runAsUser": 65532}}
    pod = cluster.ready(cluster.run_python("entered", SERVER, container=container))
    look = ("exec", "entered", "--", "python", "-c", LOOKS)
    for code in (0, 7):
        asked = kubectl(cluster, *look, str(code), SERVER, "$(POD_IP)")
        assert asked.stdout == f"{pod['status']['podIP']} 65532 True ['$(POD_IP)']\n", asked.stderr
        assert asked.returncode == code
    assert "exit code 7" in asked.stderr


def test_kubectl_exec_passes_long_output_on(cluster: Any) -> None:
    cluster.ready(cluster.run_python("talks", SERVER, container=READY))
    asked = kubectl(cluster, "exec", "talks", "--", "python", "-c", "print('x' * 200_000)")
    assert asked.stdout == "x" * 200_000 + "\n"


def test_kubectl_exec_that_is_ended_ends_its_command(cluster: Any) -> None:
    cluster.ready(cluster.run_python("left", SERVER, container=READY))
    argv = [cluster.toolchain.control_plane, "kubectl", "--kubeconfig", cluster.kubeconfig]
    # Other runs of this test on the machine sleep for another number of seconds.
    seconds = str(100_000 + os.getpid())
    script = f"import time; print('here', flush=True); time.sleep({seconds})"
    with subprocess.Popen(
        [*argv, "exec", "left", "--", "python", "-c", script], stdout=subprocess.PIPE, text=True
    ) as asked:
        assert asked.stdout is not None
        assert asked.stdout.readline() == "here\n"
        assert _running(seconds)
        asked.kill()
    _eventually(lambda: not _running(seconds))


def _running(word: str) -> list[str]:
    """Pids of processes with that word in their last argument."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"time.sleep({word})".encode() in arguments[-2:][0]:
                found.append(entry.name)
    return found


@pytest.mark.parametrize(
    ("name", "why"),
    [("plain-exec", "is simulated by kwok: it has no process"), ("waits-exec", "does not run")],
)
def test_kubectl_exec_says_why_it_cannot(cluster: Any, name: str, why: str) -> None:
    if name.startswith("plain"):
        meta = {"name": name, "namespace": "default"}
        spec = {"containers": [{"name": "c", "image": "busybox"}]}
        cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        cluster.ready(f"/api/v1/namespaces/default/pods/{name}")
    else:
        env = [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "none", "key": "k"}}}]
        path = cluster.run_python(name, SERVER, container={"env": env})
        cluster.until(path, lambda p: _waits_for(p) == "CreateContainerConfigError")
    asked = kubectl(cluster, "exec", name, "--", "true")
    assert asked.returncode == 1
    assert why in asked.stderr


@pytest.mark.parametrize(
    ("word", "arguments"),
    [
        ("attach", ("attach", "asked-attach")),
        ("port-forward", ("port-forward", "pod/asked-port-forward", ":8000")),
    ],
)
def test_other_kubelet_requests_of_kubectl_are_refused_with_a_message(
    cluster: Any, word: str, arguments: tuple[str, ...]
) -> None:
    cluster.ready(cluster.run_python(f"asked-{word}", SERVER, container=READY))
    asked = kubectl(cluster, *arguments)
    assert asked.returncode == 1
    assert f"simulated kubelet: kubectl {word} is not simulated; kubectl logs and" in asked.stderr
    assert "<html" not in asked.stderr.lower()


def test_only_the_api_server_can_read_logs(cluster: Any) -> None:
    import http.client
    import ssl

    port = cluster.until(
        "/api/v1/nodes/n1",
        lambda n: n["status"].get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port"),
    )
    pki = cluster.directory / "pki"
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    anonymous = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=30)
    with pytest.raises((OSError, http.client.HTTPException)):
        _status_of(anonymous)
    context.load_cert_chain(pki / "scheduler.crt", pki / "scheduler.key")
    other = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=30)
    assert _status_of(other) == 403


TOKEN = """
import json, os, ssl, urllib.error, urllib.request, base64
account = "/var/run/secrets/kubernetes.io/serviceaccount/"
token = open(account + "token").read()
context = ssl.create_default_context(cafile=account + "ca.crt")
def ask(path, bearer):
    url = "https://%s:%s%s" % (os.environ["KUBERNETES_SERVICE_HOST"],
        os.environ["KUBERNETES_SERVICE_PORT"], path)
    try:
        request = urllib.request.Request(url, headers={"Authorization": "Bearer " + bearer})
        return urllib.request.urlopen(request, context=context).status
    except urllib.error.HTTPError as e:
        return e.code
claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))["kubernetes.io"]
allowed, other = "/api/v1/namespaces/default/configmaps/token", "/api/v1/nodes"
print(json.dumps({
    "allowed": ask(allowed, token), "forbidden": ask(other, token), "nobody": ask(allowed,
    "x" + token[1:]),
    "node": claims["node"]["name"], "pod": claims["pod"]["name"],
    "namespace": open(account + "namespace").read(),
    "uid": os.getuid(), "mode": oct(os.stat(account + "token").st_mode & 0o777),
    "owner": os.stat(account + "token").st_uid,
}))
"""


def test_the_token_is_the_pods_own_and_rbac_applies(cluster: Any) -> None:
    rbac = "rbac.authorization.k8s.io"
    metadata = {"name": "reader", "namespace": "default"}
    cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    cluster.create(
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": metadata, "rules": rules}
    )
    cluster.create(
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
        }
    )
    review = {
        "spec": {
            "user": "system:serviceaccount:default:reader",
            "resourceAttributes": {
                "namespace": "default",
                "verb": "get",
                "resource": "configmaps",
            },
        }
    }
    reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    # The authorizer learns of a role from a watch.
    _eventually(lambda: cluster.client.create(reviews, review)["status"]["allowed"])
    path = cluster.run_python(
        "token",
        TOKEN,
        serviceAccountName="reader",
        restartPolicy="Never",
        securityContext={"runAsUser": 65532, "runAsGroup": 65532, "runAsNonRoot": True},
    )
    cluster.until(path, lambda p: p and p["status"].get("phase") in ("Succeeded", "Failed"))
    assert json.loads(cluster.log(path)) == {
        "allowed": 200,
        "forbidden": 403,
        "nobody": 401,
        "node": "n1",
        "pod": "token",
        "namespace": "default",
        "uid": 65532,
        "mode": "0o600",
        "owner": 65532,
    }


FIELDS = """
import json, os
print(json.dumps({k: os.environ.get(k) for k in ("NAME", "NODE", "LABEL", "NOTE", "IP", "ACCOUNT",
    "ALL", "KEY", "HOSTNAME")}))
print(open("/info/labels").read())
print(sorted(os.listdir("/")), os.access("/code", os.W_OK))
"""


def test_environment_and_files_follow_the_spec(cluster: Any) -> None:
    def field(name: str, path: str) -> dict[str, Any]:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

    env = [
        field("NAME", "metadata.name"),
        field("NODE", "spec.nodeName"),
        field("LABEL", "metadata.labels['app']"),
        field("NOTE", "metadata.annotations['note']"),
        field("IP", "status.podIP"),
        field("ACCOUNT", "spec.serviceAccountName"),
        {"name": "ALL", "value": "$(NAME)@$(NODE)"},
        {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "fields", "key": "main.py"}}},
    ]
    info = {
        "name": "info",
        "downwardAPI": {
            "items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
        },
    }
    mounts = [
        {"name": "code", "mountPath": "/code", "readOnly": True},
        {"name": "info", "mountPath": "/info"},
    ]
    path = cluster.run_python(
        "fields",
        FIELDS,
        volumes=[info],
        container={"env": env, "volumeMounts": mounts},
        restartPolicy="Never",
    )
    pod = cluster.until(
        path, lambda p: p if p and p["status"].get("phase") == "Succeeded" else None
    )
    variables, labels, rest = cluster.log(path).splitlines()
    assert json.loads(variables) == {
        "NAME": "fields",
        "NODE": "n1",
        "LABEL": "fields",
        "NOTE": "n",
        "IP": pod["status"]["podIP"],
        "ACCOUNT": "default",
        "ALL": "fields@n1",
        "KEY": FIELDS,
        "HOSTNAME": "fields",
    }
    assert labels == 'app="fields"'
    assert "work" not in rest
    assert rest.endswith("False")


def test_a_mount_inside_another_is_there_in_whatever_order_they_are_listed(cluster: Any) -> None:
    """As Node Feature Discovery's chart lists a directory of the node, and then around it its own
    settings.
    """
    path = cluster.run_python(
        "nested",
        "import os; print(sorted(os.listdir('/code')), os.listdir('/code/inner'))",
        volumes=[{"name": "inner", "hostPath": {"path": "/sys/class/dmi/id"}}],
        container={
            "volumeMounts": [
                {"name": "inner", "mountPath": "/code/inner", "readOnly": True},
                {"name": "code", "mountPath": "/code", "readOnly": True},
            ]
        },
        restartPolicy="Never",
    )
    cluster.until(path, lambda p: p and p["status"].get("phase") == "Succeeded")
    assert cluster.log(path) == "['inner', 'main.py'] ['product_name']\n"


def test_a_container_that_exits_is_restarted_with_growing_back_off(cluster: Any) -> None:
    path = cluster.run_python("crash", "import sys; print('no', flush=True); sys.exit(7)")
    waiting = cluster.until(
        path, lambda p: container_of(p) if _waits_for(p) == "CrashLoopBackOff" else None
    )
    assert waiting["lastState"]["terminated"]["exitCode"] == 7
    assert waiting["lastState"]["terminated"]["reason"] == "Error"
    assert waiting["restartCount"] >= 1
    _eventually(lambda: any("restarting failed container" in m for m in cluster.events("BackOff")))
    cluster.client.delete(path)
    cluster.gone(path)


def test_restart_policy_on_failure_restarts_until_success(cluster: Any) -> None:
    script = (
        "import os,sys; first = not os.path.exists('/state/x'); open('/state/x','w'); "
        "sys.exit(1 if first else 0)"
    )
    mounts = [{"name": "code", "mountPath": "/code"}, {"name": "state", "mountPath": "/state"}]
    path = cluster.run_python(
        "once-more",
        script,
        restartPolicy="OnFailure",
        volumes=[{"name": "state", "emptyDir": {}}],
        container={"volumeMounts": mounts},
    )
    pod = cluster.until(
        path, lambda p: p if p and p["status"].get("phase") == "Succeeded" else None
    )
    assert container_of(pod)["restartCount"] == 1
    assert container_of(pod)["state"]["terminated"]["reason"] == "Completed"


def test_deletion_sends_sigterm_and_then_removes_the_pod(cluster: Any) -> None:
    stubborn = (
        "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', "
        "flush=True); time.sleep(600)"
    )
    path = cluster.run_python("stubborn", stubborn, terminationGracePeriodSeconds=3600)
    cluster.ready(path)
    _eventually(lambda: cluster.log(path) == "up\n")
    pids = cluster.processes_of(path)
    assert pids
    began = time.monotonic()
    # Within this request's two seconds, and not the hour that the pod has otherwise.
    cluster.client.delete(path, {"gracePeriodSeconds": 2})
    cluster.gone(path)
    assert time.monotonic() - began > 1.9
    assert not set(pids) & set(_alive(pids))


def test_a_missing_volume_is_waited_for(cluster: Any) -> None:
    mounts = [{"name": "code", "mountPath": "/code"}, {"name": "late", "mountPath": "/late"}]
    volumes = [{"name": "late", "configMap": {"name": "late"}}]
    script = "print(open('/late/k').read(), flush=True); import time; time.sleep(600)"
    path = cluster.run_python("waits", script, volumes=volumes, container={"volumeMounts": mounts})
    waiting = cluster.until(
        path,
        lambda p: (
            found
            if "late"
            in (found := container_of(p).get("state", {}).get("waiting", {})).get("message", "")
            else None
        ),
    )
    assert waiting["reason"] == "ContainerCreating"
    _eventually(
        lambda: any('configmap "late" not found' in m for m in cluster.events("FailedMount"))
    )
    metadata = {"name": "late", "namespace": "default"}
    cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}}
    )
    cluster.ready(path)


def test_a_missing_variable_is_waited_for(cluster: Any) -> None:
    env = [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "none", "key": "k"}}}]
    path = cluster.run_python("no-secret", "print(1)", container={"env": env})
    waiting = cluster.until(
        path,
        lambda p: (
            container_of(p).get("state", {}).get("waiting", {}).get("message") and container_of(p)
        ),
    )
    assert waiting["state"]["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": 'secret "none" not found',
    }
    cluster.client.delete(path)
    cluster.gone(path)


def test_unsupported_fields_are_refused_by_name(cluster: Any) -> None:
    path = cluster.run_python(
        "grpc-probe", "print(1)", container={"readinessProbe": {"grpc": {"port": 9000}}}
    )
    waiting = cluster.until(
        path, lambda p: container_of(p) if _waits_for(p) == "RehearsalUnsupported" else None
    )
    assert "readinessProbe" in waiting["state"]["waiting"]["message"]
    cluster.client.delete(path)
    cluster.gone(path)


def test_deleting_a_node_ends_its_processes_and_deletes_its_files(cluster: Any) -> None:
    node = cluster.add_node("short-lived")
    path = cluster.run_python(
        "on-it", SERVER, container=READY, nodeSelector={"kubernetes.io/hostname": "short-lived"}
    )
    cluster.ready(path)
    pids = cluster.processes_of(path)
    directory = cluster.directory / "nodes" / "short-lived"
    assert pids
    assert directory.is_dir()
    cluster.client.delete(node)
    _eventually(lambda: not _alive(pids) and not directory.exists())
    with suppress(ApiError):  # the pod garbage collector may have been first
        cluster.client.delete(path, {"gracePeriodSeconds": 0})


def test_a_recreated_node_is_a_new_machine(cluster: Any) -> None:
    node = cluster.add_node("again")
    mark = cluster.directory / "nodes" / "again" / "root" / "run" / "mark"
    _eventually(lambda: mark.parent.is_dir())
    mark.touch()
    path = cluster.run_python(
        "stays", SERVER, container=READY, nodeSelector={"kubernetes.io/hostname": "again"}
    )
    cluster.ready(path)
    pids = cluster.processes_of(path)
    cluster.client.delete(node)
    cluster.add_node("again")
    path = cluster.run_python(
        "new", SERVER, container=READY, nodeSelector={"kubernetes.io/hostname": "again"}
    )
    cluster.ready(path)
    assert not _alive(pids)
    assert not mark.exists()


def test_after_kill_9_no_pod_runs_and_the_next_kubelet_restarts_them(cluster: Any) -> None:
    user = {"runAsUser": 65532, "runAsNonRoot": True}
    path = cluster.run_python("survivor", SERVER, container=READY, securityContext=user)
    before = cluster.ready(path)
    pids = cluster.processes_of(path)
    assert pids
    cluster.kill_kubelet()
    _eventually(lambda: not _alive(pids))
    cluster.start_kubelet()
    again = cluster.until(
        path,
        lambda p: (
            p if container_of(p).get("restartCount") == 1 and container_of(p).get("ready") else None
        ),
    )
    assert container_of(again)["lastState"]["terminated"]["exitCode"] == 137
    assert again["status"]["podIP"] == before["status"]["podIP"]
    cluster.says(path, lambda log: log == f"hello from {again['status']['podIP']} as 65532\n")


def _status_of(connection: Any) -> int:
    connection.request("GET", "/containerLogs/default/logged/main")
    return int(connection.getresponse().status)


def _waits_for(pod: dict[str, Any] | None) -> str:
    return str(container_of(pod).get("state", {}).get("waiting", {}).get("reason"))


def _alive(pids: list[int]) -> list[int]:
    from pathlib import Path

    def runs(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    return [pid for pid in pids if runs(pid)]


def _eventually(holds: Any, timeout_s: float = 180) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come to it in time"
        time.sleep(0.05)


def test_a_pre_stop_hook_runs_beside_the_container_before_it_is_ended(cluster: Any) -> None:
    path = cluster.run_python(
        "hooked",
        SERVER,
        container={
            **READY,
            "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "touch /notes/hook-ran"]}}},
            "volumeMounts": [
                {"name": "code", "mountPath": "/code"},
                {"name": "notes", "mountPath": "/notes"},
            ],
        },
        volumes=[{"name": "notes", "hostPath": {"path": "/run/notes"}}],
    )
    cluster.ready(path)
    cluster.client.delete(path)
    cluster.gone(path)
    notes = cluster.directory / "nodes" / "n1" / "root/run/notes"
    assert [note.name for note in notes.iterdir()] == ["hook-ran"]


def test_an_exec_probe_runs_in_the_container(cluster: Any) -> None:
    path = cluster.run_python(
        "asked",
        SERVER,
        container={
            "startupProbe": {
                "exec": {"command": ["sh", "-c", "test -e /notes/started"]},
                "periodSeconds": 1,
                "failureThreshold": 600,
            },
            "volumeMounts": [
                {"name": "code", "mountPath": "/code"},
                {"name": "notes", "mountPath": "/notes"},
            ],
        },
        volumes=[
            {"name": "notes", "hostPath": {"path": "/run/asked", "type": "DirectoryOrCreate"}}
        ],
    )
    events = "/api/v1/namespaces/default/events"
    _eventually(
        lambda: any(
            e["reason"] == "Unhealthy" and "Startup probe failed: exit code 1" in e["message"]
            for e in cluster.client.get(events, fieldSelector="involvedObject.name=asked")["items"]
        )
    )
    (cluster.directory / "nodes" / "n1" / "root/run/asked/started").touch()
    cluster.ready(path)
    cluster.client.delete(path)


def test_run_as_non_root_without_a_user_takes_the_images_own(cluster: Any) -> None:
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "nfd", "namespace": "default"},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": "n1"},
                "terminationGracePeriodSeconds": 2,
                "containers": [
                    {
                        "name": "worker",
                        "image": "registry.k8s.io/nfd/node-feature-discovery:v0.19.0",
                        "securityContext": {"runAsNonRoot": True},
                        "volumeMounts": [
                            {"name": "os", "mountPath": "/host-etc/os-release", "readOnly": True}
                        ],
                    }
                ],
                "volumes": [{"name": "os", "hostPath": {"path": "/etc/os-release"}}],
            },
        }
    )
    path = "/api/v1/namespaces/default/pods/nfd"
    cluster.ready(path)
    cluster.client.delete(path)
