"""aiokafka's records without its client: the parts that are left out, which nobody else misses."""

from __future__ import annotations

import subprocess
import sys

import pytest

OURS = "import sys, muster.coordinator.log.records.aiokafka_records as ours; "
LEFT_OUT = (
    "assert not {'aiokafka.client', 'aiokafka.util', 'cramjam.cramjam', 'typing_extensions'} & {"
    "name for name, module in sys.modules.items() if '__getattr__' not in vars(module)}; "
)
THEIRS = (
    "import aiokafka, aiokafka.record.legacy_records; "
    "from aiokafka import AIOKafkaConsumer, __version__; "
    "assert AIOKafkaConsumer is sys.modules['aiokafka.consumer.consumer'].AIOKafkaConsumer; "
    "assert aiokafka.errors.CorruptRecordException is ours.CorruptRecordException; "
    "assert aiokafka.record.default_records.DefaultRecordBatch is ours.DefaultRecordBatch; "
    "assert not hasattr(aiokafka, 'no_such_name'); "
)
CODECS = (
    "import typing_extensions, cramjam; "
    "from typing_extensions import Self; assert typing_extensions.Buffer is not bytes; "
    "assert bytes(cramjam.zstd.decompress(ours.zstd_encode(b'x'))) == b'x'; "
    "assert not hasattr(cramjam, 'no_such_name') and not hasattr(typing_extensions, '__path__'); "
)
FIRST = "import aiokafka; assert aiokafka.AIOKafkaConsumer; "
NO_SUCH_NAME = "assert not hasattr(sys.modules['aiokafka'], 'no_such_name')"


@pytest.mark.parametrize(
    "code",
    [
        OURS + LEFT_OUT,
        OURS + LEFT_OUT + THEIRS,
        FIRST + OURS + THEIRS,
        OURS + "assert not hasattr(sys.modules['aiokafka'], 'x')",
        OURS + LEFT_OUT + CODECS,
    ],
    ids=["alone", "before the client", "after the client", "no such name", "codecs"],
)
def test_aiokafkas_client_is_not_imported_but_can_be(code: str) -> None:
    ended = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
