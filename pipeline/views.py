"""The tables of an analysis as views of a Spark session, and one view for dashboards."""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession

from muster.pipeline.output import file_system
from muster.pipeline.tables.schema import TABLES

OVERVIEW: Final = "group_overview"
"""The name of a view with one row for each group: verdict, cost, flapping score, lag, and the last episode."""

OVERVIEW_SQL: Final = """\
select v.group_id, v.level, v.verdict, v.rebalances, v.cost_ms / 1000 as unread_partition_s,
       v.trouble_ms / 1000 as trouble_partition_s, f.score as flapping_score, l.lag, l.behind_s,
       e.last_episode, e.last_episode_from, e.last_episode_sentence,
       v.first_time, v.last_time
from verdicts v
left join flapping f on f.group_id = v.group_id
left join (select group_id, sum(lag) as lag, max(behind_ms) / 1000 as behind_s from lag group by group_id) l
  on l.group_id = v.group_id
left join (select group_id, max_by(kind, `from`) as last_episode, max(`from`) as last_episode_from,
                  max_by(sentence, `from`) as last_episode_sentence
           from episodes group by group_id) e
  on e.group_id = v.group_id
"""


def register(spark: SparkSession, out: str, *, prefix: str = "") -> list[str]:
    """Make a temporary view of each table in the folder of `muster analyze --out`, and OVERVIEW.

    Returns their names.
    """
    names = []
    for name in TABLES:
        folder = f"{out.rstrip('/')}/tables/{name}"
        system, where = file_system(spark, folder)
        if system.exists(where):
            spark.read.parquet(folder).createOrReplaceTempView(f"{prefix}{name}")
            names.append(f"{prefix}{name}")
    text = OVERVIEW_SQL
    for name in ("verdicts", "flapping", "lag", "episodes"):
        text = text.replace(f"from {name} ", f"from {prefix}{name} ").replace(f"join {name} ", f"join {prefix}{name} ")
    spark.sql(text).createOrReplaceTempView(f"{prefix}{OVERVIEW}")
    return [*names, f"{prefix}{OVERVIEW}"]
