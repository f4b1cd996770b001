"""`muster top`: its tables, its keys on a terminal that Textual's pilot plays, and its reader over a server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from textual.widgets import DataTable, Input, Static

from muster.cli import main
from muster.cli.top.app import GroupScreen, TopApp
from muster.cli.top.cells import BARS, group_cells, member_cells, offset_cells, sparkline
from muster.cli.top.reader import ClusterReader, GroupNow
from muster.client.connection import RequestFailed
from muster.coordinator.config.listeners import Address
from muster.coordinator.http.described_groups import Description, Member
from muster.coordinator.http.kafka_metrics import GroupRow, PartitionRow, TopicRow
from muster.coordinator.http.live_groups import LiveGroups
from muster.coordinator.system.jobs import at_once
from muster.testcontrol.topics import NewRecord
from tests.e2e.aio import consuming
from tests.testcontrol.server import bootstrap, controlled

SECOND = 1_000


def member(name: str, *partitions: int) -> Member:
    return Member(f"{name}-1", None, name, "/10.0.0.1", {"t": list(partitions)})


class Played:
    """A cluster whose groups a test makes."""

    def __init__(self) -> None:
        self.groups = LiveGroups()
        self.brokers = 1
        self.now_ms = 0
        self.failure: str | None = None
        self.reads = 0
        self.rows: list[tuple[str, str, int]] = [
            ("calm", "Stable", 0),
            ("busy", "PreparingRebalance", 5),
            ("far", "Stable", 90),
        ]

    def read(self) -> None:
        self.reads += 1
        if self.failure is not None:
            raise RequestFailed(self.failure)
        self.now_ms += 10 * SECOND
        topic = TopicRow("t", 1, [PartitionRow(0, 0, 100, 1, 1, 1)])
        groups = [
            GroupRow(name, "classic", state, 2, [("t", [(0, 100 - lag, None)])]) for name, state, lag in self.rows
        ]
        at_once(self.groups.take([topic], groups, self.now_ms))

    def read_group(self, group_id: str) -> GroupNow:
        if group_id == "gone":
            raise RequestFailed("the coordinator is away")
        members = [member("b", 1), member("a", 0)]
        found = Description(group_id, "classic", "Stable", "consumer", "range", None, None, members)
        return GroupNow(found, [("t", 0, 60, 100), ("t", 1, 5, None)], "b crash-loops", ["09:14:05 b joined"])


def names(app: TopApp) -> list[str]:
    table = app.screen_stack[0].query_one("#groups", DataTable)
    return [table.get_row_at(number)[0].plain for number in range(table.row_count)]


def text(app: TopApp, place: str) -> str:
    return str(app.screen.query_one(place, Static).content)


def column(app: TopApp, place: str, at: int) -> list[str]:
    table = app.screen.query_one(place, DataTable)
    return [table.get_row_at(number)[at].plain for number in range(table.row_count)]


async def test_the_keys_sort_search_and_open_a_group() -> None:
    source = Played()
    app = TopApp(source, "broker:9092", 60)
    async with app.run_test(size=(100, 12)) as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert names(app) == ["busy", "far", "calm"]
        assert "broker:9092  1 broker  3 groups, 1 in trouble  6 members  95 records behind" in text(app, "#summary")
        await pilot.press("l")
        assert names(app) == ["far", "busy", "calm"]
        await pilot.press("n")
        assert names(app) == ["busy", "calm", "far"]
        await pilot.press("t")
        assert names(app) == ["busy"]
        await pilot.press("t", "slash", "a", "l", "enter")
        assert names(app) == ["calm"]
        await pilot.press("slash", "escape")
        assert (app.query_one("#search", Input).value, len(names(app))) == ("", 3)
        await pilot.press("w", "enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert isinstance(app.screen, GroupScreen)
        assert text(app, "#title").splitlines() == ["busy: classic, Stable, range", "b crash-loops"]
        assert column(app, "#members", 1) == ["a", "b"]
        assert column(app, "#offsets", 4) == ["40", "–"]
        assert column(app, "#offsets", 5) == ["a", "b"]
        assert column(app, "#history", 0) == ["09:14:05 b joined"]
        await pilot.press("escape")
        assert not isinstance(app.screen, GroupScreen)
        await pilot.press("enter", "slash")
        assert app.focused is app.query_one("#search", Input)
        await pilot.press("escape")
        await pilot.press("question_mark", "plus", "minus", "q")
    assert app.return_code == 0


async def test_a_pause_reads_no_more_and_a_failure_is_shown() -> None:
    source = Played()
    source.rows = [("[red]x[/]\x1b[2J\n", "Stable", 0)]
    app = TopApp(source, "broker:9092", 60)
    async with app.run_test(size=(100, 12)) as pilot:
        await app.workers.wait_for_complete()
        await pilot.press("space")
        app._tick()
        assert source.reads == 1
        assert "(paused)" in text(app, "#summary")
        await pilot.press("space")
        source.failure = "broker:9092 does not answer"
        app._tick()
        await app.workers.wait_for_complete()
        await pilot.pause()
        # names of clients do not control the terminal
        assert (source.reads, names(app)) == (2, ["[red]x[/]\\x1b[2J\\n"])
        assert "broker:9092 does not answer" in text(app, "#summary")
        app.push_screen(GroupScreen(source, "gone"))
        await pilot.pause()
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert text(app, "#title") == "gone: the coordinator is away"


def test_the_cells_of_a_group_say_when_it_catches_up() -> None:
    source = Played()
    source.rows = [("g", "Stable", 50)]
    source.read()
    cells = group_cells(source.groups.groups["g"])
    assert cells == ("g", "classic", "Stable", "2", "50", "–", "–", "–", BARS[-1])
    source.rows = [("g", "Stable", 40)]
    source.read()
    cells = group_cells(source.groups.groups["g"])
    assert cells[4:8] == ("40", "1", "0", "40 s")
    assert sparkline([]) == sparkline([0, 0]) == ""
    assert sparkline([0, 1, 7]) == f" {BARS[1]}{BARS[7]}"


def test_members_without_partitions_and_offsets_without_ends_have_cells() -> None:
    odd = Description("g", "classic", "Stable", "connect", "", None, None, [Member("m", "i", "c", "/h", None)])
    assert member_cells(odd) == [("i", "c", "h", "–", "", "")]
    assert offset_cells([("t", 0, 5, None)], None) == [("t", "0", "5", "–", "–", "")]


def test_streams_members_have_partitions_tasks_and_copies() -> None:
    one = Member("m", None, "c", "/h", {"0": [0, 1]}, "streams", 4, reads={"t": [0, 1], "u": [0, 1]},
                 standby={"1": [0]}, warmup={"1": [2]})  # fmt: skip
    found = Description("g", "streams", "Stable", "streams", "sticky", 4, 4, [one])
    assert member_cells(found) == [("m", "c", "h", "4", "4", "0:0-1 standby 1:0 warm-up 1:2")]


async def test_a_server_is_read_over_kafkas_protocol() -> None:
    async with (
        controlled() as found,
        consuming(bootstrap(found), "orders", group_id="g", client_id="c") as consumer,
    ):
        await found.groups.wait_stable("g", members=1, partitions="orders")
        await found.topics.produce("orders", [NewRecord(b"x", partition=0)] * 3)
        await consumer.commit(dict.fromkeys(consumer.assignment(), 0))
        bound = found.server.bound[0]
        reader = ClusterReader([Address(bound.host, bound.port)], None)
        await asyncio.to_thread(reader.read)
        (group,) = reader.groups.groups.values()
        assert (group.group, group.state, group.members, group.lag, reader.brokers) == ("g", "Stable", 1, 3, 1)
        now = await asyncio.to_thread(reader.read_group, "g")
        assert sorted(now.offsets) == [("orders", 0, 0, 3), ("orders", 1, 0, 0)]
        assert now.found is not None
        assert [one.client_id for one in now.found.members] == ["c"]
        assert now.verdict is not None
        assert any("rebalance 0 → 1" in line for line in now.lines)
        reader.close()


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (("--interval", "0.1"), 2, "0.5 seconds or more"),
        (("--bootstrap-server", "nowhere"), 2, "--bootstrap-server"),
        ((), 1, "this needs a terminal"),
    ],
)
def test_wrong_options_and_a_pipe_are_refused(
    words: Sequence[str], status: int, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", *words]) == status
    assert why in capsys.readouterr().err
