"""Which calls are sent again, as the official provider's transport does it, and for how long."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.plugins.providers.gcp.retries import Retrying

BROKEN = CloudError(503, "UNAVAILABLE", "")


class Answers:
    """Refuses with each error in turn, the last one for ever; None = answers."""

    def __init__(self, errors: Sequence[CloudError | None]) -> None:
        self._errors = list(errors)
        self.calls = 0

    def call(
        self,
        service: str,
        method: str,
        params: JsonObject | None = None,
        body: JsonObject | None = None,
    ) -> JsonObject:
        self.calls += 1
        error = self._errors.pop(0) if len(self._errors) > 1 else self._errors[0]
        if error is not None:
            raise error
        return {"name": "net"}


def retrying(answers: Answers, *, for_s: float = 90.0) -> Retrying:
    return Retrying(answers, threading.Event(), pause_s=0.001, for_s=for_s)


@pytest.mark.parametrize(
    "error",
    [
        *(CloudError(code, "X", "") for code in (429, 500, 502, 503)),
        CloudError(409, "OPERATION_IN_PROGRESS", ""),
        CloudError(400, "RESOURCE_NOT_READY", ""),
    ],
    ids=lambda error: f"{error.code} {error.reason}",
)
def test_temporary_errors_are_retried(error: CloudError) -> None:
    answers = Answers([error, error, None])
    assert retrying(answers).call("compute", "networks.get") == {"name": "net"}
    assert answers.calls == 3


@pytest.mark.parametrize("code", [400, 403, 404, 409, 501, 504])
def test_permanent_errors_are_reported_immediately(code: int) -> None:
    answers = Answers([CloudError(code, "X", "")])
    with pytest.raises(CloudError):
        retrying(answers).call("compute", "networks.get")
    assert answers.calls == 1


def test_an_error_that_lasts_is_reported_in_the_end() -> None:
    answers = Answers([BROKEN])
    with pytest.raises(CloudError):
        retrying(answers, for_s=0.05).call("compute", "networks.get")
    # 0.001, 0.002, 0.003, 0.005, 0.008, 0.013, 0.021 s: no more than these fit.
    assert 1 < answers.calls <= 8


def test_a_run_that_is_cancelled_waits_for_nothing() -> None:
    answers = Answers([BROKEN])
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(CloudError):
        Retrying(answers, cancelled, pause_s=60).call("compute", "networks.get")
    assert answers.calls == 1
