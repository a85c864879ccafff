"""nodeConfig in Pulumi and in GKE's API.

Source of the names: hashicorp/terraform-provider-google-beta, services/container/node_config.go.
"""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.bridge.fields import Field, from_api, same

TAINT = same("key", "value", "effect")
_ACCELERATOR = {
    "type": Field(api="acceleratorType"),
    "count": Field(api="acceleratorCount", text=True),
    "gpuPartitionSize": Field(),
    "gpuDriverInstallationConfig": Field(
        of={"gpuDriverVersion": Field(computed=True)}, computed=True
    ),
    "gpuSharingConfig": Field(
        of={
            "gpuSharingStrategy": Field(),
            "maxSharedClientsPerGpu": Field(api="maxSharedClientsPerGpu", text=True),
        }
    ),
}
_BOOT_DISK = {
    "diskType": Field(),
    "sizeGb": Field(text=True),
    "provisionedIops": Field(text=True),
    "provisionedThroughput": Field(text=True),
}
_KUBELET = {
    **same(
        "cpuManagerPolicy",
        "cpuCfsQuota",
        "cpuCfsQuotaPeriod",
        "imageGcHighThresholdPercent",
        "imageGcLowThresholdPercent",
    ),
    **same(
        "containerLogMaxSize",
        "containerLogMaxFiles",
        "allowedUnsafeSysctls",
        "maxParallelImagePulls",
        "imageMinimumGcAge",
    ),
    "podPidsLimit": Field(text=True),
    "topologyManager": Field(of=same("policy", "scope")),
    "memoryManager": Field(of=same("policy")),
}
NODE_CONFIG = {
    **same(
        "machineType",
        "diskSizeGb",
        "diskType",
        "imageType",
        "oauthScopes",
        "serviceAccount",
        computed=True,
    ),
    **same(
        "labels",
        "spot",
        "preemptible",
        "flexStart",
        "maxRunDuration",
        "minCpuPlatform",
        "tags",
        "localSsdCount",
        "storagePools",
        "bootDiskKmsKey",
    ),
    "metadata": Field(computed=True),
    "resourceLabels": Field(),
    "taints": Field(many=True, of=TAINT),
    "guestAccelerators": Field(api="accelerators", many=True, of=_ACCELERATOR),
    "ephemeralStorageLocalSsdConfig": Field(of=same("localSsdCount", "dataCacheCount")),
    "localNvmeSsdBlockConfig": Field(of=same("localSsdCount")),
    "gvnic": Field(of=same("enabled")),
    "gcfsConfig": Field(of=same("enabled")),
    "fastSocket": Field(of=same("enabled")),
    "taintConfig": Field(of=same("architectureTaintBehavior"), computed=True),
    "workloadMetadataConfig": Field(of=same("mode"), computed=True),
    "shieldedInstanceConfig": Field(
        of=same("enableSecureBoot", "enableIntegrityMonitoring", computed=True), computed=True
    ),
    "loggingVariant": Field(api="loggingConfig.variantConfig.variant", computed=True),
    "reservationAffinity": Field(of=same("consumeReservationType", "key", "values")),
    "kubeletConfig": Field(of=_KUBELET, computed=True),
    "linuxNodeConfig": Field(
        of=same("sysctls", "cgroupMode", "transparentHugepageEnabled", "transparentHugepageDefrag")
    ),
    "bootDisk": Field(of=_BOOT_DISK, computed=True),
    "advancedMachineFeatures": Field(of=same("threadsPerCore", "enableNestedVirtualization")),
    "confidentialNodes": Field(of=same("enabled")),
}
GKE_LABEL_PREFIX = "goog-gke-"


def seen_node_config(config: JsonObject, prior: JsonObject | None) -> JsonObject:
    """nodeConfig as inputs; as in the real provider, without taints whose key was not requested."""
    returned = dict(config)
    labels = {
        k: v
        for k, v in config.get("resourceLabels", {}).items()
        if not k.startswith(GKE_LABEL_PREFIX)
    }
    returned["resourceLabels"] = labels
    if prior is not None:
        keys = {t.get("key") for t in prior.get("taints") or []}
        returned["taints"] = [t for t in config.get("taints", []) if t["key"] in keys]
    inputs = from_api(NODE_CONFIG, returned, prior)
    if prior is None and "fastSocket" in config:
        inputs["fastSocket"] = {"enabled": bool(config["fastSocket"].get("enabled"))}
    if prior is None:
        # The provider reads them of every pool: flattenNodeConfig.
        inputs = {"spot": False, "preemptible": False, **inputs}
        inputs["effectiveTaints"] = config.get("taints", [])
        pool_taints = [t for t in config.get("taints", []) if t["key"] != "nvidia.com/gpu"]
        if pool_taints:
            inputs["taints"] = pool_taints
    return inputs


# Every path below nodeConfig whose change replaces the pool. Source: ForceNew in node_config.go.
REPLACES = tuple(
    f"nodeConfig.{name}"
    for name in (
        "guestAccelerators",
        "spot",
        "preemptible",
        "flexStart",
        "maxRunDuration",
        "reservationAffinity",
        "localSsdCount",
        "ephemeralStorageConfig",
        "ephemeralStorageLocalSsdConfig",
        "localNvmeSsdBlockConfig",
        "secondaryBootDisks",
        "serviceAccount",
        "oauthScopes",
        "metadata",
        "minCpuPlatform",
        "shieldedInstanceConfig",
        "bootDiskKmsKey",
        "hostMaintenancePolicy",
        "advancedMachineFeatures",
        "nodeGroup",
        "soleTenantConfig",
        "sandboxConfig",
        "enableConfidentialStorage",
        "localSsdEncryptionMode",
    )
)
KEEPS = tuple(
    f"nodeConfig.{name}"
    for name in (
        "machineType",
        "diskSizeGb",
        "diskType",
        "imageType",
        "oauthScopes",
        "serviceAccount",
        "metadata",
        "shieldedInstanceConfig",
        "loggingVariant",
        "taintConfig",
        "workloadMetadataConfig",
        "kubeletConfig",
        "bootDisk",
        "gcfsConfig",
        "localSsdCount",
        "minCpuPlatform",
        "linuxNodeConfig",
        "containerdConfig",
        "guestAccelerators.gpuDriverInstallationConfig",
        "effectiveTaints",
    )
)
