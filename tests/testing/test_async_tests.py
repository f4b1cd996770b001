"""`async def` tests with Muster's fixtures, without and beside the plugins for asynchronous tests."""

from __future__ import annotations

import pytest

ALONE = ("-p", "no:asyncio")


def outcomes(pytester: pytest.Pytester, *options: str) -> dict[str, int]:
    """The outcomes of the suite in the folder."""
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *options).parseoutcomes()


def test_asynchronous_tests_run_on_an_event_loop_of_their_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio, contextlib, pytest

        @pytest.fixture
        def number():
            return 5

        @pytest.mark.parametrize("word", ["a", "b"])
        async def test_awaits(muster_group, number, word):
            await asyncio.sleep(0)
            assert (await muster_group.aio.describe()).state == "Dead"
            assert (number, word in "ab") == (5, True)

        class TestInAClass:
            async def test_awaits(self, muster, default=3):
                assert default == 3

        async def test_fails(muster):
            assert muster is None

        async def test_of_others_is_left_alone():
            pass
        """
    )
    assert outcomes(pytester, *ALONE) == {"passed": 3, "failed": 2}
    # pytest-asyncio in its strict mode runs only tests with its mark
    assert outcomes(pytester) == {"passed": 3, "failed": 2}


def test_asynchronous_tests_of_another_plugin_are_left_to_that_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest, pytest_asyncio

        @pytest_asyncio.fixture
        async def loop_of_fixture():
            import asyncio
            return asyncio.get_running_loop()

        @pytest.mark.asyncio
        async def test_of_the_plugin(muster, loop_of_fixture):
            import asyncio
            assert asyncio.get_running_loop() is loop_of_fixture

        """
    )
    assert outcomes(pytester, "-o", "asyncio_default_fixture_loop_scope=function") == {"passed": 1}
