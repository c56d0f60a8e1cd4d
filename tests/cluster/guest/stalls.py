#!/usr/bin/env python3
"""How long a client stands still: stalls.py FOLDER --seconds S [--until FILE] [--tell S]

One thread writes 4 KiB and syncs them, again and again; others read 4 KiB past the client's own memory and ask for a file's attributes ten times
a second. Says "ready" when all work, and at the end one line of JSON: of each its number of operations and the longest, in seconds.
That is after --seconds, or as soon as there is --until. With --tell, each that takes longer is told at once: "stall WHAT SECONDS".
Ends with 1 as soon as one fails. Mount with actimeo=0."""

import argparse
import heapq
import itertools
import json
import mmap
import os
import pathlib
import sys
import threading
import time
import traceback

LONGEST = 25
BLOCK, BLOCKS = 4096, 1024  # of the files that are written and read: some of them at small-file servers, most at storage nodes
PLACES = range(0, BLOCKS * BLOCK, BLOCK)


class Watch:
    """Times of one operation, done again and again until the end."""

    def __init__(self, name, operation, pause, tell):
        self.name, self.operation, self.pause, self.tell, self.times = name, operation, pause, tell, []
        self.failed = False
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            self.work()
        except OSError:
            traceback.print_exc()
            self.failed = True
            over.set()

    def work(self):
        while not over.is_set():
            start = time.monotonic()
            self.operation()
            self.times.append(time.monotonic() - start)
            if self.tell and self.times[-1] > self.tell:
                print(f"stall {self.name} {self.times[-1]:.3f}", flush=True)
            time.sleep(self.pause)

    def result(self):
        return {"operations": len(self.times), "longest": [round(seconds, 3) for seconds in heapq.nlargest(LONGEST, self.times)]}


def writes(path):
    """An operation: the next block, synced."""
    fd, block, places = os.open(path, os.O_CREAT | os.O_WRONLY), os.urandom(BLOCK), itertools.cycle(PLACES)

    def write():
        os.pwrite(fd, block, next(places))
        os.fsync(fd)
    return write


def reads(path):
    """An operation: the next block, which has to be what was written to it."""
    path.write_bytes(b"".join(number.to_bytes(4, "big") * (BLOCK // 4) for number in range(BLOCKS)))
    fd, block, places = os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, BLOCK), itertools.cycle(PLACES)

    def read():
        place = next(places)
        if os.preadv(fd, [block], place) != BLOCK or block[:] != (place // BLOCK).to_bytes(4, "big") * (BLOCK // 4):
            raise OSError(f"not what was written at {place}")
    return read


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--until", type=pathlib.Path)
    parser.add_argument("--tell", type=float)
    options = parser.parse_args()
    written, read, asked = (options.folder / f"stalls-{what}" for what in ("written", "read", "asked"))
    asked.touch()
    operations = {"write": (writes(written), 0.01), "read": (reads(read), 0.1), "stat": (lambda: os.stat(asked), 0.1)}
    watches = {name: Watch(name, operation, pause, options.tell) for name, (operation, pause) in operations.items()}
    for watch in watches.values():
        watch.thread.start()
    while not all(watch.times for watch in watches.values()) and not over.is_set():
        time.sleep(0.01)
    print("ready", flush=True)
    end = time.monotonic() + options.seconds
    while time.monotonic() < end and not (options.until and options.until.exists()) and not over.is_set():
        time.sleep(0.2)
    over.set()
    for watch in watches.values():
        watch.thread.join()
    for path in (written, read, asked):
        path.unlink()
    print(json.dumps({name: watch.result() for name, watch in watches.items()}), flush=True)
    if any(watch.failed for watch in watches.values()):
        sys.exit(1)


over = threading.Event()
main()
