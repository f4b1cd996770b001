from __future__ import annotations

import pytest

from muster.pipeline.sources.options import BadOption, options_of
from muster.pipeline.sources.segments import Reading


def test_what_holds_when_nothing_is_said() -> None:
    options = options_of({"path": "/d"})
    assert (options.path, options.kafka, options.rows, options.starting) == ("/d", {}, "raw", "earliest")
    assert options.reading == Reading("__consumer_offsets", "read_committed", False)
    assert options.max_rows == 1_000_000


def test_names_come_in_any_case_as_spark_hands_them_on() -> None:
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
def test_what_means_nothing_is_an_error_that_names_it(given: dict[str, str], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        options_of(given)
