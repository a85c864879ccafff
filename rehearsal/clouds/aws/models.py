"""AWS's own service models (botocore) as judge of every request to the simulated AWS."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from rehearsal.clouds.core.errors import CloudError, aws_error

SERVICES: Mapping[str, str] = {"eks": "eks", "ec2": "ec2", "aws-iam": "iam"}
"""Our service name -> botocore's. IAM has another name here, because Google's is `iam` too."""

_ERRORS: Mapping[str, Callable[[str], str]] = {
    "eks": lambda fault: (
        "InvalidParameterException" if fault == "unknown" else "ValidationException"
    ),
    "ec2": lambda fault: {"unknown": "UnknownParameter", "missing": "MissingParameter"}.get(
        fault, "InvalidParameterValue"
    ),
    "aws-iam": lambda _: "ValidationError",
}


@cache
def _model(service: str) -> Any:
    """botocore's ServiceModel; read once, when first asked for (ec2 takes 50 ms)."""
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    return ServiceModel(
        Loader().load_service_model(SERVICES[service], "service-2"), SERVICES[service]
    )


def validate(service: str, operation: str, body: Mapping[str, Any]) -> None:
    """Raises CloudError 400 naming every fault of the request, in AWS's words."""
    model = _model(service)
    if operation not in model.operation_names:
        raise aws_error(
            "InvalidAction", f"The action {operation} is not valid for this web service."
        )
    shape = model.operation_model(operation).input_shape
    if shape is None:
        return
    faults = [*_faults(shape, body, ""), *_parameter_faults(shape, body)]
    if faults:
        raise _error(service, faults)


def _error(service: str, faults: list[tuple[str, str]]) -> CloudError:
    unique = list(dict.fromkeys(message for _, message in faults))
    plural = "" if len(unique) == 1 else "s"
    text = f"{len(unique)} validation error{plural} detected: {'; '.join(unique)}"
    return aws_error(_ERRORS[service](faults[0][0]), text)


def _parameter_faults(shape: Any, body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What botocore itself would refuse before sending: types and required members."""
    from botocore.validate import ParamValidator

    report = ParamValidator().validate(body, shape)
    for message in report.generate_report().splitlines() if report.has_errors() else ():
        # Unknown members and lengths are worded by _faults, as the service does.
        if message.startswith(("Unknown parameter", "Invalid length", "Invalid range")):
            continue
        yield ("missing" if message.startswith("Missing") else "invalid"), message


def _faults(shape: Any, value: Any, path: str) -> Iterator[tuple[str, str]]:
    kind = shape.type_name
    if kind == "structure" and isinstance(value, dict):
        for name, item in value.items():
            at = f"{path}.{name}" if path else name
            member = shape.members.get(name)
            if member is None:
                known = ", ".join(sorted(shape.members))
                yield "unknown", f"Unknown parameter '{at}'; known here: {known}"
            else:
                yield from _faults(member, item, at)
        if shape.is_tagged_union and len(value) != 1:
            yield (
                "invalid",
                f"Value at '{path}' must have exactly one of {', '.join(sorted(shape.members))}",
            )
    elif kind == "list" and isinstance(value, list):
        yield from _size_faults(shape, len(value), value, path)
        for index, item in enumerate(value):
            yield from _faults(shape.member, item, f"{path}.{index + 1}.member")
    elif kind == "map" and isinstance(value, dict):
        yield from _size_faults(shape, len(value), value, path)
        for key, item in value.items():
            yield from _faults(shape.key, key, f"{path}.key")
            yield from _faults(shape.value, item, f"{path}.{key}.member")
    elif kind == "string" and isinstance(value, str):
        yield from _string_faults(shape, value, path)
    elif (
        kind in ("integer", "long", "float", "double")
        and isinstance(value, int | float)
        and not isinstance(value, bool)
    ):
        yield from _range_faults(shape, value, path)


def _string_faults(shape: Any, value: str, path: str) -> Iterator[tuple[str, str]]:
    if shape.enum and value not in shape.enum:
        yield (
            "invalid",
            _constraint(
                value, path, f"Member must satisfy enum value set: [{', '.join(shape.enum)}]"
            ),
        )
        return
    yield from _size_faults(shape, len(value), value, path)
    pattern = shape.metadata.get("pattern")
    if pattern and not _matches(pattern, value):
        yield (
            "invalid",
            _constraint(value, path, f"Member must satisfy regular expression pattern: {pattern}"),
        )


def _matches(pattern: str, value: str) -> bool:
    try:
        return re.fullmatch(pattern, value) is not None
    except re.error:
        # Java's \p{L} and the like, which Python's re does not have; the few patterns that use them
        # allow almost anything.
        return True


def _size_faults(shape: Any, size: int, value: Any, path: str) -> Iterator[tuple[str, str]]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and size < low:
        yield (
            "invalid",
            _constraint(value, path, f"Member must have length greater than or equal to {low}"),
        )
    if high is not None and size > high:
        yield (
            "invalid",
            _constraint(value, path, f"Member must have length less than or equal to {high}"),
        )


def _range_faults(shape: Any, value: float, path: str) -> Iterator[tuple[str, str]]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and value < low:
        yield (
            "invalid",
            _constraint(value, path, f"Member must have value greater than or equal to {low}"),
        )
    if high is not None and value > high:
        yield (
            "invalid",
            _constraint(value, path, f"Member must have value less than or equal to {high}"),
        )


def _constraint(value: Any, path: str, text: str) -> str:
    return f"Value '{value}' at '{path}' failed to satisfy constraint: {text}"
