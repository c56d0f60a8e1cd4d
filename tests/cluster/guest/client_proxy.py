#!/usr/bin/env python3
"""A client that mounts by mount.slice: client_proxy.py PROGRAM SERVER FOLDER --mirrored FOLDER [--kills N]

Mounts SERVER:/ on FOLDER; then, as one line each, "ok WHAT" or "not ok WHAT: WHY": what a user without rights is told by the proxy on
this host; that names are made, renamed and removed without an error while the proxy is killed, again and again; that bytes written here
are read again, also those of files with copies. Ends with "written", the digests of those files in the file `digests`, and the mount
still there; exit code 1 where something is not ok."""

import argparse
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

USER = 1000
BETWEEN_SECONDS = 1.2
LONGEST_SECONDS = 2.5  # a client that is refused tries again after 3 s


def say(good, what, why=""):
    print(f"{'ok' if good else 'not ok'} client-proxy {what}{'' if good else f': {why}'}", flush=True)
    return bool(good)


def mount(options):
    link = pathlib.Path("/tmp/mount.slice")
    link.symlink_to(options.program)
    done = subprocess.run([link, f"{options.server}:/", options.folder, "-o", "actimeo=0"], text=True, stdin=subprocess.DEVNULL, capture_output=True)
    mounted = pathlib.Path("/proc/mounts").read_text()
    port = re.search(rf"{re.escape(options.server)}:/ {options.folder} nfs \S*,port=(\d+),\S*,addr=127\.0\.0\.1", mounted)
    say(done.returncode == 0 and port, "mount.slice", done.stdout + done.stderr + mounted)
    return int(port.group(1)) if port else 0


def refused_to_users(port):
    """Anybody of this host can connect; who is not root gets no answer, and so no word that he is root."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setuid(USER)
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            null = struct.pack(">10I", 7, 0, 2, 100003, 3, 0, 0, 0, 0, 0)
            try:
                connection.sendall(struct.pack(">I", 0x80000000 | len(null)) + null)
                told = connection.recv(100)
            except ConnectionError:
                told = b""
        os.write(writer, b"refused" if not told else b"answered")
        os._exit(0)
    os.close(writer)
    told = os.read(reader, 100)
    os.wait()
    return say(told == b"refused", "the proxy answers root alone", told)


def proxies():
    """Processes that serve, which their keeper starts again."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "comm").read_text().strip() == "slice-clientd":
                found.append(int(folder.name))
        except OSError:
            pass
    return found


class Names:
    """Names in one folder, changed without an end: what a call that was carried out twice would be answered is an error."""

    def __init__(self, folder):
        self.folder, self.over, self.done, self.longest, self.wrong = folder, threading.Event(), 0, 0.0, None
        folder.mkdir()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def round(self, number):
        one, other = self.folder / f"one{number}", self.folder / f"other{number}"
        with open(one, "x", encoding="ascii") as out:
            out.write(str(number))
        one.rename(other)
        assert other.read_text(encoding="ascii") == str(number)
        other.unlink()
        one.mkdir()
        one.rmdir()

    def run(self):
        while not self.over.is_set():
            start = time.monotonic()
            try:
                self.round(self.done)
            except (OSError, AssertionError) as error:
                self.wrong = f"round {self.done}: {error!r}"
                return
            self.longest, self.done = max(self.longest, time.monotonic() - start), self.done + 1

    def end(self):
        self.over.set()
        self.thread.join()


def survives_kills(folder, kills):
    names, killed = Names(folder), 0
    for _ in range(kills):
        time.sleep(BETWEEN_SECONDS)
        for process in proxies():
            os.kill(process, signal.SIGKILL)
            killed += 1
    time.sleep(BETWEEN_SECONDS)
    names.end()
    ok = say(killed == kills and proxies(), "the proxy was killed, and started again each time", f"{killed} of {kills}, then {proxies()}")
    ok &= say(names.wrong is None and names.done > kills, f"{names.done} rounds of names without an error meanwhile", names.wrong)
    return ok & say(names.longest < LONGEST_SECONDS, f"the longest round took {names.longest:.2f} s", f"{LONGEST_SECONDS} s at the most wanted")


def written(folder, mirrored):
    """Small, large, with a hole, of mixed writes; the digest of each."""
    source, digests = random.Random(5), {}
    for place in (folder, mirrored):
        for name, size in (("small", 700), ("over", 100_001), ("large", 9_000_000)):
            data = bytearray(source.randbytes(size))
            path = place / f"bytes-{name}"
            with open(path, "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            with open(path, "r+b") as out:
                for _ in range(20):
                    at, piece = source.randrange(size), source.randbytes(3000)
                    out.seek(at)
                    out.write(piece)
                    data[at:at + len(piece)] = piece
            digests[str(path.relative_to(folder))] = hashlib.md5(data).hexdigest()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    read = {name: hashlib.md5((folder / name).read_bytes()).hexdigest() for name in digests}
    (folder / "digests").write_text(json.dumps(digests))
    return say(read == digests, "what was written is read again", [name for name in digests if read[name] != digests[name]])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("server")
    parser.add_argument("folder")
    parser.add_argument("--mirrored", required=True)
    parser.add_argument("--kills", type=int, default=4)
    options = parser.parse_args()
    port = mount(options)
    if not port:
        return 1
    folder = pathlib.Path(options.folder)
    ok = refused_to_users(port)
    ok &= survives_kills(folder / "client-proxy-names", options.kills)
    ok &= written(folder, folder / options.mirrored)
    print("written", flush=True)
    return 0 if ok else 1


sys.exit(main())
