"""Names of topics by id: records of KIP-848 groups have only ids.

A data directory has `partition.metadata` in each partition's folder; a live cluster is asked. The name of a deleted
topic is, at best, in old records.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

import pyarrow as pa
from confluent_kafka import KafkaException, TopicCollection
from pyarrow import fs

from muster.pipeline.sources.cluster import ANSWER_TIMEOUT_S, asking
from muster.pipeline.sources.segment_files import READERS, NoSource, folders_among, listed

_ID: Final = re.compile(rb"^topic_id: ([A-Za-z0-9_-]{22})$", re.MULTILINE)


def names_of_path(path: str) -> dict[str, str]:
    """Names by ids, in the form that Kafka writes ids in; of the topics that have a folder in a data directory."""
    try:
        system, _, entries = listed(path)
    except NoSource:
        return {}
    first: dict[str, str] = {}
    for folder in folders_among(entries):
        first.setdefault(folder.topic, f"{folder.path}/partition.metadata")
    with ThreadPoolExecutor(READERS) as readers:
        ids = list(readers.map(lambda file: _id_in(system, file), first.values()))
    return {topic_id: topic for topic, topic_id in zip(first, ids, strict=True) if topic_id is not None}


def _id_in(system: fs.FileSystem, file: str) -> str | None:
    try:
        with system.open_input_stream(file) as stream:
            match = _ID.search(stream.read())
    except (pa.ArrowException, OSError):
        return None
    return None if match is None else match[1].decode()


def names_of_cluster(client: Mapping[str, str]) -> dict[str, str]:
    """Names by ids of the topics of a live cluster that may be seen. Raises ClusterError."""
    found: dict[str, str] = {}
    with asking(client) as admin:
        topics = sorted(admin.list_topics(timeout=ANSWER_TIMEOUT_S).topics)
        asked = admin.describe_topics(TopicCollection(topics), request_timeout=ANSWER_TIMEOUT_S) if topics else {}
        for topic, answer in asked.items():
            # one that went meanwhile, or may not be seen
            with suppress(KafkaException):
                found[str(answer.result().topic_id)] = topic
    return found
