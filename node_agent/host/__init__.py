"""`apply` and `clear`: partitions the GPUs of a host without Kubernetes. Needs root."""
