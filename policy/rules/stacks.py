"""Rules about the stack itself, which is a resource to the engine."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from policy.rules.declared import UNKNOWN, Resource, at
from policy.rules.rule import ResourceRule, Settings, names

STACK = "pulumi:pulumi:Stack"
SECRETS_PROVIDER = "secretsProvider"
"""The engine does not tell it: `policy.pack` adds what the stack file says."""


def _secrets(resource: Resource, settings: Settings) -> Iterator[str]:
    allowed = settings["allowed"]
    if resource.type != STACK or "*" in allowed:
        return
    found = at(resource.props, SECRETS_PROVIDER)
    if found is UNKNOWN or (found and any(fnmatchcase(str(found), one) for one in allowed)):
        return
    what = (
        f"its secrets are encrypted by {found}"
        if found
        else "it has no stack file in stacks/, so it is not known who encrypts its secrets"
    )
    yield (
        f"stack {resource.name!r}: {what}; allowed: {', '.join(allowed) or 'none'}. Change it by "
        "`pulumi stack change-secrets-provider`"
    )


RULES = (
    ResourceRule(
        name="stack-secrets",
        description="Secrets in state and stack file are encrypted by a key of a list only.",
        level="mandatory",
        settings=(names("allowed", "secrets providers, such as awskms://*; *: any", ("*",)),),
        check=_secrets,
    ),
)
