from __future__ import annotations

import pytest

from muster.coordinator.net.sockets import client_host, host_and_port, plain_host, with_port


@pytest.mark.parametrize(
    ("host", "plain"),
    [("127.0.0.1", "127.0.0.1"), ("::ffff:10.0.0.7", "10.0.0.7"), ("::1", "::1"), ("fe80::1%eth0", "fe80::1")],
)
def test_an_ip_address_is_shown_in_plain_form(host: str, plain: str) -> None:
    assert plain_host(host) == plain


def test_host_and_port_of_either_family() -> None:
    assert host_and_port(("10.0.0.1", 9092)) == ("10.0.0.1", 9092)
    assert host_and_port(("::1", 9092, 0, 0)) == ("::1", 9092)
    assert host_and_port(None) == ("", 0)
    assert host_and_port("/a/unix/socket") == ("", 0)


@pytest.mark.parametrize(
    ("host", "text"),
    [("127.0.0.1", "/127.0.0.1"), ("::1", "/0:0:0:0:0:0:0:1"), ("2001:db8::ff00:42", "/2001:db8:0:0:0:0:ff00:42")],
)
def test_the_client_host_has_javas_text(host: str, text: str) -> None:
    assert client_host(host) == text


def test_a_port_beside_an_ipv6_address_needs_brackets() -> None:
    assert with_port("10.0.0.1", 1) == "10.0.0.1:1"
    assert with_port("::1", 1) == "[::1]:1"
