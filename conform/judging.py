"""Makes the outcome of a story from its attempts: whether it passed, what differs, and how bad that is."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Final

from muster.conform.marking import marked
from muster.conform.plan import Planned
from muster.conform.player import kafka_codec as codec
from muster.conform.player.tcp import Driver, NotServed
from muster.conform.results import Outcome, Severity, State

KIPS: Final = {
    "classic": "KIP-62, KIP-394",
    "static": "KIP-345",
    "txn": "KIP-98, KIP-890",
    "consumer": "KIP-848",
    "share": "KIP-932",
    "streams": "KIP-1071",
}
"""Where to read what is right, by level."""
MESSAGE: Final = re.compile(r' message="(?:[^"\\]|\\.)*"')
LINES: Final = 4
"""How many lines stand around a difference."""


@dataclass
class Attempt:
    """One attempt to play a story: `text` is the story with the answers that came."""

    planned: Planned
    text: str
    driver: Driver
    seconds: float
    trouble: str = ""
    not_served: NotServed | None = None

    @property
    def is_right(self) -> bool:
        """Whether the story went as on Kafka."""
        return self.text == self.planned.story.text and not self.trouble


def judged(attempt: Attempt, state: State, tries: int = 1, first: Attempt | None = None, why: str = "") -> Outcome:
    """The outcome. `first`: the attempt whose difference is shown, if not this one; `why`: a remark for the report."""
    story, level = attempt.planned.story, attempt.planned.level
    seconds = attempt.seconds + (0.0 if first is None else first.seconds)
    if attempt.not_served is not None:
        missing = attempt.not_served
        why = f"the broker does not offer {missing.api} v{missing.version}"
        return Outcome("story", story.name, level, story.title, State.SKIPPED, seconds, why=why)
    if state is State.PASSED:
        return Outcome("story", story.name, level, story.title, state, seconds)
    wrong = attempt if first is None else first
    there, here = first_difference(wrong)
    api, version, request_bytes, answer = culprit(wrong, here)
    field = marked(api, version, answer, there, here) if answer else None
    return Outcome(
        "story", story.name, level, story.title, state, seconds, tries, difference(wrong),
        f"{api} v{version}" if api else "", request_bytes, answer, field,
        severity=severity(wrong) if state is State.FAILED else None,
        kip=KIPS.get(level, ""),
        why=why or wrong.trouble or wrong.driver.trouble,
    )  # fmt: skip


def difference(attempt: Attempt) -> str:
    """The story on Kafka and here, as a diff. Only the first step that differs shows a difference."""
    story = attempt.planned.story
    if not attempt.text:
        return ""
    pair = (story.text.splitlines(), attempt.text.splitlines())
    return "\n".join(difflib.unified_diff(*pair, "Apache Kafka", "here", lineterm="", n=LINES))


def first_difference(attempt: Attempt) -> tuple[str, str]:
    """The first line that differs: on Kafka, and here. Empty if no line of both differs."""
    pairs = zip(attempt.planned.story.text.splitlines(), attempt.text.splitlines(), strict=False)
    return next(((there, here) for there, here in pairs if here != there), ("", ""))


def culprit(attempt: Attempt, line: str) -> tuple[str, int, bytes, bytes]:
    """The request whose answer is shown by this line, or the last one: API, version, its bytes and the answer's."""
    driver = attempt.driver
    if not driver.sent:
        return "", 0, b"", b""
    odd = next((reply for reply in driver.heard if line and reply.line == line), None)
    if odd is None:
        send = driver.sent[-1]
        return _request(send.api, send.version, send.body, driver.unread)
    return _request(odd.api, odd.version, odd.request, odd.frame)


def _request(api: str, version: int, body: dict[str, object], answer: bytes) -> tuple[str, int, bytes, bytes]:
    return api, version, codec.encode_request(api, version, 0, "conform", body), answer


def severity(attempt: Attempt) -> Severity:
    """How bad the difference is.

    Clients break when no answer comes or it cannot be read. A difference only in texts for people is cosmetic.
    """
    if attempt.trouble or attempt.driver.trouble:
        return Severity.CLIENTS_BREAK
    story = attempt.planned.story
    if MESSAGE.sub("", attempt.text) == MESSAGE.sub("", story.text):
        return Severity.COSMETIC
    lines = set(attempt.text.splitlines()) - set(story.text.splitlines())
    if any(line.split()[1:2] == ["waiting"] for line in lines):
        return Severity.CLIENTS_BREAK
    return Severity.DIFFERS
