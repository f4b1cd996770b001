"""The same histories over TCP and on a core: Muster's handlers, shards and sockets change nothing. Histories of
transactions, which have no core beside them, are played on two servers at the same time.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

from muster.conform.player.story import Story
from tests.stories.random.__main__ import OF_CONSUMERS, OF_TRANSACTIONS, UNSEEN_SETTINGS
from tests.stories.random.histories import history
from tests.stories.random.lockstep import Outcome
from tests.stories.random.session import MIXED, TRANSACTIONS, Session
from tests.stories.random.virtually import play
from tests.stories.random.ways import OwnWays
from tests.support.servers import MusterServer

BROKER = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100", "group.max.size": "4"}
HISTORIES = 8
OF_TRANSACTIONS_PLAYED = range(4)
SHORT_MS = 1_000
"""The time that passes in these histories: the suite must be quick."""


async def short_ones() -> list[Story]:
    found: list[Story] = []
    number = 0
    while len(found) < HISTORIES:
        story = history(number, BROKER)
        outcome, _ = await play(story, {"muster": (OwnWays, OwnWays)})
        waits = [int(line.split()[1]) for line in outcome.text.splitlines() if line.startswith("advance")]
        if sum(waits) <= SHORT_MS and outcome.steps > 15:
            found.append(story)
        number += 1
    return found


def test_histories_over_tcp_equal_those_of_the_core(tmp_path: Path) -> None:
    server = MusterServer(tmp_path, {**BROKER, "offsets.topic.num.partitions": "3"}, in_memory=True)
    server.start()

    async def compare() -> list[Outcome]:
        session = Session({"muster": server.address}, BROKER)
        await session.prepare()
        outcomes = await asyncio.gather(*map(session.play, await short_ones()))
        # a busy machine is no failure: a difference is played once more, with nothing beside it
        return [one if one.difference is None else await session.play(one.story) for one in outcomes]

    try:
        outcomes = asyncio.run(compare())
    finally:
        server.stop()
    assert [one.difference for one in outcomes] == [None] * HISTORIES
    assert sum(one.replies for one in outcomes) > 15 * HISTORIES


def test_histories_of_transactions_are_equal_on_two_servers(tmp_path: Path) -> None:
    # one server for each: the same ids are used on both
    servers = {
        name: MusterServer(tmp_path / name, {**OF_TRANSACTIONS, **UNSEEN_SETTINGS}, in_memory=True)
        for name in ("kafka", "muster")
    }

    async def compare() -> list[Outcome]:
        addresses = {name: server.address for name, server in servers.items()}
        session = Session(addresses, OF_TRANSACTIONS, TRANSACTIONS)
        await session.prepare()
        stories = [TRANSACTIONS.history(number, OF_TRANSACTIONS) for number in OF_TRANSACTIONS_PLAYED]
        outcomes = await asyncio.gather(*map(session.play, stories))
        return [one if one.difference is None else await session.play(one.story) for one in outcomes]

    with ExitStack() as started:
        for server in servers.values():
            server.start()
            started.callback(server.stop)
        outcomes = asyncio.run(compare())
    assert [one.difference for one in outcomes] == [None] * len(OF_TRANSACTIONS_PLAYED)
    assert sum(one.alike for one in outcomes) > 15 * len(OF_TRANSACTIONS_PLAYED)


TOPICS_CHANGE = """\
topics t1=3 t2=1
own-topics u=2
A: consumer-heartbeat epoch=0 owned=none rebalance=30000 topics=u
Z: grow-topic u:4
A: consumer-heartbeat owned=mine
B: consumer-heartbeat epoch=0 owned=none rebalance=30000 regex=u~
A: consumer-heartbeat owned=mine
Z: delete-topic u
A: consumer-heartbeat owned=mine
C: enter topics=t1 session=300 rebalance=300
advance 400
A: consumer-heartbeat owned=mine
Z: consumer-describe
"""


def test_the_own_work_of_a_server_is_awaited(tmp_path: Path) -> None:
    settings = {**OF_CONSUMERS["consumers"], **UNSEEN_SETTINGS}
    server = MusterServer(tmp_path, settings, in_memory=True)
    server.start()

    async def compare() -> Outcome:
        session = Session({"muster": server.address}, settings, MIXED)
        await session.prepare()
        broker = " ".join(f"{name}={value}" for name, value in OF_CONSUMERS["consumers"].items())
        return await session.play(Story("topics-change", f"broker {broker}\n{TOPICS_CHANGE}"))

    try:
        outcome = asyncio.run(compare())
    finally:
        server.stop()
    assert outcome.difference is None
    assert outcome.steps == 11
    for seen in ("assignment=[u/0+1]", "assignment=[u/0+1+2+3]", "members=[A ", "B epoch=3 topics= regex=u "):
        assert seen in outcome.text, outcome.text
