"""`group.protocol=consumer` (KIP-848) as librdkafka speaks it, alone and beside members of the classic protocol."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError

from muster.cli import main
from muster.protocol import frames
from muster.protocol.api import ApiKey, api
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.e2e.aio import Member, members
from tests.e2e.conftest import BOOTSTRAP, RunningServer, Start, create_topic, new_server
from tests.e2e.ledger import Ledger, eventually, eventually_sync
from tests.e2e.sync_clients import (
    ThreadMember,
    commit_beginning,
    confluent_admin,
    confluent_consumer,
    confluent_member,
    confluent_produce,
    kafka_python_member,
    thread_members,
)
from tests.support import wire
from tests.support.servers import QUICK, ServerProcess

PARTITIONS = 8
GROUP_ID_NOT_FOUND, INVALID_REQUEST = 69, 42
NewName = Callable[[str], str]
NEXT: dict[str, Any] = {"group_protocol": "consumer"}
PROMPT = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "50",
}
"""Members get each new assignment soon."""
SHORT_SESSIONS = {"group.consumer.min.session.timeout.ms": "100", "group.consumer.session.timeout.ms": "1000"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose consumer groups settle soon."""
    workdir = tmp_path_factory.mktemp("prompt")
    if BOOTSTRAP:
        yield RunningServer(workdir, BOOTSTRAP)
        return
    process = new_server(workdir, {**QUICK, **PROMPT}, in_memory=True)
    process.start()
    yield process
    process.stop()


