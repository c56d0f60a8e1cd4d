#!/usr/bin/env python3
"""Checks that every benchmark that is listed can be started: its program answers --help, docs/measuring.md names it, and
`all` knows no short form of one that is gone. Exit code 1, with the cure, where something is wrong."""

import pathlib
import re
import subprocess
import sys

import run  # before what brings another run.py along
import all as everything


def scripts():
    """The Python programs behind run.BENCHMARKS, by file: the others are built, and not needed for this."""
    text = (run.ROOT / "tests/bench/run.py").read_text()
    return sorted(set(re.findall(r'"tests/bench/(\w+\.py)"', text)))


def main():
    wrong = []
    for script in scripts():
        done = subprocess.run([sys.executable, run.ROOT / "tests/bench" / script, "--help"], capture_output=True, text=True)
        if done.returncode != 0:
            wrong.append(f"tests/bench/{script} --help: exit code {done.returncode}: {done.stderr.strip()}")
    manual = (run.ROOT / "docs/measuring.md").read_text()
    listed = {word for names in re.findall(r"`([\w-]+)`|\./slice bench ([\w|-]+)", manual) for word in "|".join(names).split("|")}
    wrong += [f"docs/measuring.md does not name `./slice bench {name}`: say what it measures" for name in run.BENCHMARKS
              if name not in listed]
    wrong += [f"tests/bench/all.py: SHORT has {name}, which is no benchmark: take it away" for name in everything.SHORT
              if name not in run.BENCHMARKS]
    for line in wrong:
        print(line)
    print(f"benchmarks: {len(run.BENCHMARKS)} listed, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
