"""Requests to a target, and their answers. A request around a probe waits until the target is ready."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

from muster.conform.login import CLIENT_ID
from muster.conform.player import kafka_codec as codec
from muster.conform.probes import judge
from muster.conform.probes.catalogue import Versions
from muster.conform.probes.link import Closed, Dial, Link, Silent, framed
from muster.conform.probes.place import Body

PATIENCE_S = 20.0
"""How long a target may think about one request."""
NOT_READY = frozenset({5, 6, 14, 15, 16, 51})
"""Errors of a target that is about to be ready. Clients ask again; so do the requests around a probe."""
TRIES, AGAIN_S = 100, 0.1


OPEN_TRIES = 30
"""How often a connection is tried: a target that begins again has three seconds for it."""


class Gone(Exception):
    """The target accepts no connections any more."""


class Unprepared(Exception):
    """The request before a probe failed, so the probe has not been sent."""


@dataclasses.dataclass(frozen=True)
class Answered:
    """One request and its answer."""

    request: bytes
    frame: bytes
    body: dict[str, Any] | None
    verdict: judge.Verdict | None


class Asker:
    """Sends requests in versions that the target advertises."""

    def __init__(self, dial: Dial, advertised: Versions) -> None:
        """`advertised`: the versions that the target reports."""
        self.dial, self.advertised = dial, advertised
        self.correlation = 0

    def version(self, api: str) -> int | None:
        """The highest version of an API that both sides know. None means that they share no version."""
        low, high = self.advertised.get(codec.api_key(api), (0, -1))
        ours = codec.MESSAGES[api + "Request"]["validVersions"]
        known = [one for one in range(low, high + 1) if codec.in_range(ours, one)]
        return known[-1] if known else None

    async def exchange(
        self, link: Link, api: str, version: int, body: Body, extra: dict[int, bytes] | None = None
    ) -> Answered:
        """Send one request, and read its answer."""
        self.correlation += 1
        correlation = self.correlation
        request = codec.encode_request(api, version, correlation, CLIENT_ID, body, extra)
        await link.write(framed(request))
        frame = await link.frame(PATIENCE_S)
        answer, verdict = judge.judge(api, version, correlation, frame)
        return Answered(request, frame, answer, verdict)

    async def ask(self, link: Link, api: str, body: Body) -> Body:
        """A request around a probe: it is sent again while the target is not ready. Raises Unprepared."""
        version = self.version(api)
        if version is None:
            raise Unprepared(f"the target has no {api}")
        for number in range(TRIES):
            if number:
                await asyncio.sleep(AGAIN_S)
            try:
                answered = await self.exchange(link, api, version, body)
            except (Closed, Silent, ValueError) as error:
                raise Unprepared(f"{api} v{version} before the probe: {error}") from error
            if answered.body is None:
                raise Unprepared(f"the answer to {api} v{version} before the probe cannot be read")
            found = answered.body
            if NOT_READY.isdisjoint(codes_of(found)):
                break
        return found

    async def open(self) -> Link:
        """A new connection. Raises Gone."""
        for number in range(OPEN_TRIES):
            try:
                return Link(*await self.dial())
            except OSError as error:
                why = str(error)
            if number + 1 < OPEN_TRIES:
                await asyncio.sleep(AGAIN_S)
        raise Gone(f"the target accepts no connection any more: {why}")


def codes_of(body: object) -> set[int]:
    """All error codes of a body."""
    if isinstance(body, dict):
        own = {value for key, value in body.items() if key.endswith("ErrorCode")}
        return own.union(*(codes_of(value) for value in body.values()))
    if isinstance(body, list):
        return set().union(*(codes_of(one) for one in body))
    return set()


async def advertised(dial: Dial) -> Versions:
    """What the target reports, by ApiVersions version 0, which every target must know."""
    link = Link(*await dial())
    try:
        await link.write(framed(codec.encode_request("ApiVersions", 0, 1, CLIENT_ID, {})))
        _, body = codec.decode_response("ApiVersions", 0, await link.frame(PATIENCE_S))
    finally:
        await link.close()
    return {row["ApiKey"]: (row["MinVersion"], row["MaxVersion"]) for row in body["ApiKeys"]}
