"""What the gcp and aws providers share, as pulumi-terraform-bridge does for the real ones.

A provider is a table of resources (`resources.Resource`). Everything that is the same for all of
them is here: checking inputs against the SDK's schema, automatic names, differences and
replacement, and the translation between properties and the cloud's API.
"""
