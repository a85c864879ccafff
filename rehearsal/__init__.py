"""The embedded cloud: the real Pulumi engine and a real Kubernetes API server on one machine, with
simulated clouds and GPUs.

The product never imports this package. It puts other plugins on PATH and another state directory in
the environment, and changes no line of the program.
"""
