"""Suites that are steps, one after another, on one ensemble."""

import time


def carry_out(steps, *scene):
    """Calls each with `scene`, also after one that fails, and says how long it took. Whether all answered that it went well."""
    ok = True
    for step in steps:
        start = time.monotonic()
        ok &= step(*scene)
        print(f"{step.__name__}: {time.monotonic() - start:.0f} s", flush=True)
    return ok
