"""The settings of a what-if, which are read from text and JSON.

A setting is written as on a command line, `static,session.timeout.ms=45000`. Or it is a JSON object, `{"name":
"patient", "static": true, "session.timeout.ms": 45000}`. If a value is a list, the object means all combinations. A key
is Kafka's own name where Kafka has one. A command line has short words too. `consumer` means `group.protocol=consumer`,
and `session=60s` a session timeout. `session` alone means several timeouts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from itertools import product
from typing import Any, Final

from muster.assignors.builtin import CLIENT_ASSIGNORS
from muster.pipeline.whatif.history import CLASSIC, CONSUMER

AS_IT_WAS: Final = "as it was"
"""The name of the setting that changes nothing."""
ALL_AT_ONCE: Final = 0
"""A value of `Setting.deploy`: all members are restarted at once."""
_MAX_SETTINGS: Final = 200
"""The largest number of settings in one grid."""
_LONGEST_MS: Final = 2**31 - 1


class BadSetting(ValueError):
    """A setting that cannot be read. The text names the value, what was expected and what to do."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of the what-if. None (or False) in a field means no change."""

    name: str = AS_IT_WAS
    assignor: str | None = None
    """The strategy of all members: range, roundrobin, sticky or cooperative-sticky. On servers: uniform or range."""
    static: bool = False
    """Every member has a group.instance.id, made of client id and host. It does not leave when it stops (KIP-345)."""
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    """The rebalance timeout: Java's max.poll.interval.ms."""
    initial_delay_ms: int | None = None
    """The setting group.initial.rebalance.delay.ms of the server."""
    heartbeat_interval_ms: int | None = None
    """The new heartbeat interval. The time to notice a rebalance is scaled from `Clients.heartbeat_ms` to it."""
    deploy: int | None = None
    """In a deploy, this many members are restarted at once; ALL_AT_ONCE: all of them."""
    protocol: str | None = None
    """The group protocol: CLASSIC or CONSUMER (KIP-848)."""

    def to_json(self) -> str:
        """The changed fields as JSON."""
        stated: dict[str, object] = {}
        for key, field in _FIELDS.items():
            value = getattr(self, field)
            if value is not None and value is not False:
                stated[key] = _deploy_text(value) if key == "deploy" else value
        return json.dumps(stated, separators=(",", ":"))


_FIELDS: Final[Mapping[str, str]] = {
    "group.protocol": "protocol",
    "assignor": "assignor",
    "static": "static",
    "session.timeout.ms": "session_timeout_ms",
    "max.poll.interval.ms": "rebalance_timeout_ms",
    "group.initial.rebalance.delay.ms": "initial_delay_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "deploy": "deploy",
}
"""The keys of a setting and the fields that they fill."""
_PROTOCOLS: Final = (CLASSIC, CONSUMER)
_ASSIGNORS: Final = (*CLIENT_ASSIGNORS, "uniform")
_LEAST_MS: Final = {"group.initial.rebalance.delay.ms": 0}

assert set(_FIELDS.values()) | {"name"} == {field.name for field in fields(Setting)}


def parse(text: str) -> list[Setting]:
    """The settings that a text describes. Raises BadSetting.

    The text is JSON, or `key=value,…`, perhaps after a name and a colon.
    """
    text = text.strip()
    if text[:1] in ("{", "["):
        try:
            return from_json(json.loads(text))
        except json.JSONDecodeError as error:
            raise BadSetting(
                f"{text[:80]!r} is no JSON ({error}); an object or a list of objects was expected"
            ) from None
    name, colon, rest = text.partition(":")
    if not colon or "=" in name or "," in name or name == "deploy":
        name, rest = "", text
    stated: dict[str, Any] = {"name": name.strip()} if name.strip() else {}
    for part in rest.split(","):
        key, equals, value = part.strip().partition("=")
        if not key:
            raise BadSetting(
                f"{text!r} has an empty part; key=value with commas between was expected, as in {_EXAMPLE}"
            )
        meant = _in_short(key, value.strip() if equals else None)
        if meant.keys() & stated.keys():
            raise BadSetting(f"{text!r} says {', '.join(meant)} twice; for several settings give a JSON list")
        stated |= meant
    if stated.get("group.protocol") == CONSUMER and stated.get("assignor") == _QUESTIONS["assignor"][1]:
        stated["assignor"] = list(ON_THE_SERVER)
    return from_json(stated)


