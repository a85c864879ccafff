"""`pulumi-resource-gcp`, started by the engine."""

from rehearsal.plugins.engine.provider_server import serve
from rehearsal.plugins.providers.gcp.provider import GcpProvider

if __name__ == "__main__":
    serve(GcpProvider)
