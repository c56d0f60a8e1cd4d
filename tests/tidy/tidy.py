#!/usr/bin/env python3
"""Runs clang-tidy over every C++ source of a build directory's compile commands, two at a time.

A file whose preprocessed inputs have not changed since it was last clean is not run again: a hash of the source, of
every header of the project and of .clang-tidy is kept beside the build."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
CACHE = pathlib.Path(os.environ.get("SLICE_CACHE", pathlib.Path.home() / ".cache/slice")) / "tidy"


def closure(path, seen):
    """The file and every header of the project it includes, however deep."""
    if path in seen or not path.exists():
        return
    seen.add(path)
    for included in INCLUDE.findall(path.read_text(errors="replace")):
        closure(ROOT / included, seen)


def digest(path):
    seen = set()
    closure(path, seen)
    hasher = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for each in sorted(seen):
        hasher.update(str(each.relative_to(ROOT)).encode() + b"\0" + each.read_bytes())
    return hasher.hexdigest()


def check(build, path):
    stamp = CACHE / digest(path)
    if stamp.exists():
        return ""
    done = subprocess.run(["clang-tidy-19", "--quiet", "-p", str(build), str(path)], capture_output=True, text=True)
    if done.returncode == 0:
        stamp.touch()
        return ""
    return done.stdout or done.stderr


def main():
    build = ROOT / (sys.argv[1] if len(sys.argv) > 1 else "build/release")
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    CACHE.mkdir(parents=True, exist_ok=True)
    commands = json.loads((build / "compile_commands.json").read_text())
    paths = sorted({pathlib.Path(c["file"]) for c in commands
                    if c["file"].endswith(".cc") and "/build/" not in c["file"] and only in c["file"]})
    # Tests are compiled with warnings as errors like all else; the slow analysis goes to what ships.
    paths = [p for p in paths if not re.search(r"(_test|_bench|_fuzz)\.cc$", p.name) and ROOT / "tests" not in p.parents]
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for said in pool.map(lambda p: check(build, p), paths):
            if said:
                bad += 1
                print(said)
    print(f"clang-tidy: {len(paths)} files, {bad} with findings")
    return 1 if bad or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
