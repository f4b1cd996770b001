import pytest

from muster.coordinator.log import LogConfig, LogSettings


def test_the_default_log_settings_agree() -> None:
    assert LogConfig.of(LogSettings()) == LogConfig()


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"log_segment_bytes": 5}, "segment_bytes", 5),
        ({"log_roll_hours": 2}, "segment_ms", 7_200_000),
        ({"log_roll_hours": 2, "log_roll_ms": 7}, "segment_ms", 7),
        ({"log_roll_jitter_hours": 1}, "segment_jitter_ms", 3_600_000),
        ({"log_retention_hours": 1}, "retention_ms", 3_600_000),
        ({"log_retention_hours": 1, "log_retention_minutes": 1}, "retention_ms", 60_000),
        ({"log_retention_minutes": 1, "log_retention_ms": 9}, "retention_ms", 9),
        ({"log_retention_hours": -1}, "retention_ms", -1),
        ({"log_retention_minutes": -1}, "retention_ms", -1),
        ({"log_cleanup_policy": ["compact"]}, "cleanup_policy", ("compact",)),
        ({"log_flush_scheduler_interval_ms": 3}, "flush_ms", 3),
        ({"log_flush_scheduler_interval_ms": 3, "log_flush_interval_ms": 2}, "flush_ms", 2),
        ({"message_max_bytes": 99}, "max_message_bytes", 99),
    ],
)
def test_the_brokers_log_setting_applies_if_the_topic_has_none(given: dict, name: str, value: object) -> None:
    assert getattr(LogConfig.of(LogSettings(**given)), name) == value


def test_cleanup_policies_and_timestamp_types_are_recognized() -> None:
    assert LogConfig().deletes
    assert not LogConfig().compacts
    both = LogConfig(cleanup_policy=("compact", "delete"))
    assert both.deletes
    assert both.compacts
    assert LogConfig(message_timestamp_type="LogAppendTime").stamps_append_time
