from __future__ import annotations

import json
import threading
from itertools import islice
from typing import Any

from slicewright.kubeapi import list_and_watch


def _listed(version: str, *names: str) -> dict[str, Any]:
    return {
        "metadata": {"resourceVersion": version},
        "items": [{"metadata": {"name": n}} for n in names],
    }


def _lines(*events: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(e).encode() + b"\n" for e in events)


def _event(kind: str, name: str, version: str) -> dict[str, Any]:
    return {"type": kind, "object": {"metadata": {"name": name, "resourceVersion": version}}}


def test_a_watch_resumes_at_its_last_version(server: Any, answer: Any) -> None:
    server.answers = [
        answer(body=_listed("5", "a")),
        answer(body=_lines(_event("ADDED", "b", "6")), cut=True),
        answer(body=_lines(_event("MODIFIED", "b", "7"))),
    ]
    seen = list(islice(list_and_watch(server.client(), "/x", stop=threading.Event()), 3))
    assert [e.type for e in seen] == ["LISTED", "ADDED", "MODIFIED"]
    assert seen[0].items == ({"metadata": {"name": "a"}},)
    assert ["resourceVersion=5" in a.path for a in server.asked] == [False, True, False]
    assert "resourceVersion=6" in server.asked[2].path


def test_after_410_it_lists_again(server: Any, answer: Any) -> None:
    gone = {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}
    server.answers = [
        answer(body=_listed("5", "a")),
        answer(body=_lines(gone)),
        answer(body=_listed("9", "c")),
        answer(body=_lines(_event("ADDED", "d", "10"))),
    ]
    seen = list(islice(list_and_watch(server.client(), "/x", stop=threading.Event()), 3))
    assert [e.type for e in seen] == ["LISTED", "LISTED", "ADDED"]
    assert seen[1].items == ({"metadata": {"name": "c"}},)


def test_a_410_as_the_answer_itself_counts_too(server: Any, answer: Any) -> None:
    server.answers = [
        answer(body=_listed("5")),
        answer(status=410, body={"message": "too old", "reason": "Expired"}),
        answer(body=_listed("9", "c")),
    ]
    assert [
        e.type for e in islice(list_and_watch(server.client(), "/x", stop=threading.Event()), 2)
    ] == ["LISTED"] * 2


def test_errors_are_reported_and_retried(server: Any, answer: Any) -> None:
    server.answers = [
        answer(status=403, body={"message": "nodes is forbidden"}),
        answer(body=b"no json"),
        answer(body=_listed("1", "a")),
    ]
    errors: list[str] = []
    events = list_and_watch(
        server.client(),
        "/x",
        stop=threading.Event(),
        backoff_max_s=0.05,
        on_error=lambda e: errors.append(str(e)),
    )
    assert next(events).type == "LISTED"
    assert errors[0] == "nodes is forbidden"
    assert len(errors) == 2


def test_an_answer_of_another_shape_is_an_error_and_the_list_is_read_again(
    server: Any, answer: Any
) -> None:
    server.answers = [
        answer(body={"kind": "Status"}),
        answer(body=_listed("1", "a")),
        answer(body=_lines({"type": "ADDED", "object": {}})),
        answer(body=_listed("2", "b")),
    ]
    errors: list[str] = []
    events = list_and_watch(
        server.client(),
        "/x",
        stop=threading.Event(),
        backoff_max_s=0.01,
        on_error=lambda e: errors.append(str(e)),
    )
    assert [e.type for e in islice(events, 2)] == ["LISTED", "LISTED"]
    assert errors == ["unexpected answer: KeyError: 'metadata'"] * 2


def test_a_watch_that_is_accepted_is_reported_though_nothing_changes(
    server: Any, answer: Any
) -> None:
    server.answers = [
        answer(body=_listed("1")),
        answer(status=503, body={"message": "not now"}),
        answer(body=b""),
    ]
    told: list[str] = []
    events = list_and_watch(
        server.client(),
        "/x",
        stop=threading.Event(),
        backoff_max_s=0.01,
        on_error=lambda e: told.append(str(e)),
        on_open=lambda: told.append("open"),
    )
    assert [e.type for e in islice(events, 2)] == ["LISTED", "BOOKMARK"]
    assert told == ["not now", "open"]


