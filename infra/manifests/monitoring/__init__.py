"""A fleet's monitoring as plain data: chart values, monitors, rules and dashboards."""

from slicewright.infra.manifests.monitoring.chart import monitoring_chart, monitoring_values
from slicewright.infra.manifests.monitoring.objects import (
    OPERATOR_GROUP,
    OPERATOR_KINDS,
    dashboards_of,
    monitoring_objects,
    rule_counts,
    scraped,
)
