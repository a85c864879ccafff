"""The agent's outputs: the `GPUNodeReport`, Prometheus metrics, health endpoints."""
