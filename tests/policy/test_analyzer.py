"""The pack through Pulumi's Analyzer protocol, in its own environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import analyzer_pb2

from policy.rules import RULES, Resource, StackRule
from tests.policy.cases import CASES, Case, eks, eks_pool, gke_pool

STACK_RULES = {rule.name for rule in RULES if isinstance(rule, StackRule)}
# Of the SDK, which a preview sends in place of a text that it does not know.
UNKNOWN_TEXT = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def sent(resource: Resource) -> dict[str, Any]:
    properties, provider = struct_pb2.Struct(), struct_pb2.Struct()
    properties.update(dict(resource.props))
    provider.update(dict(resource.provider))
    return {
        "type": resource.type,
        "name": resource.name,
        "urn": resource.urn,
        "properties": properties,
        "options": analyzer_pb2.AnalyzerResourceOptions(protect=resource.protect),
        "provider": analyzer_pb2.AnalyzerProviderResource(
            type="pulumi:providers:any", properties=provider, urn="urn:p", name="p"
        ),
    }


def configured(analyzer: Any, rule: str, settings: Mapping[str, Any]) -> None:
    wanted = analyzer_pb2.ConfigureAnalyzerRequest()
    if settings:
        one = wanted.policyConfig[rule]
        level = next(r.level for r in RULES if r.name == rule)
        one.enforcementLevel = analyzer_pb2.EnforcementLevel.Value(level.upper())
        json_format.ParseDict(dict(settings), one.properties)
    analyzer.Configure(wanted)


def said(analyzer: Any, rule: str, resources: Sequence[Resource]) -> list[Any]:
    """The rule's diagnostics, as the engine asks for them."""
    if rule in STACK_RULES:
        every = [analyzer_pb2.AnalyzerResource(**sent(one)) for one in resources]
        answers = [analyzer.AnalyzeStack(analyzer_pb2.AnalyzeStackRequest(resources=every))]
    else:
        answers = [analyzer.Analyze(analyzer_pb2.AnalyzeRequest(**sent(one))) for one in resources]
    return [d for answer in answers for d in answer.diagnostics if d.policyName == rule]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_a_rule_refuses_and_passes_through_the_protocol(analyzer: Any, case: Case) -> None:
    configured(analyzer, case.rule, case.settings)
    (refused,) = said(analyzer, case.rule, case.refused)
    assert case.says in refused.message
    level = next(rule.level for rule in RULES if rule.name == case.rule)
    assert refused.enforcementLevel == analyzer_pb2.EnforcementLevel.Value(level.upper())
    assert said(analyzer, case.rule, case.passed) == []


def test_the_pack_tells_the_engine_every_rule_and_its_settings(analyzer: Any) -> None:
    told = analyzer.GetAnalyzerInfo(empty_pb2.Empty())
    assert told.name == "slicewright"
    assert {p.name: {*p.configSchema.properties} for p in told.policies} == {
        rule.name: {setting.name for setting in rule.settings} for rule in RULES
    }


def test_an_unknown_value_does_not_silence_a_rule_about_the_rest(analyzer: Any) -> None:
    """The SDK would give up on a rule that touches such a value, and let everything pass."""
    configured(analyzer, "", {})
    unnamed = gke_pool(taints=[{"key": UNKNOWN_TEXT}], workloadMetadataConfig={})
    answer = analyzer.Analyze(analyzer_pb2.AnalyzeRequest(**sent(unnamed)))
    names = {d.policyName for d in answer.diagnostics}
    assert names == {"pool-node-credentials"}
    assert not [d.message for d in answer.diagnostics if "can't run policy" in d.message]
    assert not answer.not_applicable

    half_known = eks(publicAccessCidrs=[UNKNOWN_TEXT, "0.0.0.0/0"])
    answer = analyzer.Analyze(analyzer_pb2.AnalyzeRequest(**sent(half_known)))
    assert "cluster-endpoint" in {d.policyName for d in answer.diagnostics}


def test_the_cost_of_a_fleet_names_its_largest_pool(analyzer: Any) -> None:
    configured(analyzer, "fleet-size", {"most_gpus": 10.0})
    (told,) = said(analyzer, "fleet-size", [gke_pool("small"), eks_pool("large")])
    assert told.urn.endswith("::large")
