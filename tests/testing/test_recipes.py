"""The examples of docs/testing.md are pasted unchanged, and run. So are examples/test_recipes.py and
examples/test_share_recipes.py.
"""

from __future__ import annotations

import pytest

from tests.support.pasted_docs import ROOT, Block, blocks

PAGE = "docs/testing.md"
MORE = ROOT / "examples" / "test_recipes.py"
SHARES = ROOT / "examples" / "test_share_recipes.py"
RECIPES = 15


def paste(pytester: pytest.Pytester) -> int:
    """Write each recipe of the page to its own file, after the block that all share, and the file of recipes. Returns
    the number of tests.
    """
    [shared] = blocks(PAGE, "python", name="shared")
    recipes = blocks(PAGE, "python", name="recipe")
    files = {f"test_recipe_{one.line}": f"{shared.text}\n\n{one.text}" for one in recipes}
    files |= {path.stem: path.read_text(encoding="utf-8") for path in (MORE, SHARES)}
    assert sum(text.count("def test_") for text in files.values()) == RECIPES
    [first] = blocks(PAGE, "python", name="first")
    pytester.makepyfile(test_first=first.text, **files)
    return RECIPES + 1


def test_the_recipes_of_the_testing_page_pass(pytester: pytest.Pytester) -> None:
    """The tests run as for a user who has pytest-asyncio without settings: its mode is strict."""
    count = paste(pytester)
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "--durations=5").assert_outcomes(passed=count)


@pytest.mark.parametrize("mode", [("-p", "no:asyncio"), ("-o", "asyncio_mode=auto")])
def test_recipes_pass_in_the_other_modes_of_pytest_asyncio(pytester: pytest.Pytester, mode: tuple[str, ...]) -> None:
    paste(pytester)
    quiet = ("-W", "ignore:The configuration option")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *mode, *quiet, "-k", "static_member or first")
    result.assert_outcomes(passed=2, deselected=RECIPES - 1)


def test_the_recipes_file_has_the_consumer_of_the_testing_page() -> None:
    [shared] = blocks(PAGE, "python", name="shared")
    consumer = shared.text[shared.text.index("@contextlib") :]
    assert consumer in MORE.read_text(encoding="utf-8")


def test_each_python_block_of_the_testing_page_is_run() -> None:
    assert {block.name for block in blocks(PAGE, "python")} == {"first", "alone", "shared", "recipe"}


ALONE = blocks(PAGE, "python", name="alone")


@pytest.mark.parametrize("block", ALONE, ids=[str(one.line) for one in ALONE])
def test_the_examples_without_pytest_run(block: Block) -> None:
    exec(block.text, {})
