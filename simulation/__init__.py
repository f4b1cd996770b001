"""The simulator: a node, or a part of one, in virtual time, and the clients that use it."""
