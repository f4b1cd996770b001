"""Keep what PySpark asks Java for again and again.

For each column it asks for the same classes and methods by name, and Java searches every jar for them: a quarter of the
time of planning the tables.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

CLASSES: Final = (
    "functions",
    "org.apache.spark.sql.functions",
    "PythonSQLUtils",
    "PythonUtils",
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.sql.classic.SparkSession",
)
"""Their names in PySpark. If a later version uses other names, it simply asks each time."""


class _Methods:
    """A Java class; each of its methods is looked up once."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._of, name)
        setattr(self, name, method)
        return method


def remember(spark: SparkSession) -> None:
    """Keep these classes for a session."""
    jvm = spark.sparkContext._jvm
    held = vars(jvm)
    for name in CLASSES:
        if name not in held:
            held[name] = _Methods(getattr(jvm, name))
