"""The requests: one module per API or small family turns a request into commands, and what they yield into a response.

May not touch sockets or files. What a handler may reach is `node.Node`; what it knows of the asker, `context`.
"""
