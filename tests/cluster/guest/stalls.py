#!/usr/bin/env python3
"""How long a client stands still: stalls.py FOLDER --seconds S [--until FILE] [--tell S]

One thread writes 100 bytes and syncs them, again and again; another asks for a file's attributes ten times a second. Says "ready" when
both work, and at the end one line of JSON: of each its number of operations and the longest, in seconds.
That is after --seconds, or as soon as there is --until. With --tell, each that takes longer
is told at once: "stall WHAT SECONDS". Mount with actimeo=0."""

import argparse
import heapq
import json
import os
import pathlib
import threading
import time

LONGEST = 25


class Watch:
    """Times of one operation, done again and again until the end."""

    def __init__(self, name, operation, pause, tell):
        self.name, self.operation, self.pause, self.tell, self.times = name, operation, pause, tell, []
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not over.is_set():
            start = time.monotonic()
            self.operation()
            self.times.append(time.monotonic() - start)
            if self.tell and self.times[-1] > self.tell:
                print(f"stall {self.name} {self.times[-1]:.3f}", flush=True)
            time.sleep(self.pause)

    def result(self):
        return {"operations": len(self.times), "longest": [round(seconds, 3) for seconds in heapq.nlargest(LONGEST, self.times)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--until", type=pathlib.Path)
    parser.add_argument("--tell", type=float)
    options = parser.parse_args()
    written, asked = options.folder / "stalls-written", options.folder / "stalls-asked"
    asked.touch()
    with open(written, "wb", buffering=0) as out:
        def write():
            out.write(b"x" * 100)
            os.fsync(out.fileno())

        operations = {"write": (write, 0.01), "stat": (lambda: os.stat(asked), 0.1)}
        watches = {name: Watch(name, operation, pause, options.tell) for name, (operation, pause) in operations.items()}
        for watch in watches.values():
            watch.thread.start()
        while not all(watch.times for watch in watches.values()):
            time.sleep(0.01)
        print("ready", flush=True)
        end = time.monotonic() + options.seconds
        while time.monotonic() < end and not (options.until and options.until.exists()):
            time.sleep(0.2)
        over.set()
        for watch in watches.values():
            watch.thread.join()
    written.unlink()
    asked.unlink()
    print(json.dumps({name: watch.result() for name, watch in watches.items()}), flush=True)


over = threading.Event()
main()
