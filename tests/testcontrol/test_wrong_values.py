"""A value of a wrong type or out of bounds is refused in one sentence, by each operation of the test control and each
verb.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from muster.testcontrol.errors import CannotBeDone, WrongFault, WrongValue
from muster.testcontrol.faults.actions import Call, Cut, Delay, Error, Hold, LoseAnswer, Throttle, Trickle
from muster.testcontrol.faults.matching import Match
from muster.testcontrol.faults.older_broker import OlderBroker
from muster.testcontrol.faults.rule import Rule, When, every, on_call, times, with_probability
from muster.testcontrol.http.contract import contract
from muster.testcontrol.server_control import ServerControl
from tests.testcontrol.server import controlled
from tests.testcontrol.test_control import with_control

WRONG: list[Any] = [5, -1, 10**30, 1.5, True, "x", "", [5], [[]], {"x": 1}, "é" * 100_000]
"""Each value is tried in each field of each body."""
GIVEN: dict[str, Any] = {"topic": "orders", "name": "new", "error": "NOT_COORDINATOR", "to": "earliest", "member": "m"}


def bodies() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(method, path, schema of the body) of each operation that has one."""
    for path, methods in contract()["paths"].items():
        for method, operation in methods.items():
            if "requestBody" in operation:
                schema = operation["requestBody"]["content"]["application/json"]["schema"]
                yield method.upper(), path, resolved(schema)


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        found: dict[str, Any] = contract()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return found
    return schema


def test_the_contract_gives_bodies_to_test() -> None:
    assert len(list(bodies())) > 10


async def test_no_wrong_body_makes_the_control_fail() -> None:
    async with with_control() as (control, found):
        for method, path, schema in bodies():
            at = path.replace("{topic}", "orders").replace("{group}", "g").replace("{scenario}", "slow-coordinator")
            for name in [*schema.get("properties", {}), "nobody-knows-it"]:
                for value in WRONG:
                    body = {one: GIVEN.get(one, 1) for one in schema.get("required", ())}
                    body |= {"timeout_ms": 1} if "timeout_ms" in schema.get("properties", {}) else {}
                    status, answer = await control.send(method, at, body | {name: value})
                    assert status != 500, (at, name, value, answer)
                    if status == 400:
                        assert len(answer["error"]["message"]) < 500, answer
        for part in ("match", "then", "when"):
            rule = {"then": {"do": "error", "error": "NOT_COORDINATOR"}, "match": {}, "when": {}}
            fields = ("api", "min_version", "group", "node", "once", "times", "with_probability", "seed", "do", "error")
            for name in (*fields, "message", "x"):
                for value in WRONG:
                    status, answer = await control.send(
                        "POST", "/v1/faults", rule | {part: {**rule[part], name: value}}
                    )
                    assert status in (200, 400), (part, name, value, answer)
        for rows in ([5], [{"value": 5}], [{"headers": {"h": 5}}], [{"partition": -1}], [{"timestamp_ms": 10**30}]):
            error = await control.refused("POST", "/v1/topics/orders/produce", {"records": rows})
            assert error["code"] == "bad-request", error
        assert found.topics.end_offsets("orders")


RULES: list[tuple[Callable[[], object], str]] = [
    (lambda: Match(group=5), "match: group is 5; a text, or several was expected"),
    (lambda: Match(group=["a", 5]), "match: group is ['a', 5]; a text, or several"),
    (lambda: Match(api=Error), "match: api is the class Error; a text, or several"),
    (lambda: Match(node="1"), "match: node is '1'; a number, or several"),
    (lambda: Match(min_version="1"), "match: min_version is '1'; a number"),
    (lambda: Match(predicate="x"), "match: predicate is 'x'; a function of the request"),
    (lambda: Error(16), "then: error is 16; a text"),
    (lambda: Delay("5"), "then: ms is '5'; a number"),
    (lambda: Delay(2**40), "then: ms is 1099511627776; a number from 0 to 2147483647"),
    (lambda: Delay(5, where=1), "then: where is 1; a text"),
    (lambda: LoseAnswer(cut="no"), "then: cut is 'no'; true or false"),
    (lambda: Cut("later"), "then: where is 'later'; before or middle or after"),
    (lambda: Trickle(True), "then: size is True; a number"),
    (lambda: Hold(None), "then: where is None; a text"),
    (lambda: Throttle(-1), "then: ms is -1; a number from 0"),
    (lambda: OlderBroker(2.4), "then: release is 2.4; a text"),
    (lambda: Call("x"), "then: function is 'x'; a function of the request"),
    (lambda: times("2"), "when: times is '2'; a number from 1 on"),
    (lambda: on_call(0), "when: on_call is 0; a number from 1 on"),
    (lambda: every(1.5), "when: every is 1.5; a number from 1 on"),
    (lambda: with_probability("x"), "when: with_probability is 'x'; a number from 0 to 1"),
    (lambda: with_probability(0.5, "x"), "when: seed is 'x'; a number"),
    (lambda: When(once=1), "when: once is 1; true or false"),
    (lambda: Rule(Match(), Error, When()), "then is the class Error; Action, such as Error"),
    (lambda: Rule("Heartbeat", Hold(), When()), "match is 'Heartbeat'; Match, such as Match"),
    (lambda: Rule(Match(), Hold(), 2), "when is 2; When, such as once()"),
    (lambda: Rule(Match(), Hold(), When(), 5), "name is 5; a text"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "words"), RULES)
