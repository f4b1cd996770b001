"""Alerts: the verdicts of the pipeline about the groups of a running server, while they happen (docs/alerts.md)."""
