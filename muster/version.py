"""The version of this distribution; the only place that says it."""

import os

VERSION = "0.3.0"


def is_compiled() -> bool:
    """Whether modules of this Muster are compiled."""
    files = os.listdir(os.path.join(os.path.dirname(__file__), "protocol"))  # an import would load the protocol
    return any(name.startswith("wire.") and name.endswith((".so", ".pyd")) for name in files)


def description() -> str:
    """What `muster version` prints: the version, and whether modules of this Muster are compiled."""
    return f"muster {VERSION} (compiled)" if is_compiled() else f"muster {VERSION}"
