"""How much memory a process has."""

import pathlib
import re


def resident(pid):
    """Bytes of it that are in memory; 0: it is ending. OSError: it has ended."""
    found = re.search(r"^VmRSS:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(found[1]) << 10 if found else 0