class Company:
    """The members of one group, their topics, and what they processed."""

    def __init__(self, server: ServerProcess, topic: str, group: str, partitions: int = PARTITIONS) -> None:
        self.bootstrap, self.topic, self.group, self.partitions = server.bootstrap, topic, group, partitions
        self.address, self.ledger = server.address, Ledger()
        self.sent = 0
        self.admin = confluent_admin(server.bootstrap)
        create_topic(server, topic, partitions)
        commit_beginning(server.bootstrap, topic, group, partitions)

    def member(self, name: str, **settings: Any) -> ThreadMember:
        return confluent_member(name, self.ledger, self.bootstrap, self.topic, self.group, **settings)

    def native(self, name: str, **settings: Any) -> ThreadMember:
        return self.member(name, **NEXT, **settings)

    def shared(self, *members: ThreadMember) -> None:
        """Wait until the members have all partitions, and their numbers of partitions differ by at most one."""

        def settled() -> bool:
            failed = [member.failure for member in members if member.failure]
            assert not failed, failed
            counts = [len(member.assignment) for member in members]
            union = set().union(*(member.assignment for member in members))
            return len(union) == sum(counts) == self.partitions and max(counts) - min(counts) <= 1

        eventually_sync(settled, f"{[member.name for member in members]} to share")

    def flow(self, count: int = 80) -> None:
        """Send records; return when each was processed."""
        confluent_produce(self.bootstrap, self.topic, [(b"%d" % number, b"value") for number in range(count)])
        self.sent += count
        eventually_sync(lambda: len(self.ledger) == self.sent, f"{self.sent} records")

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Send records all the time, one by one; at the end each one was processed."""
        done = threading.Event()
        producer = confluent_kafka.Producer({"bootstrap.servers": self.bootstrap, "log_level": 3, "linger.ms": 0})

        def send() -> None:
            while not done.wait(0.005):
                producer.produce(self.topic, b"value", partition=self.sent % self.partitions)
                producer.poll(0)
                self.sent += 1

        thread = threading.Thread(target=send, name="producer")
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        assert producer.flush(30) == 0
        eventually_sync(lambda: len(self.ledger) == self.sent, f"{self.sent} records")

    def reading(self, *members: ThreadMember) -> None:
        """Wait until the members share, and each has processed a record of each of its partitions since.

        Otherwise librdkafka may read a partition from its beginning later, on Apache Kafka too. It got and lost the
        partition within a moment, and the answer to its question came too late.
        """
        self.shared(*members)
        before = {member.name: self.ledger.by(member.name) for member in members}

        def on() -> bool:
            for member in members:
                news = self.ledger.by(member.name) - before[member.name]
                if not member.assignment <= {(topic, partition) for topic, partition, _ in news}:
                    return False
            return True

        eventually_sync(on, "records of each partition")

    def described(self) -> Any:
        return self.admin.describe_consumer_groups([self.group])[self.group].result(10)


@pytest.fixture
def company(server: ServerProcess, new_name: NewName, group: str) -> Company:
    return Company(server, new_name("topic"), group)


class Stay:
    """What a member had and which callbacks it got until a moment. A test sees later that it stopped only for what
    moved.
    """

    def __init__(self, member: ThreadMember) -> None:
        self.member, self.had, self.since = member, set(member.assignment), len(member.callbacks)

    def check(self) -> None:
        """Check that the consumer has given up only what it has no more, in one step or several, and kept all other
        partitions.
        """
        has = self.member.assignment
        assert self._heard("revoked") == self.had - has, self.member.callbacks[self.since :]
        assert self._heard("assigned") == has - self.had, self.member.callbacks[self.since :]
        assert self._heard("lost") == set()

    def check_kept(self) -> None:
        """Check that the member kept all partitions that were never revoked, whoever joined and left."""
        assert not (self._heard("revoked") | self._heard("lost")) & self.had & self.member.assignment

    def _heard(self, what: str) -> set[tuple[str, int]]:
        reported = self.member.callbacks[self.since :]
        return set().union(*(partitions for kind, partitions in reported if kind == what))


def joins(company: Company, member_id: str = "ghost", version: int = 1) -> ConsumerGroupHeartbeatResponse:
    """Let one more member of the consumer protocol join, which sends nothing afterwards. The answer to it."""
    join = ConsumerGroupHeartbeatRequest(
        company.group, member_id, 0, None, None, 10000, [company.topic], None, None, []
    )
    heartbeat = api(ApiKey.CONSUMER_GROUP_HEARTBEAT)
    with socket.create_connection(company.address, timeout=30) as connection:
        connection.sendall(frames.request_frame(heartbeat, version, 1, join, "ghost"))
        data = wire.receive_exactly(connection, int.from_bytes(wire.receive_exactly(connection, 4), "big"))
    body = frames.decode_response_header(heartbeat, version, data, 0, len(data))[1]
    answer: ConsumerGroupHeartbeatResponse = heartbeat.decode_response(version, data, body)
    return answer


def test_only_moved_partitions_stop_when_a_consumer_member_joins_or_leaves(company: Company) -> None:
    a, b, c, late = (company.native(name) for name in ("a", "b", "c", "late"))
    with thread_members(a, b, c):
        company.shared(a, b, c)
        company.flow()
        stays = [Stay(member) for member in (a, b, c)]
        with thread_members(late):
            company.shared(a, b, c, late)
            company.flow()
            for stay in stays:
                stay.check()
            stays = [Stay(member) for member in (b, c, late)]
            a.stop()
            company.shared(b, c, late)
            company.flow()
            for stay in stays:
                stay.check()
                assert stay.had <= stay.member.assignment
    assert not company.ledger.twice


def test_admin_clients_describe_a_consumer_group(company: Company) -> None:
    admin = company.admin
    a, b = company.native("a"), company.native("b", group_remote_assignor="range")
    with thread_members(a, b):
        company.shared(a, b)
        found = company.described()
        assert (found.type, found.state) == (ConsumerGroupType.CONSUMER, ConsumerGroupState.STABLE)
        assert found.partition_assignor == "range"
        for member in found.members:
            has = {(one.topic, one.partition) for one in member.assignment.topic_partitions}
            shall = {(one.topic, one.partition) for one in member.target_assignment.topic_partitions}
            assert has == shall == (a if member.client_id == "a" else b).assignment
        listed = admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}, states={ConsumerGroupState.STABLE})
        (row,) = [one for one in listed.result(10).valid if one.group_id == company.group]
        assert (row.type, row.state, row.is_simple_consumer_group) == (found.type, found.state, False)
        with pytest.raises(confluent_kafka.KafkaException) as refused:
            admin.delete_consumer_groups([company.group])[company.group].result(10)
        assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
        company.flow()
    (rows,) = [
        one.result(10)
        for one in admin.list_consumer_group_offsets(
            [confluent_kafka.ConsumerGroupTopicPartitions(company.group)]
        ).values()
    ]
    assert sum(one.offset for one in rows.topic_partitions) == company.sent
    assert company.described().state == ConsumerGroupState.EMPTY
    admin.delete_consumer_groups([company.group])[company.group].result(10)
    assert company.group not in {one.group_id for one in admin.list_consumer_groups().result(10).valid}


def test_muster_groups_describe_shows_which_member_waits_for_which(
    company: Company, capsys: pytest.CaptureFixture[str]
) -> None:
    """A member that took all partitions and is silent keeps half of them from the next member."""

    def command(*words: str) -> list[str]:
        capsys.readouterr()
        assert main(["groups", *words, "--bootstrap-server", company.bootstrap]) == 0
        return capsys.readouterr().out.splitlines()

    answers = [joins(company)]
    while not answers[-1].assignment.topic_partitions:  # Kafka's coordinator sees a new topic a moment later
        answers.append(joins(company))
    epoch = answers[-1].member_epoch
    with thread_members(company.native("a", group_instance_id="i-a")):
        eventually_sync(lambda: len(company.described().members) == 2, "the second one to join")
        listed = [line.split() for line in command("list", "--type", "consumer", "--state", "reconciling")]
        assert [company.group, "consumer", "Reconciling", "consumer"] in listed
        head, verdict, columns, first, second, waiting, *_ = command("describe", company.group)
        text = (
            f"group {company.group}: Reconciling, 2 members (type consumer, protocol type consumer, uniform, epoch 3)"
        )
        assert head == text
        assert verdict.split()[0] == "verdict:"
        assert columns.split() == ["MEMBER", "INSTANCE", "CLIENT", "HOST", "PROTOCOL", "EPOCH", "PARTITIONS", "TARGET"]
        rows = {cells[2]: cells for cells in (first.split(), second.split())}
        topic = company.topic
        assert rows["ghost"][3:] == ["127.0.0.1", "consumer", str(epoch), f"{topic}:0-7", f"{topic}:0-3"]
        member, *more = rows["a"]
        assert more == ["i-a", "a", "127.0.0.1", "consumer", str(epoch + 1), "-", f"{topic}:4-7"]
        assert waiting == f"{member} waits for {topic}:4-7 of ghost, which is to give it up"
        (reported,) = (json.loads(line) for line in command("describe", company.group, "--json"))
        assert (reported["state"], reported["epoch"], reported["assignment_epoch"]) == (
            "Reconciling",
            epoch + 1,
            epoch + 1,
        )
        by_client = {one["client_id"]: one for one in reported["members"]}
        assert by_client["a"]["target"] == {topic: [4, 5, 6, 7]}
        assert by_client["a"]["subscribed"] == [topic]
        assert by_client["ghost"]["assignment"] == {topic: [*range(8)]}


@pytest.mark.parametrize(("assignor", "shares"), [("uniform", [3, 3]), ("range", [2, 4])])
def test_a_consumer_group_uses_the_requested_assignor(
    server: ServerProcess, new_name: NewName, group: str, assignor: str, shares: list[int]
) -> None:
    """Two topics of three partitions: `range` gives the first member two of each."""
    topics = [new_name("topic") for _ in range(2)]
    for topic in topics:
        create_topic(server, topic, 3)
    settings = {**NEXT, "group_id": group, "group_remote_assignor": assignor}
    with (
        confluent_consumer(server.bootstrap, **settings) as one,
        confluent_consumer(server.bootstrap, **settings) as other,
    ):
        one.subscribe(topics)
        other.subscribe(topics)

        def settled() -> bool:
            for consumer in (one, other):
                consumer.poll(0.02)
            return sorted([len(one.assignment()), len(other.assignment())]) == shares

        eventually_sync(settled, f"{shares} partitions")


def test_an_unknown_assignor_is_refused(server: ServerProcess, new_name: NewName, group: str) -> None:
    topic = new_name("topic")
    create_topic(server, topic, 1)
    with confluent_consumer(server.bootstrap, **NEXT, group_id=group, group_remote_assignor="sticky") as consumer:
        consumer.subscribe([topic])
        message = consumer.poll(20)
        assert message is not None
        error = message.error()
        assert error.code() == KafkaError._FATAL, error
        assert "assignor or its version range is not supported by the consumer group" in error.str()


def test_a_consumer_member_subscribes_by_a_pattern(server: ServerProcess, new_name: NewName, group: str) -> None:
    prefix = new_name("some")
    topics = {f"{prefix}.{name}": 2 for name in ("a", "b")}
    for topic, partitions in {**topics, f"other-{prefix}.a": 1, f"{prefix}-a": 1}.items():
        create_topic(server, topic, partitions)
    with confluent_consumer(server.bootstrap, **NEXT, group_id=group) as consumer:
        consumer.subscribe([rf"^{prefix}\.[a-z]"])
        eventually_sync(lambda: consumer.poll(0.02) or len(consumer.assignment()) == 4, "both topics")
        assert {one.topic for one in consumer.assignment()} == set(topics)


def test_an_invalid_pattern_is_refused(server: ServerProcess, group: str) -> None:
    with confluent_consumer(server.bootstrap, **NEXT, group_id=group) as consumer:
        consumer.subscribe([r"^(a)\1"])  # librdkafka takes the setting
        message = consumer.poll(20)
        assert message is not None
        assert "regular expression is not valid" in message.error().str(), message.error()


def test_no_partition_moves_when_a_static_member_returns(company: Company) -> None:
    one = company.native("one", group_instance_id="i-1")
    two, again = (company.native(name, group_instance_id="i-2") for name in ("two", "again"))
    with thread_members(one):
        with thread_members(two):
            company.shared(one, two)
            kept, given, since = set(one.assignment), set(two.assignment), len(one.callbacks)
            company.flow()
            twin = company.native("twin", group_instance_id="i-2")
            with (
                pytest.raises(AssertionError, match="instance ID is still used by another member"),
                thread_members(twin),
            ):
                eventually_sync(lambda: twin.failure, "the twin to be refused")
            assert (one.assignment, two.assignment) == (kept, given)
        with thread_members(again):
            eventually_sync(lambda: again.assignment == given, "what it had")
            company.flow()
            assert (one.assignment, len(one.callbacks)) == (kept, since)
            instances = {member.group_instance_id: member.client_id for member in company.described().members}
            assert instances == {"i-1": "one", "i-2": "again"}
    assert not company.ledger.twice


def test_classic_and_consumer_members_share_a_group(company: Company) -> None:
    """Two classic strategies and two clients beside members of the new protocol, who stop only for what moves."""
    a, b = company.native("a"), company.native("b")
    eager = company.member("eager", partition_assignment_strategy="range")
    cooperative = company.member("cooperative", partition_assignment_strategy="cooperative-sticky")
    python = kafka_python_member("python", company.ledger, company.bootstrap, company.topic, company.group)
    with thread_members(a, b):
        company.shared(a, b)
        for classic in (eager, cooperative, python):
            stays = Stay(a), Stay(b)
            with thread_members(classic):
                company.shared(a, b, classic)
                company.flow()
                for stay in stays:
                    stay.check()
                stays = Stay(a), Stay(b)
            company.shared(a, b)
            for stay in stays:
                stay.check()
    assert not company.ledger.twice


async def test_an_aiokafka_member_works_beside_members_of_the_consumer_protocol(company: Company) -> None:
    """A rebalance of the aiokafka member stops no other member."""
    native = company.native("native")
    classic = Member("classic", company.ledger, company.bootstrap, [company.topic], company.group)
    with thread_members(native):
        await eventually(lambda: len(native.assignment) == PARTITIONS, "all of it")
        stay = Stay(native)
        async with members(classic):
            half = PARTITIONS // 2
            await eventually(lambda: len(native.assignment) == len(classic.assignment) == half, "two to share")
            await asyncio.to_thread(company.flow)
            stay.check()
            assert len(company.ledger.by("native")) + len(company.ledger.by("classic")) == company.sent
        await eventually(lambda: len(native.assignment) == PARTITIONS, "what the other one had")
        await asyncio.to_thread(company.flow)
    assert not company.ledger.twice


def test_a_group_is_upgraded_and_downgraded_member_by_member(company: Company) -> None:
    """Records come all the time: none is lost, none is processed twice. Members of the new protocol continue."""
    names = ("a", "b")
    running: dict[str, ThreadMember] = {}
    types, natives = [], set[str]()
    with ExitStack() as block:
        for name in names:
            running[name] = company.member(name, partition_assignment_strategy="range")
            block.enter_context(thread_members(running[name]))
            company.shared(*running.values())
            company.flow(200)
        with company.flowing():
            for settings in (NEXT, {"partition_assignment_strategy": "range"}):
                for name in names:
                    running.pop(name).stop()
                    company.reading(*running.values())
                    stays = [Stay(member) for member in running.values() if member.name in natives]
                    new = company.member(f"{name}-of-{len(types)}", **settings)
                    block.enter_context(thread_members(new))
                    company.reading(*running.values(), new)
                    for stay in stays:
                        stay.check_kept()
                    running[name] = new
                    if settings is NEXT:
                        natives.add(new.name)
                    types.append(company.described().type)
    # the group has changed its protocol with the first member, and back with the last one
    new, old = ConsumerGroupType.CONSUMER, ConsumerGroupType.CLASSIC
    assert types == [new, new, new, old]
    assert not company.ledger.twice


def test_a_group_with_librdkafkas_cooperative_user_data_is_not_upgraded(company: Company) -> None:
    """No server can read what librdkafka's cooperative strategy writes into its second assignment."""
    old, older = (company.member(name, partition_assignment_strategy="cooperative-sticky") for name in ("old", "older"))
    with thread_members(older):
        company.shared(older)
        with thread_members(old):
            company.shared(older, old)
        company.shared(older)
        refused = joins(company)
        assert refused.error_code == GROUP_ID_NOT_FOUND
        assert "an unsupported custom assignor is in use" in str(refused.error_message)
        new = company.native("new")
        with pytest.raises(AssertionError, match="group id does not exist"), thread_members(new):
            eventually_sync(lambda: new.failure, "the new one to be refused")
        assert company.described().type == ConsumerGroupType.CLASSIC
        company.flow()
    assert not company.ledger.twice


