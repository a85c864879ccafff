"""A fleet that exists already is a cluster with its nodes, or hosts without Kubernetes."""
