"""The protocols of AWS over HTTP, as the four simulated services speak them.

EKS speaks rest-json, IAM and STS query, EC2 its own form of query. Names, places and types of all
that is read and written come from the service models that botocore ships. What those models do not
use (flattened lists, payloads, headers) is left out; a test fails when a model begins to use it.
Source: "Smithy 2.0", AWS protocols: restJson1, awsQuery, ec2Query.
"""
