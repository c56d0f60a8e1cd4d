#!/usr/bin/env python3
"""Checks that every C++ file includes the standard headers that it uses, itself or by a header of the project: they are
precompiled (cmake/SliceBuild.cmake), so the compiler would not notice. Exit code 1 where one is missing."""

import functools
import re
import sys

from check_layers import ROOT, sources

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.M)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def std(*names):
    return rf"\bstd::(?:{'|'.join(names)})\b"


# Of every header that is precompiled what shows that it is used.
USES = {
    "algorithm": std("sort", "stable_sort", "find_if", "find", "any_of", "all_of", "none_of", "count_if", "min_element", "max_element",
                     "lower_bound", "upper_bound", "fill", "copy", "reverse", "clamp", "ranges::sort", "ranges::find"),
    "array": std("array"),
    "chrono": std("chrono"),
    "coroutine": std("coroutine_handle", "suspend_always", "suspend_never"),
    "cstdint": std("u?int(?:8|16|32|64)_t"),
    "cstring": std("memcpy", "memcmp", "memmove", "memset", "strlen", "strerror"),
    "deque": std("deque"),
    "filesystem": std("filesystem"),
    "functional": std("function"),
    "list": std("list"),
    "map": std("map", "multimap"),
    "memory": std("unique_ptr", "shared_ptr", "weak_ptr", "make_unique", "make_shared"),
    "optional": std("optional", "nullopt"),
    "random": std("mt19937(?:_64)?", "random_device", "uniform_int_distribution"),
    "set": std("set", "multiset"),
    "span": std("span"),
    "string": std("string", "to_string"),
    "string_view": std("string_view"),
    "unordered_map": std("unordered_map", "unordered_multimap"),
    "unordered_set": std("unordered_set"),
    "utility": std("pair", "exchange"),
    "variant": std("variant", "visit", "monostate", "get_if", "holds_alternative"),
    "vector": std("vector"),
    "fmt/format.h": r"\bfmt::(?:format|format_to|runtime)\(",
    "gtest/gtest.h": r"^TEST(?:_F|_P)?\(",
    "gmock/gmock.h": r"\b(?:EXPECT|ASSERT)_THAT\(|\bMOCK_METHOD\(",
}
USES = {header: re.compile(pattern, re.M) for header, pattern in USES.items()}


@functools.cache
def text_of(path):
    return COMMENT.sub("", path.read_text(errors="replace"))


@functools.cache
def includes(path):
    """Headers of the project and of others that a file names itself."""
    found = INCLUDE.findall(text_of(path))
    ours = [folder / name for name, _ in found if name for folder in (ROOT, path.parent) if (folder / name).exists()]
    return ours, {other for _, other in found if other}


def reached(path):
    """Headers of others that a file names, or one of the project's that it includes, however deep."""
    seen, others, open_ = {path}, set(), [path]
    while open_:
        ours, named = includes(open_.pop())
        others |= named
        open_ += [each for each in ours if each not in seen]
        seen.update(ours)
    return others


def there(header, others):
    """<fmt/core.h> does for <fmt/format.h>."""
    folder, slash, _ = header.partition("/")
    return header in others or (slash and any(each.startswith(folder + slash) for each in others))


def check_file(name):
    others, text = reached(ROOT / name), text_of(ROOT / name)
    return [f"{name}: uses {used.group(0)}: include <{header}>" for header, pattern in USES.items()
            if not there(header, others) and (used := pattern.search(text))]


def check_precompiled():
    """Every header that is precompiled stands above."""
    build = (ROOT / "cmake/SliceBuild.cmake").read_text()
    return [f"cmake/SliceBuild.cmake precompiles <{header}>: say in tests/layers/check_includes.py what shows its use"
            for header in re.search(r"set\(SLICE_USUAL_HEADERS (.*?)\)", build, re.S).group(1).split() if header not in USES]


def main():
    files = [name for name in sources() if name.endswith((".cc", ".h")) and not name.startswith("bpf/")]
    wrong = check_precompiled() + [line for name in files for line in check_file(name)]
    for line in wrong:
        print(line)
    print(f"includes: {len(files)} files, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
