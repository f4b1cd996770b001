"""The parts of aiokafka that the log uses. `import aiokafka` takes 17 ms and 3 MB, and is delayed until needed."""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from typing import Any

_NAME = "aiokafka"


def _register_without_init() -> None:
    """Register the aiokafka package, unless it is loaded, without running its `__init__`."""
    spec = None if _NAME in sys.modules else find_spec(_NAME)
    if spec is None or spec.loader is None:
        return
    loader, package = spec.loader, module_from_spec(spec)

    def started(name: str) -> Any:
        del package.__dict__["__getattr__"]
        loader.exec_module(package)
        return getattr(package, name)

    package.__dict__["__getattr__"] = started  # PEP 562: called for a name that the package does not have yet
    sys.modules[_NAME] = package


_register_without_init()

from aiokafka.codec import lz4_encode, snappy_encode, zstd_encode  # noqa: E402
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError  # noqa: E402
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder  # noqa: E402

__all__ = [
    "CorruptRecordException",
    "DefaultRecordBatch",
    "DefaultRecordBatchBuilder",
    "UnsupportedCodecError",
    "lz4_encode",
    "snappy_encode",
    "zstd_encode",
]
