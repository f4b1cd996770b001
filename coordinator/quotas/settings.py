"""The settings of quotas; field names are Kafka's property names with "." -> "_"."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """Kafka's defaults: how many windows a rate is measured over, and how long each is."""

    quota_window_num: int = 11
    quota_window_size_seconds: int = 1
    controller_quota_window_num: int = 11
    controller_quota_window_size_seconds: int = 1
