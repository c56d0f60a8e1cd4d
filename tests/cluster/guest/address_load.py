#!/usr/bin/env python3
"""What one client does while its server's address moves: address_load.py FOLDER --until FILE

One thread writes 4 KiB and syncs them, again and again, all over a file and at the end of another; one reads blocks of the first past the
client's cache; one asks for the second's attributes. What is read must be what was written last, or what is being written; no size may
be smaller than what was synced, no time of change earlier than one seen. Says "ready", four times a second one line of JSON: of each
operation the longest that ended since, or goes on, in seconds, and how many ended; and at the end, when FILE's folder has it, "done".
What is wrong is a line "WRONG ..." and exit code 1. Mount with actimeo=0."""

import argparse
import json
import mmap
import os
import pathlib
import random
import sys
import threading
import time

BLOCK, BLOCKS = 4096, 64
WINDOW_SECONDS = 0.25


def content(number):
    return random.Random(number).randbytes(BLOCK - 8) + number.to_bytes(8, "big")


class Timed:
    """Times of one operation, which one thread does."""

    def __init__(self):
        self.lock, self.began, self.longest, self.ended = threading.Lock(), None, 0.0, 0

    def __enter__(self):
        with self.lock:
            self.began = time.monotonic()

    def __exit__(self, *_):
        with self.lock:
            self.longest = max(self.longest, time.monotonic() - self.began)
            self.began, self.ended = None, self.ended + 1

    def take(self):
        with self.lock:
            going_on = time.monotonic() - self.began if self.began is not None else 0.0
            result = round(max(self.longest, going_on), 3), self.ended
            self.longest, self.ended = 0.0, 0
        return result


class Load:
    def __init__(self, folder, name):
        self.over = threading.Event()
        self.blocks, self.grown = folder / f"{name}-blocks", folder / f"{name}-grown"
        self.begun, self.synced = [0] * BLOCKS, [0] * BLOCKS  # the last number of each block
        self.size = 0  # of the grown file, synced
        self.times = {"write": Timed(), "read": Timed(), "stat": Timed()}
        self.wrong = False
        with open(self.blocks, "wb") as out:
            for _ in range(BLOCKS):
                out.write(content(0))
            os.fsync(out.fileno())
        self.grown.touch()

    def say_wrong(self, text):
        self.wrong = True
        print(f"WRONG {text}", flush=True)

    def guarded(self, work):
        try:
            while not self.over.is_set():
                work()
        except Exception as error:  # whatever it is, the client was not to see it
            self.say_wrong(f"{work.__name__}: {error!r}")

    def write(self):
        with open(self.blocks, "r+b", buffering=0) as out, open(self.grown, "ab", buffering=0) as end:
            number = 0
            while not self.over.is_set():
                number += 1
                block = number % BLOCKS
                data = content(number)
                self.begun[block] = number
                with self.times["write"]:
                    os.pwrite(out.fileno(), data, block * BLOCK)
                    os.fsync(out.fileno())
                self.synced[block] = number
                if number % 4 == 0:
                    with self.times["write"]:
                        end.write(data)
                        os.fsync(end.fileno())
                    self.size += BLOCK
                time.sleep(0.01)

    def read(self):
        room = mmap.mmap(-1, BLOCK)
        file = os.open(self.blocks, os.O_RDONLY | os.O_DIRECT)
        try:
            while not self.over.is_set():
                block = random.randrange(BLOCKS)
                least = self.synced[block]
                with self.times["read"]:
                    got = os.preadv(file, [room], block * BLOCK)
                data, most = room[:got], self.begun[block]
                number = int.from_bytes(data[-8:], "big")
                if got != BLOCK or not least <= number <= most or data != content(number):
                    self.say_wrong(f"read: block {block} has {got} bytes of number {number}, wanted {least} to {most}")
                time.sleep(0.02)
        finally:
            os.close(file)

    def stat(self):
        latest = 0
        while not self.over.is_set():
            least = self.size
            with self.times["stat"]:
                seen = os.stat(self.grown)
            if seen.st_size < least or seen.st_mtime_ns < latest:
                self.say_wrong(f"stat: {seen.st_size} bytes of {seen.st_mtime_ns}, wanted {least} of {latest} or more")
            latest = seen.st_mtime_ns
            time.sleep(0.05)

    def check_at_rest(self):
        with open(self.blocks, "rb") as file:
            for block in range(BLOCKS):
                if file.read(BLOCK) != content(self.begun[block]):
                    self.say_wrong(f"block {block} is not what was written last")
        if self.grown.stat().st_size != self.size:
            self.say_wrong(f"{self.grown.stat().st_size} bytes, wanted {self.size}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--until", type=pathlib.Path, required=True)
    parser.add_argument("--name", default="address", help="of its files, where several clients work")
    options = parser.parse_args()
    load = Load(options.folder, options.name)
    threads = [threading.Thread(target=load.guarded, args=(work,)) for work in (load.write, load.read, load.stat)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    while not load.wrong and options.until.name not in os.listdir(options.until.parent):
        time.sleep(WINDOW_SECONDS)
        print(json.dumps({name: times.take() for name, times in load.times.items()}), flush=True)
    load.over.set()
    for thread in threads:
        thread.join()
    if not load.wrong:
        load.check_at_rest()
    print("done", flush=True)
    return 1 if load.wrong else 0


sys.exit(main())
