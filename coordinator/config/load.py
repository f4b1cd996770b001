"""Collects the configuration: options override the environment, which overrides the file, which overrides defaults.
Every name and value is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from muster.coordinator.config.checks import ConfigError, check, expected_values, find_property, name_hint
from muster.coordinator.config.config import ALLOW_EVERYONE, AUTHORIZER, SUPER_USERS, Config, Given, authorization_of
from muster.coordinator.config.listeners import (
    Listener,
    assemble,
    check_inter_broker,
    check_nodes,
    check_own_properties,
    parse_address,
    parse_endpoints,
    parse_protocols,
    show,
)
from muster.coordinator.config.sources import (
    decode_properties,
    parse_properties,
    parse_topics,
    properties_of_environment,
)
from muster.coordinator.properties.definition import InvalidProperty
from muster.coordinator.properties.lookup import BROKER

if TYPE_CHECKING:
    from muster.assignors.assignor import Assignor

DEFAULT_DATA_DIR = "muster-data"
"""The default data directory, under the working directory of the server."""


_SHOWN = 200
"""How many characters of a wrong value an error shows."""


class _Raw(NamedTuple):
    """A value as it was given. `where` names its place for the user."""

    text: str
    origin: str
    where: str


def load(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
    listen: str | None = None,
    advertise: str | None = None,
    data_dir: Path | None = None,
    in_memory: bool = False,
    topics: Sequence[str] = (),
    users: Sequence[str] = (),
    nodes: str | None = None,
    strict: bool = False,
) -> Config:
    """The configuration, from the options of `muster serve`. Raises ConfigError with one sentence.

    `overrides` are `name=value`; `listen` and `advertise` HOST:PORT; `topics` NAME:PARTITIONS; `users` NAME:PASSWORD or
    NAME:@FILE; `nodes` is `muster.nodes`; `environment` is os.environ. `strict`: unknown properties are refused.
    Otherwise a note names such properties, which Kafka ignores.
    """
    environment = environment or {}
    raw: dict[str, _Raw] = {}
    if file is not None:
        raw.update(_from_file(file))
    raw.update(_from_environment(environment))
    raw.update(_from_overrides(overrides))
    raw.update(_from_options(listen, advertise, data_dir, raw))
    if nodes is not None:
        raw["muster.nodes"] = _Raw(nodes, "override", "--nodes")
    given, ignored = _read(raw, strict=strict)
    _same_ids(given)
    _roles(given)
    listeners, skipped = _listeners(given)
    notes = tuple(_notes(ignored, skipped, given))
    where = None if in_memory else _data_dir(given)
    config = Config(given, listeners=listeners, data_dir=where, topics=parse_topics(topics), notes=notes)
    config.users = tuple(map(_user, users))
    check(config.value)
    racks = config.value("muster.nodes.racks")
    check_nodes(listeners, config.nodes, racks if isinstance(racks, tuple) else ())
    config.authorization = authorization_of(config.text)
    if ASSIGNORS in given:
        words = config.value(ASSIGNORS)
        config.assignors = assignors_named(words if isinstance(words, tuple) else ())
    if any(listener.has_tls or listener.has_sasl for listener in listeners):
        from muster.coordinator.config.security import check_security  # most servers need no such check

        check_security(config)
    return config


def _from_file(file: Path) -> Iterator[tuple[str, _Raw]]:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"the configuration file {file} cannot be read: {error.strerror or error}") from error
    for name, text in parse_properties(decode_properties(data), str(file)).items():
        yield name, _Raw(text, "file", str(file))


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, _Raw]]:
    if environment.get("CLUSTER_ID"):  # the variable of the apache/kafka image
        yield "muster.cluster.id", _Raw(environment["CLUSTER_ID"], "environment", "CLUSTER_ID")
    for name, (variable, text) in properties_of_environment(environment).items():
        yield name, _Raw(text, "environment", variable)


def _from_overrides(overrides: Sequence[str]) -> Iterator[tuple[str, _Raw]]:
    for override in overrides:
        name, equals, text = override.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--override '{override}' is not NAME=VALUE, as in --override num.partitions=3")
        yield name.strip(), _Raw(text, "override", "--override")


def _from_options(
    listen: str | None, advertise: str | None, data_dir: Path | None, raw: Mapping[str, _Raw]
) -> Iterator[tuple[str, _Raw]]:
    if data_dir is not None:
        yield "log.dirs", _Raw(str(data_dir), "override", "--data-dir")
    if listen is not None:
        yield "listeners", _Raw("PLAINTEXT://" + show(*parse_address(listen, "--listen")), "override", "--listen")
    if advertise is not None:
        name = "PLAINTEXT" if listen is not None else _only_listener(raw)
        address = f"{name}://" + show(*parse_address(advertise, "--advertise", advertised=True))
        yield "advertised.listeners", _Raw(address, "override", "--advertise")
    elif listen is not None and "advertised.listeners" in raw:
        raise ConfigError(
            "--listen replaces the listeners that advertised.listeners "
            f"({raw['advertised.listeners'].where}) names; give --advertise HOST:PORT too"
        )


def _only_listener(raw: Mapping[str, _Raw]) -> str:
    text = raw["listeners"].text if "listeners" in raw else BROKER["listeners"].default
    entries = [entry.strip() for entry in (text or "").split(",")]
    controllers = raw["controller.listener.names"].text.upper() if "controller.listener.names" in raw else ""
    names = [
        name for name in parse_endpoints("listeners", entries) if name not in controllers.replace(" ", "").split(",")
    ]
    if len(names) != 1:
        raise ConfigError(
            f"--advertise is for one listener, but there are {len(names)}; set advertised.listeners instead"
        )
    return names[0]


def _read(raw: Mapping[str, _Raw], *, strict: bool) -> tuple[dict[str, Given], list[str]]:
    """The typed values, in the order of names; and a sentence about each unknown property, which is ignored."""
    texts = {name: found.text for name, found in raw.items()}
    given: dict[str, Given] = {}
    ignored: list[str] = []
    variables: list[str] = []
    for name in sorted(raw):
        text, origin, where = raw[name]
        prop = find_property(name, texts)
        if prop is None:
            why = f"Kafka 4.4 has no property of that name{name_hint(name)}"
            if strict or origin == "override":
                raise ConfigError(f"unknown property {name} ({where}): {why}")
            if origin == "environment":  # such variables may be many: Kubernetes sets some for a service named kafka
                near = name_hint(name).removeprefix("; ")
                variables.append(f"{where} ({near})" if near else where)
            else:
                ignored.append(f"the property {name} ({where}) is ignored: {why}")
            continue
        if "\0" in text:
            raise ConfigError(f"{name}: the value ({where}) has the character NUL, which no path or name may have")
        try:
            given[name] = Given(text, prop.parse(text), origin)
        except InvalidProperty as error:
            shown = "the value" if prop.sensitive else f"'{text[:_SHOWN]}{'…' * (len(text) > _SHOWN)}'"
            raise ConfigError(f"{name}: {shown} ({where}) is not valid; expected {expected_values(prop)}") from error
    if variables:
        ignored.append(
            f"these variables of the environment name no property of Kafka 4.4 and are ignored: {', '.join(variables)}"
        )
    return given, ignored


def _same_ids(given: dict[str, Given]) -> None:
    """Make node.id and broker.id equal, as AbstractKafkaConfig.populateSynonyms does."""
    node, broker = given.get("node.id"), given.get("broker.id")
    if node is not None and broker is not None and node.value != broker.value:
        raise ConfigError(f"node.id={node.text} and broker.id={broker.text} differ; give one, or both the same")
    if node is None and broker is not None:
        if isinstance(broker.value, int) and broker.value < 0:
            raise ConfigError(f"broker.id={broker.text} is not valid; expected a whole number of at least 0")
        given["node.id"] = broker
    elif node is not None:
        given["broker.id"] = node


def _roles(given: Mapping[str, Given]) -> None:
    roles = given.get("process.roles")
    if roles is not None and roles.value == ("controller",):
        raise ConfigError(
            "process.roles=controller asks for a node that serves no clients; expected broker or broker,controller"
        )


def _listeners(given: Mapping[str, Given]) -> tuple[tuple[Listener, ...], tuple[str, ...]]:
    def words(name: str) -> tuple[str, ...]:
        value = given[name].value if name in given else BROKER[name].default_value
        return value if isinstance(value, tuple) else ()

    def text(name: str) -> str:
        return given[name].text.strip() if name in given else ""

    name = "listener.security.protocol.map"
    protocols = parse_protocols(given[name].text if name in given else BROKER[name].default or "")
    controllers = words("controller.listener.names")
    opened, skipped = assemble(
        parse_endpoints("listeners", words("listeners")),
        parse_endpoints("advertised.listeners", words("advertised.listeners")),
        protocols,
        controllers,
    )
    names = [listener.name for listener in opened]
    check_inter_broker(text("inter.broker.listener.name"), text("security.inter.broker.protocol"), names)
    check_own_properties(given, {*names, *protocols, *skipped, *(one.upper() for one in controllers)})
    return opened, skipped


def _user(text: str) -> tuple[str, str]:
    """A SCRAM user and the password. No message contains the text: it may be the password."""
    name, colon, password = text.partition(":")
    if not colon or not name or not password:
        raise ConfigError("--user takes NAME:PASSWORD, or NAME:@FILE for a password in a file")
    if password.startswith("@"):
        try:
            password = Path(password[1:]).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise ConfigError(f"--user: the file of the password of {name} cannot be read: {why}") from error
        if not password:
            raise ConfigError(f"--user: the file of the password of {name} is empty")
    return name, password


def _data_dir(given: Mapping[str, Given]) -> Path:
    for name in ("log.dirs", "log.dir"):
        found = given.get(name)
        if found is None or not isinstance(found.value, tuple):
            continue
        if len(found.value) > 1:
            raise ConfigError(f"{name}: '{found.text}' names {len(found.value)} directories, but one is used; name one")
        return Path(found.value[0]).absolute()
    return Path(DEFAULT_DATA_DIR).absolute()


def _notes(ignored: Sequence[str], skipped: Sequence[str], given: Mapping[str, Given]) -> Iterator[str]:
    useless = [name for name in (SUPER_USERS, ALLOW_EVERYONE) if name in given]
    if useless and not (AUTHORIZER in given and given[AUTHORIZER].text.strip()):
        yield f"{' and '.join(useless)} have no effect without {AUTHORIZER}: every connected client may do everything"
    yield from ignored
    if skipped:
        yield f"these listeners are the controller's and are not opened: {', '.join(skipped)}"


ASSIGNORS: Final = "group.consumer.assignors"


def assignors_named(words: Sequence[str]) -> Mapping[str, Assignor]:
    """The strategies that members may choose, by name, the default first: Kafka's, and classes. Raises ConfigError."""
    # imported here: only this property needs it
    from muster.assignors import custom
    from muster.assignors.builtin import SERVER_ASSIGNORS
    from muster.coordinator.groups.consumer.checks import BY_CLASS

    found: dict[str, Assignor] = {}
    for word in words:
        name = BY_CLASS.get(word, word)
        if name in SERVER_ASSIGNORS:
            found.setdefault(name, SERVER_ASSIGNORS[name])
            continue
        if ":" not in word:
            known = ", ".join(SERVER_ASSIGNORS)
            raise ConfigError(
                f"{ASSIGNORS}: there is no assignor {word}; expected {known}, or a class of yours as module:Class"
            )
        try:
            assignor = custom.load(word)
        except custom.UnusableStrategy as error:
            raise ConfigError(f"{ASSIGNORS}: {error}") from error
        if assignor.name in found or assignor.name in SERVER_ASSIGNORS:
            raise ConfigError(f"{ASSIGNORS}: {word} is named {assignor.name}, as another assignor is")
        found[assignor.name] = assignor
    return found
