"""Which quota applies, which clients are counted together, and what is remembered."""

from __future__ import annotations

import math
from itertools import combinations

import pytest

from muster.coordinator.quotas import managers
from muster.coordinator.quotas.entities import Entity, entity_of
from muster.coordinator.quotas.managers import ClientQuotas, QuotaManager, QuotaSettings, Windows

IN_ORDER: list[tuple[Entity, tuple[str, str]]] = [
    (entity_of({"user": "u", "client-id": "c"}), ("u", "c")),
    (entity_of({"user": "u", "client-id": None}), ("u", "c")),
    (entity_of({"user": "u"}), ("u", "")),
    (entity_of({"user": None, "client-id": "c"}), ("u", "c")),
    (entity_of({"user": None, "client-id": None}), ("u", "c")),
    (entity_of({"user": None}), ("u", "")),
    (entity_of({"client-id": "c"}), ("", "c")),
    (entity_of({"client-id": None}), ("", "c")),
]
"""The eight kinds of quotas, in their priority, and the names by which their users are counted."""


def make(**quotas: float) -> QuotaManager:
    """Make the quotas by kind (`k0` to `k7`)."""
    manager = QuotaManager(Windows(11, 1000))
    for kind, value in quotas.items():
        manager.set(IN_ORDER[int(kind[1])][0], value)
    return manager


def test_the_most_specific_quota_applies() -> None:
    manager = make(**{f"k{kind}": kind + 1.0 for kind in range(8)})
    for kind, (entity, names) in enumerate(IN_ORDER):
        sensor = manager.sensor("u", "c", 0)
        assert (sensor.bound, sensor.names) == (kind + 1.0, names)
        manager.set(entity, None)
    assert manager.sensor("u", "c", 0).bound is None


@pytest.mark.parametrize(("first", "second"), list(combinations(range(8), 2)))
def test_of_two_quotas_the_more_specific_applies(first: int, second: int) -> None:
    for order in ((first, second), (second, first)):
        manager = make(**{f"k{kind}": kind + 1.0 for kind in order})
        sensor = manager.sensor("u", "c", 0)
        assert (sensor.bound, sensor.names) == (first + 1.0, IN_ORDER[first][1])


def test_a_client_without_a_quota_is_still_counted() -> None:
    manager = make(k2=5.0)
    assert manager.sensor("other", "c", 0).bound is None
    sensor = manager.sensor("other", "c", 0)
    sensor.meter.record(7.0, 0)
    manager.set(entity_of({"user": "other"}), 1.0)
    now = manager.sensor("other", "c", 0)
    assert now is sensor
    assert now.bound == 1.0


def test_all_clients_of_a_user_are_counted_together() -> None:
    manager = make(k2=5.0)
    assert manager.sensor("u", "c", 0) is manager.sensor("u", "d", 0)
    assert manager.sensor("u", "c", 0) is not manager.sensor("v", "c", 0)


def test_all_users_of_a_client_id_are_counted_together() -> None:
    manager = make(k7=5.0)
    assert manager.sensor("u", "c", 0) is manager.sensor("v", "c", 0)
    assert manager.sensor("u", "", 0).bound is None, "no quota is for a client without an id"


def test_counting_goes_on_from_the_first_quota_until_a_restart() -> None:
    manager = QuotaManager(Windows(11, 1000))
    assert not manager.is_enabled
    manager.set(IN_ORDER[2][0], 1.0)
    manager.set(IN_ORDER[2][0], None)
    assert manager.is_enabled
    assert manager.sensor("u", "c", 0).bound is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_quota_of_nan_limits_nobody(value: float) -> None:
    assert make(k2=value).sensor("u", "c", 0).bound is None


def test_the_sensor_unused_for_the_longest_time_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managers, "MAX_SENSORS", 4)
    manager = make(k7=5.0)
    sensors = [manager.sensor("u", f"c{number}", 0) for number in range(4)]
    for number, sensor in enumerate(sensors):
        sensor.meter.record(1.0, 10 - number)
    version = manager.version
    manager.sensor("u", "another", 20)
    assert manager.version != version, "connections look again"
    assert [manager.sensor("u", f"c{number}", 20) is sensors[number] for number in (0, 1)] == [True, True]
    assert manager.sensor("u", "c3", 20) is not sensors[3]


def test_sensors_unused_for_an_hour_are_removed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managers, "MAX_SENSORS", 4)
    manager = make(k7=5.0)
    sensors = [manager.sensor("u", f"c{number}", 0) for number in range(4)]
    for sensor in sensors[1:]:
        sensor.meter.record(1.0, 3_600_000)
    manager.sensor("u", "another", 3_600_000)
    kept = [manager.sensor("u", f"c{number}", 3_600_000) is sensors[number] for number in (1, 2, 3)]
    assert kept == [True] * 3


def test_each_quota_key_has_its_manager() -> None:
    quotas = ClientQuotas(QuotaSettings(controller_quota_window_num=3))
    assert not quotas.are_enabled
    user = IN_ORDER[2][0]
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
    for kind, key in enumerate(keys):
        quotas.update([(user, key, kind + 1.0), (user, "of another version", 9.0)])
    found = (quotas.producer, quotas.consumer, quotas.request, quotas.mutation)
    assert [one.sensor("u", "c", 0).bound for one in found] == [1.0, 2.0, 3.0, 4.0]
    assert [one.windows.number for one in found] == [11, 11, 11, 3]
    assert quotas.are_enabled
