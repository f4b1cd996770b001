"""The rules for sentences find what readers had to read twice, and nothing in code."""

from __future__ import annotations

import pytest

from tools.prose import rules, texts
from tools.prose.__main__ import grown, risen, too_wide

LONG = " ".join(f"word{number}" for number in range(18))


def faults(text: str) -> list[str]:
    """The faults of one sentence."""
    return list(rules.faults(texts.Sentence(1, text)))


class TestRules:
    def test_twenty_words_are_allowed_and_twenty_one_are_not(self) -> None:
        assert faults(f"{LONG} nineteen twenty.") == []
        assert faults(f"{LONG} nineteen twenty twentyone.") == ["21 words, more than 20"]

    def test_signs_do_not_count_as_words(self) -> None:
        assert faults(f"{LONG} nineteen → twenty = .") == []

    @pytest.mark.parametrize(
        "text",
        [
            "The members are told of it.",
            "What goes along, and of which logs it is.",
            "None: none.",
            "There is one that nobody knows.",
            "As those of the users that there are.",
            "A module that is there.",
        ],
    )
    def test_an_unclear_phrase_is_found(self, text: str) -> None:
        assert len(faults(text)) == 1

    def test_a_plain_sentence_has_no_faults(self) -> None:
        assert faults("The coordinator answers the heartbeat with REBALANCE_IN_PROGRESS.") == []


class TestMarkdown:
    def test_code_tables_and_headings_are_not_checked(self) -> None:
        page = f"# {LONG} {LONG}\n\n```sh\n{LONG} {LONG}\n```\n\n| {LONG} {LONG} |\n|---|\n"
        assert list(texts.of_markdown(page)) == []

    def test_a_span_of_code_is_one_word(self) -> None:
        [sentence] = texts.of_markdown("Run `muster groups list --bootstrap-server a:1` now.")
        assert sentence == texts.Sentence(1, "Run CODE now.")
        assert sentence.words == 3

    def test_each_item_of_a_list_is_a_paragraph(self) -> None:
        assert [one.text for one in texts.of_markdown("Two:\n* one\n  and more\n* two\n")] == [
            "Two:",
            "one and more",
            "two",
        ]

    def test_the_text_of_a_link_counts_without_its_target(self) -> None:
        assert [one.text for one in texts.of_markdown("See [the page](docs/a.md).")] == ["See the page."]


class TestPython:
    def test_only_docstrings_and_comments_are_checked_as_sentences(self) -> None:
        module = '"""First. Second."""\nX = "no prose. At all."\n"""Of X."""\n# A comment\n# goes on.\n'
        assert [one.text for one in texts.of_python(module)] == ["First.", "Second.", "Of X.", "A comment goes on."]

    def test_the_reason_behind_a_directive_is_prose(self) -> None:
        module = "x = 1  # noqa: E741  # It has one letter.\ny = 2  # type: ignore[assignment]\n"
        assert [one.text for one in texts.of_python(module)] == ["It has one letter."]


def test_a_file_may_not_have_more_faults_than_before() -> None:
    assert grown({"a.py": ["one", "two"]}, {"a.py": 2}) == []
    assert grown({"a.py": ["one", "two"]}, {"a.py": 1}) == ["a.py: 2 faults, 1 allowed", "one", "two"]
    assert grown({"new.py": ["one"]}, {}) == ["new.py: 1 faults, 0 allowed", "one"]


def test_a_new_file_may_not_have_more_faults_than_a_removed_file() -> None:
    assert risen({"moved.py": 2}, {"gone.py": 2}) == []
    assert risen({"moved.py": 3}, {"gone.py": 2}) == ["moved.py"]
    assert risen({"new.py": 1}, {}) == ["new.py"]
    assert risen({"Makefile": 2}, {"Makefile": 1}) == ["Makefile"]


def test_a_wide_line_is_found_except_in_tables_and_code() -> None:
    wide = "x" * 121
    assert too_wide(f"a\n{wide}\n|{wide}\n```\n{wide}\n```\n") == [(2, wide)]