_QUESTIONS: Final[Mapping[str, tuple[str, Any]]] = {
    "cooperative": ("assignor", "cooperative-sticky"),
    "assignor": ("assignor", list(CLIENT_ASSIGNORS)),
    "session": ("session.timeout.ms", [6_000, 10_000, 30_000, 45_000, 60_000, 120_000]),
    "delay": ("group.initial.rebalance.delay.ms", [0, 3_000, 10_000, 30_000]),
    "heartbeat": ("heartbeat.interval.ms", [1_000, 3_000]),
    "poll": ("max.poll.interval.ms", [60_000, 300_000, 900_000]),
    "deploy": ("deploy", ["rolling:1", "all"]),
}
"""The short words for settings, and the values that are tried if the user gives none."""
_TIME: Final = re.compile(r"(\d{1,9}) *(ms|s|min|m|h)")
_UNITS: Final = {"ms": 1, "s": 1_000, "min": 60_000, "m": 60_000, "h": 3_600_000}
_WITHOUT_UNIT_MS: Final = 1_000
"""A smaller number without a unit was hardly meant in ms."""
_TIMES_AS: Final = "a time such as 60s, 5min or 45000ms"
ON_THE_SERVER: Final = ("uniform", "range")
"""The strategies with which a server assigns a KIP-848 group."""


def _in_short(key: str, value: str | None) -> dict[str, Any]:
    """A part of a text (`static`, `cooperative`, `session=60s`, `assignor`) in the form of JSON."""
    if key in _PROTOCOLS and value is None:
        return {"group.protocol": key}
    name, usual = _QUESTIONS.get(key, (key, True))
    if name not in _FIELDS:
        raise BadSetting(_unknown(key))
    if value is None:
        if name.endswith(".ms") and name == key:
            raise BadSetting(f"{key} has no value; {_TIMES_AS} was expected")
        return {name: usual}
    if not name.endswith(".ms"):
        return {name: value}
    time = _TIME.fullmatch(value)
    if time is not None:
        return {name: int(time[1]) * _UNITS[time[2]]}
    is_number = value.isascii() and value.isdigit()
    if not is_number or (name != key and 0 < int(value) < _WITHOUT_UNIT_MS):
        raise BadSetting(f"{key} {value!r}: {_TIMES_AS} was expected")
    return {name: value}


def _unknown(key: str) -> str:
    words = (*_PROTOCOLS, *_QUESTIONS, *(name for name in _FIELDS if name not in _QUESTIONS))
    near = get_close_matches(key.lower(), words, 1)
    meant = f" (did you mean {near[0]}?)" if near else ""
    return f"{key!r} is no setting of a what-if{meant}; it is one of {', '.join(words)}"


def from_json(value: Any) -> list[Setting]:
    """The settings in a JSON object, or in a list of objects. Each setting is in the result once. Raises BadSetting."""
    objects = value if isinstance(value, list) else [value]
    if not objects:
        raise BadSetting("the list of settings is empty; give one at least, or none instead of the list")
    found: list[Setting] = []
    for one in objects:
        if not isinstance(one, dict):
            raise BadSetting(f'{one!r} is no setting; an object was expected, as {{"session.timeout.ms": 45000}}')
        found += _combinations(one)
        if len(found) > _MAX_SETTINGS:
            raise BadSetting(f"more than {_MAX_SETTINGS} settings; ask for fewer at a time")
    return distinct(found)


def distinct(settings: Iterable[Setting]) -> list[Setting]:
    """Each setting once, in their order. Raises BadSetting if two different settings have one name."""
    by_name: dict[str, Setting] = {}
    for setting in settings:
        known = by_name.setdefault(setting.name, setting)
        if known != setting:
            raise BadSetting(f"two settings are named {setting.name!r}; give them names that differ")
    return list(by_name.values())


def _combinations(stated: Mapping[str, Any]) -> list[Setting]:
    values_of = {key: value if isinstance(value, list) else [value] for key, value in stated.items() if key != "name"}
    unknown = next((key for key in values_of if key not in _FIELDS), None)
    if unknown is not None:
        raise BadSetting(_unknown(unknown))
    given = _given_name(stated)
    several = [_FIELDS[key] for key, values in values_of.items() if len(values) > 1]
    found = []
    for values in product(*values_of.values()):
        filled = {_FIELDS[key]: _value(key, value) for key, value in zip(values_of, values, strict=True)}
        if filled.get("protocol") == CONSUMER and filled.get("assignor") not in (None, *ON_THE_SERVER):
            raise BadSetting(
                f"in a group of the consumer protocol the server assigns, by {' or '.join(ON_THE_SERVER)}: "
                f"{filled['assignor']!r} cannot be with it"
            )
        name = given or _name(filled)
        if given and several:
            name = f"{given}, {_name({field: filled[field] for field in several})}"
        found.append(Setting(name, **filled))
    return found


