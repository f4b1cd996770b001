"""The broker or cluster that is judged: how to connect, what it serves, and what its settings are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from muster.client.connection import NAME_ANOTHER, RequestFailed
from muster.client.kafka_client import KafkaClient
from muster.client.security import ClientSecurity
from muster.conform.login import opener
from muster.conform.nearest import nearest
from muster.conform.player import kafka_codec as codec
from muster.conform.player.brokers import AnyConnection, connect
from muster.conform.player.connection import Connection, Open, unheard
from muster.conform.player.readiness import WITHOUT_IDS
from muster.conform.player.releases import Release, name_of
from muster.conform.player.story import Body, Reply
from muster.conform.settings import Known
from muster.coordinator.config.listeners import Address

BROKER, GROUP = 4, 32
"""Types of the resources of DescribeConfigs."""
NAMES = {codec.api_key(name[:-7]): name[:-7] for name in codec.MESSAGES if name.endswith("Request")}
"""The names of the APIs that stories can ask for, by their numbers."""
CONFIGURED = "conform"
"""A group of this name is asked which configs groups have. It need not exist."""


@dataclass
class Target:
    """A broker, or a cluster."""

    address: str
    """As the user gave it."""
    addresses: list[tuple[str, int]]
    """Of all brokers; of a single broker the address that the user gave."""
    opened: Open
    keys: Mapping[int, tuple[int, int]]
    """The versions that the broker offers, by the number of the API."""
    nodes: list[int]
    cluster: str = ""
    known: Known = field(default_factory=lambda: Known(None))

    @property
    def versions(self) -> dict[str, tuple[int, int]]:
        """The versions that the broker offers, by the name of the API."""
        return {NAMES[key]: its for key, its in self.keys.items() if key in NAMES}

    @property
    def release(self) -> Release:
        """The most similar release of Kafka."""
        return nearest({key: high for key, (_, high) in self.keys.items()})

    @property
    def software(self) -> str:
        """What the broker says of itself."""
        values = self.known.values or {}
        name = "Muster" if any(one.startswith("muster.") for one in values) else "a broker"
        brokers = f", {len(self.nodes)} brokers" if len(self.nodes) > 1 else ""
        return f"{name} with {len(self.keys)} APIs{brokers}, most like Kafka {name_of(self.release)}"

    @property
    def host(self) -> str:
        """For a driver of stories: the host, or all addresses of a cluster."""
        one, *others = self.addresses
        return ",".join(f"{host}:{port}" for host, port in self.addresses) if others else one[0]

    @property
    def port(self) -> int:
        """For a driver of stories: the port, or 0 if `host` has all addresses."""
        return 0 if len(self.addresses) > 1 else self.addresses[0][1]

    async def connect(self, on_reply: Callable[[Reply], object] = unheard) -> AnyConnection:
        """A new connection, to all brokers of a cluster."""
        return await connect(self.host, self.port, on_reply, self.opened)

    async def open(self, place: int = 0) -> Connection:
        """A new connection to one broker."""
        return await Connection.to(*self.addresses[place], opened=self.opened)

    def serves(self, api: str, version: int) -> bool:
        """Whether the broker offers this version."""
        low, high = self.versions.get(api, (0, -1))
        return low <= version <= high

    def version(self, api: str, newest: int) -> int | None:
        """The highest version up to `newest` that the broker offers; None: it offers none."""
        low, high = self.versions.get(api, (0, -1))
        return min(high, newest) if low <= min(high, newest) else None


async def find(address: tuple[str, int], shown: str, security: ClientSecurity | None) -> Target:
    """Connect, and ask what the broker serves. Raises RequestFailed, which says what to do if that is known."""
    try:
        return await _found(address, shown, security)
    except RequestFailed as failure:
        why = await asyncio.to_thread(_as_client, address, security)
        raise why or failure from failure


def _as_client(address: tuple[str, int], security: ClientSecurity | None) -> RequestFailed | None:
    """Why the client of the commands cannot use this broker either: it finds out what a wrong listener speaks."""
    try:
        KafkaClient([Address(*address)], security).close()
    except RequestFailed as failure:
        return RequestFailed(str(failure).removesuffix(NAME_ANOTHER))
    return None


async def _found(address: tuple[str, int], shown: str, security: ClientSecurity | None) -> Target:
    opened = opener(security)
    connection = await Connection.to(*address, opened=opened)
    try:
        served = await _said(connection, "ApiVersions", 0, {}, shown)
        keys = {row["ApiKey"]: (row["MinVersion"], row["MaxVersion"]) for row in served["ApiKeys"]}
        target = Target(shown, [address], opened, keys, [])
        version = target.version("Metadata", WITHOUT_IDS)
        if version is None:
            raise RequestFailed(f"{shown} does not offer Metadata: is it a Kafka broker?")
        asked = {"Topics": [], **({"AllowAutoTopicCreation": False} if version >= 4 else {})}
        found = await _said(connection, "Metadata", version, asked, shown)
        target.nodes = [row["NodeId"] for row in found["Brokers"]]
        target.cluster = found.get("ClusterId") or ""
        if len(found["Brokers"]) > 1:
            target.addresses = [(row["Host"], row["Port"]) for row in found["Brokers"]]
        target.known = await settings_of(connection, target)
        return target
    finally:
        await connection.close()


async def _said(connection: Connection, api: str, version: int, body: Body, shown: str) -> Body:
    try:
        return await connection.ask(api, version, body)
    except TimeoutError:
        raise RequestFailed(f"{shown} does not answer {api}: is it a Kafka listener without TLS?") from None
    except ConnectionError as error:
        raise RequestFailed(f"{shown}: {error}") from None


async def settings_of(connection: Connection, target: Target) -> Known:
    """The settings as DescribeConfigs reports them."""
    version = target.version("DescribeConfigs", 4)
    if version is None or not target.nodes:
        return Known(None)
    try:
        values = await described(connection, version, BROKER, str(target.nodes[0]))
        of_groups = await described(connection, version, GROUP, CONFIGURED)
    except (TimeoutError, ConnectionError):
        return Known(None)
    if not values:
        return Known(None)
    dynamic = frozenset(name for name, row in values.items() if not row["ReadOnly"])
    return Known({name: row["Value"] for name, row in values.items()}, dynamic, frozenset(of_groups))


async def described(
    connection: AnyConnection, version: int, kind: int, name: str, keys: Sequence[str] | None = None
) -> dict[str, Body]:
    """The configs of a broker or a group, by name. Empty if the answer is an error."""
    resource = {"ResourceType": kind, "ResourceName": name, "ConfigurationKeys": keys}
    answer = await connection.ask("DescribeConfigs", version, {"Resources": [resource]})
    return {row["Name"]: row for result in answer["Results"] for row in result["Configs"]}


async def alter(
    connection: AnyConnection, version: int, changes: Iterable[tuple[int, str, Mapping[str, str | None]]]
) -> list[str]:
    """Set configs of brokers and groups. None as a value removes one. What was refused, in sentences."""
    resources = [
        {
            "ResourceType": kind,
            "ResourceName": name,
            "Configs": [
                {"Name": key, "ConfigOperation": 1 if value is None else 0, "Value": value}
                for key, value in configs.items()
            ],
        }
        for kind, name, configs in changes
    ]
    if not resources:
        return []
    answer = await connection.ask("IncrementalAlterConfigs", version, {"Resources": resources, "ValidateOnly": False})
    return [
        f"{row['ResourceName'] or 'the brokers'}: {row['ErrorMessage'] or row['ErrorCode']}"
        for row in answer["Responses"]
        if row["ErrorCode"]
    ]