def test_a_member_that_repeats_its_first_heartbeat_is_the_same_member_in_version_1_only(company: Company) -> None:
    """With an id of its own (version 1) it is the same member. Without an id (version 0, as the first clients did) it
    is one more member, and the first stays until its session is over.
    """
    first, again = joins(company, "of-my-own"), joins(company, "of-my-own")
    assert (first.error_code, again.error_code, again.member_id) == (0, 0, "of-my-own")
    assert len(company.described().members) == 1
    nameless = joins(company, "")
    assert (nameless.error_code, nameless.error_message) == (INVALID_REQUEST, "MemberId can't be empty.")
    given = {joins(company, "", version=0).member_id for _ in range(2)}
    assert {member.member_id for member in company.described().members} == {"of-my-own", *given}
    assert len(given) == 2


def test_a_silent_member_is_removed_and_the_others_get_its_partitions(start_server: Start) -> None:
    """No other member stops to get its partitions. No timer of a client matters, only the server's."""
    server = start_server({**PROMPT, **SHORT_SESSIONS}, in_memory=True)
    company = Company(server, "topic", "group")
    with thread_members(a := company.native("a")):
        company.shared(a)
        assert joins(company).member_epoch > 0
        eventually_sync(lambda: len(a.assignment) == PARTITIONS // 2, "half to be given up")
        stay = Stay(a)
        company.shared(a)
        stay.check()
        company.flow()
    assert not company.ledger.twice


def test_consumer_members_continue_after_the_server_was_killed(start_server: Start) -> None:
    server = start_server(PROMPT)
    company = Company(server, "topic", "group")
    patience = {"reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 50}
    with thread_members(a := company.native("a", **patience), b := company.native("b", **patience)):
        company.shared(a, b)
        company.flow()
        members = {member.member_id for member in company.described().members}
        stays = Stay(a), Stay(b)
        server.kill()
        server.start()
        company.flow()
        company.shared(a, b)
        for stay in stays:
            stay.check()
        assert {member.member_id for member in company.described().members} == members
    assert not company.ledger.twice
