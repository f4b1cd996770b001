"""The API of the HTTP door, `/api/v1/…`: groups, members, offsets, topics and nodes of a server, as JSON.

`openapi.json` describes each answer. Lists have pages, which are made in steps: no page holds the event loop for long.
"""

from __future__ import annotations

import asyncio
import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from muster.coordinator.alerts.watching import GroupAlerts
from muster.coordinator.config.listeners import show
from muster.coordinator.http.door import OPENAPI
from muster.coordinator.http.elsewhere import coordinator_elsewhere
from muster.coordinator.http.failure import Failure
from muster.coordinator.http.sight import sight
from muster.coordinator.security.authorizer import ResourceType
from muster.coordinator.server.group_snapshots import GroupNow
from muster.coordinator.server.group_views import member_json
from muster.coordinator.server.server import Server
from muster.coordinator.system.jobs import Job, to_its_end
from muster.coordinator.topics.cluster_image import NO_BROKER
from muster.coordinator.topics.open_topics import Topic
from muster.version import VERSION

DEFAULT_ROWS: Final = 100
"""The rows of a page, unless the request says so."""
MAX_ROWS: Final = 1_000
"""The most rows of a page."""
LOOKED_AT_ONCE: Final = 200
"""How many groups, topics or partitions one step looks at."""
ANSWER_S: Final = 10.0
"""How long an answer may take. A server that stops does not finish it."""

T = TypeVar("T")
Row = dict[str, Any]


@cache
def openapi() -> dict[str, Any]:
    """The description of the API."""
    read: dict[str, Any] = json.loads(files(__package__).joinpath("openapi.json").read_text(encoding="utf-8"))
    return read


def api(current: Callable[[], Server | None], alerts: GroupAlerts) -> list[BaseRoute]:
    """The routes. `current` returns the server; None while the node of a cluster is not registered."""

    def route(path: str, make: Callable[[Server, Request], Job[Any]]) -> Route:
        async def answer(request: Request) -> JSONResponse:
            server = current()
            if server is None or not server.nodes:
                raise Failure("unavailable", "the node is not registered in its cluster")
            request.state.ends = await server.ends_elsewhere()
            making = asyncio.ensure_future(to_its_end(server.job_queue, make(server, request)))
            done, _ = await asyncio.wait([making], timeout=ANSWER_S)
            if not done:
                making.cancel()
                raise Failure("timeout", "the answer took too long; does the server stop?")
            return JSONResponse(making.result())

        return Route(path, answer)

    return [
        route(OPENAPI, lambda *_: _at_once(openapi())),
        route("/api/v1/server", lambda server, _: _at_once(_server(server))),
        route("/api/v1/nodes", lambda server, _: _nodes(server)),
        route("/api/v1/ends", lambda server, _: _at_once(_ends(server))),
        route("/api/v1/topics", _topics),
        route("/api/v1/topics/{topic}", _topic),
        route("/api/v1/alerts", lambda server, request: _at_once(_alerts(server, alerts, request))),
        route("/api/v1/groups", _groups),
        route("/api/v1/groups/{group}", lambda server, request: _group(_group_of(server, request))),
        route("/api/v1/groups/{group}/members", _members),
        route("/api/v1/groups/{group}/offsets", _offsets),
    ]


def _at_once(value: T) -> Job[T]:
    yield from ()
    return value


# ---- pages


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", str(DEFAULT_ROWS))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MAX_ROWS):
        raise Failure("bad-request", f"limit is {text[:100]!r}; a number from 1 to {MAX_ROWS} was expected")
    return int(text)


def _page(
    keys: Iterable[T], request: Request, wanted: Callable[[T], bool] = lambda _: True
) -> Job[tuple[list[T], Any]]:
    """The first keys after `after`, ascending, as many as a page has. With more keys, the text for `next` too."""
    after, limit = request.query_params.get("after"), _limit(request.query_params)
    found: list[T] = []
    rest = iter(keys)
    while some := list(islice(rest, LOOKED_AT_ONCE)):
        kept = [key for key in some if (after is None or _name(key) > after) and wanted(key)]
        found = heapq.nsmallest(limit + 1, [*found, *kept], key=_name)
        yield None
    return found[:limit], _name(found[limit - 1]) if len(found) > limit else None


def _name(key: Any) -> str:
    """The text by which a page continues: a name, or topic and partition."""
    return key if isinstance(key, str) else f"{key[0]}:{key[1]:010}"


def _check_seen(server: Server, request: Request, what: int, name: str) -> None:
    """Raises Failure if the user may not describe this group or topic."""
    sees = sight(server, request.scope, what)
    if sees is not None and not sees(name):
        raise Failure("forbidden", f"{request.scope['principal']} may not describe this")


# ---- the cluster


def _server(server: Server) -> Row:
    image = server.node.cluster
    return {
        "version": VERSION,
        "cluster_id": image.cluster_id,
        "nodes": [node.node_id for node in server.nodes],
        "durable": server.config.data_dir is not None,
    }


