"""conform/hurts.toml: it says what was seen, and a failure gets the clients that it hurts."""

from __future__ import annotations

import dataclasses
import json
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from muster.conform import hurts
from muster.conform.player import kafka_codec as codec
from muster.conform.player import spans
from muster.conform.results import Hurt, Outcome, Severity, Span, State
from tests.conform.hurts import run, seen
from tests.conform.hurts.changes import CHANGES
from tests.conform.hurts.faults import FAULTS
from tests.support import muster

BY_ID = {fault.id: fault for fault in hurts.FAULTS}
SEEN = json.loads(seen.SEEN.read_text())


def test_the_table_is_what_was_seen() -> None:
    assert seen.TABLE.read_text() == seen.table(SEEN)


def test_every_fault_was_put_into_answers() -> None:
    assert set(FAULTS) == set(CHANGES) - {"as-it-is"} == set(BY_ID)
    for fault in hurts.FAULTS:
        clients = [*fault.unhurt, *(one.client for one in fault.hurts)]
        assert len(clients) == len(set(clients)) >= 2, fault.id
        assert set(clients) <= set(run.CLIENTS.values()), fault.id


def test_nothing_happens_to_clients_whose_answers_are_not_changed() -> None:
    assert {row["ended"] for row in SEEN["as-it-is"].values()} == {seen.RIGHT}


@pytest.mark.parametrize("fault", [one for one in hurts.FAULTS if one.field], ids=lambda one: one.id)
def test_the_field_is_in_kafkas_definition(fault: hurts.Fault) -> None:
    fields = codec.MESSAGES[fault.api + "Response"]["fields"]
    structs = codec.MESSAGES[fault.api + "Response"].get("commonStructs", {})
    for name in fault.field.split("."):
        (field,) = [one for one in fields if one["name"] == name]
        fields = field.get("fields") or structs.get(field["type"].removeprefix("[]"), [])
    assert fault.kind == hurts.VALUE


def failed(api: str, version: int, body: dict[str, Any], path: str, *, extra: bytes = b"") -> Outcome:
    head = struct.pack(">i", 1) + (b"\0" if codec.answer_begins_at(api, version) == 5 else b"")
    answer = head + codec.encode(api + "Response", version, body) + extra
    reading = spans.read(api, version, answer)
    span = reading.fault or reading.span(path)
    assert span is not None
    wrong = Span(span.start, span.end, span.path)
    return Outcome(
        "probe", "x", "wire", "", State.FAILED, request=f"{api} v{version}", answer=answer, wrong=wrong,
        severity=Severity.CLIENTS_BREAK,
    )  # fmt: skip


def test_a_wrong_field_hurts_the_clients_of_the_table() -> None:
    outcome = hurts.with_hurts(failed("JoinGroup", 9, {"GenerationId": -1, "ProtocolName": None}, "GenerationId"))
    with_words = [Hurt(one.client, f"with -1: {one.how}") for one in BY_ID["join-generation"].hurts]
    assert list(outcome.hurts) == with_words
    assert len(with_words) >= 4


def test_rows_have_no_numbers_in_the_table() -> None:
    rows = [{"PartitionIndex": 0, "CommittedOffset": -1}]
    body = {"Groups": [{"GroupId": "g", "Topics": [{"Name": "t", "Partitions": rows}]}]}
    outcome = failed("OffsetFetch", 9, body, "Groups[0].Topics[0].Partitions[0].CommittedOffset")
    assert any("delivered again" in one.how for one in hurts.with_hurts(outcome).hurts)


@pytest.mark.parametrize(("code", "hurt"), [(7777, True), (27, True), (25, False)])
def test_an_error_code_hurts_as_the_kind_of_code_that_was_tried(code: int, hurt: bool) -> None:
    outcome = hurts.with_hurts(failed("Heartbeat", 4, {"ErrorCode": code}, "ErrorCode"))
    tried = {7777: "with an error code that Kafka does not have: ", 27: "with REBALANCE_IN_PROGRESS in every answer: "}
    assert bool(outcome.hurts) == hurt
    assert all(one.how.startswith(tried[code]) for one in outcome.hurts)


def test_a_byte_too_many_hurts_those_who_do_not_ignore_it() -> None:
    outcome = failed("Heartbeat", 4, {}, "", extra=b"\0")
    assert hurts.kind_of(outcome) == hurts.TRAILING
    assert [one.client for one in hurts.with_hurts(outcome).hurts] == [
        one.client for one in BY_ID["trailing-byte"].hurts
    ]


def test_a_refused_version_of_api_versions_is_known_by_its_probe() -> None:
    outcome = Outcome("probe", hurts.UNKNOWN_VERSION, "wire", "", State.FAILED, request="ApiVersions")
    assert hurts.with_hurts(outcome).hurts
    assert not hurts.with_hurts(dataclasses.replace(outcome, id="frame-http")).hurts


async def test_a_trial_is_played_again() -> None:
    """One client and one fault of the table: a run that takes a moment."""
    async with muster.running() as server:
        command = [sys.executable, "-m", "tests.conform.hurts.workers.python_clients", "aiokafka"]
        found = await run.trial(server.bound[0].port, "join-protocol", command, 10)
    assert found["changed"] == 1
    assert seen.last(found["lines"]) == SEEN["join-protocol"][run.CLIENTS["aiokafka"]]["ended"]


def test_the_command_of_every_client_is_known() -> None:
    python = [name for name in run.CLIENTS if not name.startswith("java") and name not in run.GO]
    assert set(run.commands(python, Path())) == set(python)
