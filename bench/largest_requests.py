"""Sends the largest requests that the limits allow, one after the other, to a server in this process.

The figures are the longest time for which the event loop was blocked, and the memory that was used.

    python -m bench.largest_requests [PART OF AN API'S NAME ...]

Each API is used in its newest version. For each of its arrays, there is a request in which that array has as many
elements as allowed. The elements are equal or different, with short or with long texts. Other requests create as many
partitions as allowed.

* With the argument `topics`, only requests that create many partitions are sent.
* With `security`, requests have many access control entries, users and quotas, and the server has an authorizer.
* The column `turn` is the CPU time of the longest iteration of the event loop.
* The column `wait` is the longest delay of the event loop. Other load on the machine counts, too.

docs/limits.md has the limits.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from muster.coordinator.api.registry import SERVED
from muster.coordinator.config import load
from muster.coordinator.server import SWITCH_S, Server
from muster.coordinator.system import memory
from muster.protocol import frames
from muster.protocol.api import Api, api, api_named
from muster.protocol.message import Message
from muster.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from muster.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from muster.protocol.wire import MAX_ELEMENTS

MAX_BYTES = 31_000_000
LONG = 200
"""How many characters a long text has."""
BEAT_S = 0.002
TURN_MS = 50
MEMORY_MB = 200

CLIENT = """
import socket, struct, sys
for line in sys.stdin:
    port, path = line.split()
    client = socket.create_connection(("127.0.0.1", int(port)), timeout=100)
    try:
        client.sendall(open(path, "rb").read())
        head = client.recv(4, socket.MSG_WAITALL)
        left = size = struct.unpack(">i", head)[0] if len(head) == 4 else -1
        while left > 0:
            got = len(client.recv(min(left, 1 << 20)))
            left -= got or left
        print("closed" if size < 0 else f"{size + 4} B", flush=True)
    except OSError as error:
        print(type(error).__name__, flush=True)
    client.close()
"""


class Case(NamedTuple):
    """A request with its name."""

    name: str
    frame: bytes


def arrays_of(module: Any, cls: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The arrays in a message: the names of the fields that lead to each, and the class of its elements."""
    for name, parameter in inspect.signature(cls).parameters.items():
        found = re.match(r"Sequence\[(\w+)\]", str(parameter.annotation))
        if found is None:
            continue
        element = getattr(module, found[1], found[1])
        yield (*path, name), element
        if inspect.isclass(element):
            yield from arrays_of(module, element, (*path, name))


def filled(cls: Any, text: str) -> Any:
    """Make a message with this text in each text field."""
    names = [n for n, p in inspect.signature(cls).parameters.items() if str(p.annotation) in ("str", "str | None")]
    made = cls(**dict.fromkeys(names, text))
    for name in ("timeout_ms", "session_timeout_ms", "rebalance_timeout_ms"):
        if hasattr(made, name):
            setattr(made, name, 10_000)
    for name in ("transactional_id", "group_instance_id", "rack_id"):
        if hasattr(made, name) and str(inspect.signature(cls).parameters[name].annotation) == "str | None":
            setattr(made, name, None)
    if hasattr(made, "generation_id_or_member_epoch"):
        made.generation_id_or_member_epoch = -1
    for name in ("num_partitions", "replication_factor", "count"):
        if hasattr(made, name):
            setattr(made, name, 1)
    if hasattr(made, "acks"):
        made.acks = -1
    if hasattr(made, "topic_id"):
        made.topic_id = bytes(16)
    return made


def request_for(module: Any, root: type[Message], path: tuple[str, ...], text: Callable[[int], str], count: int) -> Any:
    """Make a request whose array at `path` has `count` elements. The arrays around it have one element."""
    request = at = filled(root, "t")
    steps = dict(arrays_of(module, root))
    for depth in range(1, len(path) + 1):
        element = steps[path[:depth]]
        number = count if depth == len(path) else 1
        rows = elements(element, text if depth == len(path) else lambda _: "t", number)
        setattr(at, path[depth - 1], rows)
        at = rows[0] if rows else None
    return request


def elements(element: Any, text: Callable[[int], str], number: int) -> list[Any]:
    """Make `number` elements of an array. `element`: their class, or the name of their type."""
    differ = text(0) != text(1)
    if element == "str":
        return [text(i) for i in range(number)]
    if element == "int":
        return [i if differ else 0 for i in range(number)]
    if not inspect.isclass(element):
        return [bytes(16)] * number
    # as bytes, one object many times is the same as many equal objects
    rows = [filled(element, text(0))] * number
    if differ:
        rows = [copy(rows[0]) for _ in rows]
        for name in [n for n in rows[0].__slots__ if getattr(rows[0], n) == text(0)]:
            for i, row in enumerate(rows):
                setattr(row, name, text(i))
    return rows


