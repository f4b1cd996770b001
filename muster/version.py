"""The version of this distribution; the only place that says it."""

VERSION = "0.3.0"


def description() -> str:
    """What `muster version` prints: the version, and whether modules of this Muster are compiled."""
    from muster.protocol import wire  # only these commands need this import

    return f"muster {VERSION}" if wire.__file__.endswith(".py") else f"muster {VERSION} (compiled)"
