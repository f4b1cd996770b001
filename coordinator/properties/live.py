"""The broker's configuration as it is now: what was set while it runs, over what it was started with (KIP-226)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from muster.coordinator.properties.definition import InvalidProperty, Property, Value
from muster.coordinator.properties.lookup import BROKER, MUSTER

LISTENER_PREFIX = "listener.name."
NOTHING: Mapping[str, str] = MappingProxyType({})


class Static(Protocol):
    """The configuration the broker was started with (`coordinator.config.Config` is one)."""

    def value(self, name: str) -> Value:
        """The value of a property, typed; None when it has none."""

    def text(self, name: str) -> str | None:
        """The value as text, None when it has none."""

    def source(self, name: str) -> str:
        """`static` when file, environment or an option gave the value, else `default`."""

    @property
    def of_listeners(self) -> Sequence[str]:
        """The names of what was given for one listener only (`listener.name.x.…`)."""


class Defaults:
    """The `Static` of a broker that was given nothing."""

    def value(self, name: str) -> Value:
        """Kafka's default; a listener has none of its own."""
        return None if name.startswith(LISTENER_PREFIX) else BROKER[name].default_value

    def text(self, name: str) -> str | None:
        """Kafka's default, as text."""
        return BROKER[name].default if name in BROKER else None

    def source(self, name: str) -> str:  # noqa: ARG002 - none was given
        """`default`."""
        return "default"

    of_listeners: Sequence[str] = ()
    """None was given."""


class Live:
    """`value`, `text` and `source` as a `Static`, with what was set for all brokers and, before that, for this one.

    `cluster_wide` and `own` are those settings, as texts. A value that cannot be read counts for nothing: the log that
    tells it may have been written elsewhere.
    """

    __slots__ = ("_values", "checks", "cluster_wide", "own", "static")

    def __init__(self, static: Static | None = None) -> None:
        self.static: Static = static or Defaults()
        self.cluster_wide: Mapping[str, str] = NOTHING
        self.own: Mapping[str, str] = NOTHING
        self._values: dict[str, tuple[str, Value]] = {}
        self.checks: list[Callable[[Live], object]] = []
        """Of parts that take new values while they run: each is asked whether it could take those of another `Live`
        and raises InvalidProperty."""

    def with_own(self, own: Mapping[str, str]) -> Live:
        """The same with this set for this broker."""
        other = Live(self.static)
        other.set(self.cluster_wide, own)
        return other

    def set(self, cluster_wide: Mapping[str, str], own: Mapping[str, str]) -> None:
        """From now on these are set."""
        self.cluster_wide, self.own = dict(cluster_wide), dict(own)
        self._values = effective(self.cluster_wide, self.own)

    def value(self, name: str) -> Value:
        """The value that counts, typed; None when there is none."""
        found = self._values.get(name)
        return self.static.value(name) if found is None else found[1]

    def own_of(self, listener: str, name: str) -> Value:
        """The value that counts for a listener alone (`listener.name.x.…`); None when there is none."""
        return self.value(f"{LISTENER_PREFIX}{listener.lower()}.{name}")

    def of_listener(self, listener: str, name: str) -> Value:
        """The value that counts for a listener: its own (`listener.name.x.…`), else the broker's."""
        own = self.own_of(listener, name)
        return self.value(name) if own is None else own

    def of_mechanism(self, listener: str, mechanism: str, name: str) -> Value:
        """The value that counts for a mechanism of SASL on a listener (`listener.name.x.plain.…`), else the
        listener's.
        """
        own = self.own_of(listener, f"{mechanism.lower()}.{name}")
        return self.of_listener(listener, name) if own is None else own

    def text(self, name: str) -> str | None:
        """The value that counts, as text; None when there is none."""
        found = self._values.get(name)
        return self.static.text(name) if found is None else found[0]

    def source(self, name: str) -> str:
        """Where the value that the broker was started with comes from: `static` or `default`."""
        return self.static.source(name)


OF_MECHANISMS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
"""What a listener has for each mechanism of SASL: `listener.name.x.plain.sasl.jaas.config`."""


def base_of(name: str) -> str:
    """The broker property that a listener's own one (`listener.name.x.y`) stands for: `y`, or what of it comes after a
    mechanism; any other name itself.
    """
    if not name.startswith(LISTENER_PREFIX):
        return name
    base = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    return next((one for one in OF_MECHANISMS if base.endswith(one)), base)


def definition(name: str) -> Property | None:
    """The definition of a broker property; of a listener's own one that of the property that it stands for."""
    return BROKER.get(base_of(name)) or MUSTER.get(name)


def effective(cluster_wide: Mapping[str, str], own: Mapping[str, str]) -> dict[str, tuple[str, Value]]:
    """Those of the properties set that can be read and changed while the broker runs: (text, value)."""
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
