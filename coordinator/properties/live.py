"""The broker's present configuration: changes at run time over the configuration at its start (KIP-226)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from muster.coordinator.properties.definition import InvalidProperty, Property, Value
from muster.coordinator.properties.lookup import BROKER, MUSTER

LISTENER_PREFIX = "listener.name."
NOTHING: Mapping[str, str] = MappingProxyType({})


class Static(Protocol):
    """The configuration of the broker's start (`coordinator.config.Config` is one)."""

    def value(self, name: str) -> Value:
        """The typed value of a property; None when it has none."""

    def text(self, name: str) -> str | None:
        """The value as text; None when it has none."""

    def source(self, name: str) -> str:
        """`static` when file, environment or an option gave the value, else `default`."""

    @property
    def of_listeners(self) -> Sequence[str]:
        """The names of properties that were set for one listener only (`listener.name.x.…`)."""


class Defaults:
    """The `Static` of a broker without any configuration."""

    def value(self, name: str) -> Value:
        """Kafka's default; a listener's own property has none."""
        return None if name.startswith(LISTENER_PREFIX) else BROKER[name].default_value

    def text(self, name: str) -> str | None:
        """Kafka's default, as text."""
        return BROKER[name].default if name in BROKER else None

    def source(self, name: str) -> str:  # noqa: ARG002 - none was given
        """`default`."""
        return "default"

    of_listeners: Sequence[str] = ()
    """No listener's property is set."""


class Live:
    """A `Static` with the settings of all brokers (`cluster_wide`) and, with precedence, of this broker (`own`), as
    texts.

    A value that cannot be read is ignored: another program may have written the log with it.
    """

    __slots__ = ("_values", "checks", "cluster_wide", "own", "static")

    def __init__(self, static: Static | None = None) -> None:
        self.static: Static = static or Defaults()
        self.cluster_wide: Mapping[str, str] = NOTHING
        self.own: Mapping[str, str] = NOTHING
        self._values: dict[str, tuple[str, Value]] = {}
        self.checks: list[Callable[[Live], object]] = []
        """Each gets another `Live` and raises InvalidProperty to refuse its values for a part of the server."""

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
        """The effective typed value; None when the property has none."""
        found = self._values.get(name)
        return self.static.value(name) if found is None else found[1]

    def own_of(self, listener: str, name: str) -> Value:
        """The effective value that is set for one listener only (`listener.name.x.…`); None when it has none."""
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
        """The effective value as text; None when the property has none."""
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
    """The broker property of a listener's own one: `y` for `listener.name.x.y`, without a mechanism. Or the name
    itself.
    """
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
