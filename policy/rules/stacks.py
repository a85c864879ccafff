"""Rules about the stack itself, which is a resource to the engine."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from policy.rules.resources import UNKNOWN, Resource, property_at
from policy.rules.rule import ResourceRule, Settings, names

STACK = "pulumi:pulumi:Stack"
SECRETS_PROVIDER = "secretsProvider"
"""A property that the engine does not pass: `policy.pack` adds it from the stack file."""


def _secrets(resource: Resource, settings: Settings) -> Iterator[str]:
    allowed = settings["allowed"]
    if resource.type != STACK or "*" in allowed:
        return
    provider = property_at(resource.props, SECRETS_PROVIDER)
    if provider is UNKNOWN or (
        provider and any(fnmatchcase(str(provider), pattern) for pattern in allowed)
    ):
        return
    problem = (
        f"its secrets are encrypted by {provider}"
        if provider
        else "its stack file cannot be read, so its secrets provider is unknown"
    )
    yield (
        f"stack {resource.name!r}: {problem}; allowed: {', '.join(allowed) or 'none'}. "
        "Change it with `pulumi stack change-secrets-provider`"
    )


RULES = (
    ResourceRule(
        name="stack-secrets",
        description="Secrets in state and stack file are encrypted by an allowed provider.",
        level="mandatory",
        settings=(names("allowed", "secrets providers, such as awskms://*; *: any", ("*",)),),
        check=_secrets,
    ),
)
