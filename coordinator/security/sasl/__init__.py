"""The mechanisms of SASL. They read tokens of a client and make tokens for it. Pure; imported when a listener
has SASL.
"""
