"""In a guest: processes that lock files of the volume, as the host says.

    locks.py serve CONTROL     does what files CONTROL/say.0, say.1 ... ask for, each by the process that it names
    locks.py count FILE --seconds S --processes N --until FILE   counts up, each step under an exclusive lock
    locks.py sqlite FILE --rows N --by NAME

What it says are lines of JSON."""

import argparse
import errno
import fcntl
import json
import multiprocessing
import os
import pathlib
import random
import signal
import sqlite3
import struct
import sys
import time

POLL_SECONDS = 0.02
FLOCK64 = "hhqqi4x"
OFD_SETLK, OFD_SETLKW = 37, 38


def say(**what):
    print(json.dumps(what), flush=True)


class Process:
    """One owner of locks: what it is asked, it does."""

    def __init__(self):
        self.files = {}

    def open(self, path):
        self.files[path] = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        return "ok"

    def close(self, path):
        os.close(self.files.pop(path))
        return "ok"

    def lock(self, path, kind="fcntl", exclusive=True, wait=False, start=0, length=0, patience=0):
        """patience: gives up after so many seconds."""
        if patience:
            signal.signal(signal.SIGALRM, self._interrupt)
            signal.setitimer(signal.ITIMER_REAL, patience)
        try:
            self._lock(self.files[path], kind, exclusive, wait, start, length)
            return "ok"
        except InterruptedError:
            return "EINTR"
        except OSError as error:
            return errno.errorcode[error.errno]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    @staticmethod
    def _interrupt(*_):
        raise InterruptedError

    @staticmethod
    def _lock(fd, kind, exclusive, wait, start, length):
        how = (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | (0 if wait else fcntl.LOCK_NB)
        if kind == "flock":
            fcntl.flock(fd, how)
        elif kind == "ofd":
            wanted = struct.pack(FLOCK64, fcntl.F_WRLCK if exclusive else fcntl.F_RDLCK, os.SEEK_SET, start, length, 0)
            fcntl.fcntl(fd, OFD_SETLKW if wait else OFD_SETLK, wanted)
        else:
            fcntl.lockf(fd, how, length, start)

    def unlock(self, path, kind="fcntl", start=0, length=0):
        if kind == "flock":
            fcntl.flock(self.files[path], fcntl.LOCK_UN)
        elif kind == "ofd":
            fcntl.fcntl(self.files[path], OFD_SETLK, struct.pack(FLOCK64, fcntl.F_UNLCK, os.SEEK_SET, start, length, 0))
        else:
            fcntl.lockf(self.files[path], fcntl.LOCK_UN, length, start)
        return "ok"

    def test(self, path, start=0, length=0):
        """What is in the way of an exclusive lock: [start, length, exclusive], or null."""
        wanted = struct.pack(FLOCK64, fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
        kind, _, start, length, _ = struct.unpack(FLOCK64, fcntl.fcntl(self.files[path], fcntl.F_GETLK, wanted))
        return None if kind == fcntl.F_UNLCK else [start, length, kind == fcntl.F_WRLCK]

    def serve(self, pipe):
        while True:
            number, what, words = pipe.recv()
            began = time.monotonic()
            result = getattr(self, what)(**words)
            say(number=number, result=result, seconds=round(time.monotonic() - began, 3))


def serve(control):
    """A process that is asked to `die` is killed, as one that crashes."""
    processes = {}
    number = 0
    say(ready=True)
    while True:
        asked = control / f"say.{number}"
        if not asked.exists():
            time.sleep(POLL_SECONDS)
            continue
        words = json.loads(asked.read_text())
        who, what = words.pop("who"), words.pop("what")
        if what == "over":
            return 0
        if what == "die":
            processes.pop(who)[0].kill()
            say(number=number, result="ok", seconds=0)
        else:
            if who not in processes:
                here, there = multiprocessing.Pipe()
                process = multiprocessing.Process(target=Process().serve, args=(there,), daemon=True)
                process.start()
                processes[who] = (process, here)
            processes[who][1].send((number, what, words))
        number += 1


def count(path, seconds, until, kind, counts, index):
    """Takes the lock, reads, writes one more: were two in it at once, a step would be lost."""
    steps, longest, when = 0, 0.0, 0
    end = time.monotonic() + seconds
    chosen = random.Random(index)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    while time.monotonic() < end and not until.exists():
        began = time.monotonic()
        Process._lock(fd, kind, True, True, 0, 0)
        if (took := time.monotonic() - began) > longest:
            longest, when = took, steps
        number = int(os.pread(fd, 20, 0) or b"0")
        os.pwrite(fd, b"%019d\n" % (number + 1), 0)
        if kind == "flock":
            fcntl.flock(fd, fcntl.LOCK_UN)
        else:
            fcntl.lockf(fd, fcntl.LOCK_UN)
        steps += 1
        time.sleep(chosen.uniform(0, 0.004))
    counts[index] = (steps, longest, when)


def count_up(options):
    with multiprocessing.Manager() as manager:
        counts = manager.dict()
        processes = [multiprocessing.Process(target=count, args=(options.file, options.seconds, options.until, options.kind, counts, index))
                     for index in range(options.processes)]
        for process in processes:
            process.start()
        say(ready=True)
        for process in processes:
            process.join()
        well = all(process.exitcode == 0 for process in processes)
        say(steps=sum(steps for steps, _, _ in counts.values()), longest=round(max(longest for _, longest, _ in counts.values()), 3),
            of_step=max((longest, when) for _, longest, when in counts.values())[1])
        return 0 if well else 1


def sqlite(options):
    """Rows one by one, each a transaction of its own."""
    with sqlite3.connect(options.file, timeout=60, isolation_level=None) as base:
        base.execute("CREATE TABLE IF NOT EXISTS lines (by TEXT, number INTEGER)")
        for number in range(options.rows):
            base.execute("BEGIN IMMEDIATE")
            base.execute("INSERT INTO lines VALUES (?, ?)", (options.by, number))
            base.execute("COMMIT")
    say(rows=options.rows)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(dest="mode", required=True)
    mode = modes.add_parser("serve")
    mode.add_argument("control", type=pathlib.Path)
    mode = modes.add_parser("count")
    mode.add_argument("file")
    mode.add_argument("--seconds", type=float, required=True)
    mode.add_argument("--processes", type=int, default=3)
    mode.add_argument("--kind", default="fcntl")
    mode.add_argument("--until", type=pathlib.Path, default=pathlib.Path("/nowhere"))
    mode = modes.add_parser("sqlite")
    mode.add_argument("file")
    mode.add_argument("--rows", type=int, required=True)
    mode.add_argument("--by", required=True)
    options = parser.parse_args()
    if options.mode == "serve":
        return serve(options.control)
    return count_up(options) if options.mode == "count" else sqlite(options)


if __name__ == "__main__":
    sys.exit(main())
