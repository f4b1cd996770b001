"""The story format: the values that a story and its driver exchange, and the file. Opens no socket and reads no clock.

A driver runs `playing.play(story, ...)`, a generator. It yields one Action at a time and is sent the Replies that came.
`tcp` is the driver over TCP. `stories/README.md` describes the format.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

from muster.conform.player.releases import Release, release_of, text_of

HEADERS = ("broker", "topics", "own-topics", "group", "defaults", "tags", "since")

Body = dict[str, Any]
"""A message as a dict with Kafka's field names."""

# ---- what a story and its driver exchange


@dataclasses.dataclass
class Send:
    """Send one request. `expect`: the actors whose replies are due now, in any order; None when that is not known
    (recording).
    """

    actor: str
    api: str
    version: int
    client_id: str | None
    body: Body
    expect: list[str] | None
    once: bool = False
    """The first answer counts, also one that means "not ready yet"."""
    others_follow: bool = False
    """Other actors of the step send after this one, whose reply may wait for theirs."""
    named: bool = True
    """The story names the version. Otherwise a client takes the newest one that the broker has too."""


@dataclasses.dataclass
class Advance:
    """Let this time pass; send back the replies that came. `expect`: the actors whose replies are due by then."""

    ms: int
    expect: list[str] | None


@dataclasses.dataclass
class Await:
    """Let time pass until the oldest open request of `actor` is answered, or is `high` ms old."""

    actor: str
    low: int
    high: int
    expect: list[str] | None


@dataclasses.dataclass
class Drop:
    """The actor's process dies: its connections close, replies to it are lost."""

    actor: str


@dataclasses.dataclass
class Reply:
    """An answer, and its request."""

    actor: str
    api: str
    version: int
    request: Body
    body: Body
    took_ms: float
    new_id: bool = False
    frame: bytes = b""
    """The answer as it came, without its length. It is empty when several brokers answered."""
    line: str = ""
    """The outcome line."""


Action = Send | Advance | Await | Drop


# ---- the file


@dataclasses.dataclass
class Step:
    """A line of a story that asks for something, and its outcome lines."""

    line: str
    outcome: list[str]
    lineno: int


class Story:
    """One story file as of a release of Kafka (default: the newest): its headers and its `items`.

    Items are Steps, and lines of text that are kept as they are. `text` has the outcomes of that release alone.
    `source` is the text of the file.
    """

    def __init__(self, path: str, source: str, release: Release | None = None) -> None:
        text = text_of(source, release)
        self.path, self.source, self.text = path, source, text
        self.name = pathlib.Path(path).stem
        self.group = "g"
        self.broker: dict[str, str] = {}
        self.defaults: dict[str, str] = {}
        self.tags: list[str] = []
        self.since: Release | None = None
        """The first release that has all requests of the story; None: each release of `RELEASES` has them."""
        self.items: list[str | Step] = []
        topics: dict[str, str] = {}
        own_topics: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if line.startswith("    "):
                if not self.items or not isinstance(self.items[-1], Step):
                    raise ValueError(f"{path}:{number}: an outcome without a step")
                self.items[-1].outcome.append(line)
            elif not line.strip() or line.startswith("#"):
                self.items.append(line)
            elif line.split()[0] in HEADERS:
                self.items.append(line)
                word, _, rest = line.partition(" ")
                if word == "group":
                    self.group = rest.strip()
                elif word == "since":
                    self.since = release_of(rest.strip())
                elif word == "tags":
                    self.tags = rest.split()
                else:
                    pairs = dict(item.split("=", 1) for item in rest.split())
                    {"broker": self.broker, "topics": topics, "own-topics": own_topics, "defaults": self.defaults}[
                        word
                    ].update(pairs)
            else:
                self.items.append(Step(line, [], number))
        self.topics = {name: int(count) for name, count in topics.items()}
        self.own_topics = {name: int(count) for name, count in own_topics.items()}

    @property
    def takes_time(self) -> bool:
        """Whether the story waits for something that only time brings."""
        return any(isinstance(item, Step) and item.line.split()[0] in ("advance", "await") for item in self.items)

    @property
    def title(self) -> str:
        """The first comment of the file."""
        for item in self.items:
            if isinstance(item, str) and item.startswith("#"):
                return item.lstrip("# ")
        return self.name
