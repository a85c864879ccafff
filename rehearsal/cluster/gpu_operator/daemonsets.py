"""The operands' DaemonSets as the operator makes them for a ClusterPolicy. Pure functions.

Source: NVIDIA/gpu-operator, assets/ and controllers/object_controls.go, release v26.7.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kubeapi import JsonObject
from rehearsal.cluster.gpu_operator.policy import DRIVER_DIRECTORY, Operand, Policy
from rehearsal.cluster.gpu_operator.scripts import VALIDATIONS, WAIT_FOR_TOOLKIT

MANAGED = {"app.kubernetes.io/managed-by": "gpu-operator"}
DEFAULT_MIG_CONFIG = "default-mig-parted-config"
DEFAULT_GPU_CLIENTS = "default-gpu-clients"
CONFIG_FILE = "/config/config.yaml"
_SHELL = ("/bin/sh", "-c")
_PRIVILEGED: JsonObject = {"privileged": True}
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

    @property
    def selector(self) -> dict[str, str]:
        more = {"app.kubernetes.io/part-of": self.part_of} if self.part_of else {}
        return {"app": self.name, **more}


def operand_sets(policy: Policy) -> list[OperandSet]:
    """Those of enabled operands, in the order of the operator's states."""
    made = [
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
    labels = {**one.selector, **MANAGED, **policy.daemonset_labels}
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
            "updateStrategy": dict(policy.update_strategy),
            "template": {"metadata": template, "spec": pod},
        },
    }


# -- the operands
# --------------------------------------------------------------------------------------------------


def _toolkit(policy: Policy) -> OperandSet:
    """Its first container is the validator's, which waits for the driver."""
    root = policy.toolkit_directory
    cdi = (
        [
            _value("CDI_ENABLED", "true"),
            _value("NVIDIA_RUNTIME_SET_AS_DEFAULT", "false"),
            _value("NVIDIA_CONTAINER_RUNTIME_MODE", "cdi"),
        ]
        if policy.cdi
        else []
    )
    main = _main(
        "nvidia-container-toolkit-ctr",
        policy.toolkit,
        command=_SHELL,
        args=("/bin/entrypoint.sh",),
        env=(
            _value("ROOT", root),
            _value("NVIDIA_CONTAINER_RUNTIME_MODES_CDI_DEFAULT_KIND", "management.nvidia.com/gpu"),
            _value("NVIDIA_VISIBLE_DEVICES", "void"),
            _value("TOOLKIT_PID_FILE", "/run/nvidia/toolkit/toolkit.pid"),
            *cdi,
            _value("RUNTIME", "containerd"),
            _value("CONTAINERD_RUNTIME_CLASS", policy.runtime_class),
            _value("RUNTIME_CONFIG", "/runtime/config-dir/config.toml"),
            _value("RUNTIME_DROP_IN_CONFIG", "/runtime/config-dir.d/99-nvidia.toml"),
        ),
        mounts=(
            _entrypoint_mount("nvidia-container-toolkit-entrypoint"),
            _mount("toolkit-root", "/run/nvidia/toolkit"),
            _mount("run-nvidia-validations", VALIDATIONS),
            _mount("toolkit-install-dir", root),
            _mount("driver-install-dir", "/driver-root", propagation="HostToContainer"),
            _mount("host-root", "/host", read_only=True, propagation="HostToContainer"),
            _mount("cdi-root", "/var/run/cdi"),
            _mount("containerd-config", "/runtime/config-dir/"),
            _mount("containerd-drop-in-config", "/runtime/config-dir.d/"),
        ),
    )
    wait = [_value("WITH_WAIT", "true"), _field("OPERATOR_NAMESPACE", "metadata.namespace")]
    validations = _mount("run-nvidia-validations", VALIDATIONS, propagation="Bidirectional")
    return OperandSet(
        name="nvidia-container-toolkit-daemonset",
        state="state-container-toolkit",
        account="nvidia-container-toolkit",
        operand=policy.toolkit,
        node_selector=_deployed("container-toolkit"),
        has_runtime=False,
        pod={
            "hostPID": True,
            "initContainers": [_validation(policy, "driver", wait, validations)],
            "containers": [main],
            "volumes": [
                _entrypoint_volume("nvidia-container-toolkit-entrypoint"),
                _host_path("toolkit-root", "/run/nvidia/toolkit", "DirectoryOrCreate"),
                _host_path("run-nvidia-validations", VALIDATIONS, "DirectoryOrCreate"),
                _driver_volume(policy),
                _host_path("host-root", "/"),
                _host_path("toolkit-install-dir", root),
                _host_path("cdi-root", "/var/run/cdi", "DirectoryOrCreate"),
                _host_path("containerd-config", "/etc/containerd", "DirectoryOrCreate"),
                _host_path(
                    "containerd-drop-in-config", "/etc/containerd/conf.d", "DirectoryOrCreate"
                ),
            ],
        },
    )


