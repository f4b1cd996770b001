"""The state of a running story: its actors, what each remembers, and the names of ids. Texts become bytes, and bytes
texts.
"""

from __future__ import annotations

import json
import pathlib
import re
import shlex
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from muster.conform.player import kafka_codec as codec
from muster.conform.player.story import Body, Story

ERRORS = {int(k): v for k, v in json.loads((pathlib.Path(__file__).parent / "errors.json").read_text()).items()}
"""The names of Kafka's error codes."""
GHOST = 900_000_000_000
"""A producer id that no server has given."""
INTERNAL = "__"
"""The names of the broker's own topics begin with this text."""
DEAD_LETTERS = "dlq."
"""The names of topics for dead letters begin with this text."""
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
RANDOM = re.compile(rf"{UUID.pattern}|[0-9a-f]{{32}}")
"""The random part of a member id: clients do not look at it, so it may do without dashes."""


def named(**values: object) -> str:
    """` name=value` for each value that is not None."""
    return "".join(f" {k}={v}" for k, v in values.items() if v is not None)


def error_name(code: int) -> str:
    """Kafka's name of an error code; `ok` for 0."""
    return "ok" if code == 0 else ERRORS.get(code, str(code))


class Actor:
    """A client, and what it remembers."""

    def __init__(self, name: str, defaults: dict[str, str]) -> None:
        self.name, self.member, self.epoch, self.generation = name, "", 0, -1
        self.ids: list[str] = []
        self.protocol: str | None = None
        self.assigned: dict[str, list[int]] = {}  # topic -> partitions, as last answered
        self.transactional_id: str | None = None
        self.session = 0  # the share session's epoch in the next request
        self.settings: dict[str, Any] = {
            "client": name,
            "type": "consumer",
            "protocols": "range",
            "session": "10000",
            "rebalance": "10000",
            "instance": None,
            "topics": None,
            "tv": "1",
            **defaults,
        }
        self.forget_producer()

    def forget_producer(self) -> None:
        """Forget the producer, which no coordinator knows (any more)."""
        self.producer = (-1, -1)
        self.sequences: dict[tuple[str, int], int] = {}


def prefixed(prefix: str, topic: str) -> str:
    """The name of a topic behind a prefix. Kafka demands its own prefix of topics for dead letters."""
    if topic.startswith(INTERNAL):
        return topic
    if topic.startswith(DEAD_LETTERS):
        return f"{DEAD_LETTERS}{prefix}{topic.removeprefix(DEAD_LETTERS)}"
    return prefix + topic


