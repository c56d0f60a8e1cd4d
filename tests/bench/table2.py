#!/usr/bin/env python3
"""The paper's Table 2: bandwidth of one client and of eight, reading and writing 1 MiB at a time through the proxy over TCP, over 1, 2, 4 and 8
storage nodes, of files with one copy and with two.

    table2.py [--json] [--rate MBIT] [--nodes N,...] [--clients N,...] [--seconds N] [--folder DIR]

The links of the storage nodes are throttled (tc tbf, --rate megabits a second each way), so that nodes and not this machine's processors are
the limit. `of nodes`: the bandwidth over that of all nodes' links together; `linear`: over that of one node times their number."""

import json
import subprocess
import sys

import bench
import uml

COPIES = {1: "", 2: "-mirrored"}


def throttle(slice_, rate):
    """Both ways of each storage node's link; frames beyond wait in a queue of 4 MB."""
    for name, namespace in slice_.facts["hosts"].items():
        if not name.startswith("store"):
            continue
        leg = namespace.rsplit("-", 1)[1]
        for where, device in ((namespace, "eth0"), (slice_.facts["proxy"], leg)):
            subprocess.run(["tc", "-n", where, "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{rate}mbit", "burst", "128kb",
                            "limit", "4mb"], check=True)


def load(options, slice_, clients):
    """MB/s of all clients together, {"write": x, "read": y}."""
    command = uml.in_netns(slice_.netns, str(options.build / "bench/ops_bench"), "--server", slice_.server, "--export", slice_.export,
                           "--json", "--only", "write_1m,read_1m", "--seconds", str(options.seconds), "--outstanding", "8" if clients == 1 else "2")
    running = [subprocess.Popen([*command, "--name", f"client-{number}"], stdout=subprocess.PIPE, text=True) for number in range(clients)]
    sums = {"write": 0.0, "read": 0.0}
    for process in running:
        said = json.loads(process.communicate()[0])
        if process.returncode != 0:
            raise SystemExit("ops_bench failed")
        for way in sums:
            sums[way] += said[f"{way}_1m"]["MB_per_second"]
    return sums


def numbers(text):
    return [int(one) for one in text.split(",")]


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--rate", type=int, default=100, help="megabits a second of each storage node's link, each way")
    parser.add_argument("--nodes", type=numbers, default=[1, 2, 4, 8])
    parser.add_argument("--clients", type=numbers, default=[1, 8])
    parser.add_argument("--seconds", type=int, default=6)
    options = parser.parse_args()
    link = options.rate / 8  # MB/s
    rows = [["nodes", "clients", *(f"{way}{mirrored}, MB/s" for mirrored in COPIES.values() for way in ("read", "write")), "read: of nodes",
             "read: linear", "write: linear", "mirrored / read", "mirrored / write"]]
    figures, one_node = [], {}
    with bench.scratch(options) as folder:
        for nodes in options.nodes:
            with bench.ensemble(options, folder, storage=nodes) as slice_:
                throttle(slice_, options.rate)
                for clients in options.clients:
                    measured = {}
                    for copies, mirrored in COPIES.items():
                        if copies > nodes:
                            continue
                        slice_.slicectl("policy", "set", "/", "--copies", str(copies))
                        for way, value in load(options, slice_, clients).items():
                            measured[way + mirrored] = value
                            figures.append(bench.figure(f"{way}{mirrored}_{nodes}_nodes_{clients}_clients", "MB/s", value))
                    one_node.setdefault(clients, {way: measured[way] / nodes for way in ("read", "write")})
                    def over(this, that):
                        return f"{measured[this] / that:.2f}" if this in measured else "-"
                    rows.append([nodes, clients,
                                 *(f"{measured[way + mirrored]:.1f}" if way + mirrored in measured else "-"
                                   for mirrored in COPIES.values() for way in ("read", "write")),
                                 over("read", nodes * link), over("read", nodes * one_node[clients]["read"]),
                                 over("write", nodes * one_node[clients]["write"]), over("read-mirrored", measured["read"]),
                                 over("write-mirrored", measured["write"])])
                    bench.say("  ".join(map(str, rows[-1])))
    bench.finish(options, "table2", figures, bench.table(rows))


if __name__ == "__main__":
    sys.exit(main())
