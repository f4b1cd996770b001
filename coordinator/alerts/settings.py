"""The properties of alerts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """The properties; a field's name is the property's with "." as "_"."""

    muster_alerts_enable: bool = True
    muster_alerts_webhooks: str | None = None
    muster_alerts_token_file: str | None = None
    muster_alerts_quiet_times: tuple[str, ...] = ()
    muster_alerts_repeat_ms: int = 14_400_000
