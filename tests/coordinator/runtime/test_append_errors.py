from __future__ import annotations

import pytest

from muster.coordinator.runtime.replies import append_error


class Failed(Exception):
    def __init__(self, error_code: int) -> None:
        self.error_code = error_code


@pytest.mark.parametrize(
    ("error", "reported"),
    [(3, 15), (7, 15), (19, 15), (6, 16), (56, 16), (74, 16), (10, -1), (18, -1), (4, -1), (-1, -1), (87, 87)],
)
def test_each_append_failure_has_its_error_code(error: int, reported: int) -> None:
    assert append_error(Failed(error)) == reported


def test_an_append_failure_without_a_code_is_unknown_server_error() -> None:
    assert append_error(OSError("no space")) == -1
