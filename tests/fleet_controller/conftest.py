"""A pool, its node and the node's report, all in order, to be spoilt by the tests; and a real API
server.
"""

from __future__ import annotations

import base64
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from slicewright.apis import names
from slicewright.fleet_controller.objects.node import Node, read_node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.report import Report
from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.kubeapi.client import Credentials, path_of
from slicewright.rehearsal.cluster import control_plane
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.fleet_controller.builders import build_node, build_pool
from tests.fleet_controller.node_writers import KUBELETS_NODE, node_writers

__all__ = ["node_writers"]
NOW = 1_800_000_000.0
HASH = "a" * 64
_ROOT = Path(__file__).parents[2]


@pytest.fixture
def now() -> float:
    return NOW


@pytest.fixture
def pool() -> Pool:
    """GKE's way: nobody sets a label."""
    return build_pool(
        name="halves",
        uid="pool-uid",
        generation=3,
        created=NOW - 1000,
        selector={"slicewright.io/pool": "halves"},
        layout_hash=HASH,
        mig_config=None,
    )


@pytest.fixture
def node() -> Node:
    """Made a minute ago, held by the startup taint, as a GKE node is."""
    return build_node(
        name="n1",
        uid="u1",
        version="100",
        created=NOW - 60,
        boot_id="b1",
        labels={"slicewright.io/pool": "halves"},
        taint_keys=("nvidia.com/gpu", "startup-taint.cluster-autoscaler.kubernetes.io/slicewright"),
    )


@pytest.fixture
def report() -> Report:
    return Report(
        name="n1",
        owner_uid="u1",
        verdict="Match",
        reason="PartitionsMatch",
        message="2 GPUs as wanted (3g.40gb x2).",
        pool="halves",
        layout_hash=HASH,
        boot_id="b1",
        time=NOW - 5,
    )


