"""Fewer calls from Python into Java: what PySpark asks for again and again is kept.

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
    "org.apache.spark.sql.expressions.Window",
    "org.apache.spark.sql.types.Metadata",
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


def keep_objects(spark: SparkSession) -> None:
    """Keep what Python made in Java until the session ends: to say of each object that it is no longer needed takes a
    call, two of five calls that plans need.
    """
    spark.sparkContext._gateway.gateway_property.enable_memory_management = False  # type: ignore[union-attr]
