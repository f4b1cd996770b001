"""The application with confluent-kafka (librdkafka): it has one producer, and the group's generation fences it
(KIP-447).
"""

from __future__ import annotations

import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.exactly_once.workers import common
from tests.exactly_once.workers.common import Job, is_to_abort, say

PATIENCE_S = 15.0
"""The longest time of one call. librdkafka 2.16 can wait for ever in send_offsets_to_transaction after the server was
away. Such a worker ends, and is started again.
"""


class Worker:
    """One consumer and one producer."""

    def __init__(self, job: Job) -> None:
        self.job = job
        instance = {"group.instance.id": job.instance} if job.instance else {}
        common_settings = {"bootstrap.servers": job.bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 200}
        self.producer = Producer(
            {
                **common_settings,
                "transactional.id": job.transactional_id,
                "transaction.timeout.ms": common.TRANSACTION_TIMEOUT_MS,
                "linger.ms": 1,
            }
        )
        self.producer.init_transactions(PATIENCE_S)
        self.consumer = Consumer(
            {
                **common_settings,
                "group.id": job.group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": common.SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": common.HEARTBEAT_MS,
                "fetch.wait.max.ms": common.POLL_MS,
                **instance,
            },
            logger=None,
        )
        self.consumer.subscribe([job.input], on_assign=lambda _, assigned: say("joined", len(assigned)))

    def run(self, ended: threading.Event) -> None:
        """Work until stdin ends."""
        while not ended.is_set():
            common.lives()
            came = self.consumer.consume(common.MAX_RECORDS, common.POLL_MS / 1000)
            messages = [one for one in came if one.error() is None]
            if messages:
                self._transaction(messages)
        self.consumer.close()

    def _transaction(self, messages: list[Message]) -> None:
        self.producer.begin_transaction()
        try:
            for one in messages:
                partition, value = self.job.made_of(one.partition(), one.offset(), one.value())
                self.producer.produce(self.job.output, value, partition=partition)
            if is_to_abort():
                self.producer.flush()
                say("aborted")
                self._give_up()
                return
            reached: dict[int, int] = {}
            for one in messages:
                reached[one.partition()] = one.offset() + 1
            offsets = [TopicPartition(self.job.input, partition, offset) for partition, offset in reached.items()]
            self._again(
                lambda: self.producer.send_offsets_to_transaction(
                    offsets, self.consumer.consumer_group_metadata(), PATIENCE_S
                )
            )
            self._again(lambda: self.producer.commit_transaction(PATIENCE_S))
            say("committed", len(messages))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            say("gave-up", error.args[0].name())
            self._give_up()

    def _give_up(self) -> None:
        self._again(lambda: self.producer.abort_transaction(PATIENCE_S))
        while True:
            assignment = self.consumer.assignment()
            try:
                for one in self.consumer.committed(assignment, 10) if assignment else []:
                    if one.error is not None:
                        raise KafkaException(one.error)
                    self.consumer.seek(TopicPartition(one.topic, one.partition, max(one.offset, 0)))
            except KafkaException:
                self.consumer.poll(0.05)  # it has a new assignment meanwhile, or the server is away
            else:
                return

    def _again(self, step: object) -> None:
        """Repeat while librdkafka says that the call may be repeated."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                step()
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
            else:
                return


def main() -> int:
    """Exit status 1 when the client gave up."""
    ended = common.ending()
    try:
        Worker(common.job()).run(ended)
    except KafkaException as error:
        name = error.args[0].name()
        say("fenced" if "FENCED" in name else "failed", name, error.args[0].str())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
