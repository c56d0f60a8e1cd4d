#!/usr/bin/env python3
"""Runs clang-tidy over every C++ source of a build directory's compile commands, two runs at a time.

What takes clang-tidy its time is headers, so sources of one folder are looked at together, as if one file included them. Where that
cannot be compiled, since two of them have something of the same name for themselves, those of which the compiler complains are looked
at apart from the others. A source whose inputs have not changed since it was last clean is left out: a hash of it, of every header of
the project that it includes and of .clang-tidy is kept."""

import concurrent.futures
import hashlib
import itertools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
CACHE = pathlib.Path(os.environ.get("SLICE_CACHE", pathlib.Path.home() / ".cache/slice")) / "tidy"
TOGETHER = 16  # sources at most, for the sake of memory
COMPLAINT = re.compile(r"^([^\s:]+):\d+:\d+: .*\[clang-diagnostic-", re.M)  # the compiler's, not clang-tidy's
STATUS = re.compile(r"^using .*::Status;", re.M)  # the name that most often means another thing in the source beside it


def closure(path, seen):
    """The file and every header of the project it includes, however deep."""
    if path in seen or not path.exists():
        return
    seen.add(path)
    for included in INCLUDE.findall(path.read_text(errors="replace")):
        closure(ROOT / included, seen)


def stamp_of(path):
    """The file that is there when the source, as it is now, was found clean."""
    seen = set()
    closure(path, seen)
    hasher = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for each in sorted(seen):
        hasher.update(str(each.relative_to(ROOT)).encode() + b"\0" + each.read_bytes())
    return CACHE / hasher.hexdigest()


def flags_of(command):
    """What it is compiled with, but for the precompiled headers: most of what they hold a source does not use, and clang-tidy looks at all."""
    words = iter(shlex.split(command["command"]))
    flags = []
    for word in words:
        if word in ("-o", "-c", "-include-pch", "-MF", "-MT"):
            next(words)
        elif word == "-isystem":
            flags += [word, next(words)]
        elif word.startswith("-"):
            flags.append(word)
    return tuple(flags)


def run(flags, paths, folder):
    """What clang-tidy says of these sources, together; empty where it finds nothing."""
    with tempfile.NamedTemporaryFile("w", suffix=".cc", dir=folder) as together:
        together.write("".join(f'#include "{path}"\n' for path in paths))
        together.flush()
        done = subprocess.run(["clang-tidy-19", "--quiet", f"--config-file={ROOT / '.clang-tidy'}", together.name, "--", *flags, "-ferror-limit=0"],
                              capture_output=True, text=True, cwd=ROOT)
    return "" if done.returncode == 0 else done.stdout or done.stderr


def check(flags, stamps, folder):
    """What is to be said of each source that is not clean. stamps: by source."""
    paths = list(stamps)
    said = run(flags, paths, folder)
    if not said:
        for stamp in stamps.values():
            stamp.touch()
        return []
    complaints = set(COMPLAINT.findall(said))
    if len(paths) == 1 or not complaints:
        return [said]
    apart = [path for path in paths if str(path) in complaints]
    if len(apart) in (0, len(paths)):
        apart = paths[len(paths) // 2:]
    others = [path for path in paths if path not in apart]
    return [text for part in (others, apart) for text in check(flags, {path: stamps[path] for path in part}, folder)]


def groups(commands):
    """(flags, sources) of what is to be looked at together."""
    key = {path: (path.parent, bool(STATUS.search(path.read_text())), flags_of(command)) for path, command in commands.items()}
    for (_, _, flags), paths in itertools.groupby(sorted(key, key=lambda path: (key[path], path)), key=key.get):
        paths = list(paths)
        runs = -(-len(paths) // TOGETHER)
        for number in range(runs):
            yield flags, paths[number::runs]


def main():
    build = ROOT / (sys.argv[1] if len(sys.argv) > 1 else "build/release")
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    CACHE.mkdir(parents=True, exist_ok=True)
    commands = {pathlib.Path(c["file"]): c for c in json.loads((build / "compile_commands.json").read_text())
                if c["file"].endswith(".cc") and "/build/" not in c["file"] and only in c["file"]}
    # Tests are compiled with warnings as errors like all else; the slow analysis goes to what ships.
    commands = {path: command for path, command in commands.items()
                if not re.search(r"(_test|_bench|_fuzz)\.cc$", path.name) and ROOT / "tests" not in path.parents}
    stamps = {path: stamp for path in commands if not (stamp := stamp_of(path)).exists()}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        work = sorted(groups({path: commands[path] for path in stamps}), key=lambda group: -len(group[1]))
        checks = pool.map(lambda group: check(group[0], {path: stamps[path] for path in group[1]}, folder), work)
        said = [text for texts in checks for text in texts]
    for text in said:
        print(text)
    print(f"clang-tidy: {len(commands)} files, {len(said)} with findings")
    return 1 if said or not commands else 0


if __name__ == "__main__":
    sys.exit(main())