def test_a_rule_with_wrong_parts_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(WrongFault) as wrong:
        make()
    assert str(wrong.value).startswith(words)
    assert isinstance(wrong.value, ValueError)


VERBS: list[tuple[Callable[[ServerControl], Any], str]] = [
    (lambda one: one.groups.wait_stable("g", members="3"), "members is '3'; a whole number from 0 on"),
    (lambda one: one.groups.wait_stable("g", partitions=5), "topics is 5; a text, or several"),
    (lambda one: one.groups.wait_stable("g", timeout_s="1"), "timeout is '1'; a number of seconds"),
    (lambda one: one.groups.wait_stable("g", timeout_s=float("nan")), "timeout is nan; a number of seconds"),
    (lambda one: one.groups.wait_until("g", "stable"), "predicate is 'stable'; a function"),
    (lambda one: one.groups.wait_consumed("g", up_to={"orders": 5}), "a place in up_to is 'orders'; a topic and a"),
    (lambda one: one.groups.wait_held("g", -1), "joins is -1; a whole number from 0 on"),
    (lambda one: one.groups.reset_offsets("g", -99, "orders"), "to is -99; a whole number from 0 on"),
    (lambda one: one.groups.reset_offsets("g", "newest", "orders"), "to is 'newest'; earliest, latest, an offset"),
    (lambda one: one.groups.reset_offsets("g", {("orders", 0): -99}), "to: the offset of orders-0 is -99; a whole"),
    (lambda one: one.groups.reset_offsets("g", {("orders", 0): "5"}), "to: the offset of orders-0 is '5'; a whole"),
    (lambda one: one.groups.reset_offsets("g", 2**63, "orders"), "to is 9223372036854775808; at most"),
    (lambda one: one.topics.create("t", "3"), "partitions is '3'; a whole number from 1 on"),
    (lambda one: one.topics.create("t", 0), "partitions is 0; a whole number from 1 on"),
    (lambda one: one.topics.create("t", configs=[]), "configs is []; a mapping of names to values"),
    (lambda one: one.topics.create("t", configs={"retention.ms": None}), "configs: retention.ms is None; a text, a"),
    (lambda one: one.topics.grow("orders", "9"), "partitions is '9'; a whole number from 1 on"),
    (lambda one: one.topics.records("orders", since=-1), "since is -1; a whole number from 0 on"),
    (lambda one: one.topics.records("orders", most=1.5), "most is 1.5; a whole number from 0 on"),
    (lambda one: one.time.advance("1"), "ms is '1'; a whole number from 0 on"),
    (lambda one: one.time.advance(-1), "ms is -1; a whole number from 0 on"),
    (lambda one: one.time.advance(10**18), "ms is 1000000000000000000; at most"),
    (lambda one: one.run_until("g", limit_ms="1"), "limit_ms is '1'; a whole number from 0 on"),
    (lambda one: one.faults.log.after("1"), "after is '1'; a whole number from 0 on"),
    (lambda one: one.scenarios.start(5), "scenario is 5; a text"),
    (lambda one: one.scenarios.start("slow-coordinator", {"ms": 1.5}), "ms is 1.5; a number from 0 to"),
]  # fmt: skip


async def test_a_verb_with_a_wrong_value_is_refused() -> None:
    async with controlled() as found:
        for ask, words in VERBS:
            with pytest.raises(WrongValue) as wrong:
                await ask(found)
            assert str(wrong.value).startswith(words), wrong.value
        with pytest.raises(CannotBeDone, match="there is no topic none"):
            await found.groups.reset_offsets("g", 0, "none")


async def test_equivalent_values_are_accepted() -> None:
    async with controlled() as found:
        await found.topics.create("kept", 1, {"retention.ms": 1000, "preallocate": True})
        partition = found.server.topics.open.partition("kept", 0)
        assert partition is not None
        assert partition.log.config.retention_ms == 1000
        assert Match(group={"b", "a"}) == Match(group=("a", "b")) == Match(group=["a", "b"])
