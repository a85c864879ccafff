"""The operands' DaemonSets as the operator makes them for a ClusterPolicy. Pure functions.

Source: NVIDIA/gpu-operator, assets/ and controllers/object_controls.go, release v26.7.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.gpu_operator import pod_parts as part
from slicewright.rehearsal.cluster.gpu_operator.policy import (
    DRIVER_DIRECTORY,
    Operand,
    Policy,
    driver_image,
)
from slicewright.rehearsal.cluster.gpu_operator.scripts import (
    DRIVER_CONTAINER_READY,
    VALIDATIONS,
    WAIT_FOR_TOOLKIT,
)

MANAGED = {"app.kubernetes.io/managed-by": "gpu-operator"}
DEFAULT_MIG_CONFIG = "default-mig-parted-config"
DEFAULT_GPU_CLIENTS = "default-gpu-clients"
CONFIG_FILE = "/config/config.yaml"
_SHELL = ("/bin/sh", "-c")
_ROOT: JsonObject = {"privileged": True, "runAsUser": 0}
"""The validator's image has another user, and its checks need root."""


@dataclass(frozen=True, kw_only=True)
class OperandSet:
    """One operand: its DaemonSet, and what belongs to it."""

    name: str
    state: str
    """The name of the operator's state, as ClusterPolicy's conditions list it."""
    account: str
    operand: Operand
    pod: JsonObject
    """The pod's spec without what all operands have."""
    node_selector: Mapping[str, str]
    part_of: str = ""
    """Value of the label app.kubernetes.io/part-of, which is then in the selector too."""
    has_runtime: bool = True
    """Whether NVIDIA's runtime runs it; else containerd's own."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Others of the DaemonSet and its pods, which are not in the selector."""
    on_delete: bool = False
    """Whether a pod stays as it is until it is deleted."""

    @property
    def selector(self) -> dict[str, str]:
        more = {"app.kubernetes.io/part-of": self.part_of} if self.part_of else {}
        return {"app": self.name, **more}


def operand_sets(policy: Policy, system: str = "") -> list[OperandSet]:
    """Those of enabled operands, in the order of the operator's states.

    system: of the GPU nodes, as `ubuntu22.04`.
    """
    made = [
        _driver(policy, system),
        _toolkit(policy),
        _validator(policy),
        _with_configs(_device_plugin(policy), policy),
        _with_configs(_mps_control_daemon(policy), policy),
        _dcgm_exporter(policy),
        _with_configs(_feature_discovery(policy), policy),
        _mig_manager(policy),
    ]
    return [one for one in made if one.operand.enabled]


def daemonset(one: OperandSet, policy: Policy, namespace: str) -> JsonObject:
    labels = {**one.selector, **one.labels, **MANAGED, **policy.daemonset_labels}
    template: JsonObject = {"labels": labels}
    if policy.daemonset_annotations:
        template["annotations"] = dict(policy.daemonset_annotations)
    pod: JsonObject = {
        **one.pod,
        "serviceAccountName": one.account,
        "priorityClassName": policy.priority_class,
        **({"runtimeClassName": policy.runtime_class} if one.has_runtime else {}),
        "nodeSelector": dict(one.node_selector),
        "tolerations": list(policy.tolerations),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": one.name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "selector": {"matchLabels": one.selector},
            "updateStrategy": (
                {"type": "OnDelete"} if one.on_delete else dict(policy.update_strategy)
            ),
            "template": {"metadata": template, "spec": pod},
        },
    }


# -- the operands
# --------------------------------------------------------------------------------------------------


