from __future__ import annotations

import pytest

from muster.pipeline.sources.options import BadOption, options_of
from muster.pipeline.sources.segments import Reading


def test_options_have_defaults() -> None:
    options = options_of({"path": "/d"})
    assert (options.path, options.kafka, options.rows, options.starting) == ("/d", {}, "raw", "earliest")
    assert options.reading == Reading("__consumer_offsets", "read_committed", False)
    assert options.max_rows == 1_000_000


def test_option_names_are_case_insensitive() -> None:
    options = options_of(
        {"BOOTSTRAP.servers": "h:1", "kafka.security.protocol": "SSL", "NUMPARTITIONS": "3", "Rows": "decoded"}
    )
    assert options.kafka == {"bootstrap.servers": "h:1", "security.protocol": "SSL"}
    assert (options.partitions, options.rows) == (3, "decoded")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give one of them"),
        ({"path": "/d", "bootstrap.servers": "h:1"}, "give one of them"),
        ({"kafka.sasl.mechanism": "PLAIN"}, r"kafka\.\* are given \(sasl.mechanism\), but no bootstrap.servers"),
        ({"path": "/d", "rowz": "raw"}, "no option rowz: it takes bootstrap.servers, kafka.*, path, rows"),
        ({"path": "/d", "rows": "cooked"}, "option rows=cooked: expected raw or decoded"),
        ({"path": "/d", "numPartitions": "0"}, "option numPartitions=0: expected a whole number of 1 or more"),
        ({"path": "/d", "maxRowsPerTrigger": "many"}, "option maxRowsPerTrigger=many: expected a whole number"),
    ],
)
def test_an_unknown_option_is_refused_by_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        options_of(given)
