#!/usr/bin/env python3
"""On a client, in its mount: guest_acls.py FILES [--list]: makes so many files in a new folder, with --list one that has a default list, shows them with
ls -l, and removes them; microseconds a file, as JSON."""

import json
import os
import pathlib
import subprocess
import sys
import time


def timed(count, do):
    began = time.monotonic()
    do()
    return (time.monotonic() - began) * 1e6 / count


def make(folder, count):
    for number in range(count):
        os.close(os.open(folder / f"file{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))


def main():
    count, folder = int(sys.argv[1]), pathlib.Path(f"lists-{time.monotonic_ns()}")
    folder.mkdir()
    if "--list" in sys.argv:
        subprocess.run(["setfacl", "-d", "-m", "u:1001:rwx", folder], check=True)
    said = {"create": timed(count, lambda: make(folder, count))}
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    said["ls_l"] = timed(count, lambda: subprocess.run(["ls", "-l", folder], stdout=subprocess.DEVNULL, check=True))
    said["remove"] = timed(count, lambda: [(folder / f"file{number}").unlink() for number in range(count)])
    folder.rmdir()
    print(json.dumps(said))


if __name__ == "__main__":
    main()