def _driver(policy: Policy, system: str) -> OperandSet:
    """The driver in a container. Its pod is replaced only when it is deleted.

    Left out: the containers for GPUDirect, and the volumes of what is built.
    """
    return OperandSet(
        name="nvidia-driver-daemonset",
        state="state-driver",
        labels={"app.kubernetes.io/component": "nvidia-driver"},
        account="nvidia-driver",
        operand=policy.driver,
        node_selector=part.deployed("driver"),
        has_runtime=False,
        on_delete=True,
        pod={
            "hostPID": True,
            "initContainers": [_driver_manager(policy)],
            "containers": [_driver_container(policy, system)],
            "volumes": [
                part.host_path("run-nvidia", "/run/nvidia", "DirectoryOrCreate"),
                part.host_path("host-root", "/"),
                part.config_map("driver-startup-probe-script", "nvidia-driver-startup-probe"),
            ],
        },
    )


def _driver_manager(policy: Policy) -> JsonObject:
    """The init container that removes an earlier driver."""
    return {
        "name": "k8s-driver-manager",
        **part.image(policy.driver_manager),
        "command": ["driver-manager"],
        "args": ["uninstall_driver"],
        "env": part.merged(
            [
                part.field("NODE_NAME", "spec.nodeName"),
                part.value("NVIDIA_VISIBLE_DEVICES", "void"),
                part.value("ENABLE_GPU_POD_EVICTION", "true"),
                part.value("ENABLE_AUTO_DRAIN", "false"),
                part.value("DRAIN_TIMEOUT_SECONDS", "0s"),
                part.field("OPERATOR_NAMESPACE", "metadata.namespace"),
            ],
            policy.driver_manager.env,
        ),
        "securityContext": dict(part.PRIVILEGED),
        "volumeMounts": [
            part.mount("run-nvidia", "/run/nvidia", propagation="Bidirectional"),
            part.mount("host-root", "/host", read_only=True, propagation="HostToContainer"),
        ],
    }


def _driver_container(policy: Policy, system: str) -> JsonObject:
    main = part.main(
        "nvidia-driver-ctr",
        replace(policy.driver, image=driver_image(policy, system)),
        command=("nvidia-driver",),
        args=("init",),
        env=(part.field("NODE_NAME", "spec.nodeName"), part.field("NODE_IP", "status.hostIP")),
        mounts=(
            part.mount("run-nvidia", "/run/nvidia", propagation="Bidirectional"),
            {
                "name": "driver-startup-probe-script",
                "mountPath": "/usr/local/bin/startup-probe.sh",
                "subPath": "startup-probe.sh",
            },
        ),
    )
    # NVIDIA's waits for 60 s and asks every 10, because the driver is built meanwhile.
    main["startupProbe"] = {
        "exec": {"command": ["sh", "/usr/local/bin/startup-probe.sh"]},
        "periodSeconds": 1,
        "timeoutSeconds": 60,
        "failureThreshold": 120,
    }
    main["lifecycle"] = {
        "preStop": {
            "exec": {"command": ["/bin/sh", "-c", f"rm -f {VALIDATIONS}/{DRIVER_CONTAINER_READY}"]}
        }
    }
    return main


def _toolkit(policy: Policy) -> OperandSet:
    """Its first container is the validator's, which waits for the driver."""
    wait = [part.value("WITH_WAIT", "true"), part.field("OPERATOR_NAMESPACE", "metadata.namespace")]
    validations = part.mount("run-nvidia-validations", VALIDATIONS, propagation="Bidirectional")
    return OperandSet(
        name="nvidia-container-toolkit-daemonset",
        state="state-container-toolkit",
        account="nvidia-container-toolkit",
        operand=policy.toolkit,
        node_selector=part.deployed("container-toolkit"),
        has_runtime=False,
        pod={
            "hostPID": True,
            "initContainers": [_validation(policy, "driver", wait, validations)],
            "containers": [_toolkit_container(policy)],
            "volumes": [
                part.entrypoint_volume("nvidia-container-toolkit-entrypoint"),
                part.host_path("toolkit-root", "/run/nvidia/toolkit", "DirectoryOrCreate"),
                part.host_path("run-nvidia-validations", VALIDATIONS, "DirectoryOrCreate"),
                _driver_volume(policy),
                part.host_path("host-root", "/"),
                part.host_path("toolkit-install-dir", policy.toolkit_directory),
                part.host_path("cdi-root", "/var/run/cdi", "DirectoryOrCreate"),
                part.host_path("containerd-config", "/etc/containerd", "DirectoryOrCreate"),
                part.host_path(
                    "containerd-drop-in-config", "/etc/containerd/conf.d", "DirectoryOrCreate"
                ),
            ],
        },
    )


