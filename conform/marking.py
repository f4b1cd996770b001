"""Which field of an answer is wrong, by the first line of a story that differs. Pure.

A line shows values of fields: `A <- join ok generation=3 leader=A`. The word before a value names the field; else the
value does, if a single field has it. If neither is clear, no field is marked.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from muster.conform.player import spans
from muster.conform.player.stage import ERRORS
from muster.conform.results import Span

FIELDS = {
    "assignment": ("Assignment",),
    "assignment_epoch": ("AssignmentEpoch",),
    "assignor": ("AssignorName",),
    "client": ("ClientId",),
    "coordinator": ("CoordinatorEpoch",),
    "epoch": ("MemberEpoch", "GroupEpoch", "ProducerEpoch"),
    "generation": ("GenerationId",),
    "host": ("ClientHost",),
    "leader": ("Leader",),
    "member": ("MemberId",),
    "members": ("Members",),
    "message": ("ErrorMessage",),
    "metadata": ("MemberMetadata",),
    "operations": ("AuthorizedOperations",),
    "protocol": ("ProtocolName", "ProtocolData"),
    "state": ("GroupState", "TransactionState"),
    "target": ("TargetAssignment",),
    "type": ("ProtocolType",),
}
"""The words of outcome lines, and the fields whose values they show."""
CODES = {name: code for code, name in ERRORS.items()} | {"ok": 0, "found": 0}


def marked(api: str, version: int, answer: bytes, there: str, here: str) -> Span | None:
    """The wrong field of an answer. `there` and `here` are the lines that show it on Kafka, and here."""
    reading = spans.read(api, version, answer)
    if reading.fault is not None:
        return Span(reading.fault.start, reading.fault.end, reading.fault.path)
    was, now = _tokens(there), _tokens(here)
    new = [one for one in now if one not in was]
    gone = [one for one in was if one not in now]
    finders: tuple[Callable[[str, tuple[spans.Span, ...]], spans.Span | None], ...] = (_by_word, _by_value)
    for token in [*new, *gone]:
        for find in finders[: 2 if token in new else 1]:
            found = find(token, reading.spans)
            if found is not None:
                return Span(found.start, found.end, found.path)
    return None


def _tokens(line: str) -> list[str]:
    """The words of a line, without the actor. Values in brackets are one word with the word before."""
    return re.findall(r"[^\s\[(]+(?:[\[(][^\])]*[\])])?", line.partition("<-")[2])


def _by_word(token: str, of: tuple[spans.Span, ...]) -> spans.Span | None:
    """The field that a word before a value stands for."""
    word = token.partition("=")[0]
    for name in FIELDS.get(word, ()):
        rows = [one for one in of if one.path.rpartition(".")[2] == name]
        if len(rows) == 1:
            return rows[0]
    return None


def _by_value(token: str, of: tuple[spans.Span, ...]) -> spans.Span | None:
    """The only field with the value of a token. An error code is searched only among error codes."""
    value = token.rpartition("=")[2]
    if value in CODES:
        rows = [one for one in of if one.path.endswith("ErrorCode") and one.value == CODES[value]]
    elif re.fullmatch(r"-?\d+", value):
        rows = [one for one in of if one.value == int(value) and not isinstance(one.value, bool)]
    else:
        rows = [one for one in of if one.value == value]
    return rows[0] if len(rows) == 1 else None
