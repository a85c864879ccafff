"""`pulumi-resource-aws`, started by the engine."""

from slicewright.rehearsal.plugins.engine.provider_server import serve
from slicewright.rehearsal.plugins.providers.aws.provider import AwsProvider

if __name__ == "__main__":
    serve(AwsProvider)
