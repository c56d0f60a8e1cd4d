#!/usr/bin/env python3
"""The paper's Figure 4: time to unpack a tree under mkdir switching, over directory affinity 1 - p, by 1, 4, 8 and 16 client processes
that each unpack a tree of their own, through the proxy over TCP, on four directory servers.

    figure4.py [--json] [--objects N] [--processes N,...] [--affinities A,...] [--servers N] [--folder DIR]

A column `untar N` is the mean time of a client process, as in the paper. Here all servers and clients share the processors of one
machine, so that a server with little to do lends its share to one with much, and time follows the work of all together. So each is
followed by `busiest`: the processor time of the directory server that had most to do, which is what would be waited for were every
server a machine of its own."""

import sys

import bench


def measure(options, slice_, processes):
    said = bench.client(options, slice_, "untar_bench", "--processes", processes, "--objects", options.objects,
                        "--pids", bench.pids(slice_, "dir", "proxy"))
    busy = {name: used for name, used in said["processor_seconds"].items() if name.startswith("dir")}
    return {"seconds": said["mean_seconds"], "busiest": max(busy.values()), "all": sum(busy.values()), "calls": said["calls"]}


def numbers(text, kind=float):
    return [kind(one) for one in text.split(",")]


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--objects", type=int, default=500, help="files and folders of each client process")
    parser.add_argument("--processes", default="1,4,8,16")
    parser.add_argument("--affinities", default="1,0.9,0.8,0.7,0.6,0.5,0.4,0.3,0.2,0.1,0")
    parser.add_argument("--servers", type=int, default=4)
    options = parser.parse_args()
    counts = numbers(options.processes, int)
    rows = [["affinity", *(title for n in counts for title in (f"untar {n}, s", "busiest, s", "balance"))]]
    figures = []
    with bench.scratch(options) as folder:
        for affinity in numbers(options.affinities):
            row = [f"{affinity:.1f}"]
            shape = {"directories": options.servers, "policy": "mkdir-switching", "probability": round(1 - affinity, 6)}
            with bench.ensemble(options, folder, **shape) as slice_:
                for processes in counts:
                    one = measure(options, slice_, processes)
                    balance = one["all"] / options.servers / one["busiest"] if one["busiest"] else 0
                    row += [f"{one['seconds']:.2f}", f"{one['busiest']:.2f}", f"{balance:.2f}"]
                    name = f"affinity_{affinity:g}_processes_{processes}"
                    figures += [bench.figure(f"{name}_seconds", "s", one["seconds"]),
                                bench.figure(f"{name}_busiest_server", "s", one["busiest"]),
                                bench.figure(f"{name}_all_servers", "s", one["all"])]
            rows.append(row)
            bench.say("  ".join(row))
    bench.finish(options, "figure4", figures, bench.table(rows) + "\nbalance: mean over busiest server; 1 is even"
                 f"\n{options.objects} files and folders, {7 * options.objects} calls, each process")
    return 0


if __name__ == "__main__":
    sys.exit(main())
