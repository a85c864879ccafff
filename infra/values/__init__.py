"""The plan in the formats of other programs: Helm values, NVIDIA's config files, tolerations."""

from infra.values.adopted_operator import (
    RUNTIME_CLASS,
    Mismatch,
    describe_mismatches,
    mismatches,
    named_config_maps,
    patch_command,
    release_command,
)
from infra.values.boundary import boundary_policy
from infra.values.driver_installer import driver_installers
from infra.values.eks_autoscaler import (
    AUTOSCALER_NAME,
    AUTOSCALER_NAMESPACE,
    autoscaler_chart,
    autoscaler_policy,
    autoscaler_values,
)
from infra.values.eks_user_data import eks_user_data
from infra.values.existing_gke import OLDEST_KUBERNETES, unfit_gke_cluster
from infra.values.forgotten_layouts import forgotten_layouts
from infra.values.gpu_networks import NETWORKING_API, network_of_devices, network_parameters
from infra.values.helm_charts import ChartAddress
from infra.values.host_files import host_files, host_layout
from infra.values.import_file import NoSuchPool, import_file
from infra.values.installed_operator import changed_settings
from infra.values.karpenter import (
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
from infra.values.karpenter_rights import karpenter_policy
from infra.values.kubeconfig import kubeconfig
from infra.values.mig_layouts import MIG_CONFIG_KEY, mig_parted_config
from infra.values.monitoring import (
    DASHBOARD_COUNT,
    OPERATOR_GROUP,
    OPERATOR_KINDS,
    monitoring_chart,
    monitoring_objects,
    monitoring_values,
    rule_counts,
    scraped,
)
from infra.values.operator_chart import chart_of, operator_account, operator_values
from infra.values.operator_files import ConfigFiles, OperatorFiles, metrics_csv, operator_files
from infra.values.placement import system_labels
from infra.values.plugin_configs import NOT_SHARED, plugin_configs
from infra.values.pod_autoscaling import keda_chart, keda_values, scaled_object
from infra.values.pod_guard import exempt_namespaces
from infra.values.pods import pod_request, tolerations
from infra.values.preview_role import PREVIEW_ROLE, preview_role
from infra.values.prometheus_adapter import adapter_objects, adapter_rules, pod_autoscaler
from infra.values.rights import (
    READING,
    Need,
    aws_policy,
    google_condition,
    google_role,
    needs_boundary,
    rights,
)
from infra.values.rollout_warnings import rollout_warnings
from infra.values.scaling_queries import pod_metric, scaling_query, waking_query
from infra.values.startup_policy import startup_policy
from infra.values.text import JsonObject, as_flow_yaml, as_yaml, short_hash, words_as_flow_yaml
from infra.values.workload_heads import WORKLOAD_LABEL
from infra.values.workloads import (
    WorkloadObjects,
    workload_namespaces,
    workload_objects,
    workloads_of,
)
