#!/usr/bin/env python3
"""Files with bytes that are known, on a mounted volume: known_bytes.py write|check|time FOLDER --files N --size BYTES --seconds S --seed N

`write` rewrites its files again and again for S seconds, syncs each, reads some back, and says how long the longest of these
operations took. `check` reads all of them, from a client that has none in memory, and compares. `time` writes new
files, syncs each, and says as JSON how many seconds each took. Exit code 1 where a byte is wrong."""

import argparse
import json
import os
import pathlib
import random
import sys
import time


def content(seed, file, version, size):
    return random.Random(f"{seed}/{file}/{version}").randbytes(size)


def versions_of(folder):
    """What was written last and synced, as `write` noted it."""
    return {int(name): int(version) for name, version in (line.split() for line in (folder / "versions").read_text().splitlines())}


def write(folder, options):
    random_file = random.Random(options.seed)
    versions, longest, operations = {}, 0.0, 0
    print("begun", flush=True)
    end = time.monotonic() + options.seconds
    while time.monotonic() < end or len(versions) < options.files:
        file = len(versions) if len(versions) < options.files else random_file.randrange(options.files)
        version = versions.get(file, 0) + 1
        data = content(options.seed, file, version, options.size)
        start = time.monotonic()
        with open(folder / f"file{file}", "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        versions[file] = version
        longest, operations = max(longest, time.monotonic() - start), operations + 1
    (folder / "versions").write_text("".join(f"{file} {version}\n" for file, version in versions.items()))
    print(f"wrote {operations} times {options.size} bytes; the longest took {longest:.1f} s", flush=True)
    return True


def check(folder, options):
    good = True
    for file, version in versions_of(folder).items():
        if (folder / f"file{file}").read_bytes() != content(options.seed, file, version, options.size):
            print(f"not ok: file{file} is not as it was written last", flush=True)
            good = False
    return good


def time_writes(folder, options):
    data, seconds = random.Random(options.seed).randbytes(options.size), []
    for file in range(options.files):
        start = time.monotonic()
        with open(folder / f"timed{options.seed}-{file}", "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        seconds.append(round(time.monotonic() - start, 3))
    print(json.dumps(seconds), flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["write", "check", "time"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--size", type=int, default=700_001)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    return 0 if {"write": write, "check": check, "time": time_writes}[options.what](options.folder, options) else 1


if __name__ == "__main__":
    sys.exit(main())