def _nodes(server: Server) -> Job[Row]:
    led: Counter[int] = Counter()
    for leaders in [*server.topics.open.leaders.values()]:
        led.update(leader.broker_id for leader in leaders)
        yield None
    here = {node.node_id: node for node in server.nodes}
    rows = []
    for node_id, broker in sorted(server.node.cluster.brokers.items()):
        node = here.get(node_id)
        if node is None:
            addresses = [show(one.host, one.port) for one in broker.addresses]
        else:
            addresses = [show(bound.host, bound.port) for bound in node.bound]
        rows.append(
            {
                "node": node_id,
                "rack": broker.rack,
                "addresses": addresses,
                "alive": not broker.fenced,
                "here": node is not None,
                "connections": None if node is None else node.connection_count(),
                "leads": led[node_id],
                "console": broker.door,
            }
        )
    return {"nodes": rows}


def _ends(server: Server) -> Row:
    """The durable ends of all logs of this process at one moment, for `muster backup`."""
    return {"ends": {f"{one.topic}-{one.partition}": one.durable_offset for one in server.logs.logs()}}


def _topics(server: Server, request: Request) -> Job[Row]:
    by_name, search = server.topics.by_name, request.query_params.get("search", "")
    sees = sight(server, request.scope, ResourceType.TOPIC)

    def is_wanted(name: str) -> bool:
        return search in name and (sees is None or sees(name))

    names, after = yield from _page([*by_name], request, is_wanted)
    found = [by_name[name] for name in names if name in by_name]
    rows = [{"topic": one.name, "internal": one.internal, "partitions": len(one.partitions)} for one in found]
    return {"topics": rows, "next": after}


def _topic(server: Server, request: Request) -> Job[Row]:
    name = unquote(request.path_params["topic"])
    _check_seen(server, request, ResourceType.TOPIC, name)
    topic = server.topics.by_name.get(name)
    if topic is None:
        raise Failure("not-found", f"there is no topic {name[:249]}")
    rows = []
    for index in range(len(topic.partitions)):
        rows.append(_partition(server, topic, index))
        if not len(rows) % LOOKED_AT_ONCE:
            yield None
    return {"topic": name, "internal": topic.internal, "partitions": rows}


def _partition(server: Server, topic: Topic, index: int) -> Row:
    leaders = server.topics.open.leaders_of(topic.name)
    leader = leaders[index].broker_id if index < len(leaders) else NO_BROKER
    partition = topic.partitions[index]
    start = None if partition is None else partition.log.start_offset
    end = None if partition is None else partition.log.durable_offset
    return {"partition": index, "leader": leader, "start_offset": start, "end_offset": end}


def _alerts(server: Server, alerts: GroupAlerts, request: Request) -> Row:
    """The open alerts; `AlertBook` limits their number."""
    group_id, sees = request.query_params.get("group"), sight(server, request.scope, ResourceType.GROUP)
    found = alerts.book.open(group_id)
    return {"alerts": [one.to_json() for one in found if sees is None or (one.group is not None and sees(one.group))]}


# ---- groups


def _groups(server: Server, request: Request) -> Job[Row]:
    query = request.query_params
    search, kinds, states = query.get("search", ""), query.getlist("type"), query.getlist("state")

    sees = sight(server, request.scope, ResourceType.GROUP)

    def is_wanted(group_id: str) -> bool:
        if search not in group_id or (sees is not None and not sees(group_id)):
            return False
        now = GroupNow.of(server, group_id)
        return now is not None and (not kinds or now.kind in kinds) and (not states or now.state in states)

    found, after = yield from _page(_group_ids(server), request, is_wanted)
    rows = [_row(now) for now in (GroupNow.of(server, group_id) for group_id in found) if now is not None]
    return {"groups": rows, "next": after}


def _group_ids(server: Server) -> Iterator[str]:
    for node in server.nodes:
        for shard in node.routing.shards:
            yield from [*shard.group_ids()]


def _row(now: GroupNow) -> Row:
    return {
        "group": now.group_id,
        "type": now.kind,
        "state": now.state,
        "members": len(now.member_ids),
        "coordinator": now.node_id,
    }


def _group_of(server: Server, request: Request) -> GroupNow:
    group_id = unquote(request.path_params["group"])
    _check_seen(server, request, ResourceType.GROUP, group_id)
    now = GroupNow.of(server, group_id, request.state.ends)
    if now is None and (where := coordinator_elsewhere(server, group_id)) is not None:
        raise where.failure(group_id)
    if now is None:
        raise Failure("not-found", f"there is no group {group_id[:249]} on this server")
    return now


def _group(now: GroupNow) -> Job[Row]:
    lag: int | None = 0
    partitions = 0
    for topic, index in now.committed():
        one = now.offset(topic, index)["lag"]
        lag = None if lag is None or one is None else lag + one
        partitions += 1
        if not partitions % LOOKED_AT_ONCE:
            yield None
    more = {"generation": now.generation, "protocol": now.protocol, "committed_partitions": partitions, "lag": lag}
    return {**_row(now), **more}


def _members(server: Server, request: Request) -> Job[Row]:
    now = _group_of(server, request)
    found, after = yield from _page([*now.member_ids], request)
    rows = []
    for member_id in found:
        view = now.member(member_id)
        if view is not None:
            rows.append(member_json(view))
        yield None
    return {"group": now.group_id, "members": rows, "next": after}


def _offsets(server: Server, request: Request) -> Job[Row]:
    now = _group_of(server, request)
    found, after = yield from _page(now.committed(), request)
    return {"group": now.group_id, "offsets": [now.offset(*one) for one in found], "next": after}
