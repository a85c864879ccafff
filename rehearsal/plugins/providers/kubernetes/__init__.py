"""A stand-in for Pulumi's `kubernetes` provider: the same behaviour towards a real API server, in
Python.

Its specification is the official provider's measured behaviour, pulumi-kubernetes 4.30 to 4.34.
Left out: client-side apply, Patch kinds, rendering to YAML, components (yaml, kustomize, helm
Chart), functions; the waits of StatefulSet, Ingress and Pod.
"""
