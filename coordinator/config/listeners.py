"""The listeners: `listeners`, `advertised.listeners` and `listener.security.protocol.map`, as Kafka reads them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from muster.coordinator.config.checks import ConfigError
from muster.coordinator.properties.live import LISTENER_PREFIX

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Kafka's security protocols."""
WITH_TLS = ("SSL", "SASL_SSL")
WITH_SASL = ("SASL_PLAINTEXT", "SASL_SSL")
WILDCARDS = ("", "0.0.0.0", "::")
"""The hosts that mean every interface."""

_ENDPOINT = re.compile(r"(.+)://(?:\[([0-9a-fA-F:.%\w]+)\]|([0-9a-zA-Z\-%._]*)):(-?[0-9]+)", re.ASCII)
_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:.%\w]+)\]|([0-9a-zA-Z\-%._]*)):([0-9]+)", re.ASCII)


class Address(NamedTuple):
    """A host ("" for every interface) and a port (0 for any free port)."""

    host: str
    port: int


class Listener(NamedTuple):
    """An address to listen at, and the address for clients.

    `advertised_host` None: clients get the local address of their connection, because the listener is at every
    interface. `advertised_port` None: the bound port. `protocol`: Kafka's security protocol.
    """

    name: str
    host: str
    port: int
    advertised_host: str | None = None
    advertised_port: int | None = None
    protocol: str = "PLAINTEXT"

    @property
    def has_tls(self) -> bool:
        """Whether connections of the listener are encrypted."""
        return self.protocol in WITH_TLS

    @property
    def has_sasl(self) -> bool:
        """Whether clients of the listener must authenticate by SASL."""
        return self.protocol in WITH_SASL


def show(host: str, port: int) -> str:
    """`HOST:PORT`, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str, option: str, *, advertised: bool = False) -> Address:
    """HOST:PORT of an option. IPv6 stands in brackets; an empty host means every interface, and is not advertised."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        advice = "an IPv6 host goes in brackets, as in [::1]:9092" if text.count(":") > 1 else "as in localhost:9092"
        raise ConfigError(f"{option} '{text}' is not HOST:PORT; {advice}")
    host, port = match[1] or match[2], int(match[3])
    least = 1 if advertised else 0
    if not least <= port <= 65535:
        raise ConfigError(f"{option} '{text}': the port {port} is not between {least} and 65535")
    if advertised and host in WILDCARDS:
        raise ConfigError(
            f"{option} '{text}': clients cannot connect to the host '{host}'; name one that they can reach"
        )
    return Address(host, port)


def parse_addresses(text: str, option: str) -> list[Address]:
    """Addresses that a client connects to: HOST:PORT,HOST:PORT, with IPv6 hosts in brackets. Raises ConfigError."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise ConfigError(f"{option} '{text}' is not HOST:PORT, or several with commas; as in localhost:9092")
    return list(dict.fromkeys(parse_address(word, option, advertised=True) for word in words))


def parse_endpoints(name: str, entries: Sequence[str]) -> dict[str, Address]:
    """Listener name -> address of a property such as `listeners`. Raises ConfigError naming property and entry."""
    found: dict[str, Address] = {}
    for entry in entries:
        match = _ENDPOINT.fullmatch(entry)
        if match is None:
            raise ConfigError(f"{name}: '{entry}' is not NAME://HOST:PORT, as in PLAINTEXT://localhost:9092")
        listener, port = match[1].upper(), int(match[4])
        if not 0 <= port <= 65535:
            raise ConfigError(f"{name}: the port {port} of '{entry}' is not between 0 and 65535")
        if listener in found:
            raise ConfigError(f"{name}: the listener name {listener} is given twice; each name may be used once")
        found[listener] = Address(match[2] or match[3], port)
    return found


def parse_protocols(text: str) -> dict[str, str]:
    """Listener name -> security protocol of `listener.security.protocol.map`. Raises ConfigError naming the pair."""
    found: dict[str, str] = {}
    for pair in filter(None, (word.strip() for word in text.split(","))):
        listener, colon, protocol = (part.strip() for part in pair.rpartition(":"))
        if not colon or protocol.upper() not in PROTOCOLS:
            raise ConfigError(
                f"listener.security.protocol.map: '{pair}' is not NAME:PROTOCOL with one of {', '.join(PROTOCOLS)}"
            )
        found[listener.upper()] = protocol.upper()
    return found


def assemble(
    listening: Mapping[str, Address],
    advertised: Mapping[str, Address],
    protocols: Mapping[str, str],
    controllers: Sequence[str],
) -> tuple[tuple[Listener, ...], tuple[str, ...]]:
    """The listeners to open, and the names of the controller's listeners, which are not opened. Raises ConfigError."""
    skipped = tuple(name for name in listening if name in {one.upper() for one in controllers})
    opened = {name: address for name, address in listening.items() if name not in skipped}
    if not opened:
        raise ConfigError(
            "listeners: only listeners of the controller are left; give one for clients, as PLAINTEXT://:9092"
        )
    _check_protocols(opened, protocols)
    _check_advertised({name: address for name, address in advertised.items() if name not in skipped}, opened)
    _check_ports([*opened.values()])
    return (
        tuple(_listener(name, address, advertised.get(name), protocols[name]) for name, address in opened.items()),
        skipped,
    )


