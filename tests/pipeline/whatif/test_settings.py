"""Settings from text and JSON, and the errors for wrong ones."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from muster.pipeline.whatif.settings import ALL_AT_ONCE, AS_IT_WAS, DEFAULT_GRID, BadSetting, Setting, parse


def test_settings_are_read_from_key_value_pairs() -> None:
    (setting,) = parse("static,session.timeout.ms=45000,deploy=rolling:2")
    assert setting == Setting("static, session 45 s, deploy 2 at a time", None, True, 45_000, deploy=2)


def test_a_name_before_a_colon() -> None:
    assert parse("patient: max.poll.interval.ms=1500") == [Setting("patient", rebalance_timeout_ms=1_500)]
    assert parse("deploy=rolling:3")[0].deploy == 3


def test_json_lists_give_all_combinations() -> None:
    found = parse('{"assignor": ["range", "sticky"], "static": [false, true]}')
    assert [one.name for one in found] == ["range", "range, static", "sticky", "sticky, static"]
    named = parse('[{"name": "mine", "deploy": ["all", "rolling"]}, {}]')
    assert [(one.name, one.deploy) for one in named] == [
        ("mine, deploy all at once", ALL_AT_ONCE),
        ("mine, deploy 1 at a time", 1),
        (AS_IT_WAS, None),
    ]


def test_json_has_only_the_changes() -> None:
    (setting,) = parse("assignor=sticky,deploy=all,heartbeat.interval.ms=1000,group.initial.rebalance.delay.ms=0")
    reported = {
        "assignor": "sticky",
        "group.initial.rebalance.delay.ms": 0,
        "heartbeat.interval.ms": 1000,
        "deploy": "all",
    }
    assert json.loads(setting.to_json()) == reported
    assert parse(setting.to_json()) == [setting]


def test_a_protocol_may_stand_alone() -> None:
    (setting,) = parse("consumer,static")
    assert (setting.protocol, setting.static, setting.name) == ("consumer", True, "consumer protocol, static")
    assert parse('{"group.protocol": "consumer", "static": true}') == [setting]
    assert parse("classic,assignor=sticky")[0].name == "classic protocol, sticky"
    assert parse(setting.to_json()) == [setting]


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("cooperative", [{"assignor": "cooperative-sticky"}]),
        ("assignor", [{"assignor": one} for one in ("range", "roundrobin", "sticky", "cooperative-sticky")]),
        ("session=60s", [{"session.timeout.ms": 60_000}]),
        ("session.timeout.ms=2min", [{"session.timeout.ms": 120_000}]),
        ("poll=1h", [{"max.poll.interval.ms": 3_600_000}]),
        ("delay=0", [{"group.initial.rebalance.delay.ms": 0}]),
        ("consumer,assignor", [{"group.protocol": "consumer", "assignor": one} for one in ("uniform", "range")]),
        ("delay=250ms", [{"group.initial.rebalance.delay.ms": 250}]),
        ("delay", [{"group.initial.rebalance.delay.ms": one} for one in (0, 3_000, 10_000, 30_000)]),
        ("static,session=45000", [{"static": True, "session.timeout.ms": 45_000}]),
        ("static,poll=15min", [{"static": True, "max.poll.interval.ms": 900_000}]),
    ],
)
def test_short_words_stand_for_several_settings(text: str, means: list[dict[str, object]]) -> None:
    assert [json.loads(one.to_json()) for one in parse(text)] == means


def test_the_default_grid_has_names_that_differ() -> None:
    assert len({one.name for one in DEFAULT_GRID}) == len(DEFAULT_GRID) == 25
    assert DEFAULT_GRID[0] == Setting()


def test_the_default_grid_asks_nothing_twice() -> None:
    """A strategy that no server has means the classic protocol, whether the setting says so or not."""
    meant = []
    for one in DEFAULT_GRID:
        is_classic = one.assignor in {"roundrobin", "sticky", "cooperative-sticky"}
        meant.append(replace(one, name="", protocol="classic" if is_classic else one.protocol))
    assert len(set(meant)) == len(meant)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sesion.timeout.ms=5", "'sesion.timeout.ms' is no setting of a what-if (did you mean session.timeout.ms?); "),
        ("sesion=60s", "(did you mean session?); it is one of classic, consumer, cooperative, assignor, session, "),
        ("static;session=60s", "'static;session' is no setting of a what-if"),
        ("session.timeout.ms=soon", "session.timeout.ms 'soon': a time such as 60s, 5min or 45000ms was expected"),
        ("session=60", "session '60': a time such as 60s, 5min or 45000ms was expected"),
        ("session=", "session '': a time such as 60s"),
        ("session.timeout.ms", "session.timeout.ms has no value; a time such as 60s"),
        ("static,session=60s,session=30s", "says session.timeout.ms twice; for several settings give a JSON list"),
        ("cooperative,assignor=range", "says assignor twice"),
        ("consumer,cooperative", "the server assigns, by uniform or range: 'cooperative-sticky' cannot be with it"),
        ("[]", "the list of settings is empty"),
        ("session.timeout.ms=0", "session.timeout.ms '0' is no whole number of ms"),
        ("assignor=best", "assignor 'best' is not known; it is one of range, roundrobin, sticky, cooperative-sticky"),
        ("group.protocol=share", "group.protocol 'share' is not known; it is classic or consumer"),
        ("static=perhaps", "static 'perhaps' is neither true nor false"),
        ("deploy=rolling:0", "deploy 'rolling:0' is not known; it is all, rolling or rolling:N"),
        ("static,,", "'static,,' has an empty part; key=value with commas between was expected"),
        ('{"static": true', "is no JSON"),
        ("[1]", "1 is no setting; an object was expected"),
        ('{"name": 7}', "the name 7 is no text"),
        ('[{"name": "a"}, {"name": "a", "static": true}]', "two settings are named 'a'"),
        (json.dumps({"session.timeout.ms": list(range(1, 250))}), "more than 200 settings"),
    ],
)
def test_unreadable_settings_are_refused(text: str, said: str) -> None:
    with pytest.raises(BadSetting) as error:
        parse(text)
    assert said in str(error.value)
