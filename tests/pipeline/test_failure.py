from __future__ import annotations

from muster.pipeline.output import reason

TRACEBACK = """[PYTHON_DATA_SOURCE_ERROR] Failed to create: Traceback (most recent call last):
  File "options.py", line 1, in options_of
muster.pipeline.sources.options.BadOption: format("muster") has no option x: it takes y
 SQLSTATE: 38000"""


def test_an_error_of_spark_becomes_one_line() -> None:
    java = "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: no such master\n\tat a.b(C.java)"
    assert reason(RuntimeError(java)) == "org.apache.spark.SparkException: no such master"
    assert reason(RuntimeError("\n[NO_COLUMN] none;\nmore")) == "[NO_COLUMN] none;"
    assert reason(RuntimeError()) == "RuntimeError"
    full = "Caused by: java.io.IOException: No space left on device"
    assert reason(RuntimeError(f"{java}\nCaused by: x.Y: task failed\n\tat a.b(C.java)\n{full}\n\t... 9 more")) == (
        "org.apache.spark.SparkException: no such master: java.io.IOException: No space left on device"
    )
    assert reason(RuntimeError("one\nCaused by: one")) == "one"


def test_an_error_of_the_pipeline_in_a_worker_is_shown_alone() -> None:
    assert reason(RuntimeError(TRACEBACK)) == 'format("muster") has no option x: it takes y'
    hidden = "[PYTHON_ERROR] Failed: muster.pipeline.sources.segment_files.NoSource: /x is not there\n SQLSTATE: 1"
    assert reason(RuntimeError(hidden)) == "/x is not there"
