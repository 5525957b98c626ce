"""Change the core on purpose, one small fault at a time, and see that the tests notice.

mutmut makes the faults; we run them, because its own runner starts pytest anew for each of
them and has no time for six thousand golden rows. Here pytest collects once, and every fault
is tried in a fork of that process, by the tests that reach the changed lines and no others.
"""
