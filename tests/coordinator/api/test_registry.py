from __future__ import annotations

import json
from pathlib import Path

from muster.coordinator.api.registry import METRICS_APIS, SERVED, handler
from muster.protocol.api import api

VERSIONS = Path(__file__).resolve().parents[2] / "golden" / "versions.json"


def test_version_ranges_are_exactly_those_of_kafka() -> None:
    kafka = {row["key"]: (row["min"], row["max"]) for row in json.loads(VERSIONS.read_text())["apis"]}
    kafka |= dict.fromkeys(METRICS_APIS, (0, 0))  # as of a broker with a receiver of metrics
    assert {key: (served.min_version, served.max_version) for key, served in SERVED.items()} == {
        key: kafka[key] for key in SERVED
    }


def test_every_served_api_has_a_handler_named_after_it() -> None:
    for key in SERVED:
        name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in api(key).name)
        assert handler(key).__name__ == f"handle{name}"


def test_the_registry_is_in_the_order_of_api_keys() -> None:
    assert list(SERVED) == sorted(SERVED)


def test_every_served_version_can_be_decoded() -> None:
    for served in SERVED.values():
        assert api(served.key).min_version <= served.served_from <= served.max_version <= api(served.key).max_version


def test_produce_is_advertised_from_0_and_served_from_3() -> None:
    produce = SERVED[0]
    assert [produce.serves(version) for version in (2, 3, 13, 14)] == [False, True, True, False]
