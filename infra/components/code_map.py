"""The ConfigMap with a zipapp, and the check that it still holds that zipapp.

It is immutable, but a user who may delete it may create another one of the same name. Pulumi would
not see that: a preview compares with the state, and a refresh takes over the live bytes, because
changes of the bytes are ignored. The reason is that equal sources give other bytes on a machine
with another zlib, and each change would replace the ConfigMap below the running agents. So each run
reads the live ConfigMap too, and compares its files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from infra import delivery


class ForeignCode(pulumi.RunError):
    """A ConfigMap holds other code than was delivered. Pulumi prints it without a traceback."""


@dataclass(frozen=True, kw_only=True)
class Code:
    config_map: pulumi.Output[str]
    """Name of the ConfigMap."""
    untouched: pulumi.Output[bool]
    """True, or `up` fails; a preview warns and has false. To be registered as an output, so that
    Pulumi waits for it.
    """


def delivered(
    name: str,
    zipapp: delivery.Zipapp,
    *,
    title: str,
    namespace: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> Code:
    """title: name of the ConfigMap without the hash of the sources, which is added."""
    # An equal name means equal code.
    resource, found = f"{name}-code-{zipapp.short_hash}", f"{title}-{zipapp.short_hash}"
    made = k8s.core.v1.ConfigMap(
        resource,
        metadata=k8s.meta.v1.ObjectMetaArgs(name=found, namespace=namespace),
        immutable=True,
        binary_data={zipapp.name: zipapp.base64},
        opts=pulumi.ResourceOptions.merge(
            opts, pulumi.ResourceOptions(ignore_changes=["binaryData"])
        ),
    )
    live = k8s.core.v1.ConfigMap.get(
        f"{resource}-proof",
        id=made.id,
        opts=pulumi.ResourceOptions(parent=opts.parent, depends_on=[made]),
    )
    return Code(
        config_map=made.metadata.name,
        untouched=pulumi.Output.all(live.binary_data, live.metadata.namespace).apply(
            lambda known: _judge(known[0], zipapp, f"{known[1]}/{found}")
        ),
    )


def _judge(data: Mapping[str, str] | None, zipapp: delivery.Zipapp, where: str) -> bool:
    why = zipapp.difference((data or {}).get(zipapp.name))
    if why is None:
        return True
    text = (
        f"ConfigMap {where} does not hold the code that was delivered under this name: {why}. "
        "It is immutable, so it was deleted and another one was created"
    )
    namespace, _, name = where.partition("/")
    if pulumi.runtime.is_dry_run():
        pulumi.log.warn(f"{text}; `pulumi up` will fail.")
        return False
    raise ForeignCode(
        f"{text}. Find out who (the API server's audit log), then run "
        f"`kubectl --namespace {namespace} delete configmap {name}` and `pulumi up --refresh`."
    )
