"""The inputs of a `helm.v3.Release`: defaults, the chart they name, and differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slicewright.rehearsal.plugins.charts import Chart, NoSuchChart, find
from slicewright.rehearsal.plugins.engine.plugin import Checked, CheckFailure, Difference, Kind
from slicewright.rehearsal.plugins.engine.properties import UNKNOWN, Properties, unwrap
from slicewright.rehearsal.plugins.providers.kubernetes.comparison import compare, show
from slicewright.rehearsal.plugins.providers.kubernetes.normalise import copy_marks

_OPTIONS_OFF: Final = [
    "allowNullValues",
    "atomic",
    "cleanupOnFail",
    "createNamespace",
    "dependencyUpdate",
    "devel",
    "disableCRDHooks",
    "disableOpenapiValidation",
    "disableWebhooks",
    "forceUpdate",
    "lint",
    "recreatePods",
    "renderSubchartNotes",
    "replace",
    "resetValues",
    "reuseValues",
    "skipAwait",
    "skipCrds",
    "takeOwnership",
    "verify",
    "waitForJobs",
]
_TEXTS: Final = ("description", "keyring", "postrender")
_TIMEOUT_S: Final = 300


def check_inputs(
    news: Properties, olds: Properties, name: str | None, default_namespace: str
) -> Checked:
    """The inputs with defaults filled in. name: the automatic name."""
    inputs = {key: value for key, value in unwrap(news).items() if key != "compat"}
    inputs["name"] = inputs.get("name") or unwrap(olds).get("name") or name
    inputs["namespace"] = inputs.get("namespace") or default_namespace
    inputs["timeout"] = inputs.get("timeout") or _TIMEOUT_S
    inputs |= {option: inputs.get(option) or False for option in _OPTIONS_OFF}
    inputs |= {option: inputs.get(option) or "" for option in _TEXTS}
    inputs["values"] = inputs.get("values") or {}
    failures = []
    if inputs.get("valueYamlFiles"):
        failures.append(
            CheckFailure(
                "valueYamlFiles",
                "is not supported by the rehearsal; use `values`",
            )
        )
    if not any(inputs.get(key) is UNKNOWN for key in ("chart", "version", "repositoryOpts")):
        try:
            chart = chart_of(inputs)
            inputs["version"] = chart.version
            if isinstance(inputs["values"], dict):
                failures += [
                    CheckFailure(f"values.{path}", why)
                    for path, why in chart.check(_without_unknowns(inputs["values"]))
                ]
        except NoSuchChart as e:
            failures.append(CheckFailure("chart", str(e)))
    return Checked(copy_marks(inputs, news), failures)


def chart_of(inputs: Mapping[str, Any]) -> Chart:
    """Raises NoSuchChart."""
    options = inputs.get("repositoryOpts") or {}
    return find(
        str(inputs.get("chart")),
        repository=options.get("repo"),
        version=inputs.get("version") or None,
    )


def difference_of(old_inputs: Properties, new_inputs: Properties) -> Difference:
    """The difference of the inputs; changes of templates or live objects are not detected."""
    changes = compare(unwrap(old_inputs), unwrap(new_inputs))
    detailed: dict[str, Kind] = {}
    replaces = []
    for path, change in changes.items():
        if path[0] in ("name", "namespace"):
            # Of the six kinds, three are the others with `-replace`.
            detailed[show(path)] = f"{change}-replace"  # type: ignore[assignment]
            replaces.append(show(path))
        else:
            detailed[show(path)] = change
    return Difference(
        changes=bool(changes),
        detailed=detailed,
        replaces=replaces,
        diffs=sorted({str(path[0]) for path in changes}),
        input_paths=None,
    )


def _without_unknowns(value: Any) -> Any:
    """The values without unknown ones, so that the rest can be checked in a preview."""
    if isinstance(value, dict):
        return {key: _without_unknowns(item) for key, item in value.items() if item is not UNKNOWN}
    return value
