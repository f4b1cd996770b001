"""`group.protocol=consumer` (KIP-848) with Kafka's own consumer and with franz-go: the same stories for both.

With MUSTER_TEST_SERVER=kafka they are played on Apache Kafka.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.conformance.clients import Clients, JavaClients
from tests.e2e.conftest import Start, create_topic, new_server
from tests.e2e.sync_clients import confluent_admin
from tests.e2e.test_consumer_protocol import PROMPT, SHORT_SESSIONS
from tests.support.servers import QUICK, ServerProcess

PARTITIONS = 8
FRANZ = Path(__file__).parents[1] / "exactly_once" / "workers" / "franz"
NEXT = {"group_protocol": "consumer"}
KAFKA = "org.apache.kafka.clients.consumer."
CLASSIC = {
    "java": {"range": f"{KAFKA}RangeAssignor", "cooperative": f"{KAFKA}CooperativeStickyAssignor"},
    "franz-go": {"range": "range", "cooperative": "cooperative"},
}
"""The names of the strategies in each client."""
only_java = pytest.mark.parametrize("client", ["java"])
NewName = Callable[[str], str]
StartClients = Callable[[ServerProcess], Clients]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose consumer groups settle soon."""
    process = new_server(tmp_path_factory.mktemp("prompt"), {**QUICK, **PROMPT})
    process.start()
    yield process
    process.stop()


