"""What the console needs of a server, or of any Kafka cluster: a `Source`. Requests and answers are Kafka's messages.

So one implementation of each view serves both. `ServerSource` asks the handlers of its own process. `muster console`
asks a cluster over the network.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from muster.coordinator.http.console.now import Doing
from muster.coordinator.http.elsewhere import Elsewhere
from muster.coordinator.http.live_groups import LiveGroups
from muster.coordinator.http.sight import Sees
from muster.coordinator.system.jobs import Job
from muster.protocol.message import Message

T = TypeVar("T")
Ends = Mapping[str, Mapping[int, tuple[int, int]]]
"""Start and end of each partition, by topic."""


class Requester(NamedTuple):
    """Who uses the console: the principal of the door, if it has one, and the host of the browser."""

    principal: Any
    host: str


class StoredEvent(NamedTuple):
    """An event of a history topic. `id`: PARTITION:OFFSET. `value`: its JSON (docs/events.md)."""

    id: str
    value: dict[str, Any]


class Found(NamedTuple):
    """Events of a group, ascending. `is_cut`: there are more in the requested time."""

    events: list[StoredEvent]
    is_cut: bool


class Refused(Exception):
    """The server or the cluster refuses a request, or does not answer. The text is a sentence."""


class Source(Protocol):
    """See the module. All methods may raise Refused."""

    kind: str
    """"server" or "cluster"."""
    inferred: bool
    """Whether events are inferred from the offsets log, because the cluster has no `__group_events`."""

    async def start(self) -> None:
        """Begin, before the first request."""

    async def stop(self) -> None:
        """End. Nothing is asked afterwards."""

    async def about(self) -> dict[str, Any]:
        """`cluster_id`, and `nodes`: rows with `node`, `address`, `rack`, `here`, `alive`, `connections`, `leads`."""

    def others(self) -> list[dict[str, Any]]:
        """The nodes whose groups are on other consoles: rows with `node`, and `console` (a URL, or null)."""

    def elsewhere(self, group: str) -> Elsewhere | None:
        """The node on whose console a group is. None: it is on this one."""

    async def run(self, job: Job[T]) -> T:
        """Run a job, in steps if others wait meanwhile."""

    async def doing(self, group: str) -> Doing:
        """What the members of a group do. Empty: it is not known."""

    async def refresh(self, live: LiveGroups) -> None:
        """Read the groups and topics again."""

    async def ends(self, topics: Collection[str]) -> Ends:
        """Start and end of the partitions of these topics now, as far as they are known."""

    async def ask(self, key: int, request: Message, who: Requester, group: str | None = None) -> Any:
        """The answer of the group's coordinator, or of any node without a group."""

    async def ask_every(self, key: int, request: Message, who: Requester) -> Sequence[Any]:
        """The answer of each node."""

    def sees(self, scope: Any, what: int) -> Sees | None:
        """Which groups or topics the sender of an HTTP request sees; None means all (`sight.sight`)."""

    def watch(self, changed: Callable[[], object]) -> Callable[[], object]:
        """Call `changed` when there may be new events, until the returned function is called."""

    async def recent(self) -> list[StoredEvent]:
        """Some of the newest events of all groups, for the first page. Later `news` follow these."""

    async def news(self) -> list[StoredEvent]:
        """The events since the last call, at once."""

    async def history(self, group: str, from_ms: int, until_ms: int, most: int) -> Found:
        """The events of a group in a time, at most the newest `most`."""
