"""What the agent tells others: the `GPUNodeReport`, Prometheus metrics, health endpoints."""
