"""Probes of frames: bytes that arrive in pieces, too large, unknown or in a row; and what must come back.

Each function returns what is wrong, or None. A target that closes a connection, where Kafka closes it, is right.
"""

from __future__ import annotations

import asyncio
import dataclasses
import struct
from collections.abc import Awaitable, Callable

from muster.conform.login import CLIENT_ID
from muster.conform.player import kafka_codec as codec
from muster.conform.player import spans
from muster.conform.probes import forms
from muster.conform.probes.asking import PATIENCE_S
from muster.conform.probes.judge import Verdict, judge
from muster.conform.probes.link import Closed, Link, Silent, framed
from muster.conform.probes.place import Body, Place
from muster.conform.results import Severity, Span

CLOSES_S = 5.0
"""How soon a connection is closed after bytes that are no request."""
PIECE_S = 0.02
QUIET_S = 0.3
UNSUPPORTED_VERSION = 35
BREAKS, DIFFERS = Severity.CLIENTS_BREAK, Severity.DIFFERS


@dataclasses.dataclass(frozen=True)
class Found:
    """What a probe of frames has seen: what is wrong, with the bytes that show it."""

    verdict: Verdict
    request: bytes = b""
    answer: bytes = b""


Play = Callable[[Link, Place], Awaitable["Found | None"]]


@dataclasses.dataclass(frozen=True)
class FrameProbe:
    """A probe of frames."""

    name: str
    title: str
    play: Play
    needs: str = "ApiVersions"
    """The API that the target must have."""

    @property
    def id(self) -> str:
        """Its name in reports."""
        return f"frame-{self.name}"


def _wrong(text: str, severity: Severity = BREAKS, rule: str = "SocketServer.scala") -> Found:
    return Found(Verdict(text, severity, None, rule))


def _versions(correlation: int, version: int = 0, client: str | None = CLIENT_ID) -> bytes:
    body: Body = {"ClientSoftwareName": CLIENT_ID, "ClientSoftwareVersion": "1"} if version >= 3 else {}
    return codec.encode_request("ApiVersions", version, correlation, client, body)


async def _answered(link: Link, request: bytes, correlation: int, version: int = 0) -> Found | None:
    """Read an answer to ApiVersions."""
    frame = await link.frame(PATIENCE_S)
    verdict = judge("ApiVersions", version, correlation, frame)[1]
    return Found(verdict, request, frame) if verdict else None


async def _closes(link: Link, what: str) -> Found | None:
    if await link.is_closed(CLOSES_S):
        return None
    return _wrong(f"{what}, and the connection stays open: Kafka closes it", DIFFERS)


async def unknown_version(link: Link, _: Place) -> Found | None:
    """ApiVersions in a version that nobody has: KIP-511 says that the answer is one of version 0."""
    request = _versions(7, 3)
    request = request[:2] + struct.pack(">h", 32_000) + request[4:]
    await link.write(framed(request))
    try:
        frame = await link.frame(PATIENCE_S)
    except Closed:
        text = "ApiVersions in an unknown version closes the connection: Kafka answers in version 0"
        return Found(Verdict(text, BREAKS, None, "KIP-511"), request)
    body, verdict = judge("ApiVersions", 0, 7, frame)
    if verdict or body is None:
        assert verdict is not None
        return Found(dataclasses.replace(verdict, rule="KIP-511"), request, frame)
    if body["ErrorCode"] != UNSUPPORTED_VERSION:
        text = f"ApiVersions in an unknown version is answered with error {body['ErrorCode']}, not UNSUPPORTED_VERSION"
        return Found(Verdict(text, BREAKS, _span("ErrorCode", 0, frame), "KIP-511"), request, frame)
    if all(row["ApiKey"] != 18 for row in body["ApiKeys"]):
        text = "the answer to an unknown version of ApiVersions does not name the versions of ApiVersions"
        return Found(Verdict(text, BREAKS, _span("ApiKeys", 0, frame), "KIP-511"), request, frame)
    follow = _versions(8)
    await link.write(framed(follow))
    return await _answered(link, follow, 8)


def _span(path: str, version: int, frame: bytes) -> Span | None:
    found = spans.read("ApiVersions", version, frame).span(path)
    return Span(found.start, found.end, found.path) if found else None


async def unknown_api(link: Link, _: Place) -> Found | None:
    """A request of an API that nobody has."""
    await link.write(framed(struct.pack(">hhih", 32_000, 0, 1, -1)))
    return await _closes(link, "an unknown API is asked for")


