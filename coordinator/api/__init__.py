"""The requests. One module per API, or per small family of APIs, turns a request into commands, and results into a
response. No module of this package may use sockets or files. A handler may use what `node.Node` has.
"""
