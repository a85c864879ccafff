"""The Kubernetes objects of workloads."""