async def unsupported_version(link: Link, _: Place) -> Found | None:
    """Metadata in a version that nobody has."""
    await link.write(framed(struct.pack(">hhih", 3, 32_000, 1, -1)))
    return await _closes(link, "Metadata is asked for in an unknown version")


async def byte_by_byte(link: Link, _: Place) -> Found | None:
    """A request whose bytes arrive one by one."""
    request = _versions(11)
    for number in framed(request):
        await link.write(bytes([number]))
        await asyncio.sleep(0.001)
    return await _answered(link, request, 11)


async def in_two_pieces(link: Link, _: Place) -> Found | None:
    """A request that is cut within its length, and again within its body."""
    request = _versions(12, 3)
    raw = framed(request)
    for piece in (raw[:2], raw[2:9], raw[9:]):
        await link.write(piece)
        await asyncio.sleep(PIECE_S)
    frame = await link.frame(PATIENCE_S)
    verdict = judge("ApiVersions", 3, 12, frame)[1]
    return Found(verdict, request, frame) if verdict else None


async def unfinished(link: Link, _: Place) -> Found | None:
    """A request whose last byte does not come is not answered."""
    raw = framed(_versions(13))
    await link.write(raw[:-1])
    try:
        frame = await link.frame(QUIET_S)
    except Silent:
        await link.write(raw[-1:])
        return await _answered(link, raw[4:], 13)
    except Closed:
        return _wrong("the connection is closed while a request is on its way")
    return Found(Verdict("a request is answered before its last byte has arrived", BREAKS), raw, frame)


async def oversized(link: Link, _: Place) -> Found | None:
    """A length of two gigabytes, which is more than socket.request.max.bytes."""
    await link.write(struct.pack(">i", 2**31 - 1) + b"\0" * 64)
    return await _closes(link, "a request of 2 GiB begins")


async def negative(link: Link, _: Place) -> Found | None:
    """A length below zero."""
    await link.write(struct.pack(">i", -1) + b"\0" * 64)
    return await _closes(link, "a request has a length of -1")


async def empty(link: Link, _: Place) -> Found | None:
    """A length of zero."""
    await link.write(struct.pack(">i", 0))
    return await _closes(link, "a request has a length of 0")


async def http(link: Link, _: Place) -> Found | None:
    """The request of a browser."""
    await link.write(b"GET / HTTP/1.1\r\nHost: muster\r\n\r\n")
    return await _closes(link, "an HTTP request arrives")


async def cut_body(link: Link, _: Place) -> Found | None:
    """A request whose body is shorter than its definition."""
    request = codec.encode_request("Metadata", 5, 1, CLIENT_ID, {"Topics": [{"Name": "x"}]})
    await link.write(framed(request[:-3]))
    return await _closes(link, "the body of a request ends too early")


async def correlation_ids(link: Link, _: Place) -> Found | None:
    """Any 32-bit number is a correlation id."""
    for number in (0, -1, 2**31 - 1, -(2**31), 5, 5):
        request = _versions(number)
        await link.write(framed(request))
        found = await _answered(link, request, number)
        if found:
            return found
    return None


async def client_ids(link: Link, _: Place) -> Found | None:
    """A client id may be null, empty, long, and any text."""
    for number, name in enumerate((None, "", "a" * 1_000, "müster-✓", " ", "a/b,c=d")):
        request = _versions(number, client=name)
        await link.write(framed(request))
        found = await _answered(link, request, number)
        if found:
            return found
    return None


async def header_tags(link: Link, _: Place) -> Found | None:
    """Unknown tagged fields in a request's header."""
    body = {"ClientSoftwareName": CLIENT_ID, "ClientSoftwareVersion": "1"}
    request = codec.encode_request("ApiVersions", 3, 21, CLIENT_ID, body, forms.EXTRA)
    await link.write(framed(request))
    return await _answered(link, request, 21, 3)


async def pipelined(link: Link, _: Place) -> Found | None:
    """Thirty requests in one write: their answers come in their order."""
    asked = []
    for number in range(30):
        api = ("ApiVersions", "Metadata")[number % 2]
        version = 1 if api == "Metadata" else number % 3
        asked.append((api, version, codec.encode_request(api, version, number, CLIENT_ID, _small(api))))
    await link.write(b"".join(framed(request) for _, _, request in asked))
    return await _in_order(link, asked)


def _small(api: str) -> Body:
    return {"Topics": []} if api == "Metadata" else {}


