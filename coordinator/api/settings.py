"""The settings that handlers themselves look at; field names are Kafka's property names with "." -> "_"."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Kafka's defaults. Sizes in bytes, times in ms."""

    auto_create_topics_enable: bool = True
    fetch_max_bytes: int = 57_671_680
    max_incremental_fetch_session_cache_slots: int = 1000
