"""A stand-in for Pulumi's `kubernetes` provider: the same behaviour towards a real API server.

Modelled on the official provider's observed behaviour, pulumi-kubernetes 4.30 to 4.34. Not
supported: client-side apply, Patch kinds, rendering to YAML, components (yaml, kustomize, helm
Chart), functions, and waiting for StatefulSet, Ingress and Pod.
"""
