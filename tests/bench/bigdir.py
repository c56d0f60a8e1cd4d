#!/usr/bin/env python3
"""One directory as it grows to 10 million names: what CREATE, LOOKUP, READDIR and a listing of everything cost the directory server
at 10,000, 100,000, ... names, its memory, its bytes on disk, and how long it takes to serve again after `kill -9`. Then a directory
of --removals names is emptied in two ways.

    bigdir.py [--json] [--entries N] [--removals N] [--outstanding N] [--folder DIR]

The load goes straight to one slice-dird, from a client on the same machine. us: the server's processor time an item."""

import sys
import time

import bench

COLUMNS = {"create": "CREATE", "lookup": "LOOKUP", "lookup_absent": "absent", "readdir": "READDIR /name",
           "readdirplus": "R.PLUS /name", "list_all": "list all /name"}
REMOVALS = {"remove_by_name": "REMOVE, by name", "readdir_emptied": "READDIR then, a page", "readdir_cleared": "READDIR some seconds later, a page", "lookup_emptied": "LOOKUP then",
            "rmdir_emptied": "RMDIR then", "remove_first_page": "REMOVE of the first page, again and again",
            "rmdir_first_page": "RMDIR then"}


def restart(slice_):
    """Seconds from the start of a killed directory server until it serves."""
    slice_.kill("dir1")
    start = time.monotonic()
    slice_.start("dir1")
    while True:
        done = slice_.slicectl("where", "/bigdir/large", check=False)
        if done.returncode == 0:
            return time.monotonic() - start
        if time.monotonic() > start + 600:
            raise SystemExit(f"bigdir: dir1 does not serve again: {done.stderr}")
        time.sleep(0.02)


def growth_table(steps):
    rows = [["names", *(f"{title}, us" for title in COLUMNS.values()), "CREATE/s", "LOOKUP/s", "slowest page, ms", "memory, MB",
             "disk, B/name"]]
    for step in steps:
        rows.append([step["entries"], *(f"{step[key]['us']:.2f}" for key in COLUMNS), f"{step['create']['per_second']:.0f}",
                     f"{step['lookup']['per_second']:.0f}",
                     f"{max(step[key]['longest_ms'] for key in ('readdir', 'readdirplus', 'list_all')):.1f}",
                     f"{step['memory_peak'] / 1e6:.0f}", f"{step['disk_per_entry']:.0f}"])
    return bench.table(rows)


def removal_table(removal):
    rows = [[f"of {removal['entries']} names", "us", "/s", "slowest, ms"]]
    for key, title in REMOVALS.items():
        one = removal[key]
        rows.append([title, f"{one['us']:.2f}", f"{one['per_second']:.0f}", f"{one['longest_ms']:.1f}"])
    return bench.table(rows) + f"\nlisting the emptied directory was cheap again after {removal['seconds_to_clear']:.1f} s"


def flatten(said, seconds):
    figures = []
    for step in said["grow"]:
        for key in COLUMNS:
            for unit, value in step[key].items():
                figures.append(bench.figure(f"{key}_{unit}_at_{step['entries']}", unit, value))
        for key in ("memory_peak", "memory", "disk_per_entry"):
            figures.append(bench.figure(f"{key}_at_{step['entries']}", "B", step[key]))
    for key in REMOVALS:
        for unit, value in said.get("remove", {}).get(key, {}).items():
            figures.append(bench.figure(f"{key}_{unit}", unit, value))
    return [*figures, bench.figure("restart_after_kill", "s", seconds)]


def main():
    parser = bench.arguments(__doc__, "/var/tmp")
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--removals", type=int, default=200_000, help="names of the directory that is emptied; 0: none")
    parser.add_argument("--outstanding", type=int, default=64)
    options = parser.parse_args()
    with bench.scratch(options) as folder, bench.ensemble(options, folder) as slice_:
        start = time.monotonic()
        said = bench.client(options, slice_, "bigdir_bench", "--directory-server", slice_.facts["addresses"]["dir1"],
                            "--pid", slice_.pids()["dir1"], "--data", folder / slice_.instance / "data/dir1",
                            "--entries", options.entries, "--removals", options.removals, "--outstanding", options.outstanding)
        loaded = time.monotonic() - start
        seconds = restart(slice_)
    parts = [growth_table(said["grow"])]
    if "remove" in said:
        parts.append(removal_table(said["remove"]))
    parts.append(f"serves again {seconds:.2f} s after kill -9 and start, with {options.entries} names; the load took {loaded:.0f} s")
    bench.finish(options, "bigdir", flatten(said, seconds), "\n\n".join(parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
