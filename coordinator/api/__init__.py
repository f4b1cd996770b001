"""The requests. One module per API, or per small family of APIs, turns a request into commands, and results into a
response. No module here may touch sockets or files. A handler may reach what `node.Node` has.
"""
