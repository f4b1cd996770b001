"""Requests about quotas of clients, one after the other on a new cluster, and what Kafka 4.3 answers to them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from muster.protocol.message import Message
from muster.protocol.messages import alter_client_quotas
from muster.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, OpData
from muster.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest


class Exchange(NamedTuple):
    name: str
    request: Message
    version: int = 1


Names = tuple[tuple[str, str | None], ...]

ALICE = (("user", "alice"),)
RATE = "producer_byte_rate"
CONNECTIONS = "connection_creation_rate"
NAN, INFINITY = float("nan"), float("inf")


def change(names: Iterable[tuple[str, str | None]], *ops: tuple[str, float | None]) -> Any:
    """A change of one entity; the value None removes the quota."""
    parts = [alter_client_quotas.AlterClientQuotasRequestEntityData(*part) for part in names]
    rows = [OpData(key, value or 0.0, value is None) for key, value in ops]
    return alter_client_quotas.AlterClientQuotasRequestEntryData(parts, rows)


def alter(*entries: Any, validate_only: bool = False) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(list(entries), validate_only)


def ask(*components: tuple[str, int, str | None], strict: bool = False) -> DescribeClientQuotasRequest:
    """0: this name, 1: the default, 2: any of the type."""
    return DescribeClientQuotasRequest([ComponentData(*row) for row in components], strict)


def _exchanges() -> Iterable[Exchange]:
    yield Exchange("none yet", ask())
    yield Exchange("a first one", alter(change(ALICE, (RATE, 1000.0))))
    yield Exchange("a key twice", alter(change(ALICE, (RATE, 5.0), (RATE, 6.0))))
    yield Exchange("an entity twice: the first counts", alter(change(ALICE, (RATE, 7.0)), change(ALICE, (RATE, 8.0))))
    yield Exchange("it counted", ask(("user", 0, "alice")))
    yield Exchange("a pair twice", alter(*[change((*ALICE, ("client-id", None)), (RATE, 7.0))] * 2))
    yield Exchange("wrong, then right", alter(change(ALICE, ("nope", 7.0)), change(ALICE, (RATE, 8.0))))
    yield Exchange("a type twice: the last counts", alter(change((*ALICE, ("user", "bob")), (RATE, 5.0))))
    yield Exchange("two right ones, a wrong one between", alter(
        change((("user", "a"),), (RATE, 1.0)), change((("user", "b"),), ("nope", 1.0)),
        change((("user", "c"),), (RATE, 3.0)),
    ))  # fmt: skip
    for names in _entities():
        for key in (RATE, CONNECTIONS):
            yield Exchange(f"{key} of {names}", alter(change(names, (key, 500_000.0))))
    for key in (RATE, "consumer_byte_rate", "request_percentage", "controller_mutation_rate"):
        for value in (0.0, -1.0, 0.5, 1.5, 1.0000001, 2.0**31, 2.0**63, 1e19, NAN, INFINITY, -INFINITY):
            yield Exchange(f"{key} {value}", alter(change((("user", "values"),), (key, value))))
    for value in (0.0, 5.5, 2.0**31 - 1, 2.0**31, NAN):
        yield Exchange(f"{CONNECTIONS} {value}", alter(change((("ip", "127.0.0.9"),), (CONNECTIONS, value))))
    yield Exchange("no change", alter(change(ALICE)))
    yield Exchange("no entity", alter())
    yield Exchange("only validated", alter(change((("user", "v"),), (RATE, 9.0)), validate_only=True))
    yield Exchange("only validated, and wrong", alter(change((("user", "v"),), ("nope", 9.0)), validate_only=True))
    yield Exchange("nothing came of it", ask(("user", 0, "v")))
    yield Exchange("what is not there is removed", alter(change(ALICE, ("nope", None), ("consumer_byte_rate", None))))
    for first, second in (("nope", RATE), (RATE, "nope"), (RATE, "request_percentage"), ("x", "nope")):
        yield Exchange(f"{first} and {second} wrong", alter(change(ALICE, (first, -1.0), (second, -1.0))))
    yield Exchange("in the first version", alter(change((("user", "ä/ö"),), (RATE, 9.0))), 0)
    quotas = [(RATE, 1.0), ("consumer_byte_rate", 2.0), ("request_percentage", 3.0), ("controller_mutation_rate", 4.0)]
    yield Exchange("all quotas, the user first", alter(change((("user", "U1"), ("client-id", "C1")), *quotas)))
    yield Exchange("all quotas, the client first", alter(change((("client-id", "C2"), ("user", "U2")), *quotas)))
    yield Exchange("some of the quotas", alter(*[
        change((("user", f"some{count}"),), *quotas[:count]) for count in (1, 2, 3)
    ]))  # fmt: skip
    kinds = ("user", "client-id", "ip")
    for strict in (False, True):
        yield Exchange(f"all, strict {strict}", ask(strict=strict))
        for kind in kinds:
            for how, name in ((0, "alice"), (0, "c2"), (0, "127.0.0.1"), (0, ""), (1, None), (2, None)):
                yield Exchange(f"{kind} {how} {name}, strict {strict}", ask((kind, how, name), strict=strict))
        for one in (0, 1, 2):
            for other in (0, 1, 2):
                pair = ("user", one, None if one else "alice"), ("client-id", other, None if other else "c1")
                yield Exchange(f"pairs {one} {other}, strict {strict}", ask(*pair, strict=strict))
    for rows in (
        (("ip", 2, None), ("user", 2, None)), (("client-id", 2, None), ("ip", 2, None)), (("", 2, None),),
        (("user", 2, None), ("user", 1, None)), (("user", 2, None), ("x", 2, None)), (("x", 9, None),),
        (("user", 0, None),), (("user", 1, "x"),), (("user", 2, "x"),), (("user", 3, "x"),), (("user", -1, None),),
    ):  # fmt: skip
        yield Exchange(f"filter {rows}", ask(*rows))
    yield Exchange("all, in the first version", ask(), 0)
    yield Exchange("a wrong filter in the first version", ask(("x", 0, "")), 0)
    many = [change((("user", f"u{index}"),), (RATE, 1.0)) for index in range(10_001)]
    yield Exchange("too many", alter(*many))
    yield Exchange("none came of too many", ask(("user", 0, "u1")))
    yield Exchange("removed", alter(change(ALICE, (RATE, None))))


def _entities() -> Iterable[Names]:
    user, client, address = ("user", "u"), ("client-id", "c1"), ("ip", "127.0.0.1")
    yield ()
    for kind in ("user", "client-id", "ip", "x", ""):
        yield ((kind, ""),)
        yield ((kind, None),)
    yield from ((user,), (client,), (address,))
    yield from ((user, client), (user, ("client-id", None)), (("user", None), ("client-id", "c2")))
    yield (("user", None), ("client-id", None))
    yield from ((user, address), (client, address), (user, client, address), (("ip", None), ("user", None)))
    yield from ((("x", "y"), user), (user, ("x", "y")), (("user", ""), ("x", "y")), (("x", "y"), ("client-id", "")))
    for name in ("::1", "127.1", "localhost", "a b", "1.2.3.4.5", "[::1]"):
        yield (("ip", name),)
    yield (("user", "a b/*?ü"),)


EXCHANGES = list(_exchanges())


def values_of(answer: Any) -> Any:
    """An answer as plain data; entries and quotas are in the order of the answer."""
    if isinstance(answer, alter_client_quotas.AlterClientQuotasResponse):
        rows = [[_names(row), row.error_code, row.error_message] for row in answer.entries]
        if len(rows) > 1_000:
            return [len(rows), *sorted({json.dumps(row[1:]) for row in rows})]
        return rows
    found = None
    if answer.entries is not None:
        found = [[_names(row), [[one.key, repr(one.value)] for one in row.values]] for row in answer.entries]
    return [answer.error_code, answer.error_message, found]


def _names(row: Any) -> Any:
    return [[part.entity_type, part.entity_name] for part in row.entity]


def kafkas() -> list[Any]:
    """What Kafka 4.3 answered, in the order of `EXCHANGES`."""
    found: list[Any] = json.loads(Path(__file__).with_name("kafka.json").read_text())
    return found