async def _in_order(link: Link, asked: list[tuple[str, int, bytes]]) -> Found | None:
    for number, (api, version, request) in enumerate(asked):
        frame = await link.frame(PATIENCE_S)
        verdict = judge(api, version, number, frame)[1]
        if verdict:
            return Found(verdict, request, frame)
    return None


async def slow_then_quick(link: Link, place: Place) -> Found | None:
    """A Fetch that waits, and behind it quick requests. The answers come in the order of the requests."""
    rows = [{"Partition": 1, "FetchOffset": 0, "PartitionMaxBytes": 1_000}]
    body = {"MaxWaitMs": 500, "MinBytes": 1, "Topics": [{"Topic": place.topic, "Partitions": rows}]}
    asked = [
        ("Fetch", 4, codec.encode_request("Fetch", 4, 0, CLIENT_ID, body)),
        ("ApiVersions", 0, _versions(1)),
        ("ApiVersions", 0, _versions(2)),
    ]
    await link.write(b"".join(framed(request) for _, _, request in asked))
    return await _in_order(link, asked)


async def without_acks(link: Link, place: Place) -> Found | None:
    """A Produce with acks=0 has no answer: the next answer is that of the next request."""
    rows = [{"Index": 0, "Records": place.batch}]
    body = {"Acks": 0, "TimeoutMs": 1_000, "TopicData": [{"Name": place.topic, "PartitionData": rows}]}
    produce, request = codec.encode_request("Produce", 7, 31, CLIENT_ID, body), _versions(32)
    await link.write(framed(produce) + framed(request))
    return await _answered(link, request, 32)


async def half_closed(link: Link, _: Place) -> Found | None:
    """A connection that ends within a request disturbs nobody: the target serves the next one."""
    await link.write(framed(_versions(41))[:-2])
    await link.close()
    return None


async def many_versions(link: Link, _: Place) -> Found | None:
    """The versions that are advertised are the same in every version of ApiVersions."""
    seen: dict[int, dict[int, tuple[int, int]]] = {}
    for version in range(4):
        request = _versions(version, version)
        await link.write(framed(request))
        frame = await link.frame(PATIENCE_S)
        body, verdict = judge("ApiVersions", version, version, frame)
        if verdict or body is None:
            return Found(verdict, request, frame) if verdict else None
        if body["ErrorCode"]:
            # an old target, which knows fewer versions
            break
        seen[version] = {row["ApiKey"]: (row["MinVersion"], row["MaxVersion"]) for row in body["ApiKeys"]}
        if seen[version] != seen[0]:
            span = _span("ApiKeys", version, frame)
            text = f"ApiVersions advertises other versions in version {version} than in version 0"
            return Found(Verdict(text, DIFFERS, span, "ApiVersionsResponse.java"), request, frame)
    return None


PROBES = (
    FrameProbe("unknown-version", "ApiVersions in an unknown version is answered in version 0", unknown_version),
    FrameProbe("unknown-api", "a request of an unknown API closes the connection", unknown_api),
    FrameProbe("unsupported-version", "an unknown version closes the connection", unsupported_version, "Metadata"),
    FrameProbe("byte-by-byte", "the bytes of a request may arrive one by one", byte_by_byte),
    FrameProbe("pieces", "a request may be cut anywhere", in_two_pieces),
    FrameProbe("unfinished", "a request is answered when its last byte is there, and not before", unfinished),
    FrameProbe("oversized", "a request of 2 GiB closes the connection", oversized),
    FrameProbe("negative-length", "a length below zero closes the connection", negative),
    FrameProbe("empty", "a request of no bytes closes the connection", empty),
    FrameProbe("http", "an HTTP request closes the connection", http),
    FrameProbe("cut-body", "a body that ends too early closes the connection", cut_body, "Metadata"),
    FrameProbe("correlation-ids", "each answer has the correlation id of its request", correlation_ids),
    FrameProbe("client-ids", "a client id is null, empty, long or any text", client_ids),
    FrameProbe("header-tags", "unknown tagged fields in the header are skipped", header_tags),
    FrameProbe("pipelined", "requests in a row are answered in their order", pipelined, "Metadata"),
    FrameProbe("slow-then-quick", "a quick request waits behind a slow one", slow_then_quick, "Fetch"),
    FrameProbe("no-acks", "a Produce with acks=0 has no answer", without_acks, "Produce"),
    FrameProbe("cut-off", "a connection that ends within a request disturbs nobody", half_closed),
    FrameProbe("same-versions", "every version of ApiVersions advertises the same", many_versions),
)
"""All probes of frames."""
