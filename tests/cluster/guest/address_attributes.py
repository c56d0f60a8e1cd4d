#!/usr/bin/env python3
"""A client that does as it is told: address_attributes.py FOLDER --orders FOLDER

Orders are files, 1, 2 and so on, each with JSON, and each is answered by a line of JSON as soon as it is done:
{"change": NAME, "size": BYTES, "tail": BYTES, "mode": MODE} makes the file anew with so many bytes, syncs them, changes its mode, and then
writes so many more, which the server has acknowledged as UNSTABLE and nobody has committed: the answer has the size and mode that it must
have from now on; {"look": NAME} answers its size, mode and time of change; {"end": true} ends this. Mount with actimeo=0."""

import argparse
import ctypes
import json
import os
import pathlib
import stat
import time

WRITE, WAIT_AFTER = 2, 4  # sync_file_range(2): both are a WRITE with UNSTABLE, and its reply


class Client:
    def __init__(self, folder):
        self.folder, self.open = folder, []  # who closes a file commits it
        self.libc = ctypes.CDLL(None, use_errno=True)

    def change(self, order):
        file = os.open(self.folder / order["change"], os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self.open.append(file)
        os.pwrite(file, os.urandom(order["size"]), 0)
        os.fsync(file)
        os.fchmod(file, order["mode"])
        os.pwrite(file, os.urandom(order["tail"]), order["size"])
        if self.libc.sync_file_range(file, ctypes.c_int64(order["size"]), ctypes.c_int64(order["tail"]), WRITE | WAIT_AFTER) != 0:
            raise OSError(ctypes.get_errno(), "sync_file_range")
        return {"size": order["size"] + order["tail"], "mode": order["mode"]}

    def look(self, order):
        began, seen = time.monotonic(), os.stat(self.folder / order["look"])
        return {"size": seen.st_size, "mode": stat.S_IMODE(seen.st_mode), "mtime_ns": seen.st_mtime_ns, "took": round(time.monotonic() - began, 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--orders", type=pathlib.Path, required=True)
    options = parser.parse_args()
    client, number = Client(options.folder), 1
    print("ready", flush=True)
    while True:
        if str(number) not in os.listdir(options.orders):
            time.sleep(0.02)
            continue
        order = json.loads((options.orders / str(number)).read_text())
        if "end" in order:
            return
        print(json.dumps({"order": number, **(client.change(order) if "change" in order else client.look(order))}), flush=True)
        number += 1


main()
