"""A failure in Spark as one sentence, without the places in Java, Scala and Python."""

from __future__ import annotations

import re
from typing import Final

_CAUSE: Final = "Caused by: "
"""How Java says what an error came from."""
_OURS: Final = re.compile(r"^(?:.*: )?muster\.pipeline\.[\w.]+: (.+)$")
"""How Python says, at the end of a traceback or in its place, what a source of the pipeline raised in a worker."""


def reason(error: Exception) -> str:
    """The error and its last cause. If the pipeline itself raised it in a worker, only that."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    ours = [match[1] for match in map(_OURS.match, lines) if match is not None]
    if ours:
        return ours[-1]
    first = lines[1] if len(lines) > 1 and lines[0].startswith("An error occurred while calling") else lines[0]
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    return f"{first}: {causes[-1]}" if causes and causes[-1] not in first else first
