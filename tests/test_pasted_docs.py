"""Tests paste the same text from pages as readers copy."""

from __future__ import annotations

import pytest

from tests.support.pasted_docs import Block, blocks, parse

PAGE = """# Title

<!-- pasted: start background -->
```sh
$ muster serve --in-memory \\
    --topic orders:4
# a comment

muster version  # says it
```

<!-- another comment -->
## Part

* in a list:

    ```python
    if True:
        print("```")
    ```

<!-- pasted: lost -->
words between
~~~~
```
~~~~
"""


def test_the_blocks_of_a_page_are_parsed() -> None:
    assert list(parse("p.md", PAGE)) == [
        Block(
            "p.md", 5, "Title", "sh", ("start", "background"),
            "$ muster serve --in-memory \\\n    --topic orders:4\n# a comment\n\nmuster version  # says it\n",
        ),
        Block("p.md", 18, "Part", "python", (), 'if True:\n    print("```")\n'),
        Block("p.md", 25, "Part", "", (), "```\n"),
    ]  # fmt: skip


def test_the_commands_of_a_block_are_parsed() -> None:
    first = next(parse("p.md", PAGE))
    assert first.name == "start"
    assert first.commands == ["muster serve --in-memory --topic orders:4", "muster version  # says it"]


def test_a_block_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match=r"p\.md:3: .* has no end"):
        list(parse("p.md", "a\n\n```sh\nb\n"))


def test_the_blocks_of_a_page_are_filtered_by_language_and_name() -> None:
    found = blocks("docs/testing.md", "python")
    assert found
    assert {block.language for block in found} == {"python"}
    assert blocks("docs/testing.md", name="no such name") == []
