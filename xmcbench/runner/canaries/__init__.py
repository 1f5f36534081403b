"""Canaries: tiny fixed cells of every built-in method, whose outcomes show whether changed code gives other results.

A canary is a method with parameters that lead it through one path of its code, on 238 training texts. Its outcome, the
ranks of the true pairs, the best scores and the losses, is stored in ``leaderboards/canaries``. Code with the stored
outcomes is taken to give the results that the older code gave.
"""
