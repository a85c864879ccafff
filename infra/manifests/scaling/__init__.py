"""KEDA and the Prometheus adapter, which scale workloads by their load."""
