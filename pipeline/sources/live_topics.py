"""The topics of a live cluster: the ends of their logs, with a history, and their names by id. Without Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # its types do not name OffsetSpec

from muster.pipeline.clock import now_ms
from muster.pipeline.sources.cluster import ANSWER_TIMEOUT_S, admin_client
from muster.pipeline.sources.ends import Between, History, Lookups, Place, Reach, ends_of_lookups
from muster.pipeline.sources.topics import INTERNAL

_UNSEEN: Final = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
)
"""If the request for a partition's end fails with one of these errors, the end is not known."""
_TOO_OLD: Final = (KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION)
"""Brokers before Kafka 3.0 do not know which record is the newest one."""


def reach_of_cluster(client: Mapping[str, str]) -> Reach:
    """The present ends of all topics but internal ones. `client`: options by librdkafka's names.

    This function must be called before the log of the groups is read. Otherwise a group may have committed for later
    records. Raises ClusterError, BadOption.
    """
    with admin_client(client) as admin:
        places = _all_places(admin)
        at_ms = now_ms()
        return Reach(at_ms, _offsets(admin, places, OffsetSpec.latest()))  # type: ignore[no-untyped-call]  # lacks annotations


def ends_of_cluster(
    client: Mapping[str, str],
    reach: Reach,
    between: Between,
    *,
    until_ms: int | None = None,
    known: History | None = None,
) -> pa.Table | None:
    """The rows (ENDS) of the partitions of `reach`, by `ends_of_lookups`. Raises ClusterError, BadOption."""
    with admin_client(client) as admin:

        def newest(places: Collection[Place]) -> dict[Place, tuple[int, int]]:
            found = _asked(admin, places, OffsetSpec.max_timestamp())  # type: ignore[no-untyped-call]  # lacks annotations
            return {place: (one.offset, one.timestamp) for place, one in found.items()}

        lookups = Lookups(
            lambda places: _offsets(admin, places, OffsetSpec.earliest()),  # type: ignore[no-untyped-call]  # lacks annotations
            newest,
            lambda places, then_ms: _offsets(admin, places, OffsetSpec.for_timestamp(then_ms)),
        )
        return ends_of_lookups(lookups, reach, between, until_ms, known)


def _all_places(admin: AdminClient) -> Sequence[Place]:
    topics = admin.list_topics(timeout=ANSWER_TIMEOUT_S).topics
    return [(name, number) for name in sorted(topics.keys() - INTERNAL) for number in sorted(topics[name].partitions)]


def _offsets(admin: AdminClient, places: Collection[Place], spec: OffsetSpec) -> dict[Place, int]:
    return {place: one.offset for place, one in _asked(admin, places, spec).items()}


def _asked(admin: AdminClient, places: Collection[Place], spec: OffsetSpec) -> dict[Place, Any]:
    """The answers (with `offset` and `timestamp`) of the partitions whose ends are visible."""
    if not places:
        return {}
    wanted = dict.fromkeys((TopicPartition(*place) for place in places), spec)
    found: dict[Place, Any] = {}
    for place, future in admin.list_offsets(wanted, request_timeout=ANSWER_TIMEOUT_S).items():
        try:
            found[place.topic, place.partition] = future.result()
        except KafkaException as error:
            if error.args[0].code() not in (*_UNSEEN, *_TOO_OLD):
                raise
    return found


def names_of_cluster(client: Mapping[str, str]) -> dict[str, str]:
    """The names of the visible topics of a live cluster, by their ids. Raises ClusterError."""
    found: dict[str, str] = {}
    with admin_client(client) as admin:
        topics = sorted(admin.list_topics(timeout=ANSWER_TIMEOUT_S).topics)
        asked = admin.describe_topics(TopicCollection(topics), request_timeout=ANSWER_TIMEOUT_S) if topics else {}
        for topic, answer in asked.items():
            # the topic was deleted meanwhile, or is not visible
            with suppress(KafkaException):
                found[str(answer.result().topic_id)] = topic
    return found
