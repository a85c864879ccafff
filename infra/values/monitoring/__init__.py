"""A fleet's monitoring as plain data: chart values, monitors, rules and dashboards."""

from infra.values.monitoring.chart import monitoring_chart, monitoring_values
from infra.values.monitoring.objects import (
    DASHBOARD_COUNT,
    OPERATOR_GROUP,
    OPERATOR_KINDS,
    monitoring_objects,
    rule_counts,
    scraped,
)