class Stage:
    """One run of one story: its actors, the names of its ids, and the texts of the outcome lines."""

    def __init__(
        self, story: Story, suffix: str = "", topic_ids: dict[str, uuid.UUID] | None = None, prefix: str = ""
    ) -> None:
        self.no_id = uuid.UUID(int=0)
        self.prefix = prefix
        """Stands before the names of all groups, transactional ids and topics on the server."""
        self.story, self.suffix, self.topic_ids = story, suffix, topic_ids or {}
        self.actors: dict[str, Actor] = {}
        self.labels: dict[str, str] = {}
        self.producers: dict[int, str] = {GHOST: "ghost"}  # name of each producer id
        self.sent: list[Body] = []  # bodies, in the order of sending
        self.draw: Callable[[], uuid.UUID] = uuid.uuid4
        self.unheard: set[int] = set()  # id() of bodies whose answers are lost.
        self.node = -1
        self.fetch_session = 0
        self.shown_by_field: set[int] = set()  # id() of bodies.

    def actor(self, name: str) -> Actor:
        """The actor of this name."""
        if name not in self.actors:
            self.actors[name] = Actor(name, self.story.defaults)
        return self.actors[name]

    # names
    def group(self, name: str) -> str | None:
        """The name of a group on the server."""
        known: dict[str, str | None] = {"none": "", "null": None}
        return known.get(name, f"{self.prefix}{name}{self.suffix}")

    def group_of(self, args: Mapping[str, str]) -> str | None:
        """The group that a request names by `group=`, else the story's."""
        return self.group(args.get("group", self.story.group))

    def groups_of(self, names: list[str]) -> list[str | None]:
        """The groups of these names; without any, the story's."""
        return [self.group(name) for name in names or [self.story.group]]

    def group_name(self, real: str | None) -> str:
        """The name of a group in the story."""
        return real.removeprefix(self.prefix).removesuffix(self.suffix) if real else repr_text(real)

    def member(self, actor: Actor, text: str | None) -> str | None:
        """`none`, `null`, `id:LITERAL`, or the name of an id. `B` is B's first one, `B#2` its second. By default
        it is the actor's own.
        """
        if text is None:
            return actor.member
        if text == "none":
            return ""
        if text == "null":
            return None
        if text.startswith("id:"):
            return text[3:]
        for real, label in self.labels.items():
            if label == text:
                return real
        raise ValueError(f"no member id is called {text} yet")

    def learn(self, actor: Actor, member_id: str | None) -> bool:
        """Bind a new member id to its actor; True when it was not known before."""
        if not member_id or member_id in self.labels:
            return False
        actor.ids.append(member_id)
        self.labels[member_id] = actor.name if len(actor.ids) == 1 else f"{actor.name}#{len(actor.ids)}"
        return True

    def label(self, member_id: str | None) -> str:
        """The name of a member id in the story."""
        if member_id is None:
            return "null"
        if member_id == "":
            return "none"
        if member_id in self.labels:
            return self.labels[member_id]
        return "id:" + RANDOM.sub("<uuid>", member_id)

    def learn_producer(self, actor: Actor, transactional_id: str | None, producer_id: int) -> None:
        """Name a producer id by its transactional id, else by its actor; the second id is tx#2."""
        if producer_id in self.producers:
            return
        name = self.group_name(transactional_id) if transactional_id else actor.name
        before = sum(one.partition("#")[0] == name for one in self.producers.values())
        self.producers[producer_id] = name if not before else f"{name}#{before + 1}"

    def producer_label(self, producer_id: int) -> str:
        """The name of a producer id in the story."""
        return self.producers.get(producer_id) or ("none" if producer_id == -1 else f"id:{producer_id}")

    def producer_id(self, text: str) -> int:
        """none; ghost, which no producer has; tx or tx#2; a number."""
        known = {"none": -1, **{name: real for real, name in self.producers.items()}}
        return known[text] if text in known else int(text)

    def generation(self, actor: Actor, text: str | None, own: int) -> int:
        """The actor's own generation, `+1` or `-3` from it, or a number. `epoch` and `epoch+1` are from the epoch of a
        consumer (KIP-848).
        """
        if text is None:
            return own
        if text.startswith("epoch"):
            return actor.epoch + int(text[5:] or 0)
        if text[0] in "+" or (text[0] == "-" and text != "-1" and text != "-2"):
            return own + int(text)
        return int(text)

    def topic(self, name: str) -> str:
        """The name on the server: the story's own topics have the suffix of the run."""
        tail = self.suffix.replace("~", "-") if name in self.story.own_topics else ""
        return self.prefixed(name) + tail

    def prefixed(self, name: str) -> str:
        """The name of a topic behind the prefix."""
        return prefixed(self.prefix, name)

    def pattern(self, text: str) -> str:
        """A pattern of names, behind the prefix. `~` in it is the suffix of the story's own topics."""
        text = text.replace("~", self.suffix.replace("~", "-"))
        return self.prefix + text if text[:1].isalpha() else text

    def bytes_of(self, text: str | None) -> bytes:
        """The bytes that a text of the story stands for."""
        return bytes_of(text, self.prefixed)

    def without_prefix(self, line: str) -> str:
        """An outcome line without the prefix of this run."""
        return line.replace(self.prefix, "") if self.prefix else line

    def plain(self, text: str) -> str:
        """A text without what only this run has. Names replace ids. Groups and topics have no suffix."""
        for real, label in self.labels.items():
            text = text.replace(real, label)
        for suffix in filter(None, (self.suffix, self.suffix.replace("~", "-"))):
            text = text.replace(suffix, "")
        return UUID.sub("<uuid>", text)

    def topic_label(self, real: str) -> str:
        """The name of a topic in the story."""
        own = (name for name in self.story.own_topics if real == self.topic(name))
        return next(own, real.removeprefix(self.prefix))

    def topic_id(self, name: str) -> uuid.UUID:
        """The id of a topic of the story; for any other name, an id that no topic has."""
        return self.topic_ids.get(name) or uuid.uuid5(uuid.NAMESPACE_URL, name)

    def topic_name(self, topic_id: uuid.UUID) -> str:
        """The name of the topic with this id in the story."""
        return next((name for name, real in self.topic_ids.items() if real == topic_id), "unknown-id")


def repr_text(text: str | None) -> str:
    """A text as one word; JSON when it has spaces or other characters."""
    if text is None:
        return "null"
    if text == "":
        return '""'
    return text if re.fullmatch(r"[!-~]+", text) else json.dumps(text)


