#!/usr/bin/env python3
"""Holds README and docs/ against what is: brings up the local ensemble with the README's own first command, runs every
command block that is marked `sh run`, checks that links between documents and to files lead somewhere, that prose is
wrapped, and that every program answers --help. Takes everything down again. With --links, runs nothing: seconds.

The ensemble is this program's own: what it mounts is seen in namespaces of its own, and what it starts ends with it, so one that somebody has up is
left alone. Its data is on a file system with room: where the machine's disk is nearly full `slicectl status` says so, and ends with 3, as it has to."""

import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cluster"))
import disks  # noqa: E402

BLOCK = re.compile(r"^```sh run\n(.*?)^```", re.M | re.S)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
PATH_IN_CODE = re.compile(r"`((?:bpf|common|rpc|http|wire|storage|routing|service|proxy|control|hostd|dirserver|smallfile|storagenode|coordinator|tests|deploy|docs)/[\w./-]*\w)`")
# What slicectl names to its users, who look it up in docs/health.md.
FINDING = re.compile(r'add\((?:[^;]*?)"([A-Z]+(?:_[A-Z]+)*)"')
CHECK = re.compile(r'(?:good|bad)\((?:[\w:() ]+, )?"([a-z-]+)"')
LONGEST_LINE = 100
PROGRAMS = ["slice-managerd", "slice-dird", "slice-smallfiled", "slice-stored", "slice-coordd", "slice-proxyd", "slice-hostd", "slice-fsck", "slice-backup", "slicectl", "slice-load"]


def documents():
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def check_links(path, text):
    wrong = []
    for target in LINK.findall(text):
        if not (path.parent / target).exists():
            wrong.append(f"{path.relative_to(ROOT)}: links to {target}, which does not exist")
    for target in PATH_IN_CODE.findall(text):
        if not (ROOT / target).exists() and not list(ROOT.glob(target + "*")):
            wrong.append(f"{path.relative_to(ROOT)}: names {target}, which does not exist")
    return wrong


def check_lines(path, text):
    """Prose is wrapped; tables, code and what cannot be broken are as long as they are."""
    wrong, in_code = [], False
    for number, line in enumerate(text.splitlines(), 1):
        in_code ^= line.startswith("```")
        whole = in_code or line.startswith(("|", "    ", "```", "#")) or " " not in line.strip()
        if len(line) > LONGEST_LINE and not whole:
            wrong.append(f"{path.relative_to(ROOT)}:{number}: {len(line)} columns: wrap it at {LONGEST_LINE}")
    return wrong


def check_health():
    """docs/health.md has a section for each finding of `status` and a row for each check of `doctor`, and no others."""
    text = (ROOT / "docs/health.md").read_text()
    sources = ROOT / "control/slicectl"
    wrong = []
    for what, made, told in (
            ("finding", FINDING.findall((sources / "health.cc").read_text()), re.findall(r"^### (\S+)$", text, re.M)),
            ("check", CHECK.findall((sources / "doctor.cc").read_text()), re.findall(r"^\| `([a-z-]+)` \|", text, re.M))):
        if not made:
            wrong.append(f"control/slicectl: no {what} was found")
        wrong += [f"docs/health.md: does not have the {what} {name}" for name in sorted(set(made) - set(told))]
        wrong += [f"docs/health.md: there is no {what} {name}" for name in sorted(set(told) - set(made))]
    return wrong


def run_block(path, block):
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=ROOT, capture_output=True, text=True, timeout=600)
    if done.returncode == 0:
        return []
    return [f"{path.relative_to(ROOT)}: exit code {done.returncode} of\n{block}{done.stdout[-3000:]}{done.stderr[-3000:]}"]


def mount(*words):
    pathlib.Path(words[-1]).mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", *map(str, words)], check=True)


def check_commands():
    mount("-t", "tmpfs", "tmpfs", "/run/netns")
    mount("-t", "bpf", "bpf", "/sys/fs/bpf")
    with disks.Disk("ext4", "docs") as disk:
        mount("--bind", disk.folder, ROOT / "run")  # where ./slice up has data
        try:
            return run_commands()
        finally:
            subprocess.run(["umount", "--lazy", ROOT / "run"], check=True)


def run_commands():
    wrong, blocks = [], 0
    up = subprocess.run(["./slice", "up"], cwd=ROOT, capture_output=True, text=True, timeout=1800)
    print(up.stdout[-6000:])
    if up.returncode != 0:
        wrong.append(f"./slice up: exit code {up.returncode}\n{up.stderr[-4000:]}")
    try:
        for program in PROGRAMS:
            if subprocess.run([ROOT / "build/release/bin" / program, "--help"], capture_output=True).returncode != 0:
                wrong.append(f"{program} --help fails")
        for path in documents() if up.returncode == 0 else []:
            for block in BLOCK.findall(path.read_text()):
                blocks += 1
                wrong += run_block(path, block)
    finally:
        subprocess.run(["./slice", "clean"], cwd=ROOT, capture_output=True)
    return wrong, blocks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", action="store_true", help="look at links and paths alone, run nothing")
    parser.add_argument("--apart", action="store_true", help=argparse.SUPPRESS)  # in namespaces of its own
    given = parser.parse_args()
    if not given.links and not given.apart:
        os.execvp("unshare", ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", sys.executable, __file__, "--apart"])
    wrong, blocks = [], 0
    for path in documents():
        text = path.read_text()
        wrong += check_links(path, text) + check_lines(path, text)
    wrong += check_health()
    if not given.links:
        failed, blocks = check_commands()
        wrong += failed
    for line in wrong:
        print(line)
    print(f"documents: {len(documents())} read, {blocks} command blocks run, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