def _toolkit_container(policy: Policy) -> JsonObject:
    root = policy.toolkit_directory
    cdi = (
        [
            part.value("CDI_ENABLED", "true"),
            part.value("NVIDIA_RUNTIME_SET_AS_DEFAULT", "false"),
            part.value("NVIDIA_CONTAINER_RUNTIME_MODE", "cdi"),
        ]
        if policy.cdi
        else []
    )
    return part.main(
        "nvidia-container-toolkit-ctr",
        policy.toolkit,
        command=_SHELL,
        args=("/bin/entrypoint.sh",),
        env=(
            part.value("ROOT", root),
            part.value(
                "NVIDIA_CONTAINER_RUNTIME_MODES_CDI_DEFAULT_KIND", "management.nvidia.com/gpu"
            ),
            part.value("NVIDIA_VISIBLE_DEVICES", "void"),
            part.value("TOOLKIT_PID_FILE", "/run/nvidia/toolkit/toolkit.pid"),
            *cdi,
            part.value("RUNTIME", "containerd"),
            part.value("CONTAINERD_RUNTIME_CLASS", policy.runtime_class),
            part.value("RUNTIME_CONFIG", "/runtime/config-dir/config.toml"),
            part.value("RUNTIME_DROP_IN_CONFIG", "/runtime/config-dir.d/99-nvidia.toml"),
        ),
        mounts=(
            part.entrypoint_mount("nvidia-container-toolkit-entrypoint"),
            part.mount("toolkit-root", "/run/nvidia/toolkit"),
            part.mount("run-nvidia-validations", VALIDATIONS),
            part.mount("toolkit-install-dir", root),
            part.mount("driver-install-dir", "/driver-root", propagation="HostToContainer"),
            part.mount("host-root", "/host", read_only=True, propagation="HostToContainer"),
            part.mount("cdi-root", "/var/run/cdi"),
            part.mount("containerd-config", "/runtime/config-dir/"),
            part.mount("containerd-drop-in-config", "/runtime/config-dir.d/"),
        ),
    )


def _validator(policy: Policy) -> OperandSet:
    validations = part.mount("run-nvidia-validations", VALIDATIONS, propagation="Bidirectional")
    node = part.field("NODE_NAME", "spec.nodeName")
    own = part.field("OPERATOR_NAMESPACE", "metadata.namespace")
    checks: dict[str, list[JsonObject]] = {
        "driver": [part.value("WITH_WAIT", "true")],
        "toolkit": [part.value("NVIDIA_VISIBLE_DEVICES", "all"), part.value("WITH_WAIT", "false")],
        "cuda": [
            part.value("WITH_WAIT", "false"),
            node,
            own,
            part.value("VALIDATOR_IMAGE", policy.validator.image),
            part.value("VALIDATOR_IMAGE_PULL_POLICY", policy.validator.pull_policy),
            part.value("VALIDATOR_RUNTIME_CLASS", policy.runtime_class),
        ],
        "plugin": [
            part.value("WITH_WAIT", "false"),
            part.value("WITH_WORKLOAD", "false"),
            part.value("MIG_STRATEGY", policy.mig_strategy),
            node,
            own,
        ],
    }
    if not policy.device_plugin.enabled:
        del checks["plugin"]
    init = [_validation(policy, component, env, validations) for component, env in checks.items()]
    main = part.main(
        "nvidia-operator-validator",
        policy.validator,
        command=("sh", "-c"),
        args=("echo all validations are successful; sleep infinity",),
        mounts=(validations,),
    )
    main["securityContext"] = dict(_ROOT)
    main["lifecycle"] = {
        "preStop": {"exec": {"command": ["/bin/sh", "-c", f"rm -f {VALIDATIONS}/*-ready"]}}
    }
    return OperandSet(
        name="nvidia-operator-validator",
        state="state-operator-validation",
        account="nvidia-operator-validator",
        operand=policy.validator,
        part_of="gpu-operator",
        node_selector=part.deployed("operator-validator"),
        pod={
            "initContainers": init,
            "containers": [main],
            "volumes": [
                part.host_path("run-nvidia-validations", VALIDATIONS, "DirectoryOrCreate"),
                _driver_volume(policy),
                part.host_path("host-root", "/"),
            ],
        },
    )


