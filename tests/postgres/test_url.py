"""Warnings about what the URL of a database leaves open."""

from __future__ import annotations

import pytest

from muster.cli import main
from muster.postgres.url import hosts, warnings

TWO = "postgresql://muster@a,b:5433/muster"


@pytest.mark.parametrize(
    ("url", "count"),
    [
        ("postgresql://muster@a/muster", 1),
        (TWO, 2),
        ("postgresql://a,b,c/muster", 3),
        ("postgresql:///muster?host=a,b", 2),
        ("postgresql:///muster?host=/run/postgresql", 1),
        ("postgresql:///muster", 1),
        ("postgresql://us,er:pass,word@a/muster", 1),
        ("postgresql://muster@[::1]:5432,[::2]:5432/muster", 2),
    ],
)
def test_several_hosts_are_read_from_the_url(url: str, count: int) -> None:
    assert hosts(url) == count


@pytest.mark.parametrize(
    ("url", "is_right"),
    [
        ("postgresql://muster@a/muster", True),
        (TWO, False),
        (f"{TWO}?target_session_attrs=read-write", True),
        (f"{TWO}?sslmode=require&target_session_attrs=primary", True),
        (f"{TWO}?target_session_attrs=any", False),
        (f"{TWO}?target_session_attrs=prefer-standby", False),
    ],
)
def test_the_writable_one_of_several_hosts_is_used(url: str, is_right: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGTARGETSESSIONATTRS", raising=False)
    found = warnings(url)
    assert [one.endswith("add target_session_attrs=read-write") for one in found] == [True] * (not is_right)
    monkeypatch.setenv("PGTARGETSESSIONATTRS", "read-write")
    assert warnings(TWO) == []


def test_a_check_of_the_configuration_reports_wrong_urls(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PGTARGETSESSIONATTRS", raising=False)
    check = ["serve", "--listen", "127.0.0.1:0", "--check", "--cluster"]
    assert main([*check, TWO]) == 0
    assert "warning: the URL of the database names 2 hosts" in capsys.readouterr().out
    assert main([*check, f"{TWO}?target_session_attrs=read-write"]) == 0
    assert "the URL of the database" not in capsys.readouterr().out
