#!/usr/bin/env python3
"""check_compiles.py BUILD: whether the compiler takes every benchmark's sources. Nothing is made of them: that takes three times as long, and nothing
of what tests run is theirs. Exit code 1, with what it says, where it does not take one."""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

OUTPUT = re.compile(r" -o \S+")


def said(command):
    """What the compiler says of one source; empty where it takes it."""
    done = subprocess.run(OUTPUT.sub("", command["command"]) + " -fsyntax-only", shell=True, cwd=command["directory"], capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr or done.stdout


def main():
    commands = json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text())
    of_benchmarks = [command for command in commands if "_bench.dir/" in command["command"]]
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        wrong = [text for text in pool.map(said, of_benchmarks) if text]
    print("".join(wrong), end="")
    print(f"benchmarks: {len(of_benchmarks)} sources, {len(wrong)} that the compiler does not take")
    return 1 if wrong or not of_benchmarks else 0


if __name__ == "__main__":
    sys.exit(main())
