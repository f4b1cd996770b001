"""The report: what an analysis found, as one HTML page that needs nothing else, and as a few lines for a terminal.

`select` takes from the tables as much as fits on a page, `page` and `summary` show it. Decides nothing about the facts.
"""
