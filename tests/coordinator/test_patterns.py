"""Patterns for transactional ids are accepted, and match, as in Kafka 4.3's answers to ListTransactions 2."""

from __future__ import annotations

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.system import patterns
from muster.coordinator.system.patterns import BadPattern, Pattern

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
def test_a_pattern_matches_whole_ids(pattern: str, matched: list[str]) -> None:
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
def test_an_invalid_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"regular expression|character"):
        Pattern(pattern)


def test_an_expensive_pattern_or_id_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    for pattern in ("(a{500}){500}", "(\\pL{900})(\\pL{900})", "a" * 1_000_000):
        with pytest.raises(ValueError, match=r"repetition|too large|characters"):
            Pattern(pattern)
    costly = Pattern(".*a.{900}")
    assert not costly.matches("ab" * 124)
    with pytest.raises(ValueError, match="too large"):
        costly.matches("ab" * 15_000)
    assert Pattern("(x+x+)+y").matches("x" * 30_000) is False
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "pattern",
    [
        "(a)(b)",
        "(?P<n>a)(?<m>b)",
        "\\Q(?<n>\\E(?<n>a)",
        "[(?<n>](?P<n>.)",
        "\\((?<n>.)\\)",
        "[[:alpha:](?<](?P<n>b)",
        "[^]](?P<n>b)",
    ],
)
def test_pattern_groups_do_not_capture(pattern: str) -> None:
    """RE2 follows each capturing group through the whole name: 1,200 groups took 1.3 s for 249 characters."""
    ours, capturing = Pattern(pattern), re2.compile(pattern)
    assert ours._compiled.groups == 0 < capturing.groups
    for text in ("ab", "a", "(?<n>a", "(a", "<a", "(b)", "xb", "]b", "(b"):
        assert ours.matches(text) is (capturing.fullmatch(text) is not None)


@given(st.text(alphabet=list("ab().*+?|[]^$\\{}2,:<>PQEn"), max_size=25), st.text(alphabet="ab(<n", max_size=8))
def test_patterns_without_captures_match_the_same_ids(pattern: str, text: str) -> None:
    options = re2.Options()
    options.log_errors = False
    try:
        capturing = re2.compile(pattern, options)
    except re2.error:
        with pytest.raises(BadPattern):
            Pattern(pattern)
        return
    if "\\C" not in pattern:
        assert Pattern(pattern).matches(text) is (capturing.fullmatch(text) is not None)


@pytest.mark.parametrize(
    ("pattern", "description"),
    [
        ("x{0,1000}" * 8, "the pattern is too large"),
        ("x{0,9}" * 800, "the pattern is too large"),
        ("(?:(?:x?y){0,30}){30}" * 3, "the pattern is too large"),
        ("x{1000}" * 60, "the pattern is too large"),
        ("(?:$){1000}" * 60, "the pattern is too large"),
        ("\\pL" * 51, "the pattern is too large"),
        ("(?i)\\PN" * 51, "the pattern is too large"),
        ("(x{40}){40}", "invalid repeat count"),
        ("(x{1001})", "invalid repeat count"),
    ],
)
def test_a_pattern_that_is_expensive_to_compile_is_refused_before(
    pattern: str, description: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr(patterns, "_read", read.append)
    with pytest.raises(BadPattern) as caught:
        Pattern(pattern)
    assert (caught.value.description, read) == (description, [])


def test_repetition_counts_within_the_limits_are_accepted() -> None:
    assert Pattern("[a-z]{1,249}(\\.[a-z]{1,249}){0,3}").matches("a.b.c")
    assert Pattern("[{1000}]{2}\\x{1000}\\{(a|b{2}){3}").matches("{}က{abba")
    assert Pattern("(x{30}){30}").matches("x" * 900)
    assert Pattern(")?".join(["(?:a"] * 50) + ")?").matches("a" * 50)


def test_the_number_of_cached_patterns_is_bounded() -> None:
    """Each pattern may take half a megabyte, and the library would keep 128 more."""
    patterns._compiled.cache_clear()
    first = Pattern("a0")
    for number in range(1, 100):
        assert Pattern(f"a{number}").matches(f"a{number}")
    assert patterns._compiled.cache_info().currsize == patterns.MAX_KEPT
    assert re2._Regexp._make.cache_info().currsize == 0
    assert first.matches("a0")
    assert Pattern("a99")._compiled is Pattern("a99")._compiled


def test_the_cost_of_a_match_grows_with_pattern_and_name() -> None:
    little, much = Pattern("a"), Pattern("a{900}")
    assert little.steps("a") < little.steps("a" * 249) < much.steps("a" * 249)
    assert much.steps("") == patterns.A_MATCH
