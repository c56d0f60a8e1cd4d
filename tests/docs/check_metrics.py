#!/usr/bin/env python3
"""Holds docs/metrics.md against the sources: every metric that a program makes stands in a table there, and nothing
else does. Exit code 1, with what to add or take away, where they differ."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A name is the literal that a counter is made with, at once or through a local helper that adds labels.
MADE = re.compile(r'\b(?:counter|label|figure|gauge)\(\s*(?:fmt::format\(\s*)?"([a-z][a-z0-9_]*)')
# And every literal that can be nothing else.
TOTAL = re.compile(r'"([a-z][a-z0-9_]*_total)[{"]')
DOCUMENTED = re.compile(r"^\| `([a-z][a-z0-9_]*)(?:\{[^`]*\})?` \|", re.M)
FOLDERS = ["common", "rpc", "storage", "service", "dirserver", "smallfile", "storagenode", "coordinator", "proxy", "control"]


def sources():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout.split()
    apart = re.compile(r"(_test|_bench|_fuzz|_harness|_fixture)\.|/testing/|^common/metrics\.")
    return [p for p in listed if p.endswith((".cc", ".h")) and not apart.search(p) and (ROOT / p).exists()]


def main():
    made = {}
    for path in sources():
        text = (ROOT / path).read_text()
        for name in MADE.findall(text) + TOTAL.findall(text):
            made.setdefault(name, path)
    documented = set(DOCUMENTED.findall((ROOT / "docs/metrics.md").read_text()))
    for name in sorted(made.keys() - documented):
        print(f"{made[name]}: makes `{name}`, which docs/metrics.md does not explain: add a row")
    for name in sorted(documented - made.keys()):
        print(f"docs/metrics.md: explains `{name}`, which nothing makes: take the row away")
    wrong = len(made.keys() ^ documented)
    print(f"metrics: {len(made)} made, {len(documented)} documented, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
