#!/usr/bin/env python3
"""Checks that includes between the project's folders run one way (docs/architecture.md, "Layers"), and a few
house rules a compiler cannot see. Every message names the cure. Exit code 1 where something is wrong."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# A folder may include from itself and from the folders named here; every folder is listed.
ALLOWED = {
    "bpf/shared": set(),
    "bpf/proxy": {"bpf/shared"},
    "common": set(),
    "cli": {"common"},
    "rpc": {"common"},
    "http": {"rpc", "common"},
    "wire": {"rpc", "common"},
    "storage": {"common"},
    "routing": {"wire", "rpc", "common", "bpf/shared"},
    "service": {"cli", "http", "routing", "wire", "rpc", "storage", "common", "bpf/shared"},
    "dirserver": {"service", "routing", "wire", "rpc", "storage", "common", "bpf/shared"},
    "smallfile": {"service", "routing", "wire", "rpc", "storage", "common", "bpf/shared"},
    "storagenode": {"service", "routing", "wire", "rpc", "storage", "common", "bpf/shared"},
    "coordinator": {"service", "routing", "wire", "rpc", "storage", "common", "bpf/shared"},
    "fsck": {"cli", "dirserver", "smallfile", "storagenode", "coordinator", "service", "routing", "wire", "rpc", "storage", "common", "bpf/shared"},
    "backup": {"cli", "fsck", "dirserver", "smallfile", "service", "routing", "wire", "rpc", "storage", "common"},
    "proxy": {"service", "routing", "wire", "rpc", "common", "bpf/shared"},
    "block": {"cli", "proxy", "service", "routing", "wire", "rpc", "common", "bpf/shared"},
    "link": {"cli", "block", "service", "http", "rpc", "common"},
    "aoe": {"link", "block", "rpc", "common"},
    "blockd": {"cli", "aoe", "link", "block", "proxy", "service", "http", "routing", "wire", "rpc", "common", "bpf/shared"},
    "control": {"cli", "block", "proxy", "service", "http", "routing", "wire", "rpc", "storage", "common", "bpf/shared", "bpf/proxy"},
    "hostd": {"control", "proxy", "coordinator", "dirserver", "service", "smallfile", "storagenode"},
    "tests": None,  # may use everything
}
# Rooms of a folder, and which others of it each may include from. What lies in the folder itself puts them together.
ROOMS = {
    "dirserver": {
        "cells": set(),
        "store": {"cells"},
        "across": {"store", "cells"},
        "background": {"across", "store", "cells"},
        "ops": {"background", "across", "store", "cells"},
        "fsck": {"cells"},
    },
    "proxy": {
        "stream": set(),
        "tables": set(),
        "servers": {"tables", "stream"},
        "gss": set(),
        "calls": {"gss", "servers", "tables", "stream"},
        "front": {"calls", "stream"},
        "programs": {"tables"},
    },
    "control": {
        "manager": set(),
        "slicectl": {"xdp"},  # whether the kernel keeps forged sources out
        "xdp": set(),
        "proxyd": {"xdp"},
        "webd": {"slicectl"},
    },
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
LIBBPF = re.compile(r'^\s*#\s*include\s+<(bpf|linux/bpf|xdp)[/.]', re.M)
# The routing core's own: others ask routing::place_of().
ROUTING_CORE = re.compile(r"\bslice_(route_(call|hashed|bytes|name)|(small_file|coordinator|storage)_site)\(")
# Names of what only tests use, and headers that only they can.
TEST_ONLY = re.compile(r"(^|/)((fake|test|toy)_[^/]*|[^/]*_(fixture|harness))\.(h|cc)$")
GOOGLE_TEST = re.compile(r"^\s*#\s*include\s+<g(test|mock)/", re.M)
MAX_COMMON_FILES = 50  # sources, headers and tests together: a thing enters when a second module needs it
MAX_LINES = 700
# What is reached through the tables of now, and not held by a pointer of one's own.
OF_TABLES = re.compile(r"^( *)(?:if \()?const [\w:]+ ?[*&] ?(\w+) = [*&]?[\w.>-]*\b(?:tables|settings)\.get\(\)")


def folder_of(path: str) -> str | None:
    for folder in ALLOWED:
        if path.startswith(folder + "/"):
            return folder
    return None


def sources() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout.split()
    return [p for p in listed if p.endswith((".h", ".cc", ".c")) and (ROOT / p).exists()]


def room_of(folder: str, path: str) -> str | None:
    room = path.removeprefix(folder + "/").partition("/")[0]
    return room if room in ROOMS.get(folder, {}) else None


def check_rooms(folder: str, path: str, includes: list[str]) -> list[str]:
    room = room_of(folder, path)
    if room is None:
        return []
    reached = {room_of(folder, included): included for included in includes if folder_of(included) == folder}
    return [f"{path}: includes {included}, but {folder}/{room} may not know {folder}/{other or 'what puts its rooms together'}: "
            "calls go one way, so give it an interface of its own room"
            for other, included in reached.items() if other != room and other not in ROOMS[folder][room]]


def check_includes(path: str, text: str) -> list[str]:
    folder = folder_of(path)
    if folder is None:
        return [f"{path}: lies in no known folder: put it into one of {', '.join(ALLOWED)}, or add the folder here"]
    allowed = ALLOWED[folder]
    is_test = is_test_code(path)
    includes = INCLUDE.findall(text)
    wrong = [] if is_test else check_rooms(folder, path, includes)
    for included in includes:
        target = folder_of(included)
        if target is None or target == folder or allowed is None or target in allowed:
            continue
        if is_test and target == "tests":
            continue
        wrong.append(f"{path}: includes {included}, but {folder} may not know {target}: move what both need down a layer")
    if folder not in ("control", "tests", "bpf/proxy", "bpf/shared") and LIBBPF.search(text):
        wrong.append(f"{path}: touches libbpf, which only control/ may: go through control's loader")
    return wrong


def check_rules(path: str, text: str) -> list[str]:
    wrong = []
    lines = text.count("\n")
    if lines > MAX_LINES:
        wrong.append(f"{path}: {lines} lines, over {MAX_LINES}: split it by what it is about")
    if re.search(r"\b(TODO|FIXME|XXX)\b", text):
        wrong.append(f"{path}: holds a TODO: do it, or say in docs/ what is not there")
    if not path.startswith(("bpf/", "routing/", "tests/")) and ROUTING_CORE.search(text):
        wrong.append(f"{path}: decides a site by itself: ask routing::place_of() or routing::RoutingTables")
    wrong += check_tables(path, text)
    if path.endswith(".h"):
        wrong += check_header(path, text)
    return wrong


def check_tables(path: str, text: str) -> list[str]:
    """Other tables may come during any co_await, and those of before it go."""
    wrong, lines = [], text.splitlines()
    for at, line in enumerate(lines):
        found = OF_TABLES.match(line)
        awaits = waited = False
        for number, later in enumerate(lines[at + 1:] if found else (), at + 2):
            if later.strip() and len(later) - len(later.lstrip()) < len(found[1]):
                break  # its block ends
            if waited and re.search(rf"\b{found[2]}\b", later):
                wrong.append(f"{path}:{number}: {found[2]} is of tables that may be gone since a co_await: "
                             "hold them by a `const auto tables = ...tables.get();`")
                break
            awaits |= "co_await" in later
            waited |= awaits and later.rstrip().endswith((";", "{"))  # at the end of that statement
    return wrong


def check_header(path: str, text: str) -> list[str]:
    wrong = []
    if not text.lstrip().startswith(("//", "/*")):
        wrong.append(f"{path}: its first line does not say what the header is for")
    guard = "SLICE_" + re.sub(r"[^A-Z0-9]", "_", path.upper())
    opening = re.search(r"^#", text, re.M)
    if (opening is None or not text.startswith(f"#ifndef {guard}\n#define {guard}\n", opening.start())
            or not text.endswith(f"\n#endif  // {guard}\n")):
        wrong.append(f"{path}: its include guard is not {guard}: open it with #ifndef and #define, name it behind #endif")
    return wrong


def is_test_code(path: str) -> bool:
    return path.startswith("tests/") or "/testing/" in path or path.endswith(("_test.cc", "_bench.cc", "_fuzz.cc"))


def check_testing(path: str, text: str) -> list[str]:
    """What only tests use lies in testing/, and nothing else knows it. tests/ is theirs as a whole."""
    if path.startswith("tests/") or "/testing/" in path:
        return []
    wrong = []
    folder = path.rpartition("/")[0]
    if TEST_ONLY.search(path) or path.endswith(".h") and GOOGLE_TEST.search(text):
        wrong.append(f"{path}: only tests can use it: move it to {folder}/testing/")
    if not is_test_code(path):
        wrong += [f"{path}: includes {included}, which is for tests alone: move what both need out of testing/"
                  for included in INCLUDE.findall(text) if "/testing/" in included]
    return wrong


def check_neighbours(paths: list[str]) -> list[str]:
    """One operation, one file, one test; and a test is one that is built."""
    wrong = []
    known = set(paths)
    for path in paths:
        folder, _, name = path.rpartition("/")
        if name.endswith("_test.cc") and not any(names_source(ROOT / parent, path) for parent in pathlib.Path(path).parents):
            wrong.append(f"{path}: no CMakeLists.txt names it, so it never runs: add it to a slice_test()")
        if not folder.endswith("/ops") or not name.endswith(".cc"):
            continue
        stem = path.removesuffix(".cc")
        if stem.endswith("_test"):
            if stem.removesuffix("_test") + ".cc" not in known:
                wrong.append(f"{path}: tests no file of {folder}: give each operation its own x_test.cc")
            continue
        # Where ops.h declares the operations, a file with a header of its own is help that they share.
        is_help = f"{folder}/ops.h" in known and f"{stem}.h" in known
        if not is_help and f"{stem}_test.cc" not in known:
            wrong.append(f"{path}: has no test beside it: write {stem}_test.cc, or, where it is no operation but help "
                         "for several, declare it in a header of its own")
    return wrong


def names_source(folder: pathlib.Path, path: str) -> bool:
    lists = folder / "CMakeLists.txt"
    if not lists.exists():
        return False
    relative = pathlib.Path(ROOT / path).relative_to(folder)
    return str(relative) in re.split(r"[\s()]+", lists.read_text(encoding="utf-8"))


def main() -> int:
    wrong = []
    paths = sources()
    for path in paths:
        text = (ROOT / path).read_text(encoding="utf-8", errors="replace")
        wrong += check_includes(path, text) + check_rules(path, text) + check_testing(path, text)
    wrong += check_neighbours(paths)
    common = [p for p in paths if p.startswith("common/")]
    if len(common) > MAX_COMMON_FILES:
        wrong.append(f"common/ has {len(common)} files, over {MAX_COMMON_FILES}: move what only one module needs into it")
    for line in wrong:
        print(line)
    print(f"layers: {len(paths)} files, {len(wrong)} wrong")
    return 1 if wrong or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
