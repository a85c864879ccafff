"""`pulumi-resource-aws`, started by the engine."""

from rehearsal.plugins.engine.provider_server import serve
from rehearsal.plugins.providers.aws.provider import AwsProvider

if __name__ == "__main__":
    serve(AwsProvider)
