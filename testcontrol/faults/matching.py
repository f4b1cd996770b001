"""The requests that a rule is for: the groups, members and topics of a request, and whether they fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node
from muster.coordinator.api.registry import SERVED
from muster.protocol.api import ApiKey, api
from muster.protocol.message import ZERO_UUID, Message
from muster.testcontrol.checks import called, sentence
from muster.testcontrol.errors import WrongFault

_MEMBERSHIP: Final = (
    ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT,
)  # fmt: skip
_OFFSETS: Final = (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE, ApiKey.TXN_OFFSET_COMMIT)
_LOOKS: Final = (
    ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.DELETE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.SHARE_GROUP_DESCRIBE,
)  # fmt: skip
FAMILIES: Final[Mapping[str, tuple[int, ...]]] = {
    "groups": (*_MEMBERSHIP, *_OFFSETS, *_LOOKS),
    "membership": _MEMBERSHIP,
    "offsets": _OFFSETS,
    "consumer": (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE),
    "share": (
        ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, ApiKey.ALTER_SHARE_GROUP_OFFSETS, ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    ),
    "transactions": (
        ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN,
        ApiKey.TXN_OFFSET_COMMIT, ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS,
    ),
    "records": (
        ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.DELETE_RECORDS, ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ),
    "metadata": (ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_TOPIC_PARTITIONS),
}  # fmt: skip
"""Names for several APIs together."""

Texts = str | Sequence[str]
Numbers = int | Sequence[int]
_GROUP_KEY: Final = 0
"""FindCoordinator's key type of groups."""
_TEXTS: Final = ("api", "group", "member", "instance", "topic", "transactional_id", "client_id", "principal")


class Request:
    """A request as a rule and a predicate in Python see it. `message`: in the newest shape of the API."""

    __slots__ = ("api_key", "client_id", "context", "message", "node", "node_id", "version")

    def __init__(self, context: RequestContext, message: Message, node: Node) -> None:
        self.context = context
        self.message: Any = message
        self.node = node
        self.node_id = node.cluster.node_id
        self.api_key = context.api_key
        self.version = context.api_version
        self.client_id = context.client.client_id

    @property
    def api(self) -> str:
        """Kafka's name: "JoinGroup"."""
        return api(self.api_key).name

    @property
    def principal(self) -> str:
        """The principal of the client: "User:alice"."""
        return str(self.context.principal)

    @property
    def peer(self) -> str:
        """The client's address and port."""
        return self.context.channel.peer

    @property
    def groups(self) -> list[str]:
        """The ids of the groups in the request."""
        found = self._texts("group_id", rows=("groups",), texts=("groups", "groups_names", "group_ids"))
        if self.api_key == ApiKey.FIND_COORDINATOR and self.message.key_type == _GROUP_KEY:
            found += self.message.coordinator_keys
        return found

    @property
    def transactional_ids(self) -> list[str]:
        """The transactional ids in the request."""
        found = self._texts("transactional_id", rows=("transactions",), texts=("transactional_ids",))
        if self.api_key == ApiKey.FIND_COORDINATOR and self.message.key_type != _GROUP_KEY:
            found += self.message.coordinator_keys
        return found

    @property
    def members(self) -> list[str]:
        """The member ids in the request."""
        return self._texts("member_id", rows=("members", "groups"))

    @property
    def instances(self) -> list[str]:
        """The group.instance.ids in the request."""
        name = "instance_id" if self.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT else "group_instance_id"
        return self._texts(name, rows=("members",))

    @property
    def topics(self) -> list[str]:
        """The names of the topics in the request, also those of a fetch session."""
        found: list[str] = []
        for row in self._topic_rows():
            if isinstance(row, str):
                found.append(row)
                continue
            names = (getattr(row, field, None) for field in ("name", "topic", "topic_name"))
            name = next(filter(None, names), None)
            topic_id = getattr(row, "topic_id", ZERO_UUID)
            if not name and topic_id != ZERO_UUID:
                name = self._name_of(topic_id)
            if name:
                found.append(name)
        if self.api_key == ApiKey.FETCH:
            found += self._fetched_topics()
        if self.api_key == ApiKey.SHARE_FETCH:
            found += self._shared_topics()
        return found

    def _topic_rows(self) -> Iterator[Any]:
        message = self.message
        for name in ("topics", "topic_data", "topic_names", "subscribed_topic_names", "v3_and_below_topics"):
            yield from getattr(message, name, None) or ()
        for name in ("groups", "transactions"):
            for row in getattr(message, name, None) or ():
                yield from getattr(row, "topics", None) or ()

    def _fetched_topics(self) -> Iterator[str]:
        session = self.node.sessions.find(self.message.session_id)
        for key in () if session is None else session.rows:
            name = key[0] or self._name_of(key[1])
            if name:
                yield name

    def _shared_topics(self) -> Iterator[str]:
        shares, message = self.node.share_partitions, self.message
        session = None if shares is None else shares.sessions.find(message.group_id or "", message.member_id or "")
        for row in () if session is None else session.rows.values():
            if row.topic is not None:
                yield row.topic

    def _name_of(self, topic_id: bytes) -> str | None:
        topic = self.node.topics.state.topics_by_id.get(topic_id)
        return None if topic is None else str(topic.name)

    def _texts(self, name: str, *, rows: Sequence[str], texts: Sequence[str] = ()) -> list[str]:
        """The values of the field `name`, of that field of `rows`, and of the lists of `texts`; without empty texts."""
        message = self.message
        found = [getattr(message, name, None)]
        for field in rows:
            found += [getattr(row, name, None) for row in getattr(message, field, None) or ()]
        for field in texts:
            found += getattr(message, field, None) or ()
        return [one for one in found if isinstance(one, str) and one]


