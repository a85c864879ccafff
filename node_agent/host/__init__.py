"""`apply` and `clear`: partitions GPUs of one host without Kubernetes. Needs privileges."""
