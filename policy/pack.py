"""The edge to Pulumi's SDK for policies: resources in, the rules' findings out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    PolicyPack,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)

# The SDK exports the exception from its module only. A rule must go on if a value is unknown.
from pulumi_policy.proxy import UnknownValueError

from policy.rules import RULES, Resource, ResourceRule, StackRule
from policy.rules.resources import UNKNOWN
from policy.rules.rule import complete_settings
from policy.rules.stacks import SECRETS_PROVIDER, STACK
from policy.stack_file import secrets_provider, stack_directory

_STACK_FILES: Final = stack_directory(Path(__file__).resolve().parents[1])
"""The stack files lie in the checkout of the pack."""


def main() -> None:
    """Serves the pack until the engine ends it."""
    PolicyPack("slicewright", [_policy(rule) for rule in RULES])


def _policy(rule: ResourceRule | StackRule) -> Policy:
    level = EnforcementLevel(rule.level)
    schema = PolicyConfigSchema({s.name: dict(s.schema) for s in rule.settings})
    match rule:
        case ResourceRule():
            return ResourceValidationPolicy(
                rule.name, rule.description, _resource_validator(rule), level, schema
            )
        case StackRule():
            return StackValidationPolicy(
                rule.name, rule.description, _stack_validator(rule), level, schema
            )


def _resource_validator(
    rule: ResourceRule,
) -> Callable[[ResourceValidationArgs, ReportViolation], None]:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        resource = _resource(args)
        for message in rule.check(resource, complete_settings(rule, args.get_config())):
            report(message, None)

    return validate


def _stack_validator(rule: StackRule) -> Callable[[StackValidationArgs, ReportViolation], None]:
    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        resources = [_resource(resource) for resource in args.resources]
        for urn, message in rule.check(resources, complete_settings(rule, args.get_config())):
            report(message, urn)

    return validate


def _resource(raw: ResourceValidationArgs | PolicyResource) -> Resource:
    props = _plain_data(raw.props)
    if raw.resource_type == STACK:
        props = {SECRETS_PROVIDER: secrets_provider(_STACK_FILES, raw.urn), **props}
    return Resource(
        type=raw.resource_type,
        name=raw.name,
        urn=raw.urn,
        props=props,
        provider=_plain_data(raw.provider.props) if raw.provider else {},
        protect=raw.opts.protect,
    )


def _plain_data(value: Any) -> Any:
    """Plain data, with UNKNOWN for values that a preview cannot know.

    If a rule reads such a value, the SDK raises an exception and shows an advisory note in place of
    all the rule's findings about the resource.
    """
    if isinstance(value, Mapping):
        return {key: _item(value, key) for key in value}
    if isinstance(value, str) or not hasattr(value, "__getitem__"):
        return value
    return [_item(value, index) for index in range(len(value))]


def _item(value: Any, key: str | int) -> Any:
    try:
        return _plain_data(value[key])
    except UnknownValueError:
        return UNKNOWN
