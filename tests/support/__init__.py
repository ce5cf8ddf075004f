"""What tests of the engine share: fabrics, runs to the end, results, and arithmetic by hand.

`support.fabric` makes Plans, `support.run` runs them, `support.oracle` computes what must come out
and imports nothing of emunet.
"""
