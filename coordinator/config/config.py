"""The configuration after collecting and checking: each value with its origin, and the settings of every package."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from muster.coordinator.config.checks import ConfigError
from muster.coordinator.config.listeners import Listener, of_node, parse_endpoints, show
from muster.coordinator.properties.definition import Property, Value
from muster.coordinator.properties.live import LISTENER_PREFIX
from muster.coordinator.properties.lookup import BROKER, MUSTER

if TYPE_CHECKING:
    from muster.assignors.assignor import Assignor

AUTHORIZER: Final = "authorizer.class.name"
SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Authorization(NamedTuple):
    """The settings of the StandardAuthorizer."""

    super_users: tuple[str, ...]
    """The principals ("User:alice") that may do everything."""
    allows_when_open: bool
    """Whether resources without access control entries are open to all."""


def authorization_of(text: Callable[[str], str | None]) -> Authorization | None:
    """The settings, or None without an authorizer. `text` returns a property as it was given. Raises ConfigError."""
    name = (text(AUTHORIZER) or "").strip()
    if not name:
        return None
    if name != STANDARD:
        raise ConfigError(f"{AUTHORIZER}: there is no authorizer {name}; expected {STANDARD}, or nothing for none")
    users = tuple(filter(None, (user.strip() for user in (text(SUPER_USERS) or "").split(";"))))
    for user in users:
        if ":" not in user:
            raise ConfigError(f"{SUPER_USERS}: '{user}' is no principal; expected TYPE:NAME, as in User:{user}")
    # any other word means false, as for Java's Boolean.parseBoolean
    return Authorization(users, (text(ALLOW_EVERYONE) or "").strip().lower() == "true")


Settings = TypeVar("Settings")

TOKEN_SECRET = "delegation.token.secret.key"
DEPARTURES: Mapping[str, str] = MappingProxyType({"node.id": "1", "broker.id": "1"})
"""The defaults that are not Kafka's. Kafka requires a node id; here the default is 1."""


class Given(NamedTuple):
    """A value that the user gave; `origin` is `override`, `environment` or `file`."""

    text: str
    value: Value
    origin: str


class Config:
    """The server's configuration, made by `load`. A `Config` never changes. `data_dir` None: the log is in memory."""

    def __init__(
        self,
        given: Mapping[str, Given],
        *,
        listeners: tuple[Listener, ...],
        data_dir: Path | None,
        topics: tuple[tuple[str, int], ...] = (),
        notes: tuple[str, ...] = (),
    ) -> None:
        self._given = given
        self._effective: set[str] = {*_READ_HERE, *_READ_LATER}
        self.listeners = listeners
        self.data_dir = data_dir
        self.topics = topics
        self.notes = notes
        self.authorization: Authorization | None = None
        """The settings of the authorizer, if one is configured (`authorizer.class.name`)."""
        self.users: tuple[tuple[str, str], ...] = ()
        """SCRAM users and their passwords, to create at the start."""
        self.assignors: Mapping[str, Assignor] | None = None
        """The strategies of the server by name, if they are configured (`load.assignors_named`)."""
        node_id = self.value("node.id")
        self.node_id: int = node_id if isinstance(node_id, int) else 1
        self.cluster_id = self.text("muster.cluster.id")
        self.rack = self.text("broker.rack")

    def settings(self, settings_class: type[Settings], value: Callable[[str], Value] | None = None) -> Settings:
        """The settings of a package: the fields of a dataclass, which are named as properties, "_" for ".".

        `value` returns the values when properties were changed since the start (`properties.live`). Raises LookupError
        for a field that is not a property, which is a bug.
        """
        if not dataclasses.is_dataclass(settings_class):
            raise TypeError(f"{settings_class!r} is no dataclass")
        value = value or self.value
        values: dict[str, Any] = {}
        for field in dataclasses.fields(settings_class):
            name = field.name.replace("_", ".")
            self._effective.add(name)
            values[field.name] = value(name)
        return settings_class(**values)

    def value(self, name: str) -> Value:
        """The typed value of a property, or None without a value. Raises LookupError for an unknown name."""
        found = self._given.get(name)
        if found is not None:
            return found.value
        if name.startswith(LISTENER_PREFIX):
            return None
        prop = _known(name)
        if prop is None:
            raise LookupError(f"there is no property {name}")
        return prop.parse(DEPARTURES[name]) if name in DEPARTURES else prop.default_value

    def text(self, name: str) -> str | None:
        """The value of a property as text. None means that it has no value, or that the property does not exist."""
        found = self._given.get(name)
        if name == "log.dirs":
            if self.data_dir is None:
                return None
            found = found or self._given.get("log.dir")
            return str(self.data_dir) if found is None else found.text  # the text that the user gave, as on Kafka
        if found is not None:
            return found.text
        prop = _known(name)
        return DEPARTURES.get(name, prop.default) if prop is not None else None

    @property
    def nodes(self) -> int:
        """The number of brokers of the process."""
        number = self.value("muster.nodes")
        return number if isinstance(number, int) else 1

    def of_node(self, place: int) -> Config:
        """The configuration of one broker of the process. The first broker has this configuration."""
        if self.nodes == 1:
            return self
        node_id = self.node_id + place
        given = dict(self._given)
        for name in ("node.id", "broker.id"):
            given[name] = Given(str(node_id), node_id, self.origin(name))
        racks = self.value("muster.nodes.racks")
        if isinstance(racks, tuple) and racks:
            given["broker.rack"] = Given(racks[place], racks[place], self.origin("muster.nodes.racks"))
        listeners = of_node(self.listeners, place)
        given["listeners"] = _endpoints("listeners", self, ((one.name, one.host, one.port) for one in listeners))
        if "advertised.listeners" in given:
            value = given["advertised.listeners"].value
            named = parse_endpoints("advertised.listeners", value if isinstance(value, tuple) else ())
            addresses = (
                (one.name, one.advertised_host or "", one.advertised_port or 0)
                for one in listeners
                if one.name in named
            )
            given["advertised.listeners"] = _endpoints("advertised.listeners", self, addresses)
        other = Config(given, listeners=listeners, data_dir=self.data_dir, topics=self.topics, notes=self.notes)
        other.authorization, other.users, other.assignors = self.authorization, self.users, self.assignors
        return other

    def source(self, name: str) -> str:
        """`static` when the user gave the value, else `default`: DescribeConfigs distinguishes these."""
        return "static" if name in self._given else "default"

    @property
    def of_listeners(self) -> tuple[str, ...]:
        """The names of properties that were given for one listener only (`listener.name.x.…`)."""
        return tuple(name for name in self._given if name.startswith(LISTENER_PREFIX))

    def origin(self, name: str) -> str:
        """The origin of the value: `override`, `environment`, `file` or `default`."""
        found = self._given.get(name)
        return found.origin if found is not None else "default"

    @property
    def given(self) -> Mapping[str, str]:
        """All properties that the user gave, as text."""
        return {name: found.text for name, found in self._given.items()}

    @property
    def has_secrets(self) -> bool:
        """Whether passwords, keys, or files with them were given."""
        return any("ssl." in name or "sasl." in name or name == TOKEN_SECRET for name in self._given)

    @property
    def has_passwords_in_file(self) -> bool:
        """Whether the configuration file has values that must never be shown."""
        names = [base for name, found in self._given.items() if found.origin == "file" for base in _bases(name)]
        return any(prop.sensitive for prop in map(_known, names) if prop is not None)

    @property
    def effective(self) -> frozenset[str]:
        """The properties that have an effect: for the configs of groups, and those that packages have asked for."""
        # only servers need this import
        from muster.coordinator.properties.resource_configs import read_for_groups

        return read_for_groups() | self._effective

    def unused(self) -> tuple[str, ...]:
        """Properties that the user gave and that no package has asked for: without effect in Muster (yet)."""
        effective = self.effective
        return tuple(sorted(name for name in self._given if effective.isdisjoint(_bases(name))))


