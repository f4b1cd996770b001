"""The console of the HTTP door: what groups do, in a browser (docs/console.md).

`sources.py` says what the console needs of a server or of a cluster. `views.py` makes the answers of that, `routes.py`
serves them with the files of `static/`. `feed.py` hands new events to the open pages.
"""