def _device_plugin(policy: Policy) -> OperandSet:
    cdi = _cdi(policy)
    main = part.main(
        "nvidia-device-plugin",
        policy.device_plugin,
        command=_SHELL,
        args=("/bin/entrypoint.sh",),
        env=(
            part.value("PASS_DEVICE_SPECS", "true"),
            part.value("FAIL_ON_INIT_ERROR", "true"),
            part.value(
                "DEVICE_LIST_STRATEGY", "cdi-annotations,cdi-cri" if policy.cdi else "envvar"
            ),
            part.value("DEVICE_ID_STRATEGY", "uuid"),
            part.value("NVIDIA_VISIBLE_DEVICES", "all"),
            part.value("NVIDIA_DRIVER_CAPABILITIES", "all"),
            part.value("MPS_ROOT", policy.mps_root),
            *cdi,
            *_mig(policy),
        ),
        mounts=(
            part.entrypoint_mount("nvidia-device-plugin-entrypoint"),
            part.mount("device-plugin", "/var/lib/kubelet/device-plugins"),
            part.mount("run-nvidia-validations", VALIDATIONS),
            part.mount("driver-install-dir", "/driver-root", propagation="HostToContainer"),
            part.mount("host-root", "/host", read_only=True, propagation="HostToContainer"),
            part.mount("cdi-root", "/var/run/cdi"),
            part.mount("mps-shm", "/dev/shm"),  # noqa: S108 - a mount of the pod
            part.mount("mps-root", "/mps"),
        ),
    )
    return OperandSet(
        name="nvidia-device-plugin-daemonset",
        state="state-device-plugin",
        account="nvidia-device-plugin",
        operand=policy.device_plugin,
        node_selector=part.deployed("device-plugin"),
        pod={
            "initContainers": [_toolkit_validation(policy, "run-nvidia-validations", VALIDATIONS)],
            "containers": [main],
            "volumes": [
                part.entrypoint_volume("nvidia-device-plugin-entrypoint"),
                part.host_path("device-plugin", "/var/lib/kubelet/device-plugins"),
                part.host_path("run-nvidia-validations", VALIDATIONS, "DirectoryOrCreate"),
                _driver_volume(policy),
                part.host_path("host-root", "/"),
                part.host_path("cdi-root", "/var/run/cdi", "DirectoryOrCreate"),
                part.host_path("mps-root", policy.mps_root, "DirectoryOrCreate"),
                part.host_path("mps-shm", f"{policy.mps_root}/shm"),
            ],
        },
    )


