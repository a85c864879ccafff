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

# The SDK exports the exception from its module alone; a rule must go on where a value is unknown.
from pulumi_policy.proxy import UnknownValueError

from policy.rules import RULES, Resource, ResourceRule, StackRule
from policy.rules.declared import UNKNOWN
from policy.rules.rule import completed
from policy.rules.stacks import SECRETS_PROVIDER, STACK
from policy.stack_file import secrets_provider

_STACK_FILES: Final = Path(__file__).resolve().parents[1] / "stacks"
"""Of the checkout that the pack is in, as Pulumi.yaml's stackConfigDir has it."""


def main() -> None:
    """Serves the pack until the engine ends it."""
    PolicyPack("slicewright", [_policy(rule) for rule in RULES])


def _policy(rule: ResourceRule | StackRule) -> Policy:
    level = EnforcementLevel(rule.level)
    schema = PolicyConfigSchema({s.name: dict(s.schema) for s in rule.settings})
    match rule:
        case ResourceRule():
            return ResourceValidationPolicy(
                rule.name, rule.description, _of_resource(rule), level, schema
            )
        case StackRule():
            return StackValidationPolicy(
                rule.name, rule.description, _of_stack(rule), level, schema
            )


def _of_resource(rule: ResourceRule) -> Callable[[ResourceValidationArgs, ReportViolation], None]:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        found = _resource(args)
        for message in rule.check(found, completed(rule, args.get_config())):
            report(message, None)

    return validate


def _of_stack(rule: StackRule) -> Callable[[StackValidationArgs, ReportViolation], None]:
    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        found = [_resource(one) for one in args.resources]
        for urn, message in rule.check(found, completed(rule, args.get_config())):
            report(message, urn)

    return validate


def _resource(given: ResourceValidationArgs | PolicyResource) -> Resource:
    props = _known(given.props)
    if given.resource_type == STACK:
        props = {SECRETS_PROVIDER: secrets_provider(_STACK_FILES, given.urn), **props}
    return Resource(
        type=given.resource_type,
        name=given.name,
        urn=given.urn,
        props=props,
        provider=_known(given.provider.props) if given.provider else {},
        protect=given.opts.protect,
    )


def _known(value: Any) -> Any:
    """Plain data, with UNKNOWN for what a preview cannot know.

    The SDK raises an exception where a rule touches such a value, and shows an advisory note in
    place of all that the rule would have said of the resource.
    """
    if isinstance(value, Mapping):
        return {key: _item(value, key) for key in value}
    if isinstance(value, str) or not hasattr(value, "__getitem__"):
        return value
    return [_item(value, index) for index in range(len(value))]


def _item(value: Any, key: str | int) -> Any:
    try:
        return _known(value[key])
    except UnknownValueError:
        return UNKNOWN
