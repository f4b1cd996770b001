"""How the configuration is collected: precedence, origins, and wrong names and values, each refused in one sentence."""
# ruff: noqa: E501  # a table is read by its rows

from pathlib import Path
from typing import Any

import pytest

from muster.coordinator.config import Config, ConfigError, Listener, load


def refused(**options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load(**options)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_the_defaults_are_used_if_nothing_is_given() -> None:
    config = load()
    assert config.listeners == (Listener("PLAINTEXT", "", 9092),)
    assert config.data_dir == Path.cwd() / "muster-data"
    assert (config.node_id, config.cluster_id, config.rack, config.topics, config.notes) == (1, None, None, (), ())
    assert config.given == {}
    assert config.text("num.partitions") == "1"
    assert config.source("num.partitions") == config.origin("num.partitions") == "default"


def test_an_override_goes_before_environment_file_and_default(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nlog.retention.hours=2\nmessage.max.bytes=2\n")
    environment = {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_LOG_RETENTION_HOURS": "3"}
    config = load(file=file, environment=environment, overrides=["num.partitions=4"])
    names = ("num.partitions", "log.retention.hours", "message.max.bytes", "node.id")
    assert [config.value(name) for name in names] == [4, 3, 2, 1]
    assert [config.origin(name) for name in names] == ["override", "environment", "file", "default"]
    assert [config.source(name) for name in names] == ["static", "static", "static", "default"]


def test_the_later_of_two_overrides_counts() -> None:
    assert load(overrides=["num.partitions=4", "num.partitions= 5 "]).value("num.partitions") == 5


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("num.partition", "did you mean num.partitions?"),
        ("group.initial.rebalance.delay", "did you mean group.initial.rebalance.delay.ms?"),
        ("Num.Partitions", "did you mean num.partitions?"),
        ("retention.ms", "that is a property of topics, the broker's is log.retention.ms"),
        ("remote.storage.enable", "that is a property of topics only"),
        ("zzzzzzzz", "of that name"),
        ("listener.name.plaintext", "of that name"),
        ("listener.name.plaintext.num.partition", "of that name"),
    ],
)
def test_an_unknown_name_is_refused_from_override_and_ignored_from_a_file(tmp_path: Path, name: str, hint: str) -> None:
    sentence = refused(overrides=[f"{name}=1"])
    assert sentence.startswith(f"unknown property {name} (--override)")
    assert hint in sentence
    file = tmp_path / "server.properties"
    file.write_text(f"{name}=1\nnum.partitions=4")
    config = load(file=file)
    (note,) = config.notes
    assert note.startswith(f"the property {name} ({file}) is ignored: ")
    assert hint in note
    assert config.given == {"num.partitions": "4"}


def test_an_unknown_name_is_refused_from_everywhere_in_strict_mode(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partition=1")
    named = "Kafka 4.4 has no property of that name; did you mean num.partitions?"
    assert refused(file=file, strict=True) == f"unknown property num.partition ({file}): {named}"
    variable = {"KAFKA_NUM_PARTITION": "1"}
    assert (
        refused(environment=variable, strict=True) == f"unknown property num.partition (KAFKA_NUM_PARTITION): {named}"
    )
    assert load(environment={"KAFKA_HEAP_OPTS": "-Xmx1g"}, strict=True).notes == ()


def test_an_unknown_name_in_the_environment_is_only_reported() -> None:
    config = load(environment={"KAFKA_NUM_PARTITION": "x", "KAFKA_PORT": "tcp://10.0.0.1:9092"})
    assert len(config.notes) == 1
    assert config.notes[0].endswith("KAFKA_NUM_PARTITION (did you mean num.partitions?), KAFKA_PORT")
    assert config.given == {}


@pytest.mark.parametrize(
    "name",
    [
        "process.roles", "controller.quorum.voters", "ssl.provider", "sasl.kerberos.service.name", "metrics.jmx.include",
        "listener.name.plaintext.ssl.provider", "listener.name.sasl_ssl.scram-sha-256.sasl.login.class", "config.providers.env.class",
        "rsm.config.anything", "internal.metadata.log.segment.bytes", "leader.replication.throttled.rate",
    ],
)  # fmt: skip
def test_unused_kafka_properties_are_accepted_and_reported(name: str) -> None:
    text = {"process.roles": "broker,controller", "controller.quorum.voters": "1@localhost:9093"}.get(name, "12345678")
    config = load(overrides=[f"{name}={text}"])
    assert config.given == {name: text}
    assert config.unused() == (name,)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("num.partitions=0", "num.partitions: '0' (--override) is not valid; expected a whole number from 1 to 2147483647"),
        (
            "num.partitions=2147483648",
            "num.partitions: '2147483648' (--override) is not valid; expected a whole number from 1 to 2147483647",
        ),
        ("num.partitions=", "num.partitions: '' (--override) is not valid; expected a whole number from 1 to 2147483647"),
        ("message.max.bytes=1e3", "message.max.bytes: '1e3' (--override) is not valid; expected a whole number from 0 to 2147483647"),
        (
            "group.initial.rebalance.delay.ms=3s",
            "group.initial.rebalance.delay.ms: '3s' (--override) is not valid; "
            "expected a whole number from -2147483648 to 2147483647",
        ),
        ("compression.zstd.level=23", "compression.zstd.level: '23' (--override) is not valid; expected a whole number from -131072 to 22"),
        ("compression.gzip.level=0", "compression.gzip.level: '0' (--override) is not valid; expected a whole number from 1 to 9, or -1"),
        ("auto.create.topics.enable=yes", "auto.create.topics.enable: 'yes' (--override) is not valid; expected true or false"),
        (
            "log.cleaner.min.cleanable.ratio=2",
            "log.cleaner.min.cleanable.ratio: '2' (--override) is not valid; expected a number from 0 to 1",
        ),
        (
            "log.message.timestamp.type=Now",
            "log.message.timestamp.type: 'Now' (--override) is not valid; expected one of CreateTime, LogAppendTime",
        ),
        ("log.cleanup.policy=drop", "log.cleanup.policy: 'drop' (--override) is not valid; expected a list of some of compact, delete"),
        ("log.dirs=", "log.dirs: '' (--override) is not valid; expected a list with commas between, not empty"),
        (
            "listener.name.plaintext.num.network.threads=0",
            "listener.name.plaintext.num.network.threads: '0' (--override) is not valid; expected a whole number from 1 to 2147483647",
        ),
        ("group.min.session.timeout.ms=2000000", "group.min.session.timeout.ms=2000000 is greater than group.max.session.timeout.ms=1800000"),
        (
            "group.consumer.session.timeout.ms=70000",
            "group.consumer.session.timeout.ms=70000 is greater than group.consumer.max.session.timeout.ms=60000",
        ),
        ("group.share.heartbeat.interval.ms=4000", "group.share.min.heartbeat.interval.ms=5000 is greater than"),
        ("log.retention.ms=0", "log.retention.ms=0 would delete records at once; expected at least 1, or -1 for no limit"),
        (
            "offsets.topic.segment.bytes=100000",
            "offsets.topic.segment.bytes=100000 is too small for a topic; expected at least 1048576",
        ),
        (
            "transaction.state.log.segment.bytes=1",
            "transaction.state.log.segment.bytes=1 is too small for a topic; expected at least 1048576",
        ),
        ("queued.max.request.bytes=5", "queued.max.request.bytes=5 is less than socket.request.max.bytes=104857600"),
        ("log.dirs=/tmp/a\0b", "log.dirs: the value (--override) has the character NUL, which no path or name may have"),
        ("num.partitions=" + "9" * 300, f"num.partitions: '{'9' * 200}…' (--override) is not valid; expected a whole"),
        ("muster.cluster.id=" + "x" * 256, "muster.cluster.id has 256 characters; at most 255 were expected"),
        ("muster.cluster.id=a b", "muster.cluster.id='a b' is not valid; expected ASCII letters, digits and signs"),
        ("offsets.topic.compression.codec=9", "offsets.topic.compression.codec=9 names no codec"),
        ("max.connections.per.ip.overrides=1.2.3.4", "max.connections.per.ip.overrides: '1.2.3.4' is not HOST:NUMBER"),
        ("max.connections.per.ip=0", "max.connections.per.ip=0 allows no connection"),
        ("process.roles=controller", "process.roles=controller asks for a node that serves no clients"),
        ("broker.id=-1", "broker.id=-1 is not valid"),
        ("num.partitions", "--override 'num.partitions' is not NAME=VALUE"),
        ("=3", "--override '=3' is not NAME=VALUE"),
        ("log.dirs=/a,/b", "log.dirs: '/a,/b' names 2 directories"),
        ("controller.quorum.voters=x", "controller.quorum.voters: 'x' (--override) is not valid; expected"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused(given: str, sentence: str) -> None:
    assert refused(overrides=[given]).startswith(sentence)


def test_a_wrong_value_is_refused_from_the_environment_and_the_file_too(tmp_path: Path) -> None:
    assert refused(environment={"KAFKA_NUM_PARTITIONS": "x"}).startswith("num.partitions: 'x' (KAFKA_NUM_PARTITIONS)")
    file = tmp_path / "a.properties"
    file.write_text("num.partitions = x")
    assert refused(file=file).startswith(f"num.partitions: 'x' ({file})")


def test_a_missing_properties_file_is_refused(tmp_path: Path) -> None:
    assert refused(file=tmp_path / "no") == (
        f"the configuration file {tmp_path / 'no'} cannot be read: No such file or directory"
    )
    assert "Is a directory" in refused(file=tmp_path)


def test_node_id_and_broker_id_mean_the_same() -> None:
    assert load(overrides=["broker.id=7"]).node_id == 7
    assert load(overrides=["node.id=7"]).value("broker.id") == 7
    assert "differ" in refused(overrides=["node.id=7", "broker.id=8"])


def test_the_cluster_id_can_be_given_in_each_way() -> None:
    assert load(environment={"CLUSTER_ID": "abc"}).cluster_id == "abc"
    assert load(environment={"CLUSTER_ID": "abc"}, overrides=["muster.cluster.id=d"]).cluster_id == "d"


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({}, "muster-data"),
        ({"overrides": ["log.dir=/a"]}, "/a"),
        ({"overrides": ["log.dir=/a", "log.dirs=/b"]}, "/b"),
        ({"overrides": ["log.dirs=/b"], "data_dir": Path("/c")}, "/c"),
        ({"data_dir": Path("there/is")}, "there/is"),
    ],
)
def test_the_data_directory_can_be_given_in_each_way(options: dict[str, Any], where: str) -> None:
    config = load(**options)
    assert config.data_dir == Path.cwd() / where
    assert config.text("log.dirs") == (where if options else str(Path.cwd() / where))


def test_an_in_memory_server_has_no_data_directory() -> None:
    config = load(overrides=["log.dirs=/b"], in_memory=True)
    assert config.data_dir is None
    assert config.text("log.dirs") is None


def test_topics_are_given_by_name_and_partition_count() -> None:
    assert load(topics=["a:1", "b.c-d_E:100"]).topics == (("a", 1), ("b.c-d_E", 100))


@pytest.mark.parametrize(
    "spec",
    ["a", "a:", ":1", "a:0", "a:-1", "a:1.5", "a:²", "a b:1", "..:1", ".:1", "a:1000000", "é:1", "a" * 250 + ":1"],
)
def test_wrong_topic_options_are_refused(spec: str) -> None:
    assert refused(topics=[spec]).startswith(f"--topic '{spec}'")


def test_a_topic_given_twice_is_refused() -> None:
    assert "twice" in refused(topics=["a:1", "a:2"])


def test_properties_that_no_package_reads_are_reported_as_unused() -> None:
    from muster.coordinator.net.settings import NetSettings

    config: Config = load(overrides=["socket.request.max.bytes=1000", "num.io.threads=3"])
    assert config.unused() == ("num.io.threads", "socket.request.max.bytes")
    assert config.settings(NetSettings).socket_request_max_bytes == 1000
    assert config.unused() == ("num.io.threads",)


def test_every_property_of_kafka_is_accepted_with_its_default(tmp_path: Path) -> None:
    from muster.coordinator.properties.lookup import BROKER

    file = tmp_path / "all.properties"
    skip = {"node.id", "broker.id", "process.roles"}
    lines = [
        f"{name}={prop.default}"
        for name, prop in BROKER.items()
        if prop.default is not None and name not in skip and not (prop.valid == "quorum voters" and not prop.default)
    ]
    file.write_text("\n".join(lines))
    config = load(file=file)
    assert len(config.given) == len(lines) >= 300
    assert len(config.unused()) > 220