def _mps_control_daemon(policy: Policy) -> OperandSet:
    """Only on nodes where GFD found that a config shares GPUs by MPS."""
    main = part.main(
        "mps-control-daemon-ctr",
        policy.device_plugin,
        command=("mps-control-daemon",),
        env=(
            part.field("NODE_NAME", "spec.nodeName"),
            part.value("NVIDIA_VISIBLE_DEVICES", "all"),
            part.value("NVIDIA_DRIVER_CAPABILITIES", "compute,utility"),
            *_mig(policy),
        ),
        mounts=(part.mount("mps-shm", "/dev/shm"), part.mount("mps-root", "/mps")),  # noqa: S108
    )
    shared_memory: JsonObject = {
        "name": "mps-control-daemon-mounts",
        **part.image(policy.device_plugin),
        "command": ["mps-control-daemon", "mount-shm"],
        "securityContext": dict(part.PRIVILEGED),
        "volumeMounts": [part.mount("mps-root", "/mps", propagation="Bidirectional")],
    }
    return OperandSet(
        name="nvidia-device-plugin-mps-control-daemon",
        state="state-mps-control-daemon",
        account="nvidia-device-plugin",
        operand=policy.device_plugin,
        node_selector={**part.deployed("device-plugin"), "nvidia.com/mps.capable": "true"},
        pod={
            "hostPID": True,
            "initContainers": [
                _toolkit_validation(policy, "run-nvidia", "/run/nvidia"),
                shared_memory,
            ],
            "containers": [main],
            "volumes": [
                part.host_path("run-nvidia", "/run/nvidia", "Directory"),
                part.host_path("mps-root", policy.mps_root, "DirectoryOrCreate"),
                part.host_path("mps-shm", f"{policy.mps_root}/shm"),
            ],
        },
    )


def _dcgm_exporter(policy: Policy) -> OperandSet:
    main = part.main(
        "nvidia-dcgm-exporter",
        policy.dcgm_exporter,
        env=(
            part.value("DCGM_EXPORTER_LISTEN", ":9400"),
            part.value("DCGM_EXPORTER_KUBERNETES", "true"),
            part.value("DCGM_EXPORTER_COLLECTORS", "/etc/dcgm-exporter/dcp-metrics-included.csv"),
        ),
        mounts=(part.mount("pod-gpu-resources", "/var/lib/kubelet/pod-resources", read_only=True),),
    )
    main["ports"] = [{"name": "metrics", "containerPort": 9400}]
    return OperandSet(
        name="nvidia-dcgm-exporter",
        state="state-dcgm-exporter",
        account="nvidia-dcgm-exporter",
        operand=policy.dcgm_exporter,
        node_selector=part.deployed("dcgm-exporter"),
        pod={
            "initContainers": [_toolkit_validation(policy, "run-nvidia", "/run/nvidia")],
            "containers": [main],
            "volumes": [
                part.host_path("pod-gpu-resources", "/var/lib/kubelet/pod-resources"),
                part.host_path("run-nvidia", "/run/nvidia"),
            ],
        },
    )


def _feature_discovery(policy: Policy) -> OperandSet:
    main = part.main(
        "gpu-feature-discovery",
        policy.gfd,
        command=_SHELL,
        args=("/bin/entrypoint.sh",),
        env=(
            part.value("GFD_SLEEP_INTERVAL", "60s"),
            part.value("GFD_FAIL_ON_INIT_ERROR", "true"),
            part.field("NAMESPACE", "metadata.namespace"),
            part.field("NODE_NAME", "spec.nodeName"),
            *_mig(policy),
        ),
        mounts=(
            part.entrypoint_mount("gpu-feature-discovery-entrypoint"),
            part.mount("output-dir", "/etc/kubernetes/node-feature-discovery/features.d"),
            part.mount("dmi-info-dir", "/sys/class/dmi/id", read_only=True),
            part.mount("run-nvidia-validations", VALIDATIONS),
            part.mount("driver-install-dir", "/driver-root", propagation="HostToContainer"),
            part.mount("host-root", "/host", read_only=True, propagation="HostToContainer"),
        ),
    )
    return OperandSet(
        name="gpu-feature-discovery",
        state="gpu-feature-discovery",
        account="nvidia-gpu-feature-discovery",
        operand=policy.gfd,
        part_of="nvidia-gpu",
        node_selector=part.deployed("gpu-feature-discovery"),
        pod={
            "initContainers": [_toolkit_validation(policy, "run-nvidia", "/run/nvidia")],
            "containers": [main],
            "volumes": [
                part.entrypoint_volume("gpu-feature-discovery-entrypoint"),
                part.host_path("output-dir", "/etc/kubernetes/node-feature-discovery/features.d"),
                part.host_path("dmi-info-dir", "/sys/class/dmi/id"),
                part.host_path("run-nvidia", "/run/nvidia", "Directory"),
                part.host_path("run-nvidia-validations", VALIDATIONS, "DirectoryOrCreate"),
                part.host_path("host-root", "/"),
                _driver_volume(policy),
            ],
        },
    )


