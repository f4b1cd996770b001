"""Rules in JSON, the requests that they match, and when they apply."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.api.registry import SERVED
from muster.testcontrol.errors import WrongFault
from muster.testcontrol.faults.actions import Call
from muster.testcontrol.faults.matching import Match
from muster.testcontrol.faults.older_broker import releases
from muster.testcontrol.faults.rule import HitCounter, Rule, When

ERROR = {"do": "error", "error": "NOT_COORDINATOR"}


@pytest.mark.parametrize(
    ("when", "hits"),
    [
        ({}, "11111111"),
        ({"once": True}, "10000000"),
        ({"times": 3}, "11100000"),
        ({"on_call": 2}, "01000000"),
        ({"every": 3}, "00100100"),
        ({"with_probability": 0.5, "seed": 7}, "11010101"),
        ({"with_probability": 0}, "00000000"),
        ({"until_released": True}, "11111111"),
    ],
)
def test_a_hit_counter_hits_as_its_rule_says(when: dict[str, Any], hits: str) -> None:
    turns = HitCounter(When.of(when))
    drawn = "".join(str(int(turns.hits_next())) for _ in hits)
    assert drawn == hits or "seed" in when
    assert turns.seen == len(hits)
    assert turns.is_over == bool({"once", "times", "on_call"} & when.keys())
    assert When.of(when).to_json() == ({**when, "seed": when.get("seed", 0)} if "with_probability" in when else when)
    if "seed" in when:
        again = HitCounter(When.of(when))
        assert "".join(str(int(again.hits_next())) for _ in hits) == drawn
        assert 0 < drawn.count("1") < len(hits)


@pytest.mark.parametrize(
    "rule",
    [
        {"match": {"api": "groups", "group": "pay*", "node": [1, 2]}, "then": ERROR, "when": {"times": 2}, "name": "n"},
        {"match": {"min_version": 1, "max_version": 3}, "then": {"do": "delay", "ms": 5, "where": "after"}},
        {"then": {"do": "lose-answer", "cut": False}},
        {"match": {"client_id": ["a", "b"], "principal": "User:x"}, "then": {"do": "cut", "where": "middle"}},
        {"then": {"do": "trickle", "size": 3, "every_ms": 2}},
        {"then": {"do": "hold", "where": "before"}, "when": {"until_released": True}},
        {"then": {"do": "throttle", "ms": 100}},
        {"then": {"do": "note"}},
        {"then": {"do": "older-broker", "release": "2.4"}},
    ],
)
def test_a_rule_is_shown_as_it_was_given(rule: dict[str, Any]) -> None:
    shown = Rule.of(rule).to_json()
    for part, value in {"match": {}, "when": {}, "name": "", **rule}.items():
        assert shown[part] == value
    assert (shown["seen"], shown["hits"], shown["held"], shown["spent"]) == (0, 0, 0, False)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"then": ERROR, "what": 1}, "what is none of match, then, when, name"),
        ({"then": ERROR, "match": []}, "match is []; an object was expected"),
        ({"then": ERROR, "name": 1}, "name is 1; a text"),
        ({}, "do is None; one of error, delay"),
        ({"then": {"do": "explode"}}, "do is 'explode'; one of error"),
        ({"then": {"do": "error"}}, "error needs error"),
        ({"then": {"do": "error", "error": "NO"}}, "NO is no error code of Kafka"),
        ({"then": {"do": "error", "error": 16}}, "error is 16; a text was expected"),
        ({"then": {"do": "delay", "ms": "1"}}, "ms is '1'; a number was expected"),
        ({"then": {"do": "delay", "ms": -1}}, "ms is -1; a number from 0"),
        ({"then": {"do": "delay", "ms": 1, "where": "middle"}}, "where is 'middle'; before or after"),
        ({"then": {"do": "cut", "when": 1}}, "when means nothing to cut; where does"),
        ({"then": {"do": "lose-answer", "cut": 1}}, "cut is 1; true or false was expected"),
        ({"then": {"do": "trickle", "size": 0}}, "size is 0; a number from 1"),
        ({"then": {"do": "older-broker", "release": "1.9"}}, "release is '1.9'; one of 0.11"),
        ({"then": ERROR, "match": {"api": "Teapot"}}, "api Teapot is neither an API that is served nor one of groups"),
        ({"then": ERROR, "match": {"grup": "g"}}, "grup is none of api"),
        ({"then": ERROR, "match": {"group": 1}}, "group is 1; a text, or several"),
        ({"then": ERROR, "match": {"node": "1"}}, "node is '1'; a number"),
        ({"then": ERROR, "match": {"group": []}}, "group is []"),
        ({"then": ERROR, "when": {"times": 0}}, "times is 0; a number from 1 on"),
        ({"then": ERROR, "when": {"times": True}}, "times is True; a number from 1 on"),
        ({"then": ERROR, "when": {"once": True, "every": 2}}, "once and every are given; give one"),
        ({"then": ERROR, "when": {"with_probability": 2}}, "with_probability is 2; a number from 0 to 1"),
        ({"then": ERROR, "when": {"sometimes": True}}, "sometimes is none of once"),
    ],
)
def test_an_invalid_rule_is_refused_with_the_reason(rule: dict[str, Any], words: str) -> None:
    with pytest.raises(WrongFault) as wrong:
        Rule.of(rule)
    assert words in str(wrong.value)


def test_rules_with_python_code_are_shown_too() -> None:
    rule = Rule(Match(predicate=lambda _: True), Call(print), When())
    assert (rule.to_json()["match"], rule.to_json()["then"]) == ({}, {"do": "call"})


def test_the_newest_release_has_the_versions_of_muster() -> None:
    table = releases()
    assert {key: table["4.4"]["versions"][str(key)] for key in SERVED} == {
        key: served.max_version for key, served in SERVED.items()
    }
    assert next(iter(table)) == "0.11"
    assert table["3.9"]["features"] == {"metadata.version": 21, "kraft.version": 1}
    before = 0
    for release in table.values():
        assert release["versions"]["3"] >= before  # Metadata can only grow
        before = release["versions"]["3"]
