"""The plan in the formats of other programs: Helm values, NVIDIA's config files, tolerations."""

from slicewright.infra.manifests.admission.pod_guard import exempt_namespaces
from slicewright.infra.manifests.admission.startup_policy import startup_policy
from slicewright.infra.manifests.eks.autoscaler import (
    AUTOSCALER_NAME,
    AUTOSCALER_NAMESPACE,
    autoscaler_chart,
    autoscaler_policy,
    autoscaler_values,
)
from slicewright.infra.manifests.eks.boundary import boundary_policy
from slicewright.infra.manifests.eks.karpenter import (
    CLASS_API,
    KARPENTER_CRDS,
    KARPENTER_NAME,
    KARPENTER_NAMESPACE,
    NODE_API,
    OVERLAY_API,
    karpenter_chart,
    karpenter_values,
    node_class,
    node_overlay,
    node_pool,
)
from slicewright.infra.manifests.eks.karpenter_rights import karpenter_policy
from slicewright.infra.manifests.eks.user_data import eks_user_data
from slicewright.infra.manifests.files.host_files import host_files, host_layout
from slicewright.infra.manifests.files.import_file import NoSuchPool, import_file
from slicewright.infra.manifests.fractional.adopted_volcano import (
    CONFIG_MAP as VOLCANO_CONFIG_MAP,
)
from slicewright.infra.manifests.fractional.adopted_volcano import volcano_mismatches
from slicewright.infra.manifests.fractional.charts import engine_charts, engine_namespace
from slicewright.infra.manifests.fractional.engine_chart import EngineChart
from slicewright.infra.manifests.gke.existing import OLDEST_KUBERNETES, unfit_gke_cluster
from slicewright.infra.manifests.gke.gpu_networks import (
    NETWORKING_API,
    network_of_devices,
    network_parameters,
)
from slicewright.infra.manifests.gpu_operator.adopted import (
    RUNTIME_CLASS,
    Mismatch,
    describe_mismatches,
    mismatches,
    named_config_maps,
    patch_command,
    release_command,
)
from slicewright.infra.manifests.gpu_operator.chart import (
    chart_of,
    operator_account,
    operator_values,
)
from slicewright.infra.manifests.gpu_operator.config_files import (
    ConfigFiles,
    OperatorFiles,
    metrics_csv,
    operator_files,
)
from slicewright.infra.manifests.gpu_operator.driver_installer import driver_installers
from slicewright.infra.manifests.gpu_operator.forgotten_layouts import forgotten_layouts
from slicewright.infra.manifests.gpu_operator.installed import changed_settings
from slicewright.infra.manifests.gpu_operator.mig_layouts import MIG_CONFIG_KEY, mig_parted_config
from slicewright.infra.manifests.gpu_operator.plugin_configs import NOT_SHARED, plugin_configs
from slicewright.infra.manifests.helm_charts import ChartAddress
from slicewright.infra.manifests.kubeconfig import kubeconfig
from slicewright.infra.manifests.monitoring import (
    OPERATOR_GROUP,
    OPERATOR_KINDS,
    dashboards_of,
    monitoring_chart,
    monitoring_objects,
    monitoring_values,
    rule_counts,
    scraped,
)
from slicewright.infra.manifests.placement import system_labels
from slicewright.infra.manifests.pods import pod_request, tolerations
from slicewright.infra.manifests.rights.policies import (
    READING,
    Need,
    aws_policy,
    google_condition,
    google_role,
    needs_boundary,
    rights,
)
from slicewright.infra.manifests.rights.preview_role import PREVIEW_ROLE, preview_role
from slicewright.infra.manifests.rollout_warnings import rollout_warnings
from slicewright.infra.manifests.scaling.keda import keda_chart, keda_values, scaled_object
from slicewright.infra.manifests.scaling.prometheus_adapter import (
    adapter_objects,
    adapter_rules,
    pod_autoscaler,
)
from slicewright.infra.manifests.scaling.queries import pod_metric, scaling_query, waking_query
from slicewright.infra.manifests.text import (
    JsonObject,
    as_flow_yaml,
    as_yaml,
    short_hash,
    words_as_flow_yaml,
)
from slicewright.infra.manifests.workloads.heads import WORKLOAD_LABEL
from slicewright.infra.manifests.workloads.objects import (
    WorkloadObjects,
    workload_namespaces,
    workload_objects,
    workloads_of,
)
