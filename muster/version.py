"""The version of this distribution; the only place that says it."""

VERSION = "0.3.0"


def description() -> str:
    """What `muster version` prints."""
    return f"muster {VERSION}"
