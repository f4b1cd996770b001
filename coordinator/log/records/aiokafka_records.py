"""The parts of aiokafka that the log uses, without the others: `import aiokafka` takes 17 ms and 3 MB.

A module that is left out is registered, and runs when somebody asks for one of its names. `cramjam` has the codecs, and
takes 1.6 MB: it runs with the first compressed batch.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from threading import RLock
from typing import Any


def _register_without_run(name: str, **names: Any) -> None:
    """Register a module, unless it is loaded, without running it. It has `names` until it runs."""
    spec = None if name in sys.modules else find_spec(name)
    if spec is None or spec.loader is None:
        return
    loader, module, lock, is_started = spec.loader, module_from_spec(spec), RLock(), False

    def run(asked: str) -> Any:
        nonlocal is_started
        if asked == "__path__":  # an import statement asks whether a module is a package
            raise AttributeError(asked)
        with lock:  # other threads wait until the module has its names
            if not is_started:
                is_started = True
                loader.exec_module(module)
                if module.__dict__.get("__getattr__") is run:
                    del module.__dict__["__getattr__"]
                return getattr(module, asked)
        if asked not in module.__dict__:
            raise AttributeError(f"module {name!r} has no attribute {asked!r}")
        return module.__dict__[asked]

    module.__dict__.update(names, __getattr__=run)  # PEP 562: called for a name that the module does not have yet
    sys.modules[name] = module
    package, _, last = name.rpartition(".")
    if package:
        setattr(sys.modules[package], last, module)


for _name in ("aiokafka", "aiokafka.record", "aiokafka.record._crecords", "cramjam"):
    _register_without_run(_name)
_register_without_run("typing_extensions", Buffer=bytes)  # aiokafka's codecs use this name in annotations only

import cramjam  # noqa: E402  # only after the packages are registered
from aiokafka.codec import lz4_encode, snappy_encode, zstd_encode  # noqa: E402  # only after the packages are registered
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError  # noqa: E402  # only after the packages are registered
from aiokafka.record._crecords.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder  # noqa: E402  # only after the packages are registered

__all__ = [
    "CorruptRecordException",
    "DefaultRecordBatch",
    "DefaultRecordBatchBuilder",
    "UnsupportedCodecError",
    "cramjam",
    "lz4_encode",
    "snappy_encode",
    "zstd_encode",
]
