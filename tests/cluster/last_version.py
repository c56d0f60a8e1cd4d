#!/usr/bin/env python3
"""The programs of the last version, with which the suite `rolling` begins (`run.py --own --from last rolling`): those of an ensemble, built once of the
commit that deploy/last-version records. Says in which folder they are; exit code 77 where this repository has no such commit."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

from targets import ROOT, ensemble

RECORD = ROOT / "deploy/last-version"
COMMIT = re.compile(r"[0-9a-f]{40}")
LINE = re.compile(rf"(\S+) ({COMMIT.pattern})")
PROGRAMS = list(ensemble.PROGRAMS.values())
FLAGS = "-O0 -w"  # they serve for a minute or two
# Sources of a folder that are compiled together, more than its own build does: a third less to compile. Where names clash in it, fewer.
TOGETHER = 32
BATCH = re.compile(r"(CMAKE_UNITY_BUILD_BATCH_SIZE) \d+")
EXIT_SKIPPED = 77


class NotHere(Exception):
    """The text says why the last version cannot be built of this repository."""


def recorded():
    """Its name, and its commit."""
    lines = [line for line in RECORD.read_text().splitlines() if line and not line.startswith("#")]
    found = LINE.fullmatch(lines[0]) if len(lines) == 1 else None
    if not found:
        raise SystemExit(f"{RECORD}: one line with a version's name and its commit, of 40 hexadecimal digits, is expected")
    return found[1], found[2]


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)


def check_history(name, commit):
    """That the commit is here, and what a tag of that name, if there is one, names."""
    there = git("cat-file", "-e", f"{commit}^{{commit}}")
    if there.returncode != 0:
        raise NotHere(f"{name}, commit {commit}, is not in this repository ({' '.join(there.stderr.split())})")
    tag = git("rev-parse", "--verify", "--quiet", f"refs/tags/{name}^{{commit}}").stdout.strip()
    if tag not in ("", commit):
        raise SystemExit(f"{RECORD} has commit {commit} for {name}, whose tag names {tag}")


def extract(commit, source):
    part = source.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    with subprocess.Popen(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE) as archive:
        subprocess.run(["tar", "-x", "-C", part], stdin=archive.stdout, check=True)
    if archive.returncode != 0:
        raise SystemExit(f"git archive {commit}: exit code {archive.returncode}")
    build = part / "cmake/SliceBuild.cmake"
    build.write_text(BATCH.sub(rf"\1 {TOGETHER}", build.read_text()))
    part.rename(source)


def said(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout[-8000:]}")
    return done.stdout


def programs(folder):
    """The folder of the programs, below `folder`, where they are kept and those of an earlier last version are removed. It has no slicectl:
    an upgrade of packages puts the new one in its place before any server is restarted."""
    name, commit = recorded()
    check_history(name, commit)
    kept = folder / commit
    for other in folder.glob("*"):
        if COMMIT.fullmatch(other.name) and other != kept:
            shutil.rmtree(other)
    source, build = kept / "source", kept / "build"
    if not source.exists():
        extract(commit, source)
    if not (build / "build.ninja").exists():
        said("cmake", "-S", source, "-B", build, "--preset", "release", f"-DCMAKE_CXX_FLAGS_RELEASE={FLAGS}", f"-DCMAKE_C_FLAGS_RELEASE={FLAGS}")
    said("cmake", "--build", build, "--parallel", os.cpu_count(), "--target", *PROGRAMS)
    version = said(build / "bin" / PROGRAMS[0], "--version").strip()
    if version != f"slice {name}":
        raise SystemExit(f"{RECORD} says {name}, and commit {commit} is {version}")
    return build / "bin"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=ROOT / "build/release/last-version",
                        help="where they are kept (default: build/release/last-version)")
    try:
        print(programs(parser.parse_args().folder.resolve()))
    except NotHere as why:
        print(f"SKIPPED {why}")
        return EXIT_SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
