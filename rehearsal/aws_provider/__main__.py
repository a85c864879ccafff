"""`pulumi-resource-aws` of a rehearsal."""

from rehearsal.aws_provider.provider import AwsProvider
from rehearsal.engine.plugin import serve

if __name__ == "__main__":
    serve(AwsProvider)
