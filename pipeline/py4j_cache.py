"""What PySpark asks Java for again and again. Whenever a column is made it asks for the classes that make columns, by
names that Java searches every jar for, and for their methods: a quarter of the time that the tables take to be planned.
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
"""As PySpark calls them. One that it calls otherwise some day is asked for as ever."""


class _Methods:
    """A class of Java's, each of whose methods is asked for once."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._of, name)
        setattr(self, name, method)
        return method


def remember(spark: SparkSession) -> None:
    """Have this session's Java asked only once."""
    jvm = spark.sparkContext._jvm
    held = vars(jvm)
    for name in CLASSES:
        if name not in held:
            held[name] = _Methods(getattr(jvm, name))
