"""Arguments of a wrong type or value are refused in one sentence, also by a server in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from muster.testing import Muster, WrongValue
from muster.testing.faults import Error, Match, Note, once, times

CASES: list[tuple[Callable[[Muster], object], str]] = [
    (lambda one: one.group(5), "the id of a group is 5; a text was expected"),
    (lambda one: one.topic(""), "the name of a topic is ''; a text was expected"),
    (lambda one: one.coordinator(None), "the id of a group is None; a text was expected"),
    (lambda one: one.topic("orders").produce(5), "a value is 5; text, bytes or None was expected"),
    (lambda one: one.topic("orders").produce("a", key=1.5), "key is 1.5; text, bytes or None was expected"),
    (lambda one: one.topic("orders").produce("a", headers={"h": 1}), "header h is 1; text, bytes or None"),
    (lambda one: one.topic("orders").produce("a", headers=["h"]), "headers is ['h']; a mapping of names to values"),
    (lambda one: one.topic("orders").produce("a", partition=-1), "partition is -1; a whole number from 0 on"),
    (lambda one: one.topic("orders").produce("a", timestamp_ms="now"), "timestamp_ms is 'now'; a whole number"),
    (lambda one: one.topic("orders").records(since="x"), "since is 'x'; a whole number from 0 on"),
    (lambda one: one.topic("orders").grow("6"), "partitions is '6'; a whole number from 1 on"),
    (lambda one: one.topic("new").create(configs={"retention.ms": []}), "configs: retention.ms is []; a text, a"),
    (lambda one: one.group("g").wait_stable(members="3"), "members is '3'; a whole number from 0 on"),
    (lambda one: one.group("g").wait_stable(timeout="3"), "timeout is '3'; a number of seconds from 0 on"),
    (lambda one: one.group("g").wait_stable(partitions=3), "topics is 3; a text, or several"),
    (lambda one: one.group("g").wait_until("x"), "predicate is 'x'; a function was expected"),
    (lambda one: one.group("g").wait_consumed(up_to=5), "up_to is 5; offsets by topic and partition"),
    (lambda one: one.group("g").expire(5), "member is 5; a text was expected"),
    (lambda one: one.group("g").remove(None), "member is None; a text was expected"),
    (lambda one: one.group("g").reset_offsets(-99, "orders"), "to is -99; a whole number from 0 on"),
    (lambda one: one.group("g").reset_offsets({("orders", 0): -99}), "to: the offset of orders-0 is -99"),
    (lambda one: one.faults.add("x", Note()), "match is 'x'; Match, such as"),
    (lambda one: one.faults.add(Match(), Error), "then is the class Error; Action, such as"),
    (lambda one: one.faults.add(Match(), Note(), times), "when is <function times"),
    (lambda one: one.faults.log("x"), "after is 'x'; a whole number from 0 on"),
    (lambda one: one.time.advance("1h"), "ms is '1h'; a whole number"),
    (lambda one: one.time.advance(-5), "ms is -5; a whole number from 0 on"),
    (lambda one: one.time.run_until("g", timeout="x"), "timeout is 'x'; a number of seconds"),
    (lambda one: one.scenario("slow-coordinator", ms="soon"), "ms is 'soon'; a number from 0 to 2147483647"),
]  # fmt: skip


@pytest.fixture(scope="module", params=[False, True], ids=["thread", "process"])
def server(request: pytest.FixtureRequest) -> Iterator[Muster]:
    with Muster(topics={"orders": 1}, process=request.param) as running:
        yield running


def test_each_verb_refuses_wrong_values_in_one_sentence(server: Muster) -> None:
    for ask, words in CASES:
        with pytest.raises(WrongValue) as wrong:
            ask(server)
        assert str(wrong.value).startswith(words), wrong.value


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"nodes": "3"}, "nodes is '3'; a whole number from 1 on"),
        ({"seed": "x"}, "seed is 'x'; a whole number from 0 on"),
        ({"port": 99999}, "port is 99999; at most 65535"),
        ({"host": 5}, "host is 5; a text"),
        ({"directory": 5}, "directory is 5; a path"),
        ({"topics": 5}, "topics is 5; a text, or several"),
        ({"topics": {"orders": "six"}}, "topics: orders is 'six'; a whole number from 1 on"),
        ({"properties": 5}, "properties is 5; a mapping of names to values"),
        ({"group_max_size": []}, "group.max.size is []; a text, a number, True or False"),
    ],
)
def test_a_server_with_wrong_arguments_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(WrongValue) as wrong:
        Muster(**given)
    assert str(wrong.value).startswith(words)


async def test_rules_are_listed_with_their_hits(server: Muster) -> None:
    group = server.group("listed")
    before = len(server.faults.log())
    with server.faults.add(Match(group="listed", api="Heartbeat"), Error("NOT_COORDINATOR"), once(), name="a") as rule:
        noted = await server.aio.faults.add(Match(client_id="*"), name="b")
        assert [(one.id, one.describe()["name"]) for one in server.faults.list()] == [(rule.id, "a"), (noted.id, "b")]
        assert [one.id for one in await server.aio.faults.list()] == [rule.id, noted.id]
        assert rule.describe()["when"] == {"once": True}
        assert noted.describe()["then"] == {"do": "note"}
        assert group.state == "Dead"
        assert (rule.hits, rule.log()) == (0, [])
        await noted.remove()
    assert server.faults.list() == []
    assert server.faults.log(after=before) == [hit for hit in server.faults.log() if hit["number"] > before]