def _mig_manager(policy: Policy) -> OperandSet:
    cdi = _cdi(policy)
    main = part.main(
        "nvidia-mig-manager",
        policy.mig_manager,
        command=_SHELL,
        args=("/bin/entrypoint.sh",),
        env=(
            part.field("NODE_NAME", "spec.nodeName"),
            part.field("POD_NAME", "metadata.name"),
            part.field("POD_UID", "metadata.uid"),
            part.field("POD_NAMESPACE", "metadata.namespace"),
            part.value("CONFIG_FILE", "/mig-parted-config/config.yaml"),
            part.value("GPU_CLIENTS_FILE", "/gpu-clients/clients.yaml"),
            part.field("DEFAULT_GPU_CLIENTS_NAMESPACE", "metadata.namespace"),
            *cdi,
        ),
        mounts=(
            part.entrypoint_mount("mig-manager-entrypoint"),
            part.mount("run-nvidia-validations", VALIDATIONS),
            part.mount("host-sys", "/sys"),
            part.mount("mig-parted-config", "/mig-parted-config"),
            part.mount("host-root", "/host", propagation="HostToContainer"),
            part.mount("gpu-clients", "/gpu-clients"),
            part.mount("driver-install-dir", "/driver-root", propagation="HostToContainer"),
            part.mount("cdi-root", "/var/run/cdi"),
        ),
    )
    return OperandSet(
        name="nvidia-mig-manager",
        state="state-mig-manager",
        account="nvidia-mig-manager",
        operand=policy.mig_manager,
        node_selector=part.deployed("mig-manager"),
        pod={
            "hostPID": True,
            "hostIPC": True,
            "initContainers": [_toolkit_validation(policy, "run-nvidia", "/run/nvidia")],
            "containers": [main],
            "volumes": [
                part.entrypoint_volume(
                    "mig-manager-entrypoint", config_map="nvidia-mig-manager-entrypoint"
                ),
                part.host_path("run-nvidia", "/run/nvidia", "Directory"),
                part.host_path("run-nvidia-validations", VALIDATIONS, "DirectoryOrCreate"),
                part.host_path("host-sys", "/sys", "Directory"),
                part.config_map("mig-parted-config", policy.mig_config or DEFAULT_MIG_CONFIG),
                part.host_path("host-root", "/"),
                part.config_map("gpu-clients", policy.gpu_clients or DEFAULT_GPU_CLIENTS),
                _driver_volume(policy),
                part.host_path("cdi-root", "/var/run/cdi", "DirectoryOrCreate"),
            ],
        },
    )


# -- named configs of the device plugin
# --------------------------------------------------------------------------------------------------

_PROCESSES = {
    "nvidia-device-plugin-daemonset": "nvidia-device-plugin",
    "gpu-feature-discovery": "gpu-feature-discovery",
    "nvidia-device-plugin-mps-control-daemon": "/usr/bin/mps-control-daemon",
}
"""What config-manager sends SIGHUP to in the pod of each."""


def _with_configs(one: OperandSet, policy: Policy) -> OperandSet:
    """With config-manager, which chooses the node's config by its label, before and beside it.

    Its side container finds the program to signal among the pod's processes.
    """
    if not policy.device_plugin_config:
        return one
    mounts = [
        part.mount("config", "/config"),
        part.mount(policy.device_plugin_config, "/available-configs"),
    ]
    pod = one.pod
    main = {
        **pod["containers"][0],
        "env": [*pod["containers"][0]["env"], part.value("CONFIG_FILE", CONFIG_FILE)],
        "volumeMounts": [*pod["containers"][0]["volumeMounts"], *mounts],
    }
    before = _config_manager("config-manager-init", policy, mounts, signalled="")
    beside = _config_manager("config-manager", policy, mounts, signalled=_PROCESSES[one.name])
    with_configs: JsonObject = {
        **pod,
        "initContainers": [*pod["initContainers"], before],
        "containers": [main, beside],
        "volumes": [
            *pod["volumes"],
            part.config_map(policy.device_plugin_config, policy.device_plugin_config),
            {"name": "config", "emptyDir": {}},
        ],
    }
    if not pod.get("hostPID"):
        with_configs["shareProcessNamespace"] = True
    return replace(one, pod=with_configs)


