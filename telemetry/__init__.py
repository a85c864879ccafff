"""Health endpoints, log lines and the Prometheus text format, for agent and controller."""
