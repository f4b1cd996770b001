"""What each client does in a moment of the rehearsal: the requests that failed, what followed, and when it recovered.

Pure. A trail begins with the first request of a client that a fault hits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from muster.clientlint.calls import Call, Client, Connection
from muster.clientlint.watcher import Broken, Watcher, named, seconds

MAX_STEPS: Final = 200
"""The most requests of a client in a moment that are remembered."""
MAX_SHOWN: Final = 8
"""The most steps of a trail in a report; repeated requests are one step."""
PENDING: Final = -2
"""The state of a request that has no answer yet, or whose answer was lost."""


class Step:
    """Requests of a trail that follow each other: of the same API, with the same result. `count`: how many.

    `error`: of their answers, or PENDING.
    """

    __slots__ = ("api", "asked_ms", "count", "error")

    def __init__(self, api: str, asked_ms: int) -> None:
        self.api = api
        self.asked_ms = asked_ms
        self.error = PENDING
        self.count = 1


class Reaction(NamedTuple):
    """What a client did in a moment. `recovered_ms`: from the first hit to the next success of the same API."""

    client: Client
    api: str
    hits: int
    recovered_ms: int | None
    is_gone: bool
    steps: str

    @property
    def words(self) -> str:
        """The reaction in one line."""
        if self.recovered_ms is not None:
            how = f"recovered after {seconds(self.recovered_ms)}"
        else:
            how = "closed its connections" if self.is_gone else "did not recover while the moment was watched"
        return f"{self.api} was hit {'once' if self.hits == 1 else f'{self.hits} times'}; {how}: {self.steps}"

    def to_json(self) -> dict[str, Any]:
        """The reaction as JSON."""
        return {
            "client_id": self.client.client_id,
            "software": self.client.software,
            "version": self.client.version,
            "api": self.api,
            "hits": self.hits,
            "recovered_ms": self.recovered_ms,
            "closed": self.is_gone,
            "steps": self.steps,
        }


class Played(NamedTuple):
    """A moment that was played, and what the clients did that it hit."""

    name: str
    about: str
    reactions: Sequence[Reaction]

    def to_json(self) -> dict[str, Any]:
        """The moment as JSON."""
        return {"moment": self.name, "about": self.about, "clients": [one.to_json() for one in self.reactions]}


class _Trail:
    """The steps of a client since its first hit."""

    __slots__ = ("hits", "steps")

    def __init__(self, first: Step) -> None:
        self.steps = [first]
        self.hits = 0


class Trails(Watcher):
    """See the module. `hit` is called for each request that a fault hits, before the fault acts."""

    def __init__(self) -> None:
        self._trails: dict[Client, _Trail] = {}
        self._open: dict[Call, Step] = {}
        self._connections: dict[Client, set[Connection]] = {}
        self._last: dict[str, Call] = {}

    def begin(self) -> None:
        """Begin a new moment."""
        self._trails.clear()
        self._open.clear()

    def asked(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        self._connections.setdefault(call.client, set()).add(call.connection)
        trail = self._trails.get(call.client)
        self._last[call.client.client_id] = call
        if trail is not None and len(trail.steps) < MAX_STEPS:
            step = self._open[call] = Step(call.api, call.asked_ms)
            trail.steps.append(step)
        yield from ()

    def hit(self, client_id: str) -> None:
        """The newest request of this client is hit by a fault."""
        call = self._last[client_id]
        trail = self._trails.get(call.client)
        if trail is None:
            step = self._open[call] = Step(call.api, call.asked_ms)
            trail = self._trails[call.client] = _Trail(step)
        trail.hits += 1

    def answered(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        step = self._open.pop(call, None)
        if step is not None:
            step.error = call.error
            steps = self._trails[call.client].steps
            if len(steps) > 1 and steps[-1] is step and (steps[-2].api, steps[-2].error) == (step.api, step.error):
                steps[-2].count += 1
                del steps[-1]
        yield from ()

    def closed(self, connection: Connection) -> None:
        """See `Watcher`."""
        for connections in self._connections.values():
            connections.discard(connection)

    @property
    def is_over(self) -> bool:
        """Whether every client that was hit has recovered or is gone."""
        return all(one.recovered_ms is not None or one.is_gone for one in self.reactions())

    def reactions(self) -> list[Reaction]:
        """What each client did that was hit."""
        return [
            Reaction(
                client,
                trail.steps[0].api,
                trail.hits,
                _recovered_ms(trail),
                not self._connections.get(client),
                _shown(trail.steps),
            )
            for client, trail in self._trails.items()
        ]


def _recovered_ms(trail: _Trail) -> int | None:
    first = trail.steps[0]
    if first.error == 0 and first.count > 1:
        return 0
    for step in trail.steps[1:]:
        if step.api == first.api and step.error == 0:
            return step.asked_ms - first.asked_ms
    return None


def _shown(steps: list[Step]) -> str:
    first_ms = steps[0].asked_ms
    shown = [
        f"{step.api} {_result(step.error)}{f' ({step.count} times)' if step.count > 1 else ''} "
        f"at {seconds(step.asked_ms - first_ms)}"
        for step in steps[:MAX_SHOWN]
    ]
    return ", ".join(shown) + (", …" if len(steps) > MAX_SHOWN else "")


def _result(error: int) -> str:
    return "no answer" if error == PENDING else "ok" if error == 0 else named(error)
