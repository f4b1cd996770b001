"""The reports of one run: a failure with marked bytes, one that is flaky, one that was skipped, and one that passed."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from html import parser

import pytest

from muster.conform.report import badge, html, junit, text, words
from muster.conform.report import json as as_json
from muster.conform.results import Hurt, Outcome, Report, Severity, Span, State

ANSWER = bytes(range(100))
FAILED = Outcome(
    "probe",
    "probe-ListGroups-v4-rich",
    "wire",
    "ListGroups version 4: <rows> & more",
    State.FAILED,
    0.5,
    2,
    "Kafka has no error 7777",
    "ListGroups v4",
    b"\x01\x02",
    ANSWER,
    Span(66, 68, "ErrorCode"),
    Severity.CLIENTS_BREAK,
    "Errors.java",
    (Hurt("aiokafka 0.14.0", 'the consumer stops with "UnknownError"'),),
)
MILD = Outcome(
    "story", "leave-versions", "classic", "Leave", State.FAILED, diff="- a\n+ \x00b", severity=Severity.COSMETIC
)
FLAKY = Outcome("story", "session-expires", "classic", "Sessions", State.FLAKY, why="it passed when played again")
SKIPPED = Outcome("story", "share-one", "share", "Share", State.SKIPPED, why="the broker has no ShareFetch")
PASSED = Outcome("story", "join-twice", "core", "Join", State.PASSED, 1.25)
REPORT = Report(
    "127.0.0.1:9092", "Apache Kafka 4.2", "4.2", "0.3.0", "2026-11-29T11:00:00Z", 61.5,
    (PASSED, MILD, FLAKY, SKIPPED, FAILED), ("topic x",),
)  # fmt: skip
CLEAN = Report("a:1", "", "4.4", "0.3.0", "2026-11-29T11:00:00Z", 1, (PASSED, FLAKY))
EMPTY = Report("a:1", "", "4.4", "0.3.0", "2026-11-29T11:00:00Z", 1, (SKIPPED,))


def test_text() -> None:
    assert (
        text.render(REPORT)
        == """\
FAILED   probe-ListGroups-v4-rich (wire): clients break
  ListGroups version 4: <rows> & more
  request: ListGroups v4
  | Kafka has no error 7777
  the answer has 100 bytes; [wrong] ErrorCode: 2 bytes from byte 66 on
    (16 bytes are left out)
    0010  10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f  ................
    0020  20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d 2e 2f   !"#$%&'()*+,-./
    0030  30 31 32 33 34 35 36 37 38 39 3a 3b 3c 3d 3e 3f  0123456789:;<=>?
    0040  40 41[42 43]44 45 46 47 48 49 4a 4b 4c 4d 4e 4f  @ABCDEFGHIJKLMNO
    0050  50 51 52 53 54 55 56 57 58 59 5a 5b 5c 5d 5e 5f  PQRSTUVWXYZ[\\]^_
    0060  60 61 62 63                                      `abc
  says so: Errors.java
  hurts aiokafka 0.14.0: the consumer stops with "UnknownError"

FAILED   leave-versions (classic): cosmetic
  Leave
  | - a
  | + \x00b

flaky    session-expires: it passed when played again
skipped     1: the broker has no ShareFetch

level       passed  failed   flaky  skipped
core             1       0       0        0
classic          0       1       1        0
share            0       0       0        1
wire             0       1       0        0

127.0.0.1:9092: Apache Kafka 4.2
2 of 4 stories and probes are as on Kafka 4.2; 1 of 2 differences break clients. (62 s, muster 0.3.0)
left behind: topic x
"""
    )


def test_json_has_every_outcome_and_its_bytes() -> None:
    read = json.loads(as_json.render(REPORT))
    assert read["counts"] == {"passed": 1, "failed": 2, "flaky": 1, "skipped": 1}
    assert [row["id"] for row in read["outcomes"]] == [one.id for one in REPORT.outcomes]
    worst = read["outcomes"][-1]
    assert bytes.fromhex(worst["answer"]) == ANSWER
    assert worst["wrong"] == {"start": 66, "end": 68, "field": "ErrorCode"}
    assert worst["hurts"] == [{"client": "aiokafka 0.14.0", "how": 'the consumer stops with "UnknownError"'}]
    assert "answer" not in read["outcomes"][0]


def test_junit_has_a_suite_for_each_level() -> None:
    root = ET.fromstring(junit.render(REPORT))
    assert (root.get("tests"), root.get("failures")) == ("5", "2")
    assert [suite.get("name") for suite in root] == ["core", "classic", "share", "wire"]
    failure = root.find(".//testcase[@name='probe-ListGroups-v4-rich']/failure")
    assert failure is not None
    assert failure.get("message") == "Kafka has no error 7777 (ErrorCode: 2 bytes from byte 66 on)"
    assert "hurts aiokafka" in (failure.text or "")
    skipped = root.find(".//testcase[@name='share-one']/skipped")
    assert skipped is not None
    assert skipped.get("message") == "the broker has no ShareFetch"


def test_html_is_one_page_without_network() -> None:
    page = html.render(REPORT)
    for outside in ("http:", "https:", "src=", "<script", "@import", "url("):
        assert outside not in page
    assert "<mark>42</mark> <mark>43</mark> 44" in page
    assert "ListGroups version 4: &lt;rows&gt; &amp; more" in page
    assert page.index("probe-ListGroups-v4-rich") < page.index("leave-versions")


@pytest.mark.parametrize("report", [REPORT, CLEAN, EMPTY])
def test_html_closes_what_it_opens(report: Report) -> None:
    class Reader(parser.HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []

        def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
            if tag != "meta":
                self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    reader = Reader()
    reader.feed(html.render(report))
    assert reader.open == []


@pytest.mark.parametrize(
    ("report", "words_of_it", "colour"),
    [
        (REPORT, "Kafka 4.2: 2 of 4", badge.RED),
        (Report(*("a", "", "4.4", "0", "x"), 1, (PASSED, MILD)), "Kafka 4.4: 1 of 2", badge.YELLOW),
        (CLEAN, "Kafka 4.4: 2 of 2", badge.GREEN),
        (EMPTY, "Kafka 4.4: not compared", badge.GREY),
    ],
)
def test_badge(report: Report, words_of_it: str, colour: str) -> None:
    root = ET.fromstring(badge.render(report))
    assert root.get("aria-label") == words_of_it
    assert colour in badge.render(report)


def test_verdicts() -> None:
    assert words.verdict(CLEAN) == "2 of 2 stories and probes are as on Kafka 4.4."
    assert words.verdict(EMPTY) == "Nothing could be compared with Kafka 4.4."


def test_of_a_long_answer_only_the_lines_around_the_field_are_shown() -> None:
    shown = words.lines(bytes(10_000), Span(5_000, 5_004, "x"))
    assert (shown[0], shown[-1]) == (4_944, 4_944)
    assert len(shown) == 2 + 2 * words.AROUND + 1
    assert words.lines(b"", None) == []