def _given_name(stated: Mapping[str, Any]) -> str | None:
    name = stated.get("name")
    if name is not None and (not isinstance(name, str) or not name):
        raise BadSetting(f"the name {name!r} is no text; give the setting a name of at least one letter, or none")
    return name


def _value(key: str, value: Any) -> Any:
    if key == "assignor":
        if value not in _ASSIGNORS:
            raise BadSetting(f"assignor {value!r} is not known; it is one of {', '.join(_ASSIGNORS)}")
        return value
    if key == "group.protocol":
        if value not in _PROTOCOLS:
            raise BadSetting(f"group.protocol {value!r} is not known; it is classic or consumer")
        return value
    if key == "static":
        known = {True: True, False: False, "true": True, "false": False}
        if not isinstance(value, bool | str) or value not in known:
            raise BadSetting(f"static {value!r} is neither true nor false")
        return known[value]
    if key == "deploy":
        return _deploy(value)
    least_ms = _LEAST_MS.get(key, 1)
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if isinstance(number, bool) or not isinstance(number, int) or not least_ms <= number <= _LONGEST_MS:
        raise BadSetting(f"{key} {value!r} is no whole number of ms from {least_ms} to {_LONGEST_MS}")
    return number


def _deploy(value: Any) -> int:
    if value == "all":
        return ALL_AT_ONCE
    if isinstance(value, str):
        kind, colon, count = value.partition(":")
        if kind == "rolling" and not colon:
            return 1
        if kind == "rolling" and count.isascii() and count.isdigit() and 0 < int(count) <= _LONGEST_MS:
            return int(count)
    raise BadSetting(f"deploy {value!r} is not known; it is all, rolling or rolling:N (N members at a time)")


def _deploy_text(at_a_time: int) -> str:
    return "all" if at_a_time == ALL_AT_ONCE else f"rolling:{at_a_time}"


def _name(filled: Mapping[str, Any]) -> str:
    """The name that a person would give to a setting."""
    parts: list[str] = []
    if filled.get("protocol"):
        parts.append(f"{filled['protocol']} protocol")
    if filled.get("assignor"):
        parts.append(filled["assignor"])
    if filled.get("static"):
        parts.append("static")
    for field, word in _WORDS.items():
        if filled.get(field) is not None:
            parts.append(f"{word} {_time_text(filled[field])}")
    if filled.get("deploy") is not None:
        at_a_time = filled["deploy"]
        parts.append("deploy all at once" if at_a_time == ALL_AT_ONCE else f"deploy {at_a_time} at a time")
    return ", ".join(parts) or AS_IT_WAS


_WORDS: Final = {
    "session_timeout_ms": "session",
    "rebalance_timeout_ms": "max poll",
    "initial_delay_ms": "delay",
    "heartbeat_interval_ms": "heartbeat",
}
_EXAMPLE: Final = "static,session.timeout.ms=45000"


def _time_text(ms: int) -> str:
    return f"{ms} ms" if ms % 1000 else f"{ms // 1000} s"


DEFAULT_GRID: Final[Sequence[Setting]] = tuple(
    from_json(
        [
            {},
            {"assignor": ["range", "roundrobin", "sticky", "cooperative-sticky"]},
            {"static": True},
            {"static": True, "session.timeout.ms": [60_000, 300_000]},
            {"static": True, "assignor": "cooperative-sticky"},
            {"session.timeout.ms": [6_000, 10_000, 30_000, 45_000, 120_000]},
            {"group.initial.rebalance.delay.ms": [0, 3_000, 10_000, 30_000]},
            {"heartbeat.interval.ms": 1_000},
            {"max.poll.interval.ms": [300_000, 900_000]},
            {"deploy": ["rolling:1", "all"]},
            # a group with a strategy that no server has is a classic group: it needs no setting beside the strategies
            {"group.protocol": ["consumer", "classic"]},
        ]
    )
)
"""The default settings of the what-if."""
