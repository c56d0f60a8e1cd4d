#!/usr/bin/env python3
"""options.py SERVER EXPORT OPTIONS...: on a client, mounts with each of the options, does what a mount is for, and says what became of it, a line of JSON
each."""

import errno
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path("/run/options")


def used(folder, options):
    """A file is made, read, listed and removed; nothing is, where the mount is read-only."""
    if "ro" in options.split(","):
        try:
            (folder / "made").write_text("by whom?")
        except OSError as error:
            return "ok" if error.errno == errno.EROFS else f"a write answers {errno.errorcode[error.errno]}"
        return "a write is taken"
    made = folder / "made"
    made.write_text(options)
    if made.read_text() != options or "made" not in os.listdir(folder):
        return "a file is not what was written"
    made.unlink()
    return "ok"


def tried(server, export, options):
    words = options if "vers=" in options else f"vers=3,{options}"
    said = subprocess.run(["timeout", "60", "mount", "-t", "nfs", "-o", words, f"{server}:{export}", HERE], capture_output=True, text=True)
    if said.returncode != 0:
        return {"mounted": False, "said": (said.stdout + said.stderr).strip()}
    shown = [line.split()[3] for line in open("/proc/mounts") if line.split()[1] == str(HERE)][-1]
    try:
        outcome = used(HERE, options)
    except OSError as error:
        outcome = str(error)
    subprocess.run(["umount", HERE], check=True)
    return {"mounted": True, "said": outcome, "shown": shown}


def main():
    server, export, *all_options = sys.argv[1:]
    HERE.mkdir(exist_ok=True)
    for options in all_options:
        print(json.dumps({"options": options, **tried(server, export, options)}), flush=True)


if __name__ == "__main__":
    main()
