"""`up` reports a Helm release that is not ready yet; on the real engine: test_release.py."""

from __future__ import annotations

import asyncio

from slicewright.infra.components.helm_release import report_until_ready


def test_a_waiting_release_is_reported_at_each_interval_until_it_is_ready() -> None:
    reports: list[float] = []

    async def wait() -> None:
        release: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def report(seconds: float) -> None:
            reports.append(seconds)
            if len(reports) == 3:
                release.set_result("urn")

        await report_until_ready(release, report, 0.01)

    asyncio.run(wait())
    assert reports == [0.01, 0.02, 0.03]


def test_a_ready_release_is_not_reported() -> None:
    reports: list[float] = []

    async def wait() -> None:
        release: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        release.set_result("urn")
        await report_until_ready(release, reports.append, 60.0)

    asyncio.run(wait())
    assert reports == []
