"""The broker's present configuration: changes at run time over the configuration at its start (KIP-226).

`check` says which properties may change, and to which values (Kafka's DynamicBrokerConfig). Refusals are
InvalidProperty with Kafka's text. As on Kafka, properties without a definition are accepted and kept. Kafka opens and
closes listeners too; here `listeners` can only be set to its present value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol

from muster.coordinator.properties.definition import InvalidProperty, Property, Value
from muster.coordinator.properties.lookup import BROKER, DYNAMIC_ONLY, DYNAMIC_SECURITY, MUSTER

LISTENER_PREFIX = "listener.name."
NOTHING: Mapping[str, str] = MappingProxyType({})


class Static(Protocol):
    """The configuration of the broker's start (for instance `coordinator.config.Config`)."""

    def value(self, name: str) -> Value:
        """The typed value of a property; None without a value."""

    def text(self, name: str) -> str | None:
        """The value as text; None without a value."""

    def source(self, name: str) -> str:
        """`static` when file, environment or an option gave the value, else `default`."""

    @property
    def of_listeners(self) -> Sequence[str]:
        """The names of properties that were set for one listener only (`listener.name.x.…`)."""


class Defaults:
    """The `Static` of a broker without any configuration."""

    def value(self, name: str) -> Value:
        """Kafka's default; None for a listener's own property."""
        return None if name.startswith(LISTENER_PREFIX) else BROKER[name].default_value

    def text(self, name: str) -> str | None:
        """Kafka's default, as text."""
        return BROKER[name].default if name in BROKER else None

    def source(self, name: str) -> str:  # noqa: ARG002  # none was given
        """`default`."""
        return "default"

    of_listeners: Sequence[str] = ()
    """No listener's property is set."""


