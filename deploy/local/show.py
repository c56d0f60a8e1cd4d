#!/usr/bin/env python3
"""The ensemble's main job, shown: a real kernel client (user-mode Linux) mounts the virtual address and copies a tree of files in; a
second client, started afresh, reads it back and compares; then a table says where names and bytes landed.

    show.py                      the whole show
    show.py --command 'CMD'      just run CMD in such a client, with the volume on /mnt
"""

import argparse
import json
import random
import shutil
import subprocess
import sys

from ensemble import ROOT, Ensemble, Failure

# Around the threshold and the stripe unit, and one file over many stripes.
SIZES = {"empty": 0, "tiny": 100, "8300-bytes": 8300, "threshold": 65536, "one-more": 65537, "300-KiB": 300 << 10, "5-MiB": 5 << 20}
UML_CLIENT = ROOT / "tests/cluster/uml_client"


def in_client(ensemble, command, timeout=300):
    """Runs a shell command in a fresh kernel client whose /mnt is the volume; its exit code."""
    names = ensemble.namespaces()
    return subprocess.run([UML_CLIENT, "--netns", names["client"], "--server", names["virtual"], "--timeout", str(timeout), "--locks", "--",
                           "sh", "-c", f"cd / && {command}"]).returncode


def make_tree(folder):
    """Real files: this repository's documents and sources, and made ones of telling sizes."""
    shutil.rmtree(folder, ignore_errors=True)
    made = folder / "sizes"
    made.mkdir(parents=True)
    for name, size in SIZES.items():
        (made / name).write_bytes(random.Random(name).randbytes(size))
    for each in ("docs", "rpc", "README.md", "LICENSE"):
        source = ROOT / each
        shutil.copytree(source, folder / each) if source.is_dir() else shutil.copy2(source, folder / each)
    (folder / "link-to-readme").symlink_to("README.md")


def where_rows(ensemble, path):
    """(path, size, directory server, bytes at the small-file server, bytes at each storage node)"""
    said = json.loads(ensemble.slicectl("where", path, "--json").stdout)
    small = said.get("small_file") or {}
    stripes = {node["server"]: node["allocated"] for node in said.get("storage", []) if node.get("allocated")}
    return [path, str(said["size"]), said["directory"]["server"],
            f"{small['server']}: {small['allocated']}" if small.get("allocated") else "-",
            ", ".join(f"{server}: {size}" for server, size in sorted(stripes.items())) or "-"]


def print_table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for number, row in enumerate(rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))


def show(ensemble):
    tree = ensemble.dir / "show"
    make_tree(tree)
    files = sum(1 for p in tree.rglob("*") if p.is_file())
    size = sum(p.stat().st_size for p in tree.rglob("*") if p.is_file() and not p.is_symlink())
    print(f"\n== a kernel client mounts {ensemble.virtual}:/ and copies {files} files, {size} bytes, in", flush=True)
    if in_client(ensemble, f"rm -rf /mnt/show && cp -a '{tree}' /mnt/show && sync") != 0:
        raise Failure("the copy failed")
    print("== another client reads everything back and compares", flush=True)
    if in_client(ensemble, f"diff -r '{tree}' /mnt/show && echo 'no difference' && ls -lR /mnt/show/sizes") != 0:
        raise Failure("what was read back differs")
    print("\n== where names and bytes landed", flush=True)
    rows = [["path", "size", "name and attributes", "small-file server: bytes", "storage nodes: bytes"]]
    rows += [row for name in SIZES for row in [where_rows(ensemble, f"/show/sizes/{name}")]]
    print_table(rows)
    print()
    print(ensemble.slicectl("status", check=False).stdout)
    print(f"The ensemble stays up: {ensemble.virtual}:/ in namespace {ensemble.client_ns()}. See ./slice --help; ./slice down stops it.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", help="run only this shell command")
    parser.add_argument("--instance", default="local")
    parser.add_argument("--run-dir", default=ROOT / "run")
    parser.add_argument("--bin", default=ROOT / "build/release/bin")
    given = parser.parse_args()
    ensemble = Ensemble(given.instance, given.run_dir, given.bin)
    try:
        ensemble.load()
        if given.command:
            return in_client(ensemble, given.command)
        show(ensemble)
        return 0
    except Failure as failure:
        print(f"show: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
