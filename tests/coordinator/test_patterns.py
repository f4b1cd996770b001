"""Patterns for transactional ids. What is accepted and matched is what Kafka 4.3 answered to ListTransactions 2."""

from __future__ import annotations

import pytest

from muster.coordinator.patterns import Pattern

IDS = ("L-a", "L-ab", "L-Ab", "L-x.y", "L-ü")


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("L-a", ["L-a"]),
        ("a", []),
        ("(?i).*ab", ["L-ab", "L-Ab"]),
        (".*\\.y", ["L-x.y"]),
        ("(?<n>.*)a", ["L-a"]),
        ("(?P<n>.*)a", ["L-a"]),
        (".*\\pL", ["L-a", "L-ab", "L-Ab", "L-x.y", "L-ü"]),
        (".*ü", ["L-ü"]),
        (".{3}", ["L-a", "L-ü"]),
        ("(.*){1000}a", ["L-a"]),
        (".*b\\z", ["L-ab", "L-Ab"]),
        ("[[:alpha:]].{2}", ["L-a", "L-ü"]),
        ("(?s).*a$", ["L-a"]),
        ("\\QL-a\\E", ["L-a"]),
        (".*\\x{61}", ["L-a"]),
        (".*\\p{Greek}", []),
        ("(?U).*a", ["L-a"]),
        ("\\QL-a\\C\\E|\\\\C|L-ab", ["L-ab"]),
    ],
)
def test_a_whole_id_matches(pattern: str, matched: list[str]) -> None:
    compiled = Pattern(pattern)
    assert [one for one in IDS if compiled.matches(one)] == matched


@pytest.mark.parametrize(
    "pattern",
    [
        "[",
        "(?=a)",
        ".*a{1001}",
        "\\C*",
        ".*\\Z",
        ".*\\R",
        ".*a++",
        "(?x) .*",
        "\\8",
        "*",
        "a**",
        "x{2,1}|.*a",
        "(a)\\1",
    ],
)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"regular expression|character"):
        Pattern(pattern)


def test_a_pattern_or_an_id_that_would_take_long_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    for pattern in ("(a{500}){500}", "(\\pL{900})(\\pL{900})", "a" * 1_000_000):
        with pytest.raises(ValueError, match=r"repetition|too large|characters"):
            Pattern(pattern)
    costly = Pattern(".*a.{900}")
    assert not costly.matches("ab" * 124)
    with pytest.raises(ValueError, match="too large"):
        costly.matches("ab" * 15_000)
    assert Pattern("(x+x+)+y").matches("x" * 30_000) is False
    assert capfd.readouterr() == ("", "")
