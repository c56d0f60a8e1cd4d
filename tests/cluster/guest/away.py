#!/usr/bin/env python3
"""Looks at names while another thread writes: away.py FOLDER --size BYTES --begin FILE --end FILE

Says "ready" when all is made. From when --begin is there until --end is, one thread writes a file anew and syncs it, again and again, and another asks for the
attributes of files that are not written; then it says as JSON how long the longest question and the longest write took, in seconds, how many there were of each,
and whether the file has the bytes that were written last. Mount with actimeo=0: else the client answers itself."""

import argparse
import json
import os
import pathlib
import random
import threading
import time

NAMES = 20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--begin", type=pathlib.Path, required=True)
    parser.add_argument("--end", type=pathlib.Path, required=True)
    options = parser.parse_args()
    names = [options.folder / f"name{number}" for number in range(NAMES)]
    for name in names:
        name.write_text("words")
    written, writes, questions = b"", [], []
    big = options.folder / "big"

    def write():
        nonlocal written
        start, data = time.monotonic(), random.randbytes(options.size)
        with open(big, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        written = data
        writes.append(time.monotonic() - start)

    def keep_writing():
        while not options.end.exists():
            write()
    write()
    print("ready", flush=True)
    while not options.begin.exists():
        time.sleep(0.05)
    writer = threading.Thread(target=keep_writing)
    writer.start()
    while not options.end.exists():
        start = time.monotonic()
        random.choice(names).stat()
        questions.append(time.monotonic() - start)
        time.sleep(0.02)
    writer.join()
    print(json.dumps({"question": max(questions), "questions": len(questions), "write": max(writes), "writes": len(writes), "right": big.read_bytes() == written}), flush=True)


if __name__ == "__main__":
    main()
