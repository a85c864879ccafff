"""Asks the account for resources that a cut-off creation has created."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicewright.doctor.ask.aws.session import AwsSession
from slicewright.doctor.findings import NotAnswered
from slicewright.infra.recovery import Recovered, provider_settings
from slicewright.recovery.resource_queries import ResourceQuery, resource_query


@dataclass(frozen=True, kw_only=True)
class Answers:
    ids: Mapping[str, str | None]
    """URN -> ID. None: the account has no such resource."""
    open: Mapping[str, str]
    """URN -> the reason why it stays unknown."""


def ask(recovered: Recovered) -> Answers:
    """Raises CannotAsk if AWS cannot be asked at all."""
    resources: Sequence[Mapping[str, Any]] = (
        recovered.deployment["deployment"].get("resources") or ()
    )
    known_ids = {str(adopted["id"]) for adopted in resources if "id" in adopted}
    ids: dict[str, str | None] = {}
    unclear: dict[str, str] = {}
    for resource in recovered.pending:
        settings = provider_settings(resource, resources)
        question = resource_query(resource, settings.get("region"), settings.get("profile"))
        if question is None:
            continue
        answer = _candidates(question)
        if isinstance(answer, str):
            unclear[question.urn] = answer
            continue
        new = [identity for identity in answer if identity.rpartition(",")[2] not in known_ids]
        if len(new) > 1:
            unclear[question.urn] = (
                f"several resources of the account match: {', '.join(new)}. Delete the unused "
                "ones, then run the command again"
            )
        else:
            ids[question.urn] = new[0] if new else None
    return Answers(ids=ids, open=unclear)


def _candidates(question: ResourceQuery) -> list[str] | str:
    """Returns the IDs, or the reason why there is no answer."""
    session = AwsSession(question.region, question.profile)

    def read() -> list[Mapping[str, Any]]:
        client = session.client(question.service)
        if client.can_paginate(question.operation):
            pages = client.get_paginator(question.operation).paginate(**question.parameters)
        else:
            pages = [getattr(client, question.operation)(**question.parameters)]
        return [description for page in pages for description in page[question.listed]]

    answer = session.answer(question.right, read)
    if isinstance(answer, NotAnswered):
        return " ".join(filter(None, (answer.why, answer.remedy)))
    return question.ids(answer)