_READ_HERE = (
    "advertised.listeners",
    "allow.everyone.if.no.acl.found",
    "authorizer.class.name",
    "broker.id",
    "broker.rack",
    "controller.quota.window.num",
    "controller.quota.window.size.seconds",
    "group.coordinator.rebalance.protocols",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "muster.cluster.id",
    "muster.nodes",
    "muster.nodes.racks",
    "node.id",
    "quota.window.num",
    "quota.window.size.seconds",
    "super.users",
)


_READ_LATER = (
    "connection.failed.authentication.delay.ms",
    "connections.max.reauth.ms",
    "delegation.token.expiry.check.interval.ms",
    "delegation.token.expiry.time.ms",
    "delegation.token.max.lifetime.ms",
    TOKEN_SECRET,
    "muster.sasl.jaas.file",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.server.callback.handler.class",
    "sasl.server.max.receive.size",
    "share.coordinator.append.linger.ms",
    "share.coordinator.cold.partition.snapshot.interval.ms",
    "share.coordinator.snapshot.update.records.per.snapshot",
    "share.coordinator.state.topic.prune.interval.ms",
    "ssl.allow.dn.changes",
    "ssl.allow.san.changes",
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.principal.mapping.rules",
    "ssl.protocol",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    "transaction.max.timeout.ms",
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    "transactional.id.expiration.ms",
    "errors.deadletterqueue.auto.create.topics.enable",
    "errors.deadletterqueue.topic.name.prefix",
    "group.share.delivery.count.limit",
    "group.share.max.share.sessions",
    "group.share.partition.max.record.locks",
    "group.share.record.lock.duration.ms",
)
"""Properties of a package whose settings are made when they are first needed."""


def _bases(name: str) -> tuple[str, ...]:
    """The property itself, or the properties that a listener's own property may override."""
    if not name.startswith(LISTENER_PREFIX):
        return (name,)
    own = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    return own, own.partition(".")[2]


def _endpoints(name: str, config: Config, addresses: Iterable[tuple[str, str, int]]) -> Given:
    """`listeners` or a similar property of one of several brokers, in the form in which the user gave it."""
    words = tuple(f"{listener}://{show(host, port)}" for listener, host, port in addresses)
    return Given(",".join(words), words, config.origin(name))


def _known(name: str) -> Property | None:
    return BROKER.get(name) or MUSTER.get(name)
