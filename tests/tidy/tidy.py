#!/usr/bin/env python3
"""Runs clang-tidy over every C++ source of a build directory's compile commands, two runs at a time.

What takes clang-tidy its time is headers (7 s a run, and 0.6 s a source), so many sources are looked at together, as if one file included
them; those of a folder are compiled so, too (cmake/SliceBuild.cmake). A source whose inputs have not changed since it was last clean is left out: a hash of it, of every header of
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
TOGETHER = 128  # sources at most, for the sake of memory: 2.4 GB a run


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
    """What it is compiled with, but for the precompiled headers: most of what they hold a source does not use, and clang-tidy looks at all;
    and for warnings, which the compiler has looked for."""
    words = iter(shlex.split(command["command"]))
    flags = []
    for word in words:
        if word in ("-o", "-c", "-include-pch", "-MF", "-MT"):
            next(words)
        elif word == "-isystem":
            flags.append(word + next(words))
        elif word.startswith("-") and not word.startswith("-W"):
            flags.append(word)
    return tuple(flags)


def ask(flags, paths, folder):
    """What clang-tidy says of these sources, together; empty where it finds nothing."""
    with tempfile.NamedTemporaryFile("w", suffix=".cc", dir=folder) as together:
        # Several have a main().
        together.write("".join(f'#define main main_{number}\n#include "{path}"\n#undef main\n' for number, path in enumerate(paths)))
        together.flush()
        done = subprocess.run(["clang-tidy-19", "--quiet", f"--config-file={ROOT / '.clang-tidy'}", together.name, "--", *flags, "-w", "-ferror-limit=0"],
                              capture_output=True, text=True, cwd=ROOT)
    return "" if done.returncode == 0 else done.stdout or done.stderr


def check(flags, stamps, folder):
    """What is to be said of these sources; empty where it is nothing. stamps: by source."""
    said = ask(flags, list(stamps), folder)
    if not said:
        for stamp in stamps.values():
            stamp.touch()
    return said


def sources_of(build):
    """{source: the command that compiles it}, its own or that of the file that includes it and its neighbours."""
    commands = {}
    for command in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(command["file"])
        if path.suffix == ".cxx":
            commands |= {pathlib.Path(source): command for source in INCLUDE.findall(path.read_text())}
        elif path.suffix == ".cc":
            commands[path] = command
    return commands


def ships(path):
    """Tests are compiled with warnings as errors like all else; the slow analysis goes to what ships."""
    return (not re.search(r"(_test|_bench|_fuzz)\.cc$", path.name)
            and not any(ROOT / folder in path.parents for folder in ("tests", "build")))


def runs(commands):
    """(flags, sources) of what is looked at together. What is compiled together stays so; and of the folders that have little, several go
    into one run, each of another part of the project, whose names are in a namespace of its own."""
    found = []
    for folder, paths in itertools.groupby(sorted(commands), key=lambda path: path.parent):
        paths = list(paths)
        parts = -(-len(paths) // TOGETHER)
        for number in range(parts):
            add(found, folder.relative_to(ROOT).parts[0], paths[number::parts])
    for run in found:
        paths = [path for paths in run.values() for path in paths]
        yield tuple(dict.fromkeys(itertools.chain.from_iterable(flags_of(commands[path]) for path in paths))), paths


def add(found, part, paths):
    """To the first of the runs found that has room, and nothing of that part; or to a new one."""
    for run in found:
        if part not in run and sum(map(len, run.values())) + len(paths) <= TOGETHER:
            run[part] = paths
            return
    found.append({part: paths})


def main():
    build = ROOT / (sys.argv[1] if len(sys.argv) > 1 else "build/release")
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    CACHE.mkdir(parents=True, exist_ok=True)
    commands = {path: command for path, command in sources_of(build).items() if ships(path) and only in str(path)}
    stamps = {path: stamp for path in commands if not (stamp := stamp_of(path)).exists()}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        work = sorted(runs({path: commands[path] for path in stamps}), key=lambda run: -len(run[1]))
        checks = pool.map(lambda run: check(run[0], {path: stamps[path] for path in run[1]}, folder), work)
        said = [text for text in checks if text]
    for text in said:
        print(text)
    print(f"clang-tidy: {len(commands)} files, {len(said)} runs with findings")
    return 1 if said or not commands else 0


if __name__ == "__main__":
    sys.exit(main())