@dataclass(frozen=True)
class ApiServer:
    """A real API server with our CRDs, policy and roles, and what tests do with it over and
    over.
    """

    admin: Client
    endpoint: control_plane.Endpoint

    def apply(self, path: str, body: Mapping[str, Any]) -> None:
        where = f"{path}/{body['metadata']['name']}"
        self.admin.patch(where, dict(body), kind="apply", fieldManager="test", force="true")

    def client(self, token: str) -> Client:
        return Client(
            Credentials(server=self.endpoint.server, ca_data=self.endpoint.ca_pem, token=token),
            timeout_s=60,
        )

    def user(self, name: str, *groups: str, signer: str = "kube-apiserver-client") -> Client:
        """A client with a certificate for this user, signed by the cluster itself.

        signer: of Kubernetes' own ones; `kube-apiserver-client-kubelet` for a kubelet.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
        asked = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
        pem = asked.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        request = {
            "metadata": {"generateName": "test-"},
            "spec": {
                "request": base64.b64encode(pem).decode(),
                "signerName": f"kubernetes.io/{signer}",
                "usages": ["digital signature", "client auth"],
            },
        }
        requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
        made = self.admin.create(requests, request)
        where = f"{requests}/{made['metadata']['name']}"
        approved = {"type": "Approved", "status": "True", "reason": "Test", "message": "a test's"}
        # Not a PUT: a controller may have changed the object meanwhile.
        self.admin.patch(f"{where}/approval", {"status": {"conditions": [approved]}})
        self.wait(lambda: self.admin.get(where)["status"].get("certificate"), "a certificate")
        certificate = base64.b64decode(self.admin.get(where)["status"]["certificate"])
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return Client(
            Credentials(
                server=self.endpoint.server,
                ca_data=self.endpoint.ca_pem,
                client_cert=(certificate, private),
            ),
            timeout_s=60,
        )

    def token(
        self, account: str, *, pod: str | None = None, namespace: str = names.NAMESPACE
    ) -> str:
        """A token of a service account, bound to one of its pods or to nothing."""
        spec: dict[str, Any] = {"expirationSeconds": 3600}
        if pod:
            uid = self.admin.get(f"/api/v1/namespaces/{names.NAMESPACE}/pods/{pod}")["metadata"][
                "uid"
            ]
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        return str(self.admin.create(path, request)["status"]["token"])

    def make_node(self, name: str, pool: str | None = None) -> dict[str, Any]:
        """A Node as a cloud makes it, with the startup taint."""
        taints = [
            {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
            dict(names.STARTUP_TAINT),
        ]
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {names.POOL_LABEL: pool} if pool else {}},
            "spec": {"taints": taints},
        }
        self.admin.create("/api/v1/nodes", body)
        status = {
            "nodeInfo": dict.fromkeys(_NODE_INFO, "") | {"bootID": f"boot-of-{name}"},
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        return self.admin.patch(f"/api/v1/nodes/{name}/status", {"status": status}, kind="merge")

    def make_pod(
        self,
        name: str,
        node: str,
        *,
        namespace: str = names.NAMESPACE,
        account: str = "default",
        gpus: int = 0,
        labels: Mapping[str, str] | None = None,
        tolerations: Sequence[Mapping[str, str]] = ({"operator": "Exists"},),
    ) -> None:
        resources = (
            {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"nvidia.com/gpu": str(gpus)}}
            if gpus
            else {}
        )
        spec = {
            "nodeName": node,
            "serviceAccountName": account,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [dict(one) for one in tolerations],
            "containers": [{"name": "c", "image": "test", "resources": resources}],
        }
        metadata = {"name": name, "labels": dict(labels or {})}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self.admin.create(f"/api/v1/namespaces/{namespace}/pods", body)

    def node(self, name: str) -> Node:
        return read_node(self.admin.get(f"/api/v1/nodes/{name}"))

    def wait(self, holds: Callable[[], bool], what: str, *, timeout_s: float = 180.0) -> None:
        end = time.monotonic() + timeout_s
        while not holds():
            assert time.monotonic() < end, f"not within {timeout_s:g} s: {what}"
            time.sleep(0.05)


_NODE_INFO = (
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
)


@pytest.fixture(scope="session")
def shared_api_server(toolchain: Toolchain) -> Iterator[ApiServer]:
    # Not under tmp_path: its names are long, and a Unix socket's path may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="fleet-") as directory:
        environment = Path(directory)
        endpoint = control_plane.start(environment, "c", toolchain)
        try:
            server = ApiServer(Client.from_kubeconfig(endpoint.kubeconfig), endpoint)
            with _heartbeats(Client.from_kubeconfig(endpoint.kubeconfig)):
                _furnish(server)
                yield server
        finally:
            control_plane.remove(environment, "c")


_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


@pytest.fixture(scope="module")
def api_server(shared_api_server: ApiServer) -> Iterator[ApiServer]:
    """The API server, without the nodes of other modules: many tests read all nodes."""
    before = _node_names(shared_api_server)
    yield shared_api_server
    for name in _node_names(shared_api_server) - before - {KUBELETS_NODE}:
        shared_api_server.admin.delete(f"/api/v1/nodes/{name}")


def _node_names(api_server: ApiServer) -> set[str]:
    return {node["metadata"]["name"] for node in api_server.admin.get("/api/v1/nodes")["items"]}


@contextmanager
def _heartbeats(admin: Client) -> Iterator[None]:
    """Renews the lease of every node, as its kubelet would.

    Without them the node controller calls a node unknown after 50 s and taints it, also in the
    middle of a test (kube-controller-manager's --node-monitor-grace-period).
    """
    over = threading.Event()

    def renew() -> None:
        while not over.wait(5.0):
            # A heartbeat that fails is late; the next one makes up for it.
            with suppress(ApiError, Unreachable):
                for node in admin.get("/api/v1/nodes")["items"]:
                    name = node["metadata"]["name"]
                    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                    lease = {
                        "apiVersion": "coordination.k8s.io/v1",
                        "kind": "Lease",
                        "metadata": {"name": name},
                        "spec": {"holderIdentity": name, "renewTime": now},
                    }
                    admin.patch(
                        f"{_LEASES}/{name}",
                        lease,
                        kind="apply",
                        fieldManager="kubelets",
                        force="true",
                    )

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


_SHIPPED = {
    "Namespace": "namespaces",
    "ResourceQuota": "resourcequotas",
    "NetworkPolicy": "networkpolicies",
    "CustomResourceDefinition": "customresourcedefinitions",
    "ServiceAccount": "serviceaccounts",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
"""Kind -> plural of what the program declares for agents and controller, but for their workloads;
in the order of need.
"""


def _furnish(server: ApiServer) -> None:
    """The very objects that the program asks the engine for, taken from a recording of it."""
    # Not above: the tests without a cluster need neither the program nor its SDKs.
    from slicewright.infra import plan
    from tests.recorder import recorded

    made = [
        m.inputs
        for m in recorded(plan.read_file(_ROOT / "stacks" / "Pulumi.eks-a100.yaml"), "eks-a100")
    ]
    for kind, plural in _SHIPPED.items():
        ours = [with_integers(inputs) for inputs in made if inputs.get("kind") == kind]
        assert ours, f"the program declares no {kind}"
        for body in ours:
            server.apply(
                path_of(body["apiVersion"], plural, namespace=body["metadata"].get("namespace")),
                body,
            )
    for plural in (names.REPORT_PLURAL, names.POOL_PLURAL):
        path = path_of(names.API_VERSION, plural)
        server.wait(lambda path=path: _answers(server, path), f"{path} is served")


def with_integers(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's protocol knows no integers; its Kubernetes provider makes them again, too."""
    found: dict[str, Any] = json.loads(
        json.dumps(inputs),
        parse_float=lambda text: int(float(text)) if float(text).is_integer() else float(text),
    )
    return found


def _answers(server: ApiServer, path: str) -> bool:
    try:
        server.admin.get(path)
    except ApiError:
        return False
    return True
