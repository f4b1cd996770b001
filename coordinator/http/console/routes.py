"""The routes of the console: its files, its JSON (`/console/…`), and the stream of events.

The files have no secret, and need no token. A page asks its user for the token, and sends it with each request.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cache, partial
from importlib.resources import files
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from muster.coordinator.http.admission import STATIC
from muster.coordinator.http.console import views
from muster.coordinator.http.console.actions import act
from muster.coordinator.http.console.feed import Feed, only_seen
from muster.coordinator.http.console.shown_events import shown
from muster.coordinator.http.console.sources import Refused, Requester, Source
from muster.coordinator.http.console.why import NEAR_MS, why
from muster.coordinator.http.door import body_of
from muster.coordinator.http.failure import Failure
from muster.coordinator.http.live_groups import ORDERS, LiveGroup
from muster.coordinator.http.sight import Sees
from muster.coordinator.security.authorizer import ANONYMOUS, ResourceType
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job, OffloadedWork
from muster.version import VERSION

ROWS: Final = 100
"""The rows of a page, unless the request says so."""
MAX_ROWS: Final = 500
MAX_EVENTS: Final = 5_000
"""The most events of one answer."""
MAX_BODY: Final = 256 * 1024
"""The most bytes of an action."""
DAY_MS: Final = 86_400_000
MAX_MS: Final = 1 << 52
KEPT_MS: Final = 500
"""A page of groups is given again to others within this time."""
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
T = TypeVar("T")
Row = dict[str, Any]
Answer = Row | Callable[[], Row]
"""An answer, or what makes it in a thread of objects that do not change."""
Alerts = Callable[[str | None], list[dict[str, Any]]]


@cache
def static_files() -> dict[str, bytes]:
    """The files of the console by name."""
    folder = files(__package__).joinpath("static")
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.name.rpartition(".")[2] in _TYPES}


class Console:
    """See the module."""

    def __init__(
        self, source: Source, clock: Clock, alerts: Alerts = lambda _: [], *, has_control: bool = False
    ) -> None:
        """`clock`: the machine's. `alerts` returns the open alerts of a group, or of all groups (None), as JSON.
        `has_control`: the door has the test control too.
        """
        self._has_control = has_control
        self._alerts = alerts
        self._source = source
        self._clock = clock
        self.feed = Feed(source, clock)
        self._kept: dict[str, tuple[int, bytes]] = {}
        """Pages of groups, with the time at which they were made."""

    async def start(self) -> None:
        """Begin, before the first request."""
        await self._source.start()

    async def stop(self) -> None:
        """End all streams."""
        await self.feed.stop()
        await self._source.stop()

    def routes(self) -> list[BaseRoute]:
        """The routes."""
        get: dict[str, Callable[[Request], Awaitable[Any]]] = {
            "about": self._about,
            "groups/{group}": self._group,
            "groups/{group}/offsets": self._offsets,
            "groups/{group}/settings": self._settings,
            "groups/{group}/history": self._history,
            "groups/{group}/why": self._why,
            "topics": self._topics,
            "topics/{topic}": self._topic,
            "nodes": self._nodes,
            "clients": self._clients,
            "transactions": self._transactions,
            "refused": self._refused,
            "recent": self._recent,
        }
        return [
            Route("/", self._index),
            Route(STATIC + "{name}", self._file),
            Route("/console/groups", self._groups),
            Route("/console/events", self._events),
            Route("/console/groups/{group}/actions", self._as_json(self._act), methods=["POST"]),
            *(Route(f"/console/{path}", self._as_json(answer)) for path, answer in get.items()),
        ]

    def _as_json(self, answer: Callable[[Request], Awaitable[Answer]]) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            try:
                made = await answer(request)
                return _json_response(await self._source.run(_in_thread(partial(_encoded, made))))
            except Refused as refused:
                raise Failure("conflict", str(refused)) from refused

        return answered

    # ---- what the user sees

    def _sees(self, request: Request, what: int = ResourceType.GROUP) -> Sees | None:
        """Which groups or topics the user may describe; None means all."""
        return self._source.sees(request.scope, what)

    def _group_name(self, request: Request) -> str:
        """The group that the request names. Raises Failure."""
        name, sees = _name(request, "group"), self._sees(request)
        if sees is not None and not sees(name):
            raise Failure("forbidden", f"{request.scope['principal']} may not describe this group")
        where = self._source.elsewhere(name)
        if where is not None:
            raise where.failure(name)
        return name

    # ---- files

    async def _index(self, _: Request) -> Response:
        self.feed.wake()  # the page asks for the groups soon
        return self._asset("index.html")

    async def _file(self, request: Request) -> Response:
        return self._asset(request.path_params["name"])

    def _asset(self, name: str) -> Response:
        data = static_files().get(name)
        if data is None:
            raise Failure("not-found", f"the console has no file {name[:100]}")
        return Response(data, headers=_HEADERS | {"Content-Type": _TYPES[name.rpartition(".")[2]]})

    # ---- answers

    async def _about(self, request: Request) -> Row:
        await self.feed.ready()
        about = await self._source.about()
        counts = await self._source.run(self.feed.live.counts(self._sees(request)))
        return {
            "version": VERSION,
            "cluster_id": about["cluster_id"],
            "kind": self._source.kind,
            "inferred": self._source.inferred,
            "types": counts["type"],
            "states": counts["state"],
            "groups": counts["type"].total(),
            "now": self._clock.now().wall_ms,
            "failure": self.feed.failure,
            "control": self._has_control,
            "others": self._source.others(),
        }

    async def _groups(self, request: Request) -> Response:
        key = f"{request.scope.get('principal', '')}?{request.url.query}"
        made_ms, data = self._kept.get(key, (-KEPT_MS, b""))
        now_ms = self._clock.mono_ms()
        if now_ms - made_ms >= KEPT_MS:
            try:
                data = await self._source.run(_in_thread(partial(_encoded, await self._make_page(request))))
            except Refused as refused:
                raise Failure("conflict", str(refused)) from refused
            if len(self._kept) >= MAX_ROWS:
                self._kept.clear()
            self._kept[key] = now_ms, data
        return _json_response(data)

    async def _make_page(self, request: Request) -> Row:
        await self.feed.ready()
        query = request.query_params
        search, kinds, states = query.get("search", "").lower(), query.getlist("type"), query.getlist("state")
        only = query.get("only", "")
        order = query.get("order", "worst")
        if order not in ORDERS:
            raise Failure("bad-request", f"order: one of {', '.join(ORDERS)} was expected")

        sees = self._sees(request)

        def wanted(one: LiveGroup) -> bool:
            return (
                (sees is None or sees(one.group))
                and search in one.group.lower()
                and (not kinds or one.kind in kinds)
                and (not states or one.state in states)
                and (only != "trouble" or one.trouble > 0)
            )

        skip, most = _number(query, "skip", 0, MAX_MS), _number(query, "limit", ROWS, MAX_ROWS)
        live = self.feed.live
        live.note_alerts((one["group"], one["text"]) for one in self._alerts(None) if one["group"] is not None)
        found, matching = await self._source.run(live.page(wanted, order, skip, most))
        return {
            "groups": await self._source.run(views.group_rows(found)),
            "matching": matching,
            "total": len(live.groups) if sees is None else matching,
            "at": live.at_ms,
            "alerts": [one for one in self._alerts(None) if one["group"] is None and sees is None],
            "failure": self.feed.failure,
        }

    async def _group(self, request: Request) -> Answer:
        await self.feed.ready()
        group, who = self._group_name(request), requester(request)
        doing = await self._source.doing(group)
        found = await views.group_view(self._source, self.feed.live, group, who, doing)
        if found is None:
            raise Failure("not-found", f"there is no group {group[:249]}")
        more = {"alerts": self._alerts(group), "at": self._clock.now().wall_ms}
        return lambda: found() | more

    async def _offsets(self, request: Request) -> Answer:
        await self.feed.ready()
        found = await views.offsets(self._source, self.feed.live, self._group_name(request), requester(request))
        at_ms = self._clock.now().wall_ms
        return lambda: found() | {"at": at_ms}

    async def _settings(self, request: Request) -> Row:
        await self.feed.ready()
        group = self._group_name(request)
        known = self.feed.live.groups.get(group)
        kind = "" if known is None else known.kind
        return {"settings": await views.settings(self._source, group, kind, requester(request))}

    async def _history(self, request: Request) -> Answer:
        query = request.query_params
        now_ms = self._clock.now().wall_ms
        from_ms = _number(query, "from", now_ms - DAY_MS, MAX_MS)
        until_ms = _number(query, "until", now_ms, MAX_MS)
        most = _number(query, "limit", MAX_EVENTS, MAX_EVENTS)
        found = await self._source.history(self._group_name(request), from_ms, until_ms, most)
        more = {"is_cut": found.is_cut, "from": from_ms, "until": until_ms}
        return lambda: {"events": shown(found.events)} | more

    async def _why(self, request: Request) -> Answer:
        at_ms = _number(request.query_params, "at", self._clock.now().wall_ms, MAX_MS)
        span = 2 * NEAR_MS
        found = await self._source.history(self._group_name(request), at_ms - span, at_ms + span, MAX_EVENTS)
        return partial(why, found.events, at_ms)

    async def _topics(self, request: Request) -> Row:
        await self.feed.ready()
        query = request.query_params
        skip, most = _number(query, "skip", 0, MAX_MS), _number(query, "limit", ROWS, MAX_ROWS)
        sees = self._sees(request, ResourceType.TOPIC)
        return await self._source.run(views.topics(self.feed.live, query.get("search", ""), skip, most, sees))

    async def _topic(self, request: Request) -> Row:
        await self.feed.ready()
        name, sees = _name(request, "topic"), self._sees(request, ResourceType.TOPIC)
        if sees is not None and not sees(name):
            raise Failure("forbidden", f"{request.scope['principal']} may not describe this topic")
        found = await self._source.run(views.topic(self.feed.live, name, self._sees(request)))
        if found is None:
            raise Failure("not-found", f"there is no topic {name[:249]}")
        return found

    async def _nodes(self, _: Request) -> Row:
        return await self._source.about()

    async def _clients(self, request: Request) -> Answer:
        texts = await views.client_reports(self._source, requester(request))
        at_ms, sees = self._clock.now().wall_ms, self._sees(request)

        def made() -> Row:
            found = [one for one in views.clients(texts) if sees is None or sees(one["group"] or "")]
            return {"clients": found[:MAX_ROWS], "total": len(found), "at": at_ms}

        return made

    async def _transactions(self, request: Request) -> Row:
        return await views.transactions(self._source, requester(request), self._clock.now().wall_ms)

    async def _refused(self, request: Request) -> Row:
        await self.feed.ready()
        return {"events": only_seen([*self.feed.refusals][::-1], self._sees(request))}

    async def _recent(self, request: Request) -> Row:
        await self.feed.ready()
        return {"events": only_seen(self.feed.events, self._sees(request))[-ROWS:]}

    async def _act(self, request: Request) -> Row:
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise Failure("bad-request", "the body is to be application/json")
        await self.feed.ready()
        body = await body_of(request, MAX_BODY)
        try:
            given = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise Failure("bad-request", f"the body is no JSON: {error}") from error
        if not isinstance(given, dict):
            raise Failure("bad-request", "an object was expected")
        done = await act(self._source, self.feed.live, self._group_name(request), given, requester(request))
        self._kept.clear()
        return {"done": done}

    # ---- events

    async def _events(self, request: Request) -> Response:
        try:
            stream = self.feed.open(request.query_params.get("group"), self._sees(request))
        except Refused as refused:
            raise Failure("busy", str(refused)) from refused

        async def messages() -> AsyncIterator[bytes]:
            try:
                yield b"retry: 1000\n\n"
                async for message in stream.messages():
                    yield message
            finally:
                self.feed.close(stream)

        return StreamingResponse(messages(), headers=_HEADERS | {"Content-Type": "text/event-stream"})


def _encoded(made: Answer) -> bytes:
    return json.dumps(made() if callable(made) else made, separators=(",", ":")).encode()


def _in_thread(work: Callable[[], T]) -> Job[T]:
    done: T = yield OffloadedWork(work)
    return done


def _json_response(data: bytes) -> Response:
    return Response(data, headers=_HEADERS | {"Content-Type": "application/json"})


def requester(request: Request) -> Requester:
    """Who sends a request: the principal that the door has found, else nobody known."""
    client = request.client
    return Requester(request.scope.get("principal", ANONYMOUS), "127.0.0.1" if client is None else client.host)


def _name(request: Request, what: str) -> str:
    return unquote(request.path_params[what])


def _number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 17 and int(text) <= most):
        raise Failure("bad-request", f"{name}: a number from 0 to {most} was expected")
    return int(text)
