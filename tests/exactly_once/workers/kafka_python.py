"""The application with kafka-python: it has one producer, and the group's generation fences it (KIP-447)."""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from typing import Any

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python 3.11 deprecates, and later ones allow again
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka.errors import (
        CommitFailedError,
        IllegalStateError,
        InvalidProducerEpochError,
        KafkaError,
        ProducerFencedError,
    )
    from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.exactly_once.workers import common
from tests.exactly_once.workers.common import Job, is_to_abort, say

FENCED = (ProducerFencedError, InvalidProducerEpochError)


class Worker:
    """One consumer and one producer."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.producer = kafka.KafkaProducer(
            bootstrap_servers=job.bootstrap,
            transactional_id=job.transactional_id,
            transaction_timeout_ms=common.TRANSACTION_TIMEOUT_MS,
            retry_backoff_ms=20,
            reconnect_backoff_max_ms=200,
            max_block_ms=60_000,
        )
        self.producer.init_transactions()
        self.consumer = kafka.KafkaConsumer(
            bootstrap_servers=job.bootstrap,
            group_id=job.group,
            group_instance_id=job.instance,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=common.SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=common.HEARTBEAT_MS,
            fetch_max_wait_ms=common.POLL_MS,
            retry_backoff_ms=20,
            reconnect_backoff_max_ms=200,
        )

        class Listener(kafka.ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked: Any) -> None:
                pass

            def on_partitions_assigned(self, assigned: Any) -> None:
                say("joined", len(assigned))

            def on_partitions_lost(self, lost: Any) -> None:
                pass

        self.consumer.subscribe([job.input], listener=Listener())

    def run(self, ended: threading.Event) -> None:
        """Work until stdin ends."""
        while not ended.is_set():
            common.lives()
            batches = self.consumer.poll(timeout_ms=common.POLL_MS, max_records=common.MAX_RECORDS)
            if batches:
                self._transaction(batches)
        self.consumer.close()
        self.producer.close()

    def _transaction(self, batches: dict[Any, list[Any]]) -> None:
        self.producer.begin_transaction()
        try:
            sent = []
            for place, records in batches.items():
                for one in records:
                    partition, value = self.job.made_of(place.partition, one.offset, one.value)
                    sent.append(self.producer.send(self.job.output, value, partition=partition))
            if is_to_abort():
                self.producer.flush()
                say("aborted")
                self._give_up()
                return
            offsets = {place: OffsetAndMetadata(records[-1].offset + 1, "", -1) for place, records in batches.items()}
            self.producer.send_offsets_to_transaction(offsets, self.consumer.group_metadata())
            self.producer.commit_transaction()
            say("committed", len(sent))
        except FENCED:
            raise
        except KafkaError as error:
            say("gave-up", type(error).__name__)
            self._give_up()

    def _give_up(self) -> None:
        self.producer.abort_transaction()
        assigned = [TopicPartition(self.job.input, one.partition) for one in self.consumer.assignment()]
        for place in assigned:
            committed = self.consumer.committed(place)
            with contextlib.suppress(AssertionError, IllegalStateError):  # the partition is no longer assigned
                self.consumer.seek(place, committed or 0)


def main() -> int:
    """Exit status 1 when the client gave up."""
    ended = common.ending()
    try:
        Worker(common.job()).run(ended)
    except FENCED as error:
        say("fenced", type(error).__name__)
        return 1
    except (KafkaError, CommitFailedError) as error:
        say("failed", type(error).__name__, error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
