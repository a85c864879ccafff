"""Which devices get another process after a run."""

from __future__ import annotations

from slicewright.node_agent.compute import signs
from slicewright.node_agent.compute.results import DeviceResult, Failure, Refused, Started
from slicewright.node_agent.compute.units import Run, Unit, follow_up, initial

ALL = ("a", "b", "c")
UNIT = Unit(gpu="g", uuids=ALL)


def started(*uuids: str) -> Started:
    return Started(cuda=13000, init_ms=1.0, uuids=uuids)


def computed(*uuids: str) -> tuple[DeviceResult, ...]:
    return tuple(DeviceResult(uuid=uuid) for uuid in uuids)


def failed(uuid: str, code: int = 719) -> DeviceResult:
    name = signs.of_code(code).name
    return DeviceResult(uuid=uuid, failure=Failure(step="cuCtxSynchronize", name=name, code=code))


def uuids(run: Run) -> list[tuple[tuple[str, ...], int]]:
    return [(unit.uuids, unit.attempt) for unit in follow_up(run)]


def test_there_is_a_process_per_gpu_and_none_for_a_gpu_without_devices() -> None:
    assert initial({"g": ["a", "b"], "h": [], "i": ["c"]}) == (
        Unit(gpu="g", uuids=("a", "b")),
        Unit(gpu="i", uuids=("c",)),
    )


def test_nothing_follows_a_run_in_which_all_computed() -> None:
    assert follow_up(Run(unit=UNIT, started=started(*ALL), results=computed(*ALL))) == ()


def test_a_failed_device_gets_one_more_process_and_those_behind_it_another() -> None:
    run = Run(unit=UNIT, started=started(*ALL), results=(failed("a"),), begun="a")
    assert uuids(run) == [(("b", "c"), 1), (("a",), 2)]
    again = Run(
        unit=Unit(gpu="g", uuids=("a",), attempt=2), started=started("a"), results=(failed("a"),)
    )
    assert follow_up(again) == ()


def test_devices_that_cuda_does_not_show_get_a_process_each() -> None:
    run = Run(unit=UNIT, started=started("a"), results=computed("a"), begun="a")
    assert uuids(run) == [(("b",), 1), (("c",), 1)]
    alone = Run(unit=Unit(gpu="g", uuids=("b",)), started=started())
    assert follow_up(alone) == ()
    assert alone.failures()["b"].name == signs.NOT_ENUMERATED


def test_a_hung_device_is_not_tried_again_but_those_behind_it_are() -> None:
    run = Run(unit=UNIT, started=started(*ALL), begun="b", results=computed("a"), timed_out=True)
    assert uuids(run) == [(("c",), 1)]
    assert run.failures()["b"].name == signs.TIMED_OUT


def test_a_crash_is_of_the_device_that_was_begun() -> None:
    run = Run(unit=UNIT, started=started(*ALL), begun="b", results=computed("a"))
    assert run.failures()["b"].name == signs.PROCESS_ENDED
    assert uuids(run) == [(("c",), 1), (("b",), 2)]


def test_a_hung_initialization_is_of_every_device_and_final() -> None:
    run = Run(unit=UNIT, timed_out=True)
    assert follow_up(run) == ()
    assert {f.name for f in run.failures().values()} == {signs.TIMED_OUT}


def test_a_refused_initialization_is_tried_once_more() -> None:
    refused = Refused(failure=Failure(step="cuInit", code=802, name="CUDA_ERROR_SYSTEM_NOT_READY"))
    assert uuids(Run(unit=UNIT, refused=refused)) == [(ALL, 2)]
    assert follow_up(Run(unit=Unit(gpu="g", uuids=ALL, attempt=2), refused=refused)) == ()


def test_after_no_device_each_uuid_is_tried_by_itself() -> None:
    """One UUID that is gone hides all after it."""
    refused = Refused(failure=Failure(step="cuInit", code=100, name="CUDA_ERROR_NO_DEVICE"))
    assert uuids(Run(unit=UNIT, refused=refused)) == [(("a",), 1), (("b",), 1), (("c",), 1)]


def test_a_missing_library_is_not_tried_again() -> None:
    refused = Refused(failure=Failure(step="dlopen", name=signs.LIBRARY_MISSING))
    assert follow_up(Run(unit=UNIT, refused=refused)) == ()