def _validator(policy: Policy) -> OperandSet:
    validations = _mount("run-nvidia-validations", VALIDATIONS, propagation="Bidirectional")
    node = _field("NODE_NAME", "spec.nodeName")
    own = _field("OPERATOR_NAMESPACE", "metadata.namespace")
    checks: dict[str, list[JsonObject]] = {
        "driver": [_value("WITH_WAIT", "true")],
        "toolkit": [_value("NVIDIA_VISIBLE_DEVICES", "all"), _value("WITH_WAIT", "false")],
        "cuda": [_value("WITH_WAIT", "false"), node, own],
        "plugin": [
            _value("WITH_WAIT", "false"),
            _value("WITH_WORKLOAD", "false"),
            _value("MIG_STRATEGY", policy.mig_strategy),
            node,
            own,
        ],
    }
    if not policy.device_plugin.enabled:
        del checks["plugin"]
    init = [_validation(policy, component, env, validations) for component, env in checks.items()]
    main = _main(
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
        node_selector=_deployed("operator-validator"),
        pod={
            "initContainers": init,
            "containers": [main],
            "volumes": [
                _host_path("run-nvidia-validations", VALIDATIONS, "DirectoryOrCreate"),
                _driver_volume(policy),
                _host_path("host-root", "/"),
            ],
        },
    )


def _device_plugin(policy: Policy) -> OperandSet:
    cdi = _cdi(policy)
    main = _main(
        "nvidia-device-plugin",
        policy.device_plugin,
        command=_SHELL,
        args=("/bin/entrypoint.sh",),
        env=(
            _value("PASS_DEVICE_SPECS", "true"),
            _value("FAIL_ON_INIT_ERROR", "true"),
            _value("DEVICE_LIST_STRATEGY", "cdi-annotations,cdi-cri" if policy.cdi else "envvar"),
            _value("DEVICE_ID_STRATEGY", "uuid"),
            _value("NVIDIA_VISIBLE_DEVICES", "all"),
            _value("NVIDIA_DRIVER_CAPABILITIES", "all"),
            _value("MPS_ROOT", policy.mps_root),
            *cdi,
            *_mig(policy),
        ),
        mounts=(
            _entrypoint_mount("nvidia-device-plugin-entrypoint"),
            _mount("device-plugin", "/var/lib/kubelet/device-plugins"),
            _mount("run-nvidia-validations", VALIDATIONS),
            _mount("driver-install-dir", "/driver-root", propagation="HostToContainer"),
            _mount("host-root", "/host", read_only=True, propagation="HostToContainer"),
            _mount("cdi-root", "/var/run/cdi"),
            _mount("mps-shm", "/dev/shm"),  # noqa: S108 - a mount of the pod
            _mount("mps-root", "/mps"),
        ),
    )
    return OperandSet(
        name="nvidia-device-plugin-daemonset",
        state="state-device-plugin",
        account="nvidia-device-plugin",
        operand=policy.device_plugin,
        node_selector=_deployed("device-plugin"),
        pod={
            "initContainers": [_toolkit_validation(policy, "run-nvidia-validations", VALIDATIONS)],
            "containers": [main],
            "volumes": [
                _entrypoint_volume("nvidia-device-plugin-entrypoint"),
                _host_path("device-plugin", "/var/lib/kubelet/device-plugins"),
                _host_path("run-nvidia-validations", VALIDATIONS, "DirectoryOrCreate"),
                _driver_volume(policy),
                _host_path("host-root", "/"),
                _host_path("cdi-root", "/var/run/cdi", "DirectoryOrCreate"),
                _host_path("mps-root", policy.mps_root, "DirectoryOrCreate"),
                _host_path("mps-shm", f"{policy.mps_root}/shm"),
            ],
        },
    )