def test_server_that_ends_watches_at_once_causes_no_tight_loop(server: Any, answer: Any) -> None:
    server.answers = [answer(body=_listed("1")), answer(body=b"")]
    stop = threading.Event()
    threading.Timer(1.0, stop.set).start()
    for _ in list_and_watch(server.client(), "/x", stop=stop):
        pass
    assert len(server.asked) < 40


def test_watch_ends_once_stop_is_set(server: Any, answer: Any) -> None:
    stop = threading.Event()
    server.answers = [answer(body=_listed("1")), answer(body=_lines(_event("ADDED", "a", "2")))]
    for event in list_and_watch(server.client(), "/x", stop=stop):
        if event.type == "ADDED":
            stop.set()
    assert stop.is_set()


def test_a_list_is_read_in_pages_and_only_what_is_kept_of_it_stays(
    server: Any, answer: Any
) -> None:
    first = _listed("5", "a", "b")
    first["metadata"]["continue"] = "token"
    server.answers = [answer(body=first), answer(body=_listed("5", "c")), answer(body=b"")]
    events = list_and_watch(
        server.client(),
        "/x",
        stop=threading.Event(),
        keep=lambda raw: raw["metadata"]["name"],
        labelSelector="app=x",
    )
    listed = next(events)
    assert (listed.items, listed.object["metadata"]["resourceVersion"]) == (("a", "b", "c"), "5")
    assert [asked.path for asked in server.asked] == [
        "/x?labelSelector=app%3Dx&limit=500",
        "/x?labelSelector=app%3Dx&limit=500&continue=token",
    ]
    next(events)
    assert "limit" not in server.asked[2].path, "a watch has no pages"


def test_a_list_that_expires_between_two_pages_is_read_from_the_beginning(
    server: Any, answer: Any
) -> None:
    first = _listed("5", "a")
    first["metadata"]["continue"] = "token"
    gone = answer(status=410, body={"message": "too old", "reason": "Expired"})
    server.answers = [answer(body=first), gone, answer(body=_listed("9", "c"))]
    (listed,) = islice(list_and_watch(server.client(), "/x", stop=threading.Event()), 1)
    assert [one["metadata"]["name"] for one in listed.items] == ["c"]


class Waits(threading.Event):
    """Waits for nothing, and remembers for how long it was to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.asked.append(timeout)
        return self.is_set()


def test_it_asks_again_no_sooner_than_the_server_says(server: Any, answer: Any) -> None:
    busy = answer(status=429, body={"message": "busy"}, headers={"Retry-After": "17"})
    for_ever = answer(status=503, body={"message": "down"}, headers={"Retry-After": "86400"})
    server.answers = [busy, for_ever, answer(body=_listed("1"))]
    stop = Waits()
    next(list_and_watch(server.client(), "/x", stop=stop, backoff_max_s=0.01))
    assert stop.asked == [17.0, 60.0]


def test_a_second_410_in_a_row_is_not_answered_at_once(server: Any, answer: Any) -> None:
    gone = answer(status=410, body={"message": "too old", "reason": "Expired"})
    server.answers = [answer(body=_listed("5")), gone, answer(body=_listed("6")), gone] * 2 + [
        answer(body=_listed("9", "c"))
    ]
    stop = Waits()
    list(islice(list_and_watch(server.client(), "/x", stop=stop), 4))
    assert len(stop.asked) == 2, "the first at once, the others after a pause"


def test_a_version_that_the_server_does_not_know_yet_is_forgotten(server: Any, answer: Any) -> None:
    """A server that was restored has gone back, and would refuse it for ever."""
    ahead = {"message": "Too large resource version: 5, current: 2", "reason": "Timeout"}
    server.answers = [
        answer(body=_listed("5")),
        answer(status=504, body=ahead),
        answer(body=_listed("2", "a")),
    ]
    stop = Waits()
    seen = list(islice(list_and_watch(server.client(), "/x", stop=stop), 2))
    assert [event.type for event in seen] == ["LISTED", "LISTED"]
