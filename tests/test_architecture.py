"""The import contracts cannot be escaped: every module is in one of the rooms that they list."""

from __future__ import annotations

from tools.diagrams import rooms


def test_every_module_is_in_a_layer() -> None:
    outside = {module for module in rooms.imports().modules if rooms.room_of(module) is None}
    assert outside == set(rooms.NO_ROOMS)


def test_every_arrow_runs_downwards() -> None:
    heights = {room: -number for number, layer in enumerate(rooms.layers()) for room in layer}
    upwards = [(room, one) for room, ones in rooms.arrows().items() for one in ones if heights[one] >= heights[room]]
    assert upwards == []


def test_an_arrow_that_a_longer_way_tells_is_not_drawn() -> None:
    graph: dict[str, set[str]] = {"a": {"b", "c"}, "b": {"c"}, "c": set()}
    assert rooms.without_detours(graph) == {"a": {"b"}, "b": {"c"}, "c": set()}