@pytest.fixture(scope="session")
def franz_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program with consumers of franz-go, compiled once."""
    if shutil.which("go") is None:
        pytest.skip("needs Go")
    program = tmp_path_factory.mktemp("franz") / "consumers"
    subprocess.run(["go", "build", "-o", program, "./consumers"], cwd=FRANZ, check=True)
    return program


@pytest.fixture(params=["java", "franz-go"])
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start_clients(request: pytest.FixtureRequest, client: str, tmp_path: Path) -> Iterator[StartClients]:
    """Start a process with clients; processes that still run when the test ends are stopped."""
    program = request.getfixturevalue("java_classes" if client == "java" else "franz_program")
    with ExitStack() as until:

        def start(server: ServerProcess) -> Clients:
            log = tmp_path / f"clients-{len(list(tmp_path.iterdir()))}.log"
            if client == "java":
                made: Clients = JavaClients(program, server.bootstrap, log)
            else:
                made = Clients([program, server.bootstrap], log)
            return until.enter_context(closing(made))

        yield start


class Stay:
    """The partitions and callbacks of a consumer up to now. `check` later finds out whether it stopped only for what
    moved.
    """

    def __init__(self, clients: Clients, name: str) -> None:
        self._clients, self._name = clients, name
        self.had, self._since = set(clients.assignments[name]), len(clients.rebalances[name])

    def check(self) -> None:
        """Check that the consumer gave up no partition that it had before and has now."""
        callbacks = [line.split() for line in self._clients.rebalances[self._name][self._since :]]
        gave_up = {int(number) for what, *numbers in callbacks if what != "assigned" for number in numbers}
        assert not gave_up & self.had & self._clients.assignments[self._name], callbacks


def read_all(clients: Clients, count: int) -> None:
    clients.wait(lambda: len(clients.ledger) == count, f"{count} records")


def test_a_rebalance_interrupts_only_partitions_that_move(
    server: ServerProcess, new_name: NewName, group: str, start_clients: StartClients
) -> None:
    topic, clients = new_name("topic"), start_clients(server)
    create_topic(server, topic, PARTITIONS)
    for name in ("a", "b", "c"):
        clients.consume(name, group, topic, **NEXT)
    clients.shared_out(["a", "b", "c"], PARTITIONS)
    clients.produce(topic, 0, 400)
    read_all(clients, 400)
    stays = [Stay(clients, name) for name in ("a", "b", "c")]
    clients.consume("late", group, topic, **NEXT)
    clients.shared_out(["a", "b", "c", "late"], PARTITIONS)
    clients.produce(topic, 400, 400)
    read_all(clients, 800)
    for stay in stays:
        stay.check()
    stays = [Stay(clients, name) for name in ("b", "c", "late")]
    clients.stop("a")
    clients.assignments["a"] = set()
    clients.shared_out(["b", "c", "late"], PARTITIONS)
    clients.produce(topic, 800, 400)
    read_all(clients, 1200)
    for stay in stays:
        stay.check()
    assert not clients.ledger.twice


def test_a_killed_consumer_leaves_after_its_session_timeout(start_server: Start, start_clients: StartClients) -> None:
    server, topic, group = start_server({**PROMPT, **SHORT_SESSIONS}), "topic", "group"
    create_topic(server, topic, PARTITIONS)
    clients, victim = start_clients(server), start_clients(server)
    clients.consume("a", group, topic, **NEXT)
    clients.shared_out(["a"], PARTITIONS)
    victim.consume("victim", group, topic, **NEXT)
    half = PARTITIONS // 2
    clients.wait(lambda: len(clients.assignments["a"]) == len(victim.assignments["victim"]) == half, "two to share")
    stay = Stay(clients, "a")
    victim.kill()
    clients.shared_out(["a"], PARTITIONS)
    stay.check()
    clients.produce(topic, 0, 200)
    read_all(clients, 200)
    assert not clients.ledger.twice


@only_java
def test_a_static_member_restarts_without_a_rebalance(
    server: ServerProcess, new_name: NewName, group: str, start_clients: StartClients
) -> None:
    """franz-go 1.22 forgets the instance id when it leaves (INVALID_REQUEST, on Kafka too)."""
    topic, clients = new_name("topic"), start_clients(server)
    create_topic(server, topic, PARTITIONS)
    for name in ("a", "b"):
        clients.consume(name, group, topic, **NEXT, group_instance_id=f"i-{name}")
    clients.shared_out(["a", "b"], PARTITIONS)
    before, callbacks = set(clients.assignments["b"]), list(clients.rebalances["a"])
    clients.stop("b")
    clients.assignments["b"] = set()
    clients.consume("b", group, topic, **NEXT, group_instance_id="i-b")
    clients.shared_out(["a", "b"], PARTITIONS)
    assert clients.assignments["b"] == before
    assert clients.rebalances["a"] == callbacks
    clients.produce(topic, 0, 200)
    read_all(clients, 200)
    assert not clients.ledger.twice


@only_java
def test_the_close_options_of_a_consumer_decide_whether_it_leaves(
    server: ServerProcess, new_name: NewName, group: str, start_clients: StartClients
) -> None:
    """KIP-1092: a static member leaves at once, another one stays, and a dynamic member leaves."""
    topic, clients = new_name("topic"), start_clients(server)
    create_topic(server, topic, PARTITIONS)
    admin = confluent_admin(server.bootstrap)

    def there() -> set[str]:
        return {one.client_id for one in admin.describe_consumer_groups([group])[group].result(10).members}

    clients.consume("a", group, topic, **NEXT)
    clients.consume("leaves", group, topic, **NEXT, group_instance_id="i-1")
    clients.consume("stays", group, topic, **NEXT, group_instance_id="i-2")
    clients.consume("nobody", group, topic, **NEXT)
    clients.shared_out(["a", "leaves", "stays", "nobody"], PARTITIONS)
    rest = ["a", "stays", "nobody"]
    for name, how in (("leaves", "LEAVE_GROUP"), ("nobody", "DEFAULT")):
        clients.stop(name, how)
        clients.assignments[name] = set()
        rest = [one for one in rest if one != name]
        clients.shared_out(rest, PARTITIONS)
        assert there() == set(rest)
    callbacks = list(clients.rebalances["a"])
    clients.stop("stays", "REMAIN_IN_GROUP")
    clients.produce(topic, 0, 80)
    clients.wait(lambda: clients.ledger.by("a"), "records")
    assert there() == {"a", "stays"}
    assert clients.rebalances["a"] == callbacks


def test_a_subscription_pattern_is_resolved_by_the_server(
    server: ServerProcess, new_name: NewName, group: str, start_clients: StartClients
) -> None:
    """A new topic is found by the next search."""
    prefix, clients = new_name("some"), start_clients(server)
    for topic in (f"{prefix}.a", f"other-{prefix}.a"):
        create_topic(server, topic, 2)
    clients.consume("p", group, rf"~{prefix}\.[a-z]", **NEXT)
    clients.wait(lambda: clients.assignments["p"] == {0, 1}, "the first topic")
    create_topic(server, f"{prefix}.b", 3)
    clients.wait(lambda: clients.assignments["p"] == {0, 1, 2}, "the second one")
    for topic in (f"{prefix}.a", f"{prefix}.b", f"other-{prefix}.a"):
        clients.produce(topic, 0, 30)
    read_all(clients, 60)
    assert {topic for topic, _, _ in clients.ledger.by("p")} == {f"{prefix}.a", f"{prefix}.b"}


@pytest.mark.parametrize("strategy", ["range", "cooperative"])
def test_a_group_is_upgraded_and_downgraded_member_by_member(
    server: ServerProcess, new_name: NewName, group: str, start_clients: StartClients, client: str, strategy: str
) -> None:
    topic, clients = new_name("topic"), start_clients(server)
    create_topic(server, topic, PARTITIONS)
    admin = confluent_admin(server.bootstrap)
    classic = {"partition_assignment_strategy": CLASSIC[client][strategy]}
    running: list[str] = []
    sent, types, going_on = 0, [], set[str]()
    for number, (settings, goes) in enumerate(
        [(classic, None), (classic, None), (NEXT, "m0"), (NEXT, "m1"), (classic, "m2"), (classic, "m3")]
    ):
        name = f"m{number}"
        if goes is not None:
            clients.stop(goes)
            running.remove(goes)
            clients.assignments[goes] = set()
            clients.shared_out(running, PARTITIONS)
        stays = [Stay(clients, one) for one in running if one in going_on]
        clients.consume(name, group, topic, **settings)
        running.append(name)
        clients.shared_out(running, PARTITIONS)
        clients.produce(topic, sent, 200)
        sent += 200
        read_all(clients, sent)
        for stay in stays:
            stay.check()
        if settings is NEXT or strategy == "cooperative":
            going_on.add(name)
        types.append(str(admin.describe_consumer_groups([group])[group].result(10).type).rpartition(".")[2])
    assert types == ["CLASSIC", "CLASSIC", "CONSUMER", "CONSUMER", "CONSUMER", "CLASSIC"]
    assert not clients.ledger.twice