def _mps_control_daemon(policy: Policy) -> OperandSet:
    """Only on nodes where GFD found that a config shares GPUs by MPS."""
    main = _main(
        "mps-control-daemon-ctr",
        policy.device_plugin,
        command=("mps-control-daemon",),
        env=(
            _field("NODE_NAME", "spec.nodeName"),
            _value("NVIDIA_VISIBLE_DEVICES", "all"),
            _value("NVIDIA_DRIVER_CAPABILITIES", "compute,utility"),
            *_mig(policy),
        ),
        mounts=(_mount("mps-shm", "/dev/shm"), _mount("mps-root", "/mps")),  # noqa: S108
    )
    shared_memory: JsonObject = {
        "name": "mps-control-daemon-mounts",
        **_image(policy.device_plugin),
        "command": ["mps-control-daemon", "mount-shm"],
        "securityContext": dict(_PRIVILEGED),
        "volumeMounts": [_mount("mps-root", "/mps", propagation="Bidirectional")],
    }
    return OperandSet(
        name="nvidia-device-plugin-mps-control-daemon",
        state="state-mps-control-daemon",
        account="nvidia-device-plugin",
        operand=policy.device_plugin,
        node_selector={**_deployed("device-plugin"), "nvidia.com/mps.capable": "true"},
        pod={
            "hostPID": True,
            "initContainers": [
                _toolkit_validation(policy, "run-nvidia", "/run/nvidia"),
                shared_memory,
            ],
            "containers": [main],
            "volumes": [
                _host_path("run-nvidia", "/run/nvidia", "Directory"),
                _host_path("mps-root", policy.mps_root, "DirectoryOrCreate"),
                _host_path("mps-shm", f"{policy.mps_root}/shm"),
            ],
        },
    )


def _dcgm_exporter(policy: Policy) -> OperandSet:
    main = _main(
        "nvidia-dcgm-exporter",
        policy.dcgm_exporter,
        env=(
            _value("DCGM_EXPORTER_LISTEN", ":9400"),
            _value("DCGM_EXPORTER_KUBERNETES", "true"),
            _value("DCGM_EXPORTER_COLLECTORS", "/etc/dcgm-exporter/dcp-metrics-included.csv"),
        ),
        mounts=(_mount("pod-gpu-resources", "/var/lib/kubelet/pod-resources", read_only=True),),
    )
    main["ports"] = [{"name": "metrics", "containerPort": 9400}]
    return OperandSet(
        name="nvidia-dcgm-exporter",
        state="state-dcgm-exporter",
        account="nvidia-dcgm-exporter",
        operand=policy.dcgm_exporter,
        node_selector=_deployed("dcgm-exporter"),
        pod={
            "initContainers": [_toolkit_validation(policy, "run-nvidia", "/run/nvidia")],
            "containers": [main],
            "volumes": [
                _host_path("pod-gpu-resources", "/var/lib/kubelet/pod-resources"),
                _host_path("run-nvidia", "/run/nvidia"),
            ],
        },
    )


def _feature_discovery(policy: Policy) -> OperandSet:
    main = _main(
        "gpu-feature-discovery",
        policy.gfd,
        command=_SHELL,
        args=("/bin/entrypoint.sh",),
        env=(
            _value("GFD_SLEEP_INTERVAL", "60s"),
            _value("GFD_FAIL_ON_INIT_ERROR", "true"),
            _field("NAMESPACE", "metadata.namespace"),
            _field("NODE_NAME", "spec.nodeName"),
            *_mig(policy),
        ),
        mounts=(
            _entrypoint_mount("gpu-feature-discovery-entrypoint"),
            _mount("output-dir", "/etc/kubernetes/node-feature-discovery/features.d"),
            _mount("dmi-info-dir", "/sys/class/dmi/id", read_only=True),
            _mount("run-nvidia-validations", VALIDATIONS),
            _mount("driver-install-dir", "/driver-root", propagation="HostToContainer"),
            _mount("host-root", "/host", read_only=True, propagation="HostToContainer"),
        ),
    )
    return OperandSet(
        name="gpu-feature-discovery",
        state="gpu-feature-discovery",
        account="nvidia-gpu-feature-discovery",
        operand=policy.gfd,
        part_of="nvidia-gpu",
        node_selector=_deployed("gpu-feature-discovery"),
        pod={
            "initContainers": [_toolkit_validation(policy, "run-nvidia", "/run/nvidia")],
            "containers": [main],
            "volumes": [
                _entrypoint_volume("gpu-feature-discovery-entrypoint"),
                _host_path("output-dir", "/etc/kubernetes/node-feature-discovery/features.d"),
                _host_path("dmi-info-dir", "/sys/class/dmi/id"),
                _host_path("run-nvidia", "/run/nvidia", "Directory"),
                _host_path("run-nvidia-validations", VALIDATIONS, "DirectoryOrCreate"),
                _host_path("host-root", "/"),
                _driver_volume(policy),
            ],
        },
    )


