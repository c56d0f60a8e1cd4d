#!/usr/bin/env python3
"""What an operation over two directory servers costs, beside the same one on a single server, under both policies: its latency, calls
between the servers and log writes with one outstanding; its rate and the servers' processor time with many.

    cross_site.py [--json] [--count N] [--many N] [--outstanding N] [--servers N] [--only OP,...] [--folder DIR]

near: names, attributes and parents are all on one server. far: mkdir and rmdir of a folder whose parent is on another server; link of a
file under a name there; rename of a file, or of a folder, to a name there; under name hashing also create and remove of a file whose
name is on another server than its folder's attributes. remove_far_cell: of a name whose file's attributes are on another server.

changes: batches written to the servers' stores; syncs: of their logs, which batches share; calls: between directory servers, all that
the operation causes, also after its answer. The client calls through the proxy over TCP."""

import collections
import json
import subprocess
import sys
import time

import bench
import uml

NEAR = ("create_near", "remove_near", "mkdir_near", "rmdir_near", "link_near", "rename_near", "rename_folder_near")
FAR = ("remove_far_cell", "mkdir_far", "rmdir_far", "link_far", "rename_far", "rename_folder_far")
OPERATIONS = {"mkdir-switching": NEAR + FAR, "name-hashing": NEAR + ("create_far", "remove_far") + FAR}
CALLS = "directory_peer_calls_total{"
BATCHES, SYNCS = "kv_changes_total", "kv_syncs_total"


def counters(slice_):
    """Sums over the directory servers."""
    total = collections.Counter()
    for name in bench.directories(slice_):
        for key, value in slice_.metrics(name).items():
            if key.startswith(CALLS) or key in (BATCHES, SYNCS):
                total[key] += value
    return total


def settled(slice_):
    """The counters once nothing more happens."""
    before = counters(slice_)
    for _ in range(40):
        time.sleep(0.25)
        after = counters(slice_)
        if after == before:
            break
        before = after
    return after


def perform(options, slice_, policy, operation, count, outstanding):
    """One run of cross_site_bench; seconds, and what the servers counted and used meanwhile."""
    owners = bench.owners(slice_)
    numbers = ",".join(str(sorted(set(owners)).index(owner)) for owner in owners)
    command = uml.in_netns(slice_.netns, str(options.build / "bench/cross_site_bench"), "--server", slice_.server, "--owners", numbers,
                           "--operation", operation, "--count", str(count), "--outstanding", str(outstanding),
                           *(["--name-hashing"] if policy == "name-hashing" else []))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout.readline().strip() != "ready":
            raise SystemExit(f"cross_site: {operation} under {policy} failed")
        before, used = settled(slice_), processor(slice_)
        process.stdin.write("\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"cross_site: {operation} under {policy} failed")
        said = json.loads(line)
        after = settled(slice_)
        said["us"] = (processor(slice_) - used) / count * 1e6
    said["counted"] = {key: (after[key] - before[key]) / count for key in after}
    return said


def processor(slice_):
    """Seconds of all directory servers."""
    total = 0
    for name, pid in slice_.pids().items():
        if name.startswith("dir"):
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            total += (int(fields[11]) + int(fields[12])) / 100
    return total


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--count", type=int, default=200, help="operations with one outstanding")
    parser.add_argument("--many", type=int, default=3000, help="operations with many outstanding")
    parser.add_argument("--outstanding", type=int, default=32)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--only", help="operations, by comma")
    options = parser.parse_args()
    rows = [["policy", "operation", "ms", "calls", "changes", "syncs", "which calls", f"/s by {options.outstanding}", "us"]]
    figures = []
    with bench.scratch(options) as folder:
        for policy, operations in OPERATIONS.items():
            # With probability 1 the names' hashes choose where folders go.
            with bench.ensemble(options, folder, directories=options.servers, policy=policy, probability=1) as slice_:
                for operation in operations if options.servers > 1 else NEAR:
                    if options.only and operation not in options.only.split(","):
                        continue
                    alone = perform(options, slice_, policy, operation, options.count, 1)
                    many = perform(options, slice_, policy, operation, options.many, options.outstanding)
                    counted = alone["counted"]
                    kinds = {key.split('"')[1]: value for key, value in counted.items() if key.startswith(CALLS) and value >= 0.01}
                    calls, rate = sum(kinds.values()), options.many / many["seconds"]
                    row = [policy, operation, f"{alone['seconds'] / options.count * 1e3:.2f}", f"{calls:.2f}", f"{counted[BATCHES]:.2f}",
                           f"{counted[SYNCS]:.2f}", " ".join(f"{kind} {value:.2f}" for kind, value in sorted(kinds.items())) or "-",
                           f"{rate:.0f}", f"{many['us']:.0f}"]
                    rows.append(row)
                    bench.say("  ".join(row))
                    name = f"{policy}_{operation}"
                    figures += [bench.figure(f"{name}_latency", "ms", alone["seconds"] / options.count * 1e3),
                                bench.figure(f"{name}_peer_calls", "1/op", calls), bench.figure(f"{name}_changes", "1/op", counted[BATCHES]),
                                bench.figure(f"{name}_syncs", "1/op", counted[SYNCS]), bench.figure(f"{name}_rate", "op/s", rate),
                                bench.figure(f"{name}_processor", "us/op", many["us"])]
    bench.finish(options, "cross-site", figures, bench.table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
