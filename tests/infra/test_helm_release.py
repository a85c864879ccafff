"""Something is said while a Helm release waits; on the real engine: test_release.py."""

from __future__ import annotations

import asyncio

from infra.components.helm_release import said_until


def test_it_is_said_until_the_release_is_there() -> None:
    said: list[float] = []

    async def wait() -> None:
        made: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def say(seconds: float) -> None:
            said.append(seconds)
            if len(said) == 3:
                made.set_result("urn")

        await said_until(made, say, 0.01)

    asyncio.run(wait())
    assert said == [0.01, 0.02, 0.03]


def test_nothing_is_said_of_a_release_that_is_there() -> None:
    said: list[float] = []

    async def wait() -> None:
        made: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        made.set_result("urn")
        await said_until(made, said.append, 60.0)

    asyncio.run(wait())
    assert said == []
