#!/usr/bin/env python3
"""What it costs to keep on two storage nodes what a server of names, small files or intentions would keep on its own disk (docs/backing.md).

    backing.py [--json] [--seconds N] [--rounds N] [--outstanding N] [--objects N] [--processes N] [--copies N] [--on tmpfs,ext4]

Two ensembles of one directory server, one small-file server, one coordinator and two storage nodes take turns, --rounds times: `local` keeps all on
disks of its own, `backed` on the storage nodes. CREATE + REMOVE, WRITE of 8 KiB FILE_SYNC to small files (ops_bench), and --processes untar clients
that make --objects files and folders each (untar_bench). Both promise the same: what was answered is on the disk, of one host or of --copies. Figures
are medians; processor time is that of all servers, the storage nodes' included. All run on one machine, which has one disk: of its time two copies
take twice as much."""

import contextlib
import statistics

import bench
import ops

OPERATIONS = ("create_remove", "write_8k_sync")


def measure(options, slice_, seconds):
    """{what: (a second, processor us each)}"""
    said = ops.measure(options, bench.reach(slice_), seconds, "--only", ",".join(OPERATIONS))
    figures = {name: (said[name]["per_second"], sum(said[name]["processor_us"].values())) for name in OPERATIONS}
    untar = bench.client(options, slice_, "untar_bench", "--processes", options.processes, "--objects", options.objects, "--pids",
                         bench.pids(slice_, "dir", "small", "coord", "store", "proxy"))
    return figures | {"untar": (untar["calls"] / untar["seconds"], sum(untar["processor_seconds"].values()) / untar["calls"] * 1e6)}


def compare(options, kind):
    """Rows of the table and figures of one place."""
    seconds = options.seconds if kind == "tmpfs" else options.disk_seconds
    runs = {"local": [], "backed": []}
    with contextlib.ExitStack() as until:
        folder = until.enter_context(bench.place(options, kind))
        both = {}
        for name, shape in (("local", {}), ("backed", {"backing": options.copies})):
            (folder / name).mkdir()
            both[name] = until.enter_context(bench.ensemble(options, folder / name, instance=name, storage=2, **shape))
        for turn in range(options.rounds):
            for name, slice_ in both.items():
                runs[name].append(measure(options, slice_, seconds))
            bench.say(f"{kind}, round {turn + 1} of {options.rounds}")
    rows, figures, begin = [], [], bench.PLACES[kind]
    for what in runs["local"][0]:
        rate, cost = ({name: statistics.median(run[what][index] for run in said) for name, said in runs.items()} for index in (0, 1))
        ratios = rate["backed"] / rate["local"], cost["backed"] / cost["local"]
        rows.append([f"{what}, {kind}", *(f"{rate[name]:.0f}" for name in runs), *(f"{cost[name]:.1f}" for name in runs), *(f"{ratio:.2f}" for ratio in ratios)])
        for name in runs:
            figures += [bench.figure(f"{begin}{name}_{what}", "op/s", rate[name]), bench.figure(f"{begin}{name}_{what}_cpu", "us/op", cost[name])]
        figures += [bench.figure(f"{begin}backed_over_local_{what}{end}", "ratio", ratio) for end, ratio in zip(("", "_cpu"), ratios)]
    return rows, figures


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--seconds", type=int, default=2, help="for each operation, on tmpfs")
    parser.add_argument("--disk-seconds", type=int, default=6, help="for each operation, on a disk")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--outstanding", type=int, default=16)
    parser.add_argument("--processes", type=int, default=8, help="untar clients")
    parser.add_argument("--objects", type=int, default=400, help="of each of them")
    parser.add_argument("--copies", type=int, default=2)
    bench.add_places(parser)
    options = parser.parse_args()
    rows, figures = [["", "local op/s", "backed op/s", "local CPU us", "backed CPU us", "rate", "CPU"]], []
    for kind in options.on:
        more, measured = compare(options, kind)
        rows += more
        figures += measured
    bench.finish(options, "backing", figures, bench.table(rows) + "\nrate: backed over local, goal 0.6; CPU: likewise, goal 1.5")


if __name__ == "__main__":
    main()
