"""One line for one promise."""


def promise(what: str, measured: float, limit: float, unit: str = "") -> bool:
    """Print what was measured beside what is promised; gives whether it is kept."""
    kept = measured <= limit
    mark = "kept" if kept else "BROKEN"
    print(f"{mark:<7} {what:<68} {measured:8.2f}{unit}  (at most {limit:g}{unit})", flush=True)
    return kept
