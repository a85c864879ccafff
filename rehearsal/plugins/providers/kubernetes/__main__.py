"""`pulumi-resource-kubernetes`, started by the engine."""

from slicewright.rehearsal.plugins.engine.provider_server import serve
from slicewright.rehearsal.plugins.providers.kubernetes.provider import KubernetesProvider

if __name__ == "__main__":
    serve(KubernetesProvider)
