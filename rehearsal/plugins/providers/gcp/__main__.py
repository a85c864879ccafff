"""`pulumi-resource-gcp`, started by the engine."""

from slicewright.rehearsal.plugins.engine.provider_server import serve
from slicewright.rehearsal.plugins.providers.gcp.provider import GcpProvider

if __name__ == "__main__":
    serve(GcpProvider)