class Live:
    """A `Static` with the texts of all brokers (`cluster_wide`) and, with precedence, of this broker (`own`).

    A value that cannot be read is ignored: another program may have written the log with it.
    """

    __slots__ = ("_values", "checks", "cluster_wide", "own", "static")

    def __init__(self, static: Static | None = None) -> None:
        self.static: Static = static or Defaults()
        self.cluster_wide: Mapping[str, str] = NOTHING
        self.own: Mapping[str, str] = NOTHING
        self._values: dict[str, tuple[str, Value]] = {}
        self.checks: list[Callable[[Live], object]] = []
        """Checks of the server's parts. A check gets another `Live`, and raises InvalidProperty to refuse it."""

    def with_own(self, own: Mapping[str, str]) -> Live:
        """Return a copy with these settings for this broker."""
        other = Live(self.static)
        other.set(self.cluster_wide, own)
        return other

    def set(self, cluster_wide: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Replace the settings."""
        self.cluster_wide, self.own = dict(cluster_wide), dict(own)
        self._values = effective(self.cluster_wide, self.own)

    def value(self, name: str) -> Value:
        """The effective typed value; None without a value."""
        found = self._values.get(name)
        return self.static.value(name) if found is None else found[1]

    def own_of(self, listener: str, name: str) -> Value:
        """The effective value that is set for one listener only (`listener.name.x.…`); None without a value."""
        return self.value(f"{LISTENER_PREFIX}{listener.lower()}.{name}")

    def of_listener(self, listener: str, name: str) -> Value:
        """The effective value for a listener: its own (`listener.name.x.…`), else the broker's."""
        own = self.own_of(listener, name)
        return self.value(name) if own is None else own

    def of_mechanism(self, listener: str, mechanism: str, name: str) -> Value:
        """The effective value for a SASL mechanism on a listener (`listener.name.x.plain.…`), else the listener's."""
        own = self.own_of(listener, f"{mechanism.lower()}.{name}")
        return self.of_listener(listener, name) if own is None else own

    def text(self, name: str) -> str | None:
        """The effective value as text; None without a value."""
        found = self._values.get(name)
        return self.static.text(name) if found is None else found[0]

    def source(self, name: str) -> str:
        """The source of the value at the broker's start: `static` or `default`."""
        return self.static.source(name)


OF_MECHANISMS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
"""The properties that a listener has for each SASL mechanism: `listener.name.x.plain.sasl.jaas.config`."""


def base_of(name: str) -> str:
    """The broker property of a listener's own property: `y` for `listener.name.x.y`. All other names are unchanged."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    base = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    return next((one for one in OF_MECHANISMS if base.endswith(one)), base)


def definition(name: str) -> Property | None:
    """The definition of a broker property; a listener's own property has that of its broker property."""
    return BROKER.get(base_of(name)) or MUSTER.get(name)


def effective(cluster_wide: Mapping[str, str], own: Mapping[str, str]) -> dict[str, tuple[str, Value]]:
    """Return (text, value) of the set properties that can be read and may change while the broker runs."""
    values = {}
    for name, text in [*cluster_wide.items(), *own.items()]:
        prop = definition(name)
        if prop is None or prop.read_only or name in MUSTER:
            continue
        try:
            values[name] = text, prop.parse(text)
        except InvalidProperty:
            continue
    return values


PER_BROKER: Final = "per-broker"
_FIXED: Final = ("listeners", "listener.security.protocol.map")
"""Properties that on Kafka change by opening and closing listeners."""
_THREADS: Final = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
"""Thread pools that grow and shrink by half at a time."""
_CLEANER_THREADS: Final = "log.cleaner.threads"
_PER_IP: Final = "max.connections.per.ip.overrides"
_MEGABYTE: Final = 1 << 20
_NOT_DYNAMIC: Final = "Cannot update these configs dynamically"
_PER_BROKER_ONLY: Final = "Cannot update these configs at default cluster level, broker id must be specified"
_LISTENER_ONLY: Final = "These security configs can be dynamically updated only per-listener using the listener prefix"


def changeable(name: str) -> Property | None:
    """The definition of a property that can be set while the broker runs; None for other properties."""
    found = DYNAMIC_ONLY.get(name) or BROKER.get(name)
    return None if found is None or found.read_only else found


def check(configs: Mapping[str, str], live: Live, *, for_all: bool) -> None:
    """Check the full set of properties for all brokers, or else for this broker. Raises InvalidProperty."""
    _refuse(_NOT_DYNAMIC, filter(_is_fixed, configs))
    _refuse(_LISTENER_ONLY, (name for name in configs if name in DYNAMIC_SECURITY))
    for name, text in configs.items():
        prop = DYNAMIC_ONLY.get(name) or definition(name)
        if prop is not None:
            read = prop.parse(text)
            if prop.type == "CLASS" and read != prop.default:
                raise _invalid(name, text, f"Class {text} could not be found.")
    if for_all:
        _refuse(_PER_BROKER_ONLY, filter(_is_of_one_broker, configs))
    _refuse(_NOT_DYNAMIC, (name for name in _FIXED if configs.get(name, live.text(name)) != live.text(name)))
    values = effective(configs, live.own) if for_all else effective(live.cluster_wide, configs)

    def value(name: str) -> Value:
        return values[name][1] if name in values else live.static.value(name)

    _fit_together(value)
    _within_reach(value, live)
    if not for_all:
        for part in live.checks:
            part(live.with_own(configs))


def _refuse(why: str, names: Iterable[str]) -> None:
    refused = list(names)
    if refused:
        raise InvalidProperty(refused[0], None, f"{why}: [{', '.join(refused)}]")


def _is_fixed(name: str) -> bool:
    return name in MUSTER or (name in BROKER and BROKER[name].read_only)


def _is_of_one_broker(name: str) -> bool:
    return name.startswith(LISTENER_PREFIX) or (name in BROKER and BROKER[name].update_mode == PER_BROKER)


def _invalid(name: str, text: object, why: str) -> InvalidProperty:
    return InvalidProperty(name, str(text), f"Invalid value {text} for configuration {name}: {why}")


def _require(condition: bool, name: str, why: str) -> None:
    if not condition:
        raise InvalidProperty(name, None, f"requirement failed: {name} {why}")


def _number(value: Value) -> float | None:
    return value if isinstance(value, int | float) else None


def _fit_together(value: Callable[[str], Value]) -> None:
    """The checks of KafkaConfig.validateValues for the properties that can change."""
    _check_intervals(value)
    roll, jitter, retention = map(_number, map(value, ("log.roll.ms", "log.roll.jitter.ms", "log.retention.ms")))
    _require(roll is None or roll >= 1, "log.roll.ms", "must be greater than or equal to 1")
    _require(jitter is None or jitter >= 0, "log.roll.jitter.ms", "must be greater than or equal to 0")
    _require(retention != 0, "log.retention.ms", "must be unlimited (-1) or, greater than or equal to 1")
    _check_cleaner(_number(value("log.cleaner.threads")), _number(value("log.cleaner.dedupe.buffer.size")))
    overrides = str(value(_PER_IP) or "")
    _check_connections_per_ip(overrides)
    why = f"can be set to zero only if {_PER_IP} property is set."
    _require(value("max.connections.per.ip") != 0 or overrides != "", "max.connections.per.ip", why)
    _check_cordoned(value("log.dirs") or value("log.dir"), value("cordoned.log.dirs"))


def _check_intervals(value: Callable[[str], Value]) -> None:
    """GroupCoordinatorConfig: checks that each type of group keeps its changeable interval within its bounds."""
    for kind in ("consumer", "share", "streams"):
        name = f"group.{kind}.assignment.interval.ms"
        for word, end in (("greater", "min"), ("less", "max")):
            bound = f"group.{kind}.{end}.assignment.interval.ms"
            number, limit = _number(value(name)) or 0, _number(value(bound)) or 0
            if number < limit if word == "greater" else number > limit:
                raise InvalidProperty(name, str(number), f"{name} must be {word} than or equal to {bound}")


def _check_cleaner(threads: float | None, buffer_bytes: float | None) -> None:
    if threads == 0:
        raise InvalidProperty("log.cleaner.threads", "0", "/ by zero")
    enough = threads is None or buffer_bytes is None or buffer_bytes // threads > _MEGABYTE
    _require(enough, "log.cleaner.dedupe.buffer.size", "must be at least 1MB per cleaner thread.")


def _check_connections_per_ip(overrides: str) -> None:
    """Check HOST:COUNT, HOST:COUNT …; the errors are those of Java's parsers."""
    for pair in filter(None, (word.strip() for word in overrides.split(","))):
        count = pair.rpartition(":")[2].strip()
        if ":" not in pair:
            why = f"begin 0, end -1, length {len(pair)}"
        elif not (count.isascii() and count.isdecimal()):
            why = f'For input string: "{count}"'
        else:
            continue
        raise InvalidProperty(_PER_IP, overrides, f"Error parsing configuration property '{_PER_IP}': {why}")


def _check_cordoned(directories: Value, cordoned: Value) -> None:
    if not isinstance(cordoned, tuple):
        return
    there = directories if isinstance(directories, tuple) else (directories,)
    missing = [one for one in cordoned if one != "*" and one not in there]
    why = "must be present in log.dirs or log.dir. Missing entries : "
    if missing:
        why = f"requirement failed: All entries in cordoned.log.dirs {why}{', '.join(missing)}"
        raise InvalidProperty("cordoned.log.dirs", ",".join(cordoned), why)


def _within_reach(value: Callable[[str], Value], live: Live) -> None:
    """Refuse what the reconfigured parts of Kafka refuse: too many threads at once, or no connections at all."""
    for name in (*_THREADS, _CLEANER_THREADS):
        new, old = _number(value(name)), _number(live.value(name))
        if new is None or old is None or new == old or old / 2 <= new <= old * 2:
            continue
        if name == _CLEANER_THREADS:
            how = "reduced to less than half" if new < old else "increased to more than double"
            raise _wrapped(name, f"Log cleaner threads cannot be {how} the current value {old}")
        how = "be at least half" if new < old else "not be greater than double"
        what = f"Dynamic thread count update validation failed for {name}={new}"
        raise _wrapped(name, f"{what}, value should {how} the current value {old}")
    for name in ("max.connections", "max.connection.creation.rate"):
        if value(name) == 0 and live.value(name) != 0:
            raise _wrapped(name, f"Invalid {name} 0")
    name = "metric.reporters"
    if value(name) != live.value(name):
        raise _wrapped(
            name,
            f"Validation of dynamic config update of Set({name}) failed with class class "
            "kafka.server.DynamicMetricsReporters",
        )


def _wrapped(name: str, why: str) -> InvalidProperty:
    """Return the error as Kafka words the refusal of one of its parts."""
    what = f"org.apache.kafka.common.config.ConfigException: {why}"
    return InvalidProperty(name, None, f"Invalid value {what} for configuration Invalid dynamic configuration")
