"""A container's environment, command and arguments, as a kubelet computes them from the spec."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence

from slicewright.kubeapi import JsonObject

Lookup = Callable[[str, str], Mapping[str, str] | None]
"""("configmaps" | "secrets", name) -> the object's data as text; None if there is none."""


class MissingReference(Exception):
    """A ConfigMap, a Secret or a key that the container needs does not exist; retried."""


class Unsupported(Exception):
    """The pod uses something that the kubelet stand-in does not support; not retried."""


_REFERENCE = re.compile(r"\$(\$|\(([A-Za-z0-9_.\-]+)\))")
_FIELD_WITH_KEY = re.compile(r"^metadata\.(labels|annotations)\['([^']+)'\]$")


def expand(text: str, known: Mapping[str, str]) -> str:
    """Expands `$(NAME)`; `$$` is a literal dollar, and unknown names stay as they are."""

    def put(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return known.get(match[2], match[0])

    return _REFERENCE.sub(put, text)


def field_value(pod: JsonObject, path: str, *, pod_ip: str, host_ip: str) -> str:
    """The downward API's value of a fieldPath. Raises Unsupported for any other path."""
    metadata, spec = pod["metadata"], pod["spec"]
    if match := _FIELD_WITH_KEY.match(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        # The form of downwardAPI files: one key="value" line each, sorted. Source: pkg/fieldpath,
        # FormatMap.
        values = metadata.get(path.removeprefix("metadata.")) or {}
        return "\n".join(f'{k}="{_go_quote(str(v))}"' for k, v in sorted(values.items()))
    match path:
        case "metadata.name":
            return str(metadata["name"])
        case "metadata.namespace":
            return str(metadata["namespace"])
        case "metadata.uid":
            return str(metadata["uid"])
        case "spec.nodeName":
            return str(spec.get("nodeName", ""))
        case "spec.serviceAccountName":
            return str(spec.get("serviceAccountName", ""))
        case "status.podIP" | "status.podIPs":
            return pod_ip
        case "status.hostIP" | "status.hostIPs":
            return host_ip
        case _:
            raise Unsupported(f"fieldPath {path!r} is not supported by the downward API")


def variables(
    pod: JsonObject,
    container: JsonObject,
    lookup: Lookup,
    *,
    base: Mapping[str, str],
    pod_ip: str,
    host_ip: str,
) -> dict[str, str]:
    """`base`, then envFrom, then env; later ones win. Raises MissingReference, Unsupported."""
    result = dict(base)
    for source in container.get("envFrom") or ():
        result.update(_all_keys(source, lookup))
    for entry in container.get("env") or ():
        name = entry["name"]
        if "valueFrom" not in entry:
            result[name] = expand(entry.get("value", ""), result)
            continue
        source = entry["valueFrom"]
        if reference := source.get("fieldRef"):
            result[name] = field_value(pod, reference["fieldPath"], pod_ip=pod_ip, host_ip=host_ip)
        elif reference := source.get("configMapKeyRef"):
            _put(result, name, _one_key("configmaps", reference, lookup))
        elif reference := source.get("secretKeyRef"):
            _put(result, name, _one_key("secrets", reference, lookup))
        else:
            raise Unsupported(
                f"env {name}: the kubelet stand-in does not support {'/'.join(sorted(source))}"
            )
    return result


def command_line(
    container: JsonObject, known: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(command, args), both expanded; empty where the image's are used."""
    return _expanded(container.get("command"), known), _expanded(container.get("args"), known)


def text_data(kind: str, found: JsonObject) -> dict[str, str]:
    """The data of a ConfigMap or Secret as text, as environment variables see it."""
    if kind == "secrets":
        return {
            k: base64.b64decode(v).decode(errors="replace")
            for k, v in (found.get("data") or {}).items()
        }
    return dict(found.get("data") or {})


def _expanded(words: Sequence[str] | None, known: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(expand(word, known) for word in words or ())


def _all_keys(source: JsonObject, lookup: Lookup) -> dict[str, str]:
    kind, reference = (
        ("configmaps", source["configMapRef"])
        if "configMapRef" in source
        else ("secrets", source["secretRef"])
    )
    data = lookup(kind, reference["name"])
    if data is None:
        if reference.get("optional"):
            return {}
        raise MissingReference(f'{_singular(kind)} "{reference["name"]}" not found')
    return {source.get("prefix", "") + key: value for key, value in data.items()}


def _one_key(kind: str, reference: JsonObject, lookup: Lookup) -> str | None:
    data = lookup(kind, reference["name"])
    if data is not None and reference["key"] in data:
        return data[reference["key"]]
    if reference.get("optional"):
        return None
    if data is None:
        raise MissingReference(f'{_singular(kind)} "{reference["name"]}" not found')
    raise MissingReference(
        f"couldn't find key {reference['key']} in {_singular(kind)} {reference['name']}"
    )


def _put(result: dict[str, str], name: str, value: str | None) -> None:
    if value is not None:
        result[name] = value


def _singular(kind: str) -> str:
    return kind.removesuffix("s")


def _go_quote(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
