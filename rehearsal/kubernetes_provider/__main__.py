"""`pulumi-resource-kubernetes`: started by the engine, never by hand."""

from rehearsal.engine.plugin import serve
from rehearsal.kubernetes_provider.provider import KubernetesProvider

if __name__ == "__main__":
    serve(KubernetesProvider)
