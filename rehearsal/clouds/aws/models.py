"""Checks requests to the simulated AWS, and its answers, against the models that botocore ships."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.core.errors import CloudError

SERVICES: Mapping[str, str] = {
    "eks": "eks",
    "ec2": "ec2",
    "aws-iam": "iam",
    "sts": "sts",
    "elb": "elb",
    "elbv2": "elbv2",
    "service-quotas": "service-quotas",
    "ssm": "ssm",
    "kms": "kms",
    "logs": "logs",
    "resource-groups": "resource-groups",
    "sqs": "sqs",
}
"""Our name of a service -> botocore's, which differ for IAM because Google's is `iam`, too."""

# Service -> the error's name, by category: unknown, missing or invalid.
_ERROR_NAMES: Mapping[str, Callable[[str], str]] = {
    "eks": lambda category: (
        "InvalidParameterException" if category == "unknown" else "ValidationException"
    ),
    "ec2": lambda category: {"unknown": "UnknownParameter", "missing": "MissingParameter"}.get(
        category, "InvalidParameterValue"
    ),
    "aws-iam": lambda _: "ValidationError",
    "sts": lambda _: "ValidationError",
    "elb": lambda _: "ValidationError",
    "elbv2": lambda _: "ValidationError",
    "service-quotas": lambda _: "IllegalArgumentException",
    "ssm": lambda _: "ValidationException",
    "kms": lambda _: "ValidationException",
    "logs": lambda _: "InvalidParameterException",
    "resource-groups": lambda _: "BadRequestException",
    "sqs": lambda _: "InvalidParameterValue",
}

_UNLISTED: Mapping[str, tuple[str, ...]] = {"AttachmentStatus": ("available",)}
"""Shape -> values that its enum lacks and its documentation has (of InternetGatewayAttachment).
"""


class WrongAnswer(Exception):
    """An answer that the real service cannot give: a slip of the simulation."""


@cache
def service_model(service: str) -> Any:
    """botocore's ServiceModel, read when first needed: EC2's takes 50 ms."""
    from botocore.model import ServiceModel

    return ServiceModel(
        loader().load_service_model(SERVICES[service], "service-2"), SERVICES[service]
    )


@cache
def loader() -> Any:
    """What reads botocore's data files; it keeps what it has read, and a process needs one."""
    from botocore.loaders import Loader

    return Loader()


def validate(service: str, operation: str, body: Mapping[str, Any]) -> None:
    """Raises CloudError 400 with every error of the request, worded as AWS words it."""
    model = service_model(service)
    if operation not in model.operation_names:
        raise aws_error(
            "InvalidAction", f"The action {operation} is not valid for this web service."
        )
    shape = model.operation_model(operation).input_shape
    if shape is None:
        return
    errors = _errors(shape, body)
    if errors:
        raise _refusal(service, errors)


def check_answer(service: str, operation: str, answer: Mapping[str, Any]) -> None:
    """Raises WrongAnswer where a field is unknown to the model, missing, or of another type."""
    shape = service_model(service).operation_model(operation).output_shape
    if shape is None:
        errors = [("unknown", f"Unknown parameter '{name}'; known here: none") for name in answer]
    else:
        errors = _errors(shape, answer)
    # Lengths and patterns bind requests: EKS itself answers `tags: {}`, whose least length is 1.
    messages = "; ".join(dict.fromkeys(text for kind, text in errors if kind != "constraint"))
    if messages:
        raise WrongAnswer(f"the answer of {service} {operation} is not the API's: {messages}")


def _errors(shape: Any, value: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Category (unknown, missing, invalid, constraint) and message of each error."""
    return [*_shape_errors(shape, value, ""), *_parameter_errors(shape, value)]


def _refusal(service: str, errors: list[tuple[str, str]]) -> CloudError:
    unique = list(dict.fromkeys(message for _, message in errors))
    plural = "" if len(unique) == 1 else "s"
    text = f"{len(unique)} validation error{plural} detected: {'; '.join(unique)}"
    return aws_error(_ERROR_NAMES[service](errors[0][0]), text)


def _parameter_errors(shape: Any, body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What botocore refuses before it sends a request: wrong types, missing members."""
    from botocore.validate import ParamValidator

    report = ParamValidator().validate(body, shape)
    for message in report.generate_report().splitlines() if report.has_errors() else ():
        # _shape_errors reports unknown members and lengths, in the service's words.
        if message.startswith(("Unknown parameter", "Invalid length", "Invalid range")):
            continue
        yield ("missing" if message.startswith("Missing") else "invalid"), message


def _shape_errors(shape: Any, value: Any, path: str) -> Iterator[tuple[str, str]]:
    kind = shape.type_name
    if kind == "structure" and isinstance(value, dict):
        for name, item in value.items():
            at = f"{path}.{name}" if path else name
            member = shape.members.get(name)
            if member is None:
                members = ", ".join(sorted(shape.members))
                yield "unknown", f"Unknown parameter '{at}'; known here: {members}"
            else:
                yield from _shape_errors(member, item, at)
        if shape.is_tagged_union and len(value) != 1:
            yield (
                "invalid",
                f"Value at '{path}' must have exactly one of {', '.join(sorted(shape.members))}",
            )
    elif kind == "list" and isinstance(value, list):
        yield from _bound_errors(shape, len(value), "length", value, path)
        for index, item in enumerate(value):
            yield from _shape_errors(shape.member, item, f"{path}.{index + 1}.member")
    elif kind == "map" and isinstance(value, dict):
        yield from _bound_errors(shape, len(value), "length", value, path)
        for key, item in value.items():
            yield from _shape_errors(shape.key, key, f"{path}.key")
            yield from _shape_errors(shape.value, item, f"{path}.{key}.member")
    elif kind == "string" and isinstance(value, str):
        yield from _string_errors(shape, value, path)
    elif (
        kind in ("integer", "long", "float", "double")
        and isinstance(value, int | float)
        and not isinstance(value, bool)
    ):
        yield from _bound_errors(shape, value, "value", value, path)


def _string_errors(shape: Any, value: str, path: str) -> Iterator[tuple[str, str]]:
    if shape.enum and value not in (*shape.enum, *_UNLISTED.get(shape.name, ())):
        yield (
            "invalid",
            _constraint(
                value, path, f"Member must satisfy enum value set: [{', '.join(shape.enum)}]"
            ),
        )
        return
    yield from _bound_errors(shape, len(value), "length", value, path)
    pattern = shape.metadata.get("pattern")
    if pattern and not _matches(pattern, value):
        yield (
            "constraint",
            _constraint(value, path, f"Member must satisfy regular expression pattern: {pattern}"),
        )


def _matches(pattern: str, value: str) -> bool:
    try:
        return re.fullmatch(pattern, value) is not None
    except re.error:
        # Java's \p{L} and the like, which Python's re lacks; the few patterns that use them allow
        # almost anything.
        return True


def _bound_errors(
    shape: Any, measure: float, quantity: str, value: Any, path: str
) -> Iterator[tuple[str, str]]:
    """quantity: that which the shape's min and max bound, "length" or "value"."""
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    for outside, text in (
        (low is not None and measure < low, f"greater than or equal to {low}"),
        (high is not None and measure > high, f"less than or equal to {high}"),
    ):
        if outside:
            yield "constraint", _constraint(value, path, f"Member must have {quantity} {text}")


def _constraint(value: Any, path: str, text: str) -> str:
    return f"Value '{value}' at '{path}' failed to satisfy constraint: {text}"
