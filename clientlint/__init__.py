"""Finds what clients do wrong (`muster serve --lint-clients`), and provokes it (`muster lint --rehearse`).

`rules` is the list of rules. `watchers/` are pure state machines over the requests and answers of all connections, and
say which rule was broken. `linter` gives them the stream, and `findings` keeps what they say. `hook` is the place on
the server.
"""
