"""What Kafka packs records with, unpacked."""

from __future__ import annotations

import gzip
import zlib
from typing import Final

import cramjam
from aiokafka.codec import gzip_decode, lz4_decode, snappy_decode, zstd_decode
from aiokafka.errors import UnsupportedCodecError

_CODECS: Final = (bytes, gzip_decode, snappy_decode, lz4_decode, zstd_decode)
UNREADABLE: Final = (
    cramjam.DecompressionError,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    ValueError,
    IndexError,
    OverflowError,
    UnsupportedCodecError,
)
"""What the codecs raise for bytes that they cannot read."""


def unpacked(codec: int, packed: bytes | memoryview) -> bytes:
    """What was packed; `codec` is Kafka's number, 0: nothing is. Raises one of `UNREADABLE`."""
    if codec >= len(_CODECS):
        raise ValueError(f"unknown compression type {codec}")
    return bytes(_CODECS[codec](bytes(packed)))
