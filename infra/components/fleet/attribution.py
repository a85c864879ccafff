"""The optional second container of an agent's pod, which reports the pod that holds a partition.

It is separate because the kubelet's socket belongs to root. The agent stays an ordinary user with
its token and NVML. This container runs as root without capabilities. It has the socket's directory
and the code, but no token and no GPU.
"""

from __future__ import annotations

import pulumi_kubernetes as k8s

from slicewright.apis import names
from slicewright.infra import delivery
from slicewright.infra.components import pods

_DIRECTORY = "/var/lib/kubelet/pod-resources"
"""Source: k8s.io/kubernetes v1.36.2, cmd/kubelet/app/options/options.go and
pkg/kubelet/kubeletconfig/defaults.go.
"""
_TOKEN_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
_TOKEN_LIFE_S = 3607
"""The lifetime of the tokens that Kubernetes mounts by default: one hour and 7 seconds."""


def container(image: str, code: delivery.Zipapp) -> k8s.core.v1.ContainerArgs:
    """code: the agent's zipapp, in the volume `code`."""
    return k8s.core.v1.ContainerArgs(
        name="attribution",
        image=image,
        command=pods.command(code, "attribution", "--port", str(names.ATTRIBUTION_PORT)),
        env=[
            pods.field("POD_IP", "status.podIP"),
            # Overrides the image: the pod uses the NVIDIA runtime, and this container needs no GPU.
            k8s.core.v1.EnvVarArgs(name="NVIDIA_VISIBLE_DEVICES", value="void"),
        ],
        ports=[
            k8s.core.v1.ContainerPortArgs(name="attribution", container_port=names.ATTRIBUTION_PORT)
        ],
        # No readiness probe: if the kubelet does not answer, the agent's pod must stay ready, so
        # that its rollout continues.
        liveness_probe=pods.liveness("attribution"),
        resources=k8s.core.v1.ResourceRequirementsArgs(
            requests={"cpu": "10m", "memory": "48Mi"}, limits={"memory": "96Mi"}
        ),
        security_context=_root_without_capabilities(),
        volume_mounts=[
            pods.code_mount(),
            # The directory, not the socket: a restarted kubelet creates a new socket.
            k8s.core.v1.VolumeMountArgs(
                name="pod-resources", mount_path=_DIRECTORY, read_only=True
            ),
        ],
    )


def _root_without_capabilities() -> k8s.core.v1.SecurityContextArgs:
    return k8s.core.v1.SecurityContextArgs(
        run_as_non_root=False,
        run_as_user=0,
        run_as_group=0,
        allow_privilege_escalation=False,
        read_only_root_filesystem=True,
        capabilities=k8s.core.v1.CapabilitiesArgs(drop=["ALL"]),
    )


def volumes() -> list[k8s.core.v1.VolumeArgs]:
    """The socket's directory, and the agent's token. Kubernetes would mount the token in both
    containers.
    """
    return [
        k8s.core.v1.VolumeArgs(
            name="pod-resources",
            # Created if it is missing: the agent must not wait for this optional container.
            host_path=k8s.core.v1.HostPathVolumeSourceArgs(
                path=_DIRECTORY, type="DirectoryOrCreate"
            ),
        ),
        k8s.core.v1.VolumeArgs(
            name="token",
            projected=k8s.core.v1.ProjectedVolumeSourceArgs(sources=_token_sources()),
        ),
    ]


def _token_sources() -> list[k8s.core.v1.VolumeProjectionArgs]:
    """The same files as in the volume that Kubernetes mounts by default."""
    namespace = k8s.core.v1.DownwardAPIVolumeFileArgs(
        path="namespace",
        field_ref=k8s.core.v1.ObjectFieldSelectorArgs(field_path="metadata.namespace"),
    )
    return [
        k8s.core.v1.VolumeProjectionArgs(
            service_account_token=k8s.core.v1.ServiceAccountTokenProjectionArgs(
                path="token", expiration_seconds=_TOKEN_LIFE_S
            )
        ),
        k8s.core.v1.VolumeProjectionArgs(
            config_map=k8s.core.v1.ConfigMapProjectionArgs(
                name="kube-root-ca.crt",
                items=[k8s.core.v1.KeyToPathArgs(key="ca.crt", path="ca.crt")],
            )
        ),
        k8s.core.v1.VolumeProjectionArgs(
            downward_api=k8s.core.v1.DownwardAPIProjectionArgs(items=[namespace])
        ),
    ]


def token_mount() -> k8s.core.v1.VolumeMountArgs:
    """The token, for the agent's container only."""
    return k8s.core.v1.VolumeMountArgs(name="token", mount_path=_TOKEN_DIRECTORY, read_only=True)
