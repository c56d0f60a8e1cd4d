#!/usr/bin/env python3
"""The paper's Figure 3: how the untar load scales with directory servers, under mkdir switching with p = 1/N and under name hashing.

    figure3.py [--json] [--objects N] [--processes N,...] [--servers N,...] [--wait US] [--share S] [--folder DIR]

This machine cannot run N servers side by side as N machines would, so the figure is taken in three ways.

By shares, with --share 0.08: each directory server gets so much of a processor and no more (shares.py), which makes servers the limit at any
number, and the most processes of --processes unpack as fast as that lets them. Mkdir switching is run with p = 1 too.

By processor time: the load really runs on N servers through the proxy; the processor time of each is measured. The busiest server is
what N machines would wait for, so calls / its seconds is what they could do together at most.

By simulation: the same load is replayed, object by object as it landed, on N servers that each do one call at a time, with the measured
processor time of calls (LOOKUP by itself; the rest are changes) and --wait microseconds of network and disk in each. It gives the time
that a client process sees.

Assumed: a server machine has one processor for slice-dird; the proxies and clients are no bottleneck; a call of another server costs
both of them what was measured here over a virtual link."""

import sys

import bench
import shares
import simulate

POLICIES = ("mkdir-switching", "name-hashing")


def load(options, folder, servers, policy):
    with bench.ensemble(options, folder, directories=servers, policy=policy) as slice_:
        said = bench.client(options, slice_, "untar_bench", "--processes", options.most, "--objects", options.objects,
                            "--pids", bench.pids(slice_, "dir", "proxy"), "--trace")
        said["owners"] = bench.owners(slice_)
        if servers == 1:
            said["read"] = read_cost(options, slice_)
    said["busy"] = {name: used for name, used in said["processor_seconds"].items() if name.startswith("dir")}
    return said


def throttled(options, folder, servers, policy, probability):
    """untar_bench's answer, of servers with shares."""
    with bench.ensemble(options, folder, directories=servers, policy=policy, probability=probability) as slice_, shares.Shares(options.share) as groups:
        groups.give({name: pid for name, pid in slice_.pids().items() if name.startswith("dir")})
        return bench.client(options, slice_, "untar_bench", "--processes", options.most, "--objects", options.objects, "--pids", bench.pids(slice_, "dir"))


def by_shares(options, folder):
    rows, figures = [["policy", "servers", "calls/s", "speed-up", "us a call", "evenness"]], []
    for policy, probability in (("name-hashing", None), ("mkdir-switching", None), ("mkdir-switching", 1)):
        name = policy if probability is None else f"{policy}-p{probability}"
        first = None
        for servers in (int(n) for n in options.servers.split(",")):
            said = throttled(options, folder, servers, policy, probability)
            busy = list(said["processor_seconds"].values())
            rate, each, even = said["calls"] / said["seconds"], sum(busy) / said["calls"] * 1e6, sum(busy) / len(busy) / max(busy)
            first = first or rate
            rows.append([name, servers, f"{rate:.0f}", f"{rate / first:.2f}", f"{each:.1f}", f"{even:.2f}"])
            bench.say("  ".join(map(str, rows[-1])))
            figures += [bench.figure(f"{name}_{servers}_calls_per_second", "1/s", rate), bench.figure(f"{name}_{servers}_speedup", "ratio", rate / first),
                        bench.figure(f"{name}_{servers}_us_per_call", "us", each), bench.figure(f"{name}_{servers}_evenness", "ratio", even)]
    bench.finish(options, "figure3", figures, bench.table(rows) + f"\n{options.share:.0%} of a processor for each directory server; {options.most} processes unpack "
                 f"{options.objects} files and folders each; evenness: processor time of the mean server over that of the busiest")


def read_cost(options, slice_):
    """Seconds of the directory server for a LOOKUP."""
    said = bench.client(options, slice_, "ops_bench", "--only", "lookup", "--seconds", 2, "--pids", bench.pids(slice_, "dir"))
    return said["lookup"]["processor_us"]["dir1"] / 1e6


def cross_calls(said, policy):
    """How many calls concerned two servers."""
    owners = said["owners"]
    return sum(1 for trace in said["trace"] for object_ in trace for site, other, _ in simulate.calls_of(object_, policy)
               if other is not None and owners[other] != owners[site])


def costs(one_server, said, policy, read):
    """Seconds of the simulation's calls: four of seven only read, what is left of one server's time are changes, and what several
    servers use beyond one server's time are the calls that concern two."""
    mean = sum(one_server["busy"].values()) / one_server["calls"]
    crossing = cross_calls(said, policy)
    more = sum(said["busy"].values()) - mean * said["calls"]
    return {"read": read, "change": max(read, (7 * mean - 4 * read) / 3), "cross": max(0.0, more / crossing / 2) if crossing else 0.0}


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--objects", type=int, default=500, help="files and folders of each client process")
    parser.add_argument("--processes", default="1,4,8,16", help="of the simulation; the real load has the most of them")
    parser.add_argument("--servers", default="1,2,4,8")
    parser.add_argument("--wait", type=float, default=200, help="microseconds of network and disk in each call")
    parser.add_argument("--share", type=float, help="of a processor for each directory server")
    options = parser.parse_args()
    processes = [int(n) for n in options.processes.split(",")]
    options.most = max(processes)
    rows = [["policy", "servers", "us a call", "busiest, s", "calls/s at most", "speed-up", "crossing",
             *(f"simulated {n}, s" for n in processes)]]
    figures = []
    with bench.scratch(options) as folder:
        if options.share:
            by_shares(options, folder)
            return 0
        for policy in POLICIES:
            first = load(options, folder, 1, policy)
            for servers in (int(n) for n in options.servers.split(",")):
                said = load(options, folder, servers, policy) if servers > 1 else first
                busiest, calls = max(said["busy"].values()), said["calls"]
                rate = calls / busiest
                cost = costs(first, said, policy, first["read"])
                times = [simulate.run(said["trace"][:n], policy, said["owners"], cost, options.wait / 1e6) for n in processes]
                crossing = cross_calls(said, policy) / calls
                row = [policy, servers, f"{sum(said['busy'].values()) / calls * 1e6:.1f}", f"{busiest:.2f}", f"{rate:.0f}",
                       f"{rate / (first['calls'] / max(first['busy'].values())):.2f}", f"{100 * crossing:.1f} %",
                       *(f"{time:.2f}" for time in times)]
                rows.append(row)
                bench.say("  ".join(map(str, row)))
                name = f"{policy}_{servers}"
                figures += [bench.figure(f"{name}_us_per_call", "us", sum(said["busy"].values()) / calls * 1e6),
                            bench.figure(f"{name}_calls_per_second_at_most", "1/s", rate),
                            bench.figure(f"{name}_crossing_calls", "share", crossing),
                            *(bench.figure(f"{name}_simulated_{n}", "s", time) for n, time in zip(processes, times))]
    bench.finish(options, "figure3", figures, bench.table(rows) +
                 f"\nus a call: of all directory servers together; crossing: calls over two servers; {options.objects} files and folders a process;"
                 f" {options.wait:.0f} us of network and disk in a simulated call")
    return 0


if __name__ == "__main__":
    sys.exit(main())
