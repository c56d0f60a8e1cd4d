"""What this machine's processors did."""

import pathlib


def processor_ticks():
    """Of all processors of this machine since its start, whoever used them, and how many of them were idle."""
    ticks = [int(tick) for tick in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return sum(ticks), ticks[3] + ticks[4]
