"""Real faults: real processes that are killed, cut off, starved of disk or paused.

Every script lives lives (`life`), does something to them, and holds what they were told
(`diary`) against what the store still has (`verdict`). `python -m tests.faults` is the long
run; the tests in this folder are the short one.
"""
