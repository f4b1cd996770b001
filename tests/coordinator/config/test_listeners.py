"""Listeners, advertised listeners and their protocols."""
# ruff: noqa: E501  # a table is read by its rows

from typing import Any

import pytest

from muster.coordinator.config import ConfigError, Listener, load
from muster.coordinator.config.listeners import show


def listeners(*overrides: str, **options: Any) -> tuple[Listener, ...]:
    return load(overrides=overrides, **options).listeners


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:0", "127.0.0.1", 0),
        (":9092", "", 9092),
        ("0.0.0.0:1", "0.0.0.0", 1),
        ("[::1]:9092", "::1", 9092),
        ("[::]:9092", "::", 9092),
        ("localhost:65535", "localhost", 65535),
        ("my-host.example:9092", "my-host.example", 9092),
        ("[fe80::1%eth0]:9092", "fe80::1%eth0", 9092),
    ],
)
def test_the_listen_option_makes_one_listener(text: str, host: str, port: int) -> None:
    reported = None if host in ("", "0.0.0.0", "::") else host
    assert listeners(listen=text) == (Listener("PLAINTEXT", host, port, reported),)


def test_the_host_of_a_listener_is_advertised_with_its_bound_port() -> None:
    named, free, everywhere, reported = listeners(
        "listeners=PLAINTEXT://localhost:9092,SSL://broker.example:0,SASL_SSL://:9094,OUT://10.0.0.1:9095",
        "advertised.listeners=OUT://outside:1",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:PLAINTEXT,SASL_SSL:PLAINTEXT,OUT:PLAINTEXT",
    )
    assert (named.advertised_host, named.advertised_port) == ("localhost", None)
    assert (free.advertised_host, free.advertised_port) == ("broker.example", None)
    assert everywhere.advertised_host is None
    assert (reported.advertised_host, reported.advertised_port) == ("outside", 1)


def test_each_broker_has_only_the_given_advertised_listeners() -> None:
    config = load(
        overrides=[
            "listeners=PLAINTEXT://localhost:1000,OUT://localhost:1001",
            "advertised.listeners= OUT://outside:2000",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OUT:PLAINTEXT",
        ],
        nodes="2",
    )
    assert config.of_node(1).text("advertised.listeners") == "OUT://outside:2002"
    assert [one.advertised_host for one in config.of_node(1).listeners] == ["localhost", "outside"]


@pytest.mark.parametrize(
    "text",
    ["9092", "localhost", "::1:9092", "[::1]", "localhost:", "localhost:x", "a b:1", "localhost:65536", "", "h:-1"],
)
@pytest.mark.parametrize("option", ["listen", "advertise"])
def test_bad_addresses_are_refused(option: str, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"^--{option} '"):
        load(**{option: text})


@pytest.mark.parametrize("text", ["0.0.0.0:9092", ":9092", "[::]:9092", "localhost:0"])
def test_unreachable_addresses_are_not_advertised(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--advertise '"):
        load(advertise=text)


def test_the_advertise_option_sets_the_advertised_address() -> None:
    assert listeners(advertise="broker:1") == (Listener("PLAINTEXT", "", 9092, "broker", 1),)
    assert listeners(listen=":5", advertise="[::1]:1") == (Listener("PLAINTEXT", "", 5, "::1", 1),)
    named = ("listeners=MINE://:5", "listener.security.protocol.map=MINE:PLAINTEXT")
    assert listeners(*named, advertise="b:1") == (Listener("MINE", "", 5, "b", 1),)


def test_several_listeners_keep_their_order() -> None:
    assert listeners(
        "listeners=OUT://0.0.0.0:1, in://127.0.0.1:2",
        "advertised.listeners=IN://inside:3,OUT://[2001:db8::1]:4",
        "listener.security.protocol.map=OUT:PLAINTEXT,In:plaintext",
    ) == (Listener("OUT", "0.0.0.0", 1, "2001:db8::1", 4), Listener("IN", "127.0.0.1", 2, "inside", 3))


def test_the_controller_listener_of_a_kafka_file_is_not_opened() -> None:
    config = load(
        overrides=[
            "process.roles=broker,controller",
            "node.id=1",
            "controller.quorum.voters=1@localhost:9093",
            "listeners=PLAINTEXT://:9092,CONTROLLER://:9093",
            "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
        ]
    )
    assert config.listeners == (Listener("PLAINTEXT", "", 9092, "localhost", 9092),)
    assert config.notes == ("these listeners are the controller's and are not opened: CONTROLLER",)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["listeners=localhost:9092"], "listeners: 'localhost:9092' is not NAME://HOST:PORT"),
        (["listeners=PLAINTEXT://:70000"], "listeners: the port 70000 of 'PLAINTEXT://:70000' is not between 0 and 65535"),
        (["listeners=PLAINTEXT://:1,plaintext://:2"], "listeners: the listener name PLAINTEXT is given twice"),
        (["listeners=SASL_SSL://:1"], "listener SASL_SSL: ssl.keystore.location is missing"),
        (["listeners=MINE://:1"], "listeners: no security protocol is known for the listener MINE"),
        (["listener.security.protocol.map=MINE"], "listener.security.protocol.map: 'MINE' is not NAME:PROTOCOL"),
        (["listener.security.protocol.map=MINE:TLS"], "listener.security.protocol.map: 'MINE:TLS' is not NAME:PROTOCOL"),
        (["advertised.listeners=MINE://a:1"], "advertised.listeners: MINE is not among the names of listeners (PLAINTEXT)"),
        (["advertised.listeners=PLAINTEXT://0.0.0.0:1"], "advertised.listeners: clients of PLAINTEXT cannot connect to '0.0.0.0:1'"),
        (["listeners=C://:1", "controller.listener.names=C"], "listeners: only listeners of the controller are left"),
        (["listeners=A://:1,B://:1", "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"], "listeners: the port 1 is used by more than one"),
    ],
)  # fmt: skip
def test_wrong_listener_properties_are_refused(overrides: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(overrides=overrides)
    assert str(caught.value).startswith(sentence)


def test_the_listen_option_is_refused_with_advertised_listeners_of_the_environment() -> None:
    with pytest.raises(ConfigError, match="give --advertise"):
        load(environment={"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092"}, listen=":1")


def test_advertise_needs_one_listener() -> None:
    with pytest.raises(ConfigError, match="there are 2"):
        load(overrides=["listeners=A://:1,B://:2"], advertise="h:1")


def test_one_port_may_be_used_on_two_addresses() -> None:
    both = "listeners=A://127.0.0.1:1,B://127.0.0.2:1"
    assert len(listeners(both, "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT")) == 2


def test_addresses_are_shown_with_brackets_for_ipv6() -> None:
    assert (show("::1", 1), show("h", 2)) == ("[::1]:1", "h:2")