def stride(listeners: Sequence[Listener]) -> int:
    """The distance between the ports of one broker and the ports of the next broker."""
    ports = [one.port for one in listeners if one.port]
    return max(ports) - min(ports) + 1 if ports else 1


def of_node(listeners: Sequence[Listener], place: int) -> tuple[Listener, ...]:
    """The listeners of broker number `place`, from 0. The ports follow the ports of the broker before."""
    further = place * stride(listeners)
    return tuple(
        one._replace(
            port=one.port and one.port + further,
            advertised_port=one.advertised_port and one.advertised_port + further,
        )
        for one in listeners
    )


def check_nodes(listeners: Sequence[Listener], nodes: int, racks: Sequence[str]) -> None:
    """Check that each of the brokers has ports, and a rack if racks are given. Raises ConfigError."""
    if racks and len(racks) != nodes:
        raise ConfigError(
            f"muster.nodes.racks names {len(racks)} racks, but there are {nodes} brokers; name one for each"
        )
    for one in of_node(listeners, nodes - 1):
        if max(one.port, one.advertised_port or 0) > 65535:
            raise ConfigError(f"listeners: the ports of {nodes} brokers from {listeners[0].port} on are too many")


def _check_protocols(opened: Iterable[str], protocols: Mapping[str, str]) -> None:
    for name in opened:
        if name not in protocols:
            raise ConfigError(
                f"listeners: no security protocol is known for the listener {name}; "
                f"add {name}:PLAINTEXT to listener.security.protocol.map"
            )


def _check_advertised(advertised: Mapping[str, Address], opened: Collection[str]) -> None:
    for name, address in advertised.items():
        if name not in opened:
            raise ConfigError(f"advertised.listeners: {name} is not among the names of listeners ({', '.join(opened)})")
        if address.host in WILDCARDS:
            raise ConfigError(
                f"advertised.listeners: clients of {name} cannot connect to '{show(*address)}'; name a host"
            )


def _check_ports(addresses: Sequence[Address]) -> None:
    """Check the ports: several listeners may share a port only with different hosts."""
    ports = [address.port for address in addresses if address.port]
    for port in ports:
        hosts = {address.host for address in addresses if address.port == port}
        if ports.count(port) > 1 and (len(hosts) < ports.count(port) or any(host in WILDCARDS for host in hosts)):
            raise ConfigError(f"listeners: the port {port} is used by more than one listener; each needs its own")


def check_inter_broker(name: str, protocol: str, opened: Sequence[str]) -> None:
    """Check that inter.broker.listener.name names a listener. The name has no effect: the brokers share a process."""
    if not name:
        return
    if protocol:
        raise ConfigError("inter.broker.listener.name and security.inter.broker.protocol are both given; leave one out")
    if name.upper() not in opened:
        raise ConfigError(
            f"inter.broker.listener.name: {name} is not among the names of listeners ({', '.join(opened)})"
        )


def check_own_properties(given: Iterable[str], names: Collection[str]) -> None:
    """Check that properties of one listener name an existing listener, in lower case. Kafka ignores other names."""
    for one in given:
        if not one.startswith(LISTENER_PREFIX):
            continue
        listener = one.removeprefix(LISTENER_PREFIX).partition(".")[0]
        if listener.upper() not in names:
            raise ConfigError(f"{one}: {listener} is not the name of a listener; there are {', '.join(sorted(names))}")
        if listener != listener.lower():
            raise ConfigError(f"{one}: write the listener's name in small letters, {listener.lower()}")


def _listener(name: str, address: Address, advertised: Address | None, protocol: str) -> Listener:
    if advertised is None:
        # as on Kafka, a host in `listeners` is advertised, with the bound port
        named = None if address.host in WILDCARDS else address.host
        return Listener(name, address.host, address.port, named, protocol=protocol)
    return Listener(name, address.host, address.port, advertised.host, advertised.port or None, protocol)