def _mig_manager(policy: Policy) -> OperandSet:
    cdi = _cdi(policy)
    main = _main(
        "nvidia-mig-manager",
        policy.mig_manager,
        command=_SHELL,
        args=("/bin/entrypoint.sh",),
        env=(
            _field("NODE_NAME", "spec.nodeName"),
            _field("POD_NAME", "metadata.name"),
            _field("POD_UID", "metadata.uid"),
            _field("POD_NAMESPACE", "metadata.namespace"),
            _value("CONFIG_FILE", "/mig-parted-config/config.yaml"),
            _value("GPU_CLIENTS_FILE", "/gpu-clients/clients.yaml"),
            _field("DEFAULT_GPU_CLIENTS_NAMESPACE", "metadata.namespace"),
            *cdi,
        ),
        mounts=(
            _entrypoint_mount("mig-manager-entrypoint"),
            _mount("run-nvidia-validations", VALIDATIONS),
            _mount("host-sys", "/sys"),
            _mount("mig-parted-config", "/mig-parted-config"),
            _mount("host-root", "/host", propagation="HostToContainer"),
            _mount("gpu-clients", "/gpu-clients"),
            _mount("driver-install-dir", "/driver-root", propagation="HostToContainer"),
            _mount("cdi-root", "/var/run/cdi"),
        ),
    )
    return OperandSet(
        name="nvidia-mig-manager",
        state="state-mig-manager",
        account="nvidia-mig-manager",
        operand=policy.mig_manager,
        node_selector=_deployed("mig-manager"),
        pod={
            "hostPID": True,
            "hostIPC": True,
            "initContainers": [_toolkit_validation(policy, "run-nvidia", "/run/nvidia")],
            "containers": [main],
            "volumes": [
                _entrypoint_volume(
                    "mig-manager-entrypoint", config_map="nvidia-mig-manager-entrypoint"
                ),
                _host_path("run-nvidia", "/run/nvidia", "Directory"),
                _host_path("run-nvidia-validations", VALIDATIONS, "DirectoryOrCreate"),
                _host_path("host-sys", "/sys", "Directory"),
                _config_map("mig-parted-config", policy.mig_config or DEFAULT_MIG_CONFIG),
                _host_path("host-root", "/"),
                _config_map("gpu-clients", policy.gpu_clients or DEFAULT_GPU_CLIENTS),
                _driver_volume(policy),
                _host_path("cdi-root", "/var/run/cdi", "DirectoryOrCreate"),
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
        _mount("config", "/config"),
        _mount(policy.device_plugin_config, "/available-configs"),
    ]
    pod = one.pod
    main = {
        **pod["containers"][0],
        "env": [*pod["containers"][0]["env"], _value("CONFIG_FILE", CONFIG_FILE)],
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
            _config_map(policy.device_plugin_config, policy.device_plugin_config),
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
        **_image(policy.device_plugin),
        "command": ["config-manager"],
        "env": [
            _value("ONESHOT", "false" if signalled else "true"),
            _value("KUBECONFIG", ""),
            _field("NODE_NAME", "spec.nodeName"),
            _value("NODE_LABEL", "nvidia.com/device-plugin.config"),
            _value("CONFIG_FILE_SRCDIR", "/available-configs"),
            _value("CONFIG_FILE_DST", CONFIG_FILE),
            _value("DEFAULT_CONFIG", policy.device_plugin_default),
            _value("FALLBACK_STRATEGIES", "empty"),
            _value("SEND_SIGNAL", "true" if signalled else "false"),
            _value("SIGNAL", "1" if signalled else ""),
            _value("PROCESS_TO_SIGNAL", signalled),
        ],
        "volumeMounts": [dict(mount) for mount in mounts],
    }
    if signalled:
        container["securityContext"] = dict(_PRIVILEGED)
    return container


# -- their parts
# --------------------------------------------------------------------------------------------------


def _main(
    name: str,
    operand: Operand,
    *,
    command: Sequence[str] = (),
    args: Sequence[str] = (),
    env: Sequence[JsonObject] = (),
    mounts: Sequence[JsonObject] = (),
) -> JsonObject:
    """The operand's first container; environment and arguments of the ClusterPolicy win."""
    container: JsonObject = {
        "name": name,
        **_image(operand),
        "env": _merged(env, operand.env),
        "securityContext": dict(_PRIVILEGED),
        "volumeMounts": [dict(mount) for mount in mounts],
    }
    if command:
        container["command"] = list(command)
    if arguments := operand.args or args:
        container["args"] = list(arguments)
    if operand.resources:
        container["resources"] = dict(operand.resources)
    return container


def _validation(
    policy: Policy, component: str, env: Sequence[JsonObject], validations: JsonObject
) -> JsonObject:
    """A container that runs the validator for one component."""
    mounts = [dict(validations)]
    where: list[JsonObject] = []
    if component == "driver":
        mounts = [
            _mount("host-root", "/host", read_only=True),
            _mount("driver-install-dir", policy.driver_directory),
            *mounts,
        ]
        if policy.driver_directory != DRIVER_DIRECTORY:
            names = ("DRIVER_INSTALL_DIR", "DRIVER_INSTALL_DIR_CTR_PATH")
            where = [_value(name, policy.driver_directory) for name in names]
    return {
        "name": f"{component}-validation",
        **_image(policy.validator),
        "command": ["sh", "-c"],
        "args": ["nvidia-validator"],
        "env": [_value("COMPONENT", component), *env, *where],
        "securityContext": dict(_ROOT),
        "volumeMounts": mounts,
    }


def _driver_volume(policy: Policy) -> JsonObject:
    return _host_path("driver-install-dir", policy.driver_directory, "DirectoryOrCreate")


def _cdi(policy: Policy) -> list[JsonObject]:
    if not policy.cdi:
        return []
    hook = f"{policy.toolkit_directory}/toolkit/nvidia-cdi-hook"
    installed = [_value("NVIDIA_CDI_HOOK_PATH", hook)] if policy.toolkit.enabled else []
    return [_value("CDI_ENABLED", "true"), *installed]


def _toolkit_validation(policy: Policy, volume: str, path: str) -> JsonObject:
    """Every operand waits for the validator's third file, so it starts after the validator."""
    return {
        "name": "toolkit-validation",
        **_image(policy.validator),
        "command": ["sh", "-c"],
        "args": [WAIT_FOR_TOOLKIT],
        "securityContext": dict(_ROOT),
        "volumeMounts": [_mount(volume, path, propagation="HostToContainer")],
    }


def _mig(policy: Policy) -> list[JsonObject]:
    strategy = [_value("MIG_STRATEGY", policy.mig_strategy)]
    if policy.mig_strategy == "none":
        return strategy
    return [*strategy, _value("NVIDIA_MIG_MONITOR_DEVICES", "all")]


def _image(operand: Operand) -> JsonObject:
    return {"image": operand.image, "imagePullPolicy": operand.pull_policy}


def _merged(own: Sequence[JsonObject], given: Sequence[JsonObject]) -> list[JsonObject]:
    merged: dict[str, JsonObject] = {e["name"]: dict(e) for e in own}
    merged.update({e["name"]: dict(e) for e in given})
    return list(merged.values())


def _deployed(operand: str) -> dict[str, str]:
    return {f"nvidia.com/gpu.deploy.{operand}": "true"}


def _value(name: str, value: str) -> JsonObject:
    return {"name": name, "value": value}


def _field(name: str, path: str) -> JsonObject:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _mount(volume: str, path: str, *, read_only: bool = False, propagation: str = "") -> JsonObject:
    mount: JsonObject = {"name": volume, "mountPath": path}
    if read_only:
        mount["readOnly"] = True
    if propagation:
        mount["mountPropagation"] = propagation
    return mount


def _entrypoint_mount(volume: str) -> JsonObject:
    return {
        "name": volume,
        "mountPath": "/bin/entrypoint.sh",
        "subPath": "entrypoint.sh",
        "readOnly": True,
    }


def _entrypoint_volume(name: str, *, config_map: str = "") -> JsonObject:
    return {"name": name, "configMap": {"name": config_map or name, "defaultMode": 0o700}}


def _config_map(volume: str, name: str) -> JsonObject:
    return {"name": volume, "configMap": {"name": name}}


def _host_path(name: str, path: str, kind: str = "") -> JsonObject:
    source: JsonObject = {"path": path}
    if kind:
        source["type"] = kind
    return {"name": name, "hostPath": source}