def cases(served: Api, wanted: list[int]) -> Iterator[Case]:
    """Make the requests of one API in the versions `wanted`."""
    module_name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", served.name).lower()
    module = import_module(f"muster.protocol.messages.{module_name}")
    root = getattr(module, f"{served.name}Request")
    for version in wanted:
        for path, _ in [((), None), *arrays_of(module, root)]:
            for kind, text in TEXTS.items():
                room = MAX_ELEMENTS - len(path) if path else 0
                count = room if kind != "long" else min(room, MAX_BYTES // (LONG + 40))
                if not path and kind != "same":
                    continue
                request = request_for(module, root, path, text, count)
                try:
                    frame = frames.request_frame(served, version, 1, request, "worst")
                except (ValueError, TypeError, AttributeError):
                    continue  # this version cannot encode the field
                yield Case(f"{served.name} {version} {'.'.join(path) or '-'} {kind}", frame)


def of_topics() -> Iterator[Case]:
    """Make requests that create and delete as many partitions as one request may."""
    new = [CreatableTopic(name="wide", num_partitions=10_000, replication_factor=1)]
    many = [f"many-{i}" for i in range(4_000)]
    for what, version, request in (
        ("one of 10,000 partitions", 7, CreateTopicsRequest(topics=new, timeout_ms=60_000)),
        ("4,000 new topics", 12, MetadataRequest([MetadataRequestTopic(name=name) for name in many])),
        ("all topics", 12, MetadataRequest(topics=None)),
        ("4,000 topics", 6, DeleteTopicsRequest([DeleteTopicState(name=name) for name in many], timeout_ms=60_000)),
        ("10,000 partitions", 6, DeleteTopicsRequest([DeleteTopicState(name="wide")], timeout_ms=60_000)),
    ):
        served = api_named(type(request).__name__.removesuffix("Request"))
        yield Case(f"{served.name} {version} {what}", frames.request_frame(served, version, 1, request, "worst"))


SECURITY = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""The settings of the server that answers `of_security`."""


def of_security(topics: int = 4_000) -> Iterator[Case]:
    """Make requests that create, describe, change and delete many access control entries, users and quotas."""
    from muster.protocol.messages import alter_client_quotas, alter_user_scram_credentials, incremental_alter_configs
    from muster.protocol.messages.create_acls import AclCreation, CreateAclsRequest
    from muster.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
    from muster.protocol.messages.describe_acls import DescribeAclsRequest
    from muster.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
    from muster.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest

    names = [f"many-{i}" for i in range(topics)]
    everything = [AclCreation(kind, "*", 3, "User:*", "*", 2, 3) for kind in (2, 3, 5)]
    everything.append(AclCreation(4, "kafka-cluster", 3, "User:*", "*", 2, 3))
    entries = [AclCreation(2, f"many-{i % topics}", 3, f"User:u{i}", "*", 3, 3) for i in range(19_990)]
    upsertions = [
        alter_user_scram_credentials.ScramCredentialUpsertion(f"u{i}", 1, 4096, b"salt", b"p" * 32)
        for i in range(10_000)
    ]

    def quotas(value: float, *, remove: bool = False) -> Message:
        rows = [
            alter_client_quotas.AlterClientQuotasRequestEntryData(
                [alter_client_quotas.AlterClientQuotasRequestEntityData("user", f"u{i}")],
                [alter_client_quotas.OpData("producer_byte_rate", value, remove)],
            )
            for i in range(10_000)
        ]
        return alter_client_quotas.AlterClientQuotasRequest(rows)

    configs = [
        incremental_alter_configs.AlterConfigsResource(
            2, name, [incremental_alter_configs.AlterableConfig("retention.ms", 0, "1000")]
        )
        for name in names
    ]
    all_acls = DeleteAclsFilter(2, None, 1, "User:none", None, 1, 1)
    for what, request in (
        ("4,000 new topics", MetadataRequest([MetadataRequestTopic(name=name) for name in names])),
        ("the first entries", CreateAclsRequest(everything)),
        ("10,000 entries", CreateAclsRequest(entries[:10_000])),
        ("10,000 more", CreateAclsRequest(entries[10_000:])),
        ("all entries", DescribeAclsRequest(1, None, 1, None, None, 1, 1)),
        ("entries of one of 20,000 users", DescribeAclsRequest(1, None, 1, "User:u7", None, 1, 1)),
        ("all topics, with what may be done", MetadataRequest(None, True, False, True)),
        ("4,000 topics, with what may be done", MetadataRequest(
            [MetadataRequestTopic(name=name) for name in names], True, False, True)),
        ("4,000 topics", incremental_alter_configs.IncrementalAlterConfigsRequest(configs)),
        ("10,000 users", alter_user_scram_credentials.AlterUserScramCredentialsRequest([], upsertions)),
        ("all users", DescribeUserScramCredentialsRequest(None)),
        ("10,000 quotas", quotas(1e9)),
        ("10,000 quotas, others", quotas(2e9)),
        ("all quotas", DescribeClientQuotasRequest([])),
        ("10,000 quotas less", quotas(0.0, remove=True)),
        ("1,000 filters that select none", DeleteAclsRequest([all_acls] * 1_000)),
        ("all entries of topics", DeleteAclsRequest([DeleteAclsFilter(2, None, 1, None, None, 1, 1)])),
    ):  # fmt: skip
        served = api_named(type(request).__name__.removesuffix("Request"))
        version = SERVED[served.key].max_version
        yield Case(f"{served.name} {version} {what}", frames.request_frame(served, version, 1, request, "worst"))


TEXTS: dict[str, Callable[[int], str]] = {
    "same": lambda _: "t",
    "different": lambda i: f"x{i}",
    "long": lambda i: f"{i:07}".rjust(LONG, "x"),
}


class Watch:
    """Measures how long the event loop is blocked."""

    def __init__(self) -> None:
        self.turn_s = self.wait_s = 0.0

    def begin(self) -> None:
        """Begin a new measure."""
        self.turn_s = self.wait_s = 0.0
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")

    def install(self, loop: Any) -> None:
        """Measure each iteration of the event loop."""
        run_once = loop._run_once

        def measured() -> None:
            began = time.thread_time()
            run_once()
            self.turn_s = max(self.turn_s, time.thread_time() - began)

        loop._run_once = measured
        self._beat(loop, loop.time())

    def _beat(self, loop: Any, due: float) -> None:
        now = loop.time()
        self.wait_s = max(self.wait_s, now - due)
        loop.call_at(now + BEAT_S, self._beat, loop, now + BEAT_S)


def resident_mb(key: str) -> float:
    """The memory of this process. `key`: VmRSS (now) or VmHWM (the peak)."""
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{key}:")[1].split()[0]) / 1024


async def measure(case: Case, port: int, client: Any, watch: Watch, folder: str) -> tuple[str, bool]:
    """Send one request, print a line, and return whether the limits were kept."""
    path = Path(folder) / "frame"
    path.write_bytes(case.frame)
    size = len(case.frame)
    case = Case(case.name, b"")
    await asyncio.sleep(0.05)  # this iteration has also made the request
    watch.begin()
    await asyncio.sleep(0.05)
    watch.turn_s = watch.wait_s = 0.0
    before, began = resident_mb("VmRSS"), time.monotonic()
    client.stdin.write(f"{port} {path}\n".encode())
    output = (await client.stdout.readline()).decode().strip()
    took_s = time.monotonic() - began
    grown = resident_mb("VmHWM") - before
    good = watch.turn_s * 1000 <= TURN_MS and grown <= MEMORY_MB
    return (
        f"{case.name:<70} {size:>9} B {output:>12} {took_s:6.1f} s  turn {watch.turn_s * 1000:5.0f} ms  "
        f"wait {watch.wait_s * 1000:5.0f} ms  +{grown:4.0f} MB{'' if good else '  <<<'}"
    ), good


async def run(wanted: list[str]) -> int:
    """Run all cases, and return how many took too long or too much memory."""
    loop = asyncio.get_running_loop()
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        secure = [f"{name}={value}" for name, value in SECURITY.items()] if "security" in wanted else []
        server = Server(load(listen="127.0.0.1:0", data_dir=Path(folder) / "data", topics=["t:3"], overrides=secure))
        port = (await server.start())[0].port
        sys.setswitchinterval(SWITCH_S)
        memory.limit_collections()
        watch = Watch()
        watch.install(loop)
        for served in SERVED.values():
            known = api(served.key)
            words = [word.lower() for word in wanted if word not in ("topics", "security")]
            if wanted and not any(word in known.name.lower() for word in words):
                continue
            for case in cases(known, [served.max_version]):
                line, good = await measure(case, port, client, watch, folder)
                print(line, flush=True)
                bad += not good
        assert client.stdin is not None
        if not wanted or "topics" in wanted:
            for case in of_topics():
                line, good = await measure(case, port, client, watch, folder)
                print(line, flush=True)
                bad += not good
        for case in of_security() if "security" in wanted else ():
            line, good = await measure(case, port, client, watch, folder)
            print(line, flush=True)
            bad += not good
        client.stdin.close()
        await client.wait()
        await server.stop()
    return bad


def main() -> None:
    """Run the cases whose names match."""
    found = asyncio.run(run(sys.argv[1:]))
    print(f"{found} above {TURN_MS} ms or {MEMORY_MB} MB")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
