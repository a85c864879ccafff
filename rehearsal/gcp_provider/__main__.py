"""`pulumi-resource-gcp` of a rehearsal."""

from rehearsal.engine.plugin import serve
from rehearsal.gcp_provider.provider import GcpProvider

if __name__ == "__main__":
    serve(GcpProvider)
