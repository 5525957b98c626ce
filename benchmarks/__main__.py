"""Run every benchmark and print its ratios; exit code 1 if a promise is broken."""

import sys

from benchmarks import (
    doctor_speed,
    flat_cost,
    group_commit,
    idle_owner,
    import_time,
    many_sessions,
    web_load,
)

if __name__ == "__main__":
    benchmarks = (
        import_time,
        idle_owner,
        flat_cost,
        group_commit,
        many_sessions,
        web_load,
        doctor_speed,
    )
    kept = [benchmark.run() for benchmark in benchmarks]
    sys.exit(0 if all(kept) else 1)
