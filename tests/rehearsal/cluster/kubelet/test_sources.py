"""Objects of pods are read again while the API server does not know the pod's node yet."""

from __future__ import annotations

from typing import Any, cast

import pytest

from slicewright.kubeapi import ApiError, Client
from slicewright.rehearsal.cluster.kubelet.pods import sources
from slicewright.rehearsal.cluster.kubelet.pods.sources import ApiSources

POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {}}
TOKEN = {"status": {"token": "t", "expirationTimestamp": "2099-01-01T00:00:00Z"}}


class Server:
    """Refuses with these codes, then answers."""

    def __init__(self, *codes: int) -> None:
        self._codes = list(codes)

    def get(self, path: str) -> Any:
        return self._answer({"metadata": {"name": path.rpartition("/")[2]}})

    def create(self, path: str, body: Any) -> Any:
        return self._answer(TOKEN)

    def _answer(self, answer: Any) -> Any:
        if self._codes:
            raise ApiError(self._codes.pop(0), {})
        return answer


def _sources(*codes: int) -> ApiSources:
    return ApiSources(cast(Client, Server(*codes)))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_LAG_S", (0.0, 0.0))


def test_a_config_map_is_read_again_after_refusals_and_a_missing_one_is_not() -> None:
    assert _sources(403, 403).find("configmaps", "ns", "c") == {"metadata": {"name": "c"}}
    assert _sources(404).find("configmaps", "ns", "c") is None


@pytest.mark.parametrize("code", [403, 404, 409])
def test_a_token_is_requested_again_after_refusals(code: int) -> None:
    assert _sources(code, code).token(POD, None, 600)[0] == "t"


@pytest.mark.parametrize(("codes", "last"), [((403,) * 3, 403), ((500,), 500)])
def test_other_errors_and_lasting_refusals_are_raised(codes: tuple[int, ...], last: int) -> None:
    for call in (
        lambda tried: tried.find("configmaps", "ns", "c"),
        lambda tried: tried.token(POD, None, 600),
    ):
        with pytest.raises(ApiError) as error:
            call(_sources(*codes))
        assert error.value.status == last