def subscription(topics: list[str], owned: Mapping[str, list[int]], version: int = 1, rack: str | None = None) -> bytes:
    """The subscription in a consumer's JoinGroup: its topics, its partitions, its generation (version 3)."""
    rows = [{"Topic": name, "Partitions": partitions} for name, partitions in owned.items()]
    body = {"Topics": topics, "UserData": None, "OwnedPartitions": rows, "GenerationId": -1, "RackId": rack}
    return version.to_bytes(2, "big") + codec.encode("ConsumerProtocolSubscription", version, body)


def assignment_text(raw: bytes) -> str:
    """A member's assignment as text: given(t1/0+1;t2/0) for a consumer, with v3 before it for that version."""
    if len(raw) < 6 or raw[0] or raw[1] > 3:
        return bytes_text(raw)
    try:
        body = codec.decode("ConsumerProtocolAssignment", raw[1], raw, 2)
    except (ValueError, IndexError, struct.error):
        return bytes_text(raw)
    size = 10 + sum(6 + len(one["Topic"].encode()) + 4 * len(one["Partitions"]) for one in body["AssignedPartitions"])
    if size != len(raw):  # a story may assign anything
        return bytes_text(raw)
    rows = sorted(
        f"{one['Topic']}/" + "+".join(map(str, sorted(one["Partitions"]))) for one in body["AssignedPartitions"]
    )
    return ("" if raw[1] == 1 else f"v{raw[1]}:") + "given(" + ";".join(rows) + ")"


def hex_or_name(text: str, real: Callable[[str], str]) -> bytes:
    """Bytes from their hex digits; `<t1>` is the name of a topic behind its length."""
    if not text.startswith("<"):
        return bytes.fromhex(text)
    name = real(text[1:-1]).encode()
    return len(name).to_bytes(2, "big") + name


def bytes_of(text: str | None, real: Callable[[str], str] = str) -> bytes:
    """The bytes that a text of a story stands for. `real` is the name of a topic on the server."""
    if text in (None, '""', ""):
        return b""
    if text.startswith("sub("):
        topics = [real(t) for t in text[4:-1].split("+") if t]
        return b"\0\1" + codec.encode("ConsumerProtocolSubscription", 1, {"Topics": topics, "UserData": None})
    if text.startswith("given("):  # given(t1/0+1;t2/0): a leader's assignment
        given = by_topic(text[6:-1].split(";"))
        rows = [
            {"Topic": real(name), "Partitions": [*map(int, "+".join(its).split("+"))]} for name, its in given.items()
        ]
        return b"\0\1" + codec.encode("ConsumerProtocolAssignment", 1, {"AssignedPartitions": rows, "UserData": None})
    if text.startswith("hex:"):
        return b"".join(hex_or_name(part, real) for part in re.split(r"(<[^>]*>)", text[4:]))
    return text.encode()


def bytes_text(raw: bytes | None) -> str:
    """Bytes as a text of a story."""
    if raw is None:
        return "null"
    if raw == b"":
        return '""'
    if len(raw) >= 6 and raw[0] == 0 and raw[1] <= 3:
        try:
            body = codec.decode("ConsumerProtocolSubscription", raw[1], raw, 2)
            return "sub(" + "+".join(body["Topics"]) + ")"
        except (ValueError, UnicodeDecodeError):
            pass
    try:
        text = raw.decode()
        if re.fullmatch(r"[!-~]+", text):
            return text if len(text) <= 60 else f"{text[0]}*{len(text)}" if len(set(text)) == 1 else text
    except UnicodeDecodeError:
        pass
    return "hex:" + raw.hex()


def split_args(text: str) -> tuple[dict[str, str], list[str]]:
    """The `name=value` arguments of a request, and the others."""
    args: dict[str, str] = {}
    rest: list[str] = []
    for token in shlex.split(text):
        key, eq, value = token.partition("=")
        if eq and "/" not in key:
            args[key] = value
        else:
            rest.append(token)
    return args, rest


def pairs(text: str | None) -> list[tuple[str, str]]:
    """The pairs of `a:x,b:y`."""
    if text is None or text == "none":
        return []
    return [(name, rest) for name, _, rest in (item.partition(":") for item in text.split(","))]


def null_or(text: str | None) -> str | None:
    """A text, where `null` and `none` mean None."""
    return None if text in (None, "null", "none") else text


def stretched(text: str) -> str:
    """x*5000 is five thousand x."""
    found = re.fullmatch(r"(.)\*(\d+)", text)
    return found[1] * int(found[2]) if found else text


def by_topic(specs: Iterable[str]) -> dict[str, list[str]]:
    """The parts of texts like `t1/0=5` behind the slash, by the name of the topic."""
    topics: dict[str, list[str]] = {}
    for spec in specs:
        topic, _, rest = spec.partition("/")
        topics.setdefault(topic, []).append(rest)
    return topics
