"""What the gcp and aws stand-ins share: the part that pulumi-terraform-bridge plays between the
engine and the real providers.

A provider is a table of resources (`kinds.Resource`); everything that does not differ between them
is here: the check of inputs against the SDK's own schema, automatic names, differences and
replacement, shapes of requests and answers.
"""
