"""docs/limits.md has the values of the code: each constant and property that it names has its value in the same row."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import pytest

from muster.coordinator.properties.lookup import BROKER, MUSTER, TOPIC
from tests.test_repo import ROOT

NO_NUMBER = {"Kafka's protocol", "`api/registry.py` ONLY_READS"}
FILE = re.compile(r"`((?:\w+/)*\w+)\.py`((?:,? [A-Z_]{4,})+)")
NAME = re.compile(r"[A-Z_]{4,}")
PROPERTY = re.compile(r"`((?:\w+\.)+\w+)`")
KB, MB, GB = (1 << shift for shift in (10, 20, 30))
UNLIMITED = {(1 << 31) - 1, (1 << 63) - 1}


class Claim(NamedTuple):
    """What a row says of one name."""

    name: str
    value: object
    text: str

    def __str__(self) -> str:
        return self.name


def constants(cell: str) -> Iterator[tuple[str, object]]:
    for path, names in FILE.findall(cell):
        module = path.replace("/", ".")
        top = "" if (ROOT / path.partition("/")[0]).is_dir() else "coordinator."
        room = importlib.import_module(f"muster.{top}{module}")
        for name in NAME.findall(names):
            found = getattr(room, name)
            if isinstance(found, frozenset):
                continue  # of the things that a limit counts
            for number, value in enumerate(found if isinstance(found, tuple) else (found,)):
                yield f"{path}.{name}.{number}", value


def properties(cell: str) -> Iterator[tuple[str, object]]:
    for name in PROPERTY.findall(cell):
        if not name.endswith(".py"):
            found = BROKER.get(name) or MUSTER.get(name) or TOPIC[name]
            yield name, int(found.default or "")


def rows() -> Iterator[list[str]]:
    for line in (ROOT / "docs" / "limits.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| limit | value |"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def claims() -> Iterator[Claim]:
    for limit, value, set_by, beyond in rows():
        for name, found in (*constants(set_by), *properties(set_by)):
            yield Claim(name, found, f"{limit} | {value} | {beyond}")


def said(value: int) -> Iterator[str]:
    """The texts that stand for a number."""
    yield f"{value:,}"
    yield f"({value})"
    for unit, size in (("KB", KB), ("MB", MB), ("GB", GB), ("s", 1_000), ("min", 60_000), ("million", 1_000_000)):
        if value % size == 0:
            yield f"{value // size:,} {unit}"
    if value == 1_000_000:
        yield "a million"
    if value == 4:
        yield "a quarter"
    if value % MB == MB - KB:
        yield f"{value // MB + 1} MB less 1 KB"
    if value in UNLIMITED:
        yield from ("no limit", "none")


@pytest.mark.parametrize("claim", [*claims()], ids=str)
def test_a_limit_in_the_docs_has_the_value_of_the_code(claim: Claim) -> None:
    assert isinstance(claim.value, int)
    ways = [*said(claim.value)]
    assert any(re.search(rf"(?<![\d,.]){re.escape(way)}(?![,.]?\d)", claim.text) for way in ways), (ways, claim)


def test_each_limit_names_a_constant_or_a_property() -> None:
    for limit, _, set_by, _ in rows():
        assert set_by in NO_NUMBER or [*constants(set_by), *properties(set_by)], limit


LIMIT = re.compile(
    r"^(_?(?:[A-Z_]*_)?(?:MOST|MAX|AT_ONCE|FEW|MANY|LARGE|LONGEST|KEPT)(?:_[A-Z_]+)?)(?:: Final[^=]*)? = ([0-9(].*)$",
    re.M,
)
"""A number in the code whose name says that it is a limit."""
INNER = {
    "api/dispatch.MAX_CONNECTION_ROUTES",
    "api/dispatch.MAX_ROUTES",
    "api/dispatch.MAX_ROUTES_BYTES",
    "config/sources.MAX_PARTITIONS",
    "log/producers/append_checks.MAX_EPOCH",
    "log/producers/state.MAX_SEQUENCE",
    "log/records/headers.MAX_TIMESTAMP_POSITION",
    "log/segments/index.MAX_RELATIVE_OFFSET",
    "net/connection.MAX_AUTHENTICATION_BYTES",
    "protocol/message_sets.MAX_DELTA",
    "protocol/wire.MAX_STRING",
    "topics/fetch_sessions.MAX_EPOCH",
    "topics/names.MAX_NAME_LENGTH",
    "api/security/acls.WRITTEN_AT_ONCE",
    "api/configs/describe_configs.MAX_KNOWN",
    "api/many_rows.READ_AT_ONCE",
    "api/dispatch.FEW_ELEMENTS",
    "api/exchange.MANY_ROWS",
    "telemetry/subscriptions.MAX_ORDERED",
    "telemetry/subscriptions.MAX_ORDERED_CHARACTERS",
    "telemetry/client_instances.INTERVALS_KEPT",
    "api/many_rows.AT_ONCE",
    "api/many_rows.NAMES_AT_ONCE",
    "api/many_rows.ROWS_AT_ONCE",
    "api/groups/administration.MAX_FILTERS",
    "api/groups/consumer_groups.FEW_NAMES",
    "api/groups/share_groups.FEW_NAMES",
    "api/groups/consumer_groups.MAX_GROUP_BYTES",
    "api/groups/membership.MANY_PROTOCOLS",
    "api/many_rows.MAX_ORDERED_CHARACTERS",
    "api/many_rows.MAX_ORDERED_NAMES",
    "api/repeated_requests.MAX_AWAITED",
    "api/cached_requests.MAX_BYTES",
    "api/cached_requests.MAX_CACHED",
    "api/cached_commits.MAX_ROWS",
    "api/client_quotas.WRITTEN_AT_ONCE",
    "api/registry.KEPT",
    "api/registry.LARGE_BYTES",
    "api/registry.RECORDS_LARGE_BYTES",
    "api/throttled.MAX_KNOWN",
    "api/topics/describe_topic_partitions.SORTED_AT_ONCE",
    "api/transactions/producers.AT_ONCE",
    "api/transactions/administration.IDS_AT_ONCE",
    "api/transactions/administration.AT_ONCE",
    "api/unsent.GIVEN_UP_AT_ONCE",
    "system/clock.MAX_READ_MS",
    "system/memory.MAX_OBJECTS",
    "state_machine/deadlines.MAX_LATE_ANSWERS",
    "postgres/housekeeping.DROPPED_AT_ONCE",
    "postgres/housekeeping.LEASES_KEPT",
    "postgres/housekeeping.SHORTENED_AT_ONCE",
    "postgres/led_partitions.AT_ONCE",
    "postgres/led_partitions.CHECKED_AT_ONCE",
    "postgres/led_partitions.MAX_LONG",
    "postgres/leader_decisions.MAX_MOVES",
    "postgres/leader_decisions.WRITTEN_AT_ONCE",
    "postgres/shared_metadata_log.ENCODED_AT_ONCE",
    "postgres/segment_cache.AT_ONCE",
    "postgres/segment_cache.KEPT",
    "postgres/database_log.FACTS_AT_ONCE",
    "postgres/statements.MAIL_KEPT_S",
    "runtime/group_coordinator/background_work.NAMES_AT_ONCE",
    "runtime/group_coordinator/share_states.ASKED_AT_ONCE",
    "runtime/group_coordinator/record_codec.KEYS_KEPT",
    "runtime/group_coordinator/background_work.FEW_TOPICS",
    "runtime/group_coordinator/background_work.HASHED_AT_ONCE",
    "groups/common/state.KEPT",
    "groups/common/state.MAX_SHARED_LENGTH",
    "groups/consumer/describe.TOPICS_AT_ONCE",
    "api/groups/streams_groups.MAX_ERRORS",
    "groups/common/epoch_history.MAX_NAMES",
    "groups/common/epoch_history.MAX_TOPICS",
    "groups/streams/history.MAX_NAMED",
    "groups/streams/history.MAX_WAITED",
    "groups/streams/internal_topics.MAX_NAMED",
    "groups/streams/restoration.MAX_ROWS",
    "groups/share/replay.MAX_SHARED_NAMES",
    "groups/share/target.FEW_NAMES",
    "groups/consumer/topics.FEW_NAMES",
    "groups/consumer/topics.SUBSCRIPTIONS_KEPT",
    "groups/consumer/checks.FEW_NAMES",
    "groups/consumer/history.MAX_PARTITIONS",
    "groups/common/kafka_order.FEW_IDS",
    "groups/common/kafka_order.KEPT",
    "groups/common/kafka_order.MAX_ORDERED",
    "groups/common/kafka_order.FEW_TOPICS",
    "groups/consumer/records.FEW_TOPICS",
    "groups/consumer/computed_targets.TOPICS_AT_ONCE",
    "groups/consumer/member.FEW",
    "groups/consumer/replay.MAX_SHARED_NAMES",
    "groups/consumer/target.AT_ONCE",
    "groups/streams/target.AT_ONCE",
    "groups/common/topic_hashes.FEW_PARTITIONS",
    "groups/common/topic_hashes.TOPICS_KEPT",
    "groups/common/topic_hashes.MAX_WITH_RACKS",
    "groups/core.MAX_DEADLINES_AT_ONCE",
    "groups/core.MAX_RECORDS_AT_ONCE",
    "groups/migration/upgrade.READ_AT_ONCE",
    "share_state/core.CHECKED_AT_ONCE",
    "runtime/share_coordinator/shard.FORGOTTEN_AT_ONCE",
    "log/file_names.MAX_BYTES",
    "log/producers/files.FEW_PRODUCERS",
    "log/producers/snapshot.PRODUCERS_AT_ONCE",
    "log/producers/state.KEPT_BATCHES",
    "log/producers/state.CHECKED_AT_ONCE",
    "log/producers/state_manager.FEW_ABORTED",
    "log/producers/state_manager.MAX_ENDED",
    "log/records/batches.LARGE_RECORD_BYTES",
    "log/segments/reading.MANY_RECORDS",
    "log/segments/transaction_index.ENTRIES_AT_ONCE",
    "log/segments/transaction_index.MAX_KEPT",
    "log/storage/shared_sync.FEW",
    "log/manager.LOGS_AT_ONCE",
    "log/maintenance.SEGMENTS_AT_ONCE",
    "system/clock.AT_ONCE_MS",
    "system/event_loop.EVENTS_AT_ONCE",
    "system/memory.LARGE_BYTES",
    "net/connection.REQUESTS_AT_ONCE",
    "net/connection.WRITTEN_AT_ONCE",
    "net/jwks_source.LONGEST_ID",
    "net/jwks_source.MAX_MISSING",
    "net/listener.ACCEPTED_AT_ONCE",
    "net/request_memory.AT_ONCE",
    "net/authentication_gate.MAX_SESSION_MS",
    "net/tls/handshake.MAX_STEPS_AT_ONCE",
    "server/nodes/control.MAX_BYTES",
    "server/nodes/leader_changes.AT_ONCE",
    "server/nodes/leader_changes.MAX_PREFERRED",
    "history/words.MAX_NAMED",
    "history/journal.PIECES_AT_ONCE",
    "history/counts.LONGEST",
    "history/schema.FEW_PROTOCOLS",
    "history/schema.LONGEST_KEPT",
    "history/schema.LONGEST_NAME",
    "history/schema.MAX_TOPICS",
    "history/schema.PROTOCOLS_KEPT",
    "history/counts.MAX_TRANSACTION_COUNTS",
    "history/transaction_journal.MAX_WAITING",
    "system/patterns.MAX_KEPT",
    "protocol/wire.LARGE_PART",
    "protocol/wire.MAX_PARTS",
    "protocol/wire.MAX_STRUCTS",
    "quotas/entities.MAX_HASHED",
    "quotas/managers.LONGEST_MS",
    "testcontrol/checks.MAX_COUNT",
    "testcontrol/checks.MAX_OFFSET",
    "testcontrol/clock.MAX_CANCELLED",
    "testcontrol/errors.MAX_INTERVENTIONS",
    "testcontrol/faults/actions.MAX_MS",
    "testcontrol/faults/engine.MAX_FAILURES",
    "testcontrol/faults/engine.MAX_NOTES",
    "testcontrol/groups.MAX_LINES",
    "testcontrol/http/contract.MAX_DIGITS",
    "testcontrol/http/contract.MAX_NAMED",
    "server/group_views.MAX_NAMED",
    "share/partition.MANY_RUNS",
    "share/sessions.MAX_EPOCH",
    "runtime/share_partitions/dead_letters.LETTERS_AT_ONCE",
    "runtime/share_partitions/dead_letters.WRITTEN_AT_ONCE",
    "runtime/share_partitions/led_partition.FEW_ROWS",
    "runtime/share_partitions/share_partitions.LOADS_AT_ONCE",
    "runtime/routing.LOAD_AT_ONCE_MS",
    "runtime/replies.ANSWERS_AT_ONCE",
    "runtime/routing.MAX_COUNTED",
    "runtime/figures.KEPT",
    "runtime/figures.KEPT_MS",
    "runtime/routing.KEPT",
    "runtime/routing.KEPT_CHARACTERS",
    "security/acls.AT_ONCE",
    "security/acls.MAX_TABLES",
    "security/sasl/delegation_tokens.MAX_KEPT",
    "security/sasl/oauthbearer.MAX_SKEW_MS",
    "security/ssl_principal.MAX_REFERENCE",
    "security/standard_authorizer.MAX_KEPT",
    "alerts/commits.GAPS_KEPT",
    "alerts/commits.STEPS_KEPT",
    "alerts/group_watch.FENCES_KEPT",
    "alerts/group_watch.INSTANCES_KEPT",
    "alerts/group_watch.KEPT_MS",
    "alerts/remembering.MAX_REMEMBERED",
    "alerts/sampling.LOOKED_AT_ONCE",
    "alerts/shares.FAILURES_KEPT",
    "alerts/shares.HOLDS_KEPT",
    "alerts/shares.STEPS_KEPT",
    "alerts/shares.WAITING_KEPT",
    "alerts/watching.JUDGED_AT_ONCE",
    "alerts/webhooks.LONGEST_WAIT_MS",
    "http/api.LOOKED_AT_ONCE",
    "http/users.MAX_AT_ONCE",
    "http/users.MAX_KNOWN",
    "http/console/feed.EVENTS_AT_ONCE",
    "http/console/feed.MAX_KEPT",
    "http/console/feed.MAX_REFUSALS",
    "http/console/feed.SENTENCES_AT_ONCE",
    "http/console/now.MAX_NAMED",
    "http/described_tasks.MAX_NAMED",
    "http/console/now.MAX_SENTENCES",
    "http/sight.MAX_NAMES",
    "http/console/routes.KEPT_MS",
    "http/console/routes.MAX_MS",
    "http/console/shown_events.KEPT_TIMELINES",
    "http/console/server_source.ENDS_AT_ONCE",
    "http/console/server_source.LARGE_BYTES",
    "http/console/shown_events.MAX_MEMBERS",
    "http/console/views.ROWS_AT_ONCE",
    "http/console/why.MAX_NAMED",
    "http/kafka_metrics.PARTITIONS_AT_ONCE",
    "http/live_groups.ROWS_AT_ONCE",
    "server/exposition.LINES_AT_ONCE",
    "server/group_figures.MAX_WAITING",
    "server/metrics.COUNTED_AT_ONCE",
    "system/logging/rate_limit.MAX_CAUSES",
    "system/logging/rate_limit.MAX_KINDS",
    "system/jobs/jobs.COUNTED_AT_ONCE",
    "system/jobs/matching.EXPENSIVE_AT_ONCE",
    "system/jobs/matching.NAMES_AT_ONCE",
    "system/jobs/job_queue.MANY_STEPS",
    "topics/catalogue.CLOSED_AT_ONCE",
    "topics/catalogue.REMOVED_AT_ONCE",
    "topics/configs.MAX_MADE",
    "topics/configs.CONFIGURED_AT_ONCE",
    "topics/fetch_wait.WATCHED_AT_ONCE",
    "topics/metadata_log.DECODED_AT_ONCE",
    "topics/metadata_state.COPIED_AT_ONCE",
    "topics/partition_maintenance.MAX_CHECKS_APART",
    "topics/open_topics.CHECKED_AT_ONCE",
    "topics/partition_maintenance.CHECKED_AT_ONCE",
    "topics/startup.MAX_NAMES",
    "topics/leader_balancer.CHECKED_AT_ONCE",
    "topics/stray_folders.MAX_LINES",
    "runtime/transaction_coordinator/markers.FEW",
    "transactions/add_partitions.FEW",
    "transactions/timeouts.MAX_REMOVED",
    "transactions/add_partitions.MAX_ORDERED",
    "transactions/timeouts.MAX_ABORTS",
}
"""Sizes of one step of large work, of caches, and of output: no client sees them. A new limit needs a row in
docs/limits.md, or its name here.
"""


def limits_in_the_code() -> Iterator[str]:
    folders = [(ROOT / name).rglob("*.py") for name in ("coordinator", "postgres", "testcontrol")]
    for path in sorted([*chain(*folders), *(ROOT / "protocol").glob("*.py")]):
        room = path.relative_to(ROOT).with_suffix("").as_posix().removeprefix("coordinator/")
        yield from (f"{room}.{name}" for name, _ in LIMIT.findall(path.read_text(encoding="utf-8")))


def test_each_limit_in_the_code_has_a_row_or_is_an_inner_one() -> None:
    named = {f"{path}.{name.strip('_')}" for _, _, cell, _ in rows() for path, names in FILE.findall(cell)
             for name in NAME.findall(names)}  # fmt: skip
    found = {f"{room}.{name.strip('_')}" for room, _, name in (one.rpartition(".") for one in limits_in_the_code())}
    assert sorted(found - named - INNER) == []
    assert sorted(INNER - found) == []
    assert sorted(INNER & named) == []