def _config_manager(
    name: str, policy: Policy, mounts: Sequence[JsonObject], *, signalled: str
) -> JsonObject:
    container: JsonObject = {
        "name": name,
        **part.image(policy.device_plugin),
        "command": ["config-manager"],
        "env": [
            part.value("ONESHOT", "false" if signalled else "true"),
            part.value("KUBECONFIG", ""),
            part.field("NODE_NAME", "spec.nodeName"),
            part.value("NODE_LABEL", "nvidia.com/device-plugin.config"),
            part.value("CONFIG_FILE_SRCDIR", "/available-configs"),
            part.value("CONFIG_FILE_DST", CONFIG_FILE),
            part.value("DEFAULT_CONFIG", policy.device_plugin_default),
            part.value("FALLBACK_STRATEGIES", "empty"),
            part.value("SEND_SIGNAL", "true" if signalled else "false"),
            part.value("SIGNAL", "1" if signalled else ""),
            part.value("PROCESS_TO_SIGNAL", signalled),
        ],
        "volumeMounts": [dict(mount) for mount in mounts],
    }
    if signalled:
        container["securityContext"] = dict(part.PRIVILEGED)
    return container


# -- their parts
# --------------------------------------------------------------------------------------------------


def _validation(
    policy: Policy, component: str, env: Sequence[JsonObject], validations: JsonObject
) -> JsonObject:
    """A container that runs the validator for one component."""
    mounts = [dict(validations)]
    where: list[JsonObject] = []
    if component == "driver":
        mounts = [
            part.mount("host-root", "/host", read_only=True),
            part.mount("driver-install-dir", policy.driver_directory),
            *mounts,
        ]
        if policy.driver_directory != DRIVER_DIRECTORY:
            names = ("DRIVER_INSTALL_DIR", "DRIVER_INSTALL_DIR_CTR_PATH")
            where = [part.value(name, policy.driver_directory) for name in names]
    return {
        "name": f"{component}-validation",
        **part.image(policy.validator),
        "command": ["sh", "-c"],
        "args": ["nvidia-validator"],
        "env": [part.value("COMPONENT", component), *env, *where],
        "securityContext": dict(_ROOT),
        "volumeMounts": mounts,
    }


def _driver_volume(policy: Policy) -> JsonObject:
    return part.host_path("driver-install-dir", policy.driver_directory, "DirectoryOrCreate")


def _cdi(policy: Policy) -> list[JsonObject]:
    if not policy.cdi:
        return []
    hook = f"{policy.toolkit_directory}/toolkit/nvidia-cdi-hook"
    installed = [part.value("NVIDIA_CDI_HOOK_PATH", hook)] if policy.toolkit.enabled else []
    return [part.value("CDI_ENABLED", "true"), *installed]


def _toolkit_validation(policy: Policy, volume: str, path: str) -> JsonObject:
    """Every operand waits for the validator's third file, so it starts after the validator."""
    return {
        "name": "toolkit-validation",
        **part.image(policy.validator),
        "command": ["sh", "-c"],
        "args": [WAIT_FOR_TOOLKIT],
        "securityContext": dict(_ROOT),
        "volumeMounts": [part.mount(volume, path, propagation="HostToContainer")],
    }


def _mig(policy: Policy) -> list[JsonObject]:
    strategy = [part.value("MIG_STRATEGY", policy.mig_strategy)]
    if policy.mig_strategy == "none":
        return strategy
    return [*strategy, part.value("NVIDIA_MIG_MONITOR_DEVICES", "all")]
