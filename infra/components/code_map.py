"""The ConfigMap with a zipapp, and the check that it still holds that zipapp.

The ConfigMap is immutable, but a user with the right to delete it can create another one of the
same name. Pulumi would not see that: a preview compares with the state, and a refresh takes over
the live bytes, because changes of the bytes are ignored. They are ignored because another version
of zlib compresses equal sources differently, and each change would replace the ConfigMap under the
running agents. So each run reads the live ConfigMap too, and compares its files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from slicewright.infra import delivery


class ForeignCode(pulumi.RunError):
    """A ConfigMap does not hold the delivered code. Pulumi prints this without a traceback."""


@dataclass(frozen=True, kw_only=True)
class Code:
    config_map: pulumi.Output[str]
    """Name of the ConfigMap."""
    untouched: pulumi.Output[bool]
    """True if the ConfigMap holds the delivered code. If not, `up` fails, and a preview warns.
    Register it as an output, so that Pulumi waits for it.
    """


def deliver_code(
    name: str,
    zipapp: delivery.Zipapp,
    *,
    title: str,
    namespace: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> Code:
    """title: name of the ConfigMap without the hash of the sources, which is added."""
    # An equal name means equal code.
    resource_name = f"{name}-code-{zipapp.short_hash}"
    object_name = f"{title}-{zipapp.short_hash}"
    config_map = k8s.core.v1.ConfigMap(
        resource_name,
        metadata=k8s.meta.v1.ObjectMetaArgs(name=object_name, namespace=namespace),
        immutable=True,
        binary_data={zipapp.name: zipapp.base64},
        opts=pulumi.ResourceOptions.merge(
            opts, pulumi.ResourceOptions(ignore_changes=["binaryData"])
        ),
    )
    live = k8s.core.v1.ConfigMap.get(
        f"{resource_name}-proof",
        id=config_map.id,
        opts=pulumi.ResourceOptions(parent=opts.parent, depends_on=[config_map]),
    )
    untouched = pulumi.Output.all(live.binary_data, live.metadata.namespace).apply(
        lambda fields: _holds_zipapp(fields[0], zipapp, f"{fields[1]}/{object_name}")
    )
    return Code(config_map=config_map.metadata.name, untouched=untouched)


def _holds_zipapp(data: Mapping[str, str] | None, zipapp: delivery.Zipapp, where: str) -> bool:
    difference = zipapp.difference((data or {}).get(zipapp.name))
    if difference is None:
        return True
    text = (
        f"ConfigMap {where} does not hold the code that was delivered under this name: "
        f"{difference}. It is immutable, so it was deleted and another one was created"
    )
    namespace, _, name = where.partition("/")
    if pulumi.runtime.is_dry_run():
        pulumi.log.warn(f"{text}; `pulumi up` will fail.")
        return False
    raise ForeignCode(
        f"{text}. Find out who (the API server's audit log), then run "
        f"`kubectl --namespace {namespace} delete configmap {name}` and `pulumi up --refresh`."
    )
