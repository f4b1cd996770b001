"""The rules for a sentence: at most twenty words, and no phrase that readers had to read twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tools.prose.texts import Sentence

MAX_WORDS: Final = 20
RIDDLES: Final = {
    re.compile(r"\b(told|tells?|telling)\b", re.IGNORECASE): 'write "report", "log", "answer" or "say"',
    re.compile(r"\bof (which|whom)\b", re.IGNORECASE): "make two sentences",
    re.compile(r"\bNone: (none|no|nobody|nothing)\b"): "say what None means, with a subject and a verb",
    re.compile(r"\bthere (is|are|was|were) (one|none|some|those) (that|who|which)\b", re.IGNORECASE): "name the thing",
    re.compile(r"\b(that|those|who|what) there (is|are|was|were)\b", re.IGNORECASE): "name the thing",
    re.compile(r"\b(that|those|who|what) (is|are) (there|here)\b", re.IGNORECASE): "name the thing",
    re.compile(r"\bas it is so\b|\bso that it is so\b", re.IGNORECASE): "say what holds",
}
"""Phrases that are not allowed, and what to write instead."""


def faults(sentence: Sentence) -> Iterator[str]:
    """What is wrong with a sentence, each fault in a few words."""
    if sentence.words > MAX_WORDS:
        yield f"{sentence.words} words, more than {MAX_WORDS}"
    for riddle, advice in RIDDLES.items():
        found = riddle.search(sentence.text)
        if found:
            yield f'"{found[0]}": {advice}'
