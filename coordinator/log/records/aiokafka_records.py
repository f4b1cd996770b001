"""What of aiokafka the log is built on: its compiled reader and builder of records, and its codecs, without its client.

To import any part of aiokafka runs the package's own start first, which loads consumer, producer and admin client:
17 ms of CPU and 2.7 MB, of some 200 ms and 40 MB that a server takes until it is ready, and it uses nothing of them. So
the package's start is put off until it is asked for something.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from typing import Any

_NAME = "aiokafka"


def _put_off_its_start() -> None:
    """Let aiokafka be there, unless it is already, and start when it is first asked for anything but its modules."""
    spec = None if _NAME in sys.modules else find_spec(_NAME)
    if spec is None or spec.loader is None:
        return
    loader, package = spec.loader, module_from_spec(spec)

    def started(name: str) -> Any:
        del package.__dict__["__getattr__"]
        loader.exec_module(package)
        return getattr(package, name)

    package.__dict__["__getattr__"] = started  # PEP 562
    sys.modules[_NAME] = package


_put_off_its_start()

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