Predicate = Callable[[Request], bool]
"""A function in Python: whether a rule is for a request."""


@dataclass(frozen=True)
class Match:
    """Which requests a rule is for: all given fields must fit.

    In a text, * stands for any characters. Of several texts or numbers, one must fit. `api`: Kafka's name, or a name of
    `FAMILIES`. `predicate` is called last; JSON cannot express it.
    """

    api: Texts = ()
    min_version: int | None = None
    max_version: int | None = None
    group: Texts = ()
    member: Texts = ()
    instance: Texts = ()
    topic: Texts = ()
    transactional_id: Texts = ()
    client_id: Texts = ()
    principal: Texts = ()
    node: Numbers = ()
    predicate: Predicate | None = None

    def __post_init__(self) -> None:
        for name in (*_TEXTS, "node"):
            object.__setattr__(self, name, _checked(name, getattr(self, name)))
        for name in ("min_version", "max_version"):
            value = getattr(self, name)
            if value is not None and not is_a(value, int):
                raise WrongFault(sentence(f"match: {name}", value, "a number"))
        if self.predicate is not None and not callable(self.predicate):
            raise WrongFault(sentence("match: predicate", self.predicate, "a function of the request"))
        keys: set[int] = set()
        for name in _several(self.api):
            keys.update(_keys(name))
        object.__setattr__(self, "_keys", frozenset(keys))

    @staticmethod
    def of(given: Mapping[str, Any]) -> Match:
        """The match of a JSON object. Raises WrongFault."""
        known = [field.name for field in fields(Match) if field.name != "predicate"]
        for name, value in given.items():
            if name not in known:
                raise WrongFault(f"match: {called(name)} is none of {', '.join(known)}")
            if value == [] or value is None:
                raise WrongFault(sentence(f"match: {name}", value, "a text or a number, or several"))
        return Match(**given)

    def to_json(self) -> dict[str, Any]:
        """The match as JSON; a predicate is left out."""
        shown: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "predicate" and value not in ((), None):
                shown[field.name] = value if isinstance(value, str | int) else list(value)
        return shown

    def may_fit(self, context: RequestContext, node_id: int) -> bool:
        """Whether requests of this kind, on this connection, can fit. Called before requests are decoded."""
        keys: frozenset[int] = self._keys  # type: ignore[attr-defined]  # set above: the class is frozen
        version = context.api_version
        return (
            (not keys or context.api_key in keys)
            and (self.min_version is None or version >= self.min_version)
            and (self.max_version is None or version <= self.max_version)
            and (self.node == () or node_id in _several(self.node))
            and (self.client_id == () or _any_fits(self.client_id, (context.client.client_id,)))
            and (self.principal == () or _any_fits(self.principal, (str(context.principal),)))
        )

    def fits(self, request: Request) -> bool:
        """Whether a request fits. `may_fit` has returned True for the request."""
        return (
            (self.group == () or _any_fits(self.group, request.groups))
            and (self.member == () or _any_fits(self.member, request.members))
            and (self.instance == () or _any_fits(self.instance, request.instances))
            and (self.transactional_id == () or _any_fits(self.transactional_id, request.transactional_ids))
            and (self.topic == () or _any_fits(self.topic, request.topics))
            and (self.predicate is None or bool(self.predicate(request)))
        )


def is_a(value: object, kind: Any) -> bool:
    """Whether a value is of this type. True and False are no numbers."""
    return isinstance(value, kind) and not isinstance(value, bool)


def _checked(name: str, given: Any) -> Any:
    kind, expected = (int, "a number, or several") if name == "node" else (str, "a text, or several")
    is_several = isinstance(given, list | tuple | set | frozenset)
    if not all(is_a(one, kind) for one in (given if is_several else (given,))):
        raise WrongFault(sentence(f"match: {name}", given, expected))
    return tuple(sorted(given) if isinstance(given, set | frozenset) else given) if is_several else given


def _several(given: Any) -> Sequence[Any]:
    return (given,) if isinstance(given, str | int) else given


def _keys(name: str) -> tuple[int, ...]:
    family = FAMILIES.get(name)
    if family is not None:
        return family
    for key in SERVED:
        if api(key).name == name:
            return (key,)
    raise WrongFault(f"match: api {called(name)} is neither an API that is served nor one of {', '.join(FAMILIES)}")


def _any_fits(patterns: Texts, texts: Iterable[str]) -> bool:
    several = _several(patterns)
    return any(_fits(pattern, text) for text in texts for pattern in several)


def _fits(pattern: str, text: str) -> bool:
    """Whether a text fits a pattern in which * stands for any characters. One pass is enough, for any number of *."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == text
    *middle, last = rest
    at, end = len(first), len(text) - len(last)
    if at > end or not text.startswith(first) or not text.endswith(last):
        return False
    for part in middle:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
