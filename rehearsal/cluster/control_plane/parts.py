"""The five processes of a control plane: their command lines, and the order in which they end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slicewright.rehearsal.cluster.control_plane import egress, kwok
from slicewright.rehearsal.cluster.control_plane.access_webhooks import AccessWebhooks
from slicewright.rehearsal.cluster.control_plane.pki import FRONT_PROXY, SERVICE_NETWORK, Pki
from slicewright.rehearsal.host.toolchain import Toolchain

# etcd answers on unix sockets in the cluster's own directory (mode 0700) and not on TCP: no other
# user of the machine can reach it, and no certificate is needed. The names are relative to the
# directory, which is the working directory of both ends, because a unix socket's address holds 107
# bytes and a path may be longer. etcd insists on the form host:port.
ETCD_SOCKET = "etcd.sock:0"
_ETCD_PEER_SOCKET = "etcd-peer.sock:0"


def _go(memory: str) -> Mapping[str, str]:
    """Garbage is collected when the heap has grown fivefold, not when it has doubled, or when the
    process comes near `memory`: a quarter of a control plane's processor time went into it. Where
    half of `memory` is live, the limit is raised (`memory.go` of the toolchain's control plane).
    """
    return {"GOGC": "400", "GOMEMLIMIT": memory}


_KWOK_GO: Mapping[str, str] = {"GOGC": "200"}
"""Of an official binary, in which nobody raises a limit: with thousands of nodes it would be busy
with nothing but garbage.
"""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One process, to be started in the cluster's directory."""

    kind: str
    argv: tuple[str, ...]
    stop_rank: int
    """Lower ends first: the API server after its clients, and before etcd, as it would otherwise
    hang on SIGTERM.
    """
    env: Mapping[str, str] = field(default_factory=dict)


KINDS = ("kwok", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd")


def process_name(kind: str, cluster: str) -> str:
    return f"{kind}-{cluster}"


def etcd(tools: Toolchain) -> Part:
    argv = (
        str(tools.control_plane),
        "etcd",
        "--data-dir=etcd",
        f"--listen-client-url=unix://{ETCD_SOCKET}",
        f"--listen-peer-url=unix://{_ETCD_PEER_SOCKET}",
    )
    return Part(kind="etcd", argv=argv, stop_rank=30, env=_go("300MiB"))


def apiserver(
    tools: Toolchain,
    pki: Pki,
    port: int,
    *,
    admission: Path | None,
    webhooks: AccessWebhooks | None = None,
) -> Part:
    """admission: a file that configures admission plugins; None: their defaults. webhooks: what
    decides on users beside RBAC.
    """
    argv = (
        str(tools.control_plane),
        "kube-apiserver",
        f"--etcd-servers=unix://{ETCD_SOCKET}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        # The port is held for it until it listens; see ports.py.
        "--permit-port-sharing=true",
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={pki.cert('apiserver')}",
        f"--tls-private-key-file={pki.key('apiserver')}",
        f"--client-ca-file={pki.ca}",
        "--anonymous-auth=false",
        f"--authorization-mode=Node,RBAC{',Webhook' if webhooks else ''}",
        *(webhooks.flags() if webhooks else ()),
        # As GKE, EKS and kubeadm have it: what a kubelet may write of Nodes and Pods.
        "--enable-admission-plugins=NodeRestriction",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki.directory / 'service-accounts.pub'}",
        f"--service-account-signing-key-file={pki.key('service-accounts')}",
        f"--service-cluster-ip-range={SERVICE_NETWORK}",
        "--allow-privileged=true",
        f"--kubelet-certificate-authority={pki.ca}",
        f"--kubelet-client-certificate={pki.cert('apiserver-kubelet-client')}",
        f"--kubelet-client-key={pki.key('apiserver-kubelet-client')}",
        "--kubelet-preferred-address-types=InternalIP",
        # For servers of aggregated APIs, such as KEDA's of external.metrics.k8s.io.
        f"--requestheader-client-ca-file={pki.front_proxy_ca}",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki.cert(FRONT_PROXY)}",
        f"--proxy-client-key-file={pki.key(FRONT_PROXY)}",
        f"--egress-selector-config-file={egress.FILE}",
        # Closes open watches; without it they delay its end by a minute.
        "--shutdown-watch-termination-grace-period=1s",
        "--profiling=false",
        *([f"--admission-control-config-file={admission}"] if admission else []),
    )
    return Part(kind="kube-apiserver", argv=argv, stop_rank=20, env=_go("800MiB"))


def controller_manager(tools: Toolchain, pki: Pki, kubeconfig: Path) -> Part:
    argv = (
        str(tools.control_plane),
        "kube-controller-manager",
        f"--kubeconfig={kubeconfig}",
        # Nothing connects to it, so it needs no port.
        "--secure-port=0",
        "--leader-elect=false",
        # With false and RBAC, DaemonSets stay at 0 pods: the manager's own user may not create
        # pods.
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={pki.key('service-accounts')}",
        f"--root-ca-file={pki.ca}",
        f"--cluster-signing-cert-file={pki.ca}",
        f"--cluster-signing-key-file={pki.key('ca')}",
        # The excluded controllers need a cloud.
        "--controllers=*,-node-ipam-controller,-cloud-node-lifecycle-controller,-service-lb-controller,-node-route-controller",
        # At the default of 20 requests/s, fetching its controllers' tokens alone takes 5 s.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    )
    return Part(kind="kube-controller-manager", argv=argv, stop_rank=11, env=_go("300MiB"))


def scheduler(tools: Toolchain, kubeconfig: Path) -> Part:
    argv = (
        str(tools.control_plane),
        "kube-scheduler",
        f"--kubeconfig={kubeconfig}",
        "--secure-port=0",
        "--leader-elect=false",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    )
    return Part(kind="kube-scheduler", argv=argv, stop_rank=11, env=_go("300MiB"))


def kwok_controller(tools: Toolchain, kubeconfig: Path, stages: Path) -> Part:
    argv = (
        str(tools.kwok),
        f"--kubeconfig={kubeconfig}",
        f"--config={stages}",
        f"--manage-nodes-with-annotation-selector={kwok.NODE_ANNOTATION}",
        f"--node-lease-duration-seconds={kwok.LEASE_S}",
        # Addresses of simulated pods; nothing listens there.
        "--cidr=10.244.0.0/16",
    )
    return Part(kind="kwok", argv=argv, stop_rank=10, env=_KWOK_GO)
