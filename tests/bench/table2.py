#!/usr/bin/env python3
"""The paper's Table 2: bandwidth of one client and of eight, reading and writing 1 MiB at a time through the proxy over TCP, over 1, 2, 4 and 8
storage nodes, of files with one copy and with two. All clients write in the same time, and then all read. One client has two requests outstanding for
each node, eight have four for each node among them, but at least eight altogether.

    table2.py [--json] [--rate MBIT] [--nodes N,...] [--clients N,...] [--seconds N] [--folder DIR]

The links of the storage nodes are throttled (tc, --rate megabits a second each way), so that nodes and not this machine's processors are
the limit. `of nodes`: the bandwidth over that of all nodes' links together; `linear`: over that of one node times their number. `again`:
calls that were answered NFS3ERR_JUKEBOX, and sessions of storage nodes with coordinators that ended: both are 0 in a run that is well."""

import json
import subprocess
import sys

import bench
import uml

COPIES = {1: "", 2: "-mirrored"}
WAYS = ["write", "read"]


def throttle(slice_, rate):
    """Both ways of each storage node's link. Below the limit connections share the link by turns, as they do with the queue that hosts and
    routers have by default (fq_codel): in one plain queue every small call would wait behind all bytes of all connections, as on no
    link that is sold. By HTB with a class for each value of four bits of the port that is not the server's, since not every kernel has
    fq_codel; connect() gives even ports."""
    classes = 16
    for name, namespace in slice_.facts["hosts"].items():
        if not name.startswith("store"):
            continue
        leg = namespace.rsplit("-", 1)[1]
        for where, device in ((namespace, "eth0"), (slice_.facts["proxy"], leg)):
            lines = [f"qdisc add dev {device} root handle 1: htb default 10",
                     f"class add dev {device} parent 1: classid 1:1 htb rate {rate}mbit quantum 10000 burst 128kb "
                     "cburst 128kb"]
            for number in range(classes):
                leaf, bits = f"1:{16 + number:x}", f"{number << 1:#x} 0x1e"
                lines += [f"class add dev {device} parent 1:1 classid {leaf} htb rate {rate * 1000 // classes}kbit ceil {rate}mbit "
                          "quantum 10000 burst 16kb cburst 128kb",
                          f"qdisc add dev {device} parent {leaf} bfifo limit 2mb",
                          f"filter add dev {device} parent 1: protocol ip prio 1 u32 match ip sport 2049 0xffff match ip dport {bits} "
                          f"flowid {leaf}",
                          f"filter add dev {device} parent 1: protocol ip prio 2 u32 match ip sport {bits} flowid {leaf}"]
            subprocess.run(["tc", "-n", where, "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)


def load(options, slice_, nodes, clients):
    """Of all clients together, MB/s and calls that were answered JUKEBOX: {"write": (x, n), "read": (y, m)}."""
    command = uml.in_netns(slice_.netns, str(options.build / "bench/ops_bench"), "--server", slice_.server, "--export", slice_.export,
                           "--json", "--in-step", "--only", "write_1m,read_1m", "--seconds", str(options.seconds),
                           "--outstanding", str(max(8, (2 if clients == 1 else 4) * nodes) // clients))
    running = [subprocess.Popen([*command, "--name", f"client-{number}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
               for number in range(clients)]
    for _ in WAYS:
        for process in running:
            if process.stdout.readline() != "ready\n":
                raise SystemExit("ops_bench failed")
        for process in running:
            process.stdin.write("\n")
            process.stdin.flush()
    said = [json.loads(process.communicate()[0]) for process in running]
    return {way: (sum(one[f"{way}_1m"]["MB_per_second"] for one in said), sum(one[f"{way}_1m"]["asked_again"] for one in said))
            for way in WAYS}


def lost_sessions(slice_):
    stores = [name for name in slice_.process_names if name.startswith("store")]
    return sum(slice_.metrics(name).get("mirror_sessions_lost_total", 0) for name in stores)


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
             "read: linear", "write: linear", "mirrored / read", "mirrored / write", "again"]]
    figures, one_node = [], {}
    with bench.scratch(options) as folder:
        for nodes in options.nodes:
            with bench.ensemble(options, folder, storage=nodes) as slice_:
                throttle(slice_, options.rate)
                for clients in options.clients:
                    measured, again = {}, 0
                    for copies, mirrored in COPIES.items():
                        if copies > nodes:
                            continue
                        slice_.slicectl("policy", "set", "/", "--copies", str(copies))
                        for way, (value, asked_again) in load(options, slice_, nodes, clients).items():
                            measured[way + mirrored] = value
                            again += asked_again
                            figures.append(bench.figure(f"{way}{mirrored}_{nodes}_nodes_{clients}_clients", "MB/s", value))
                    one_node.setdefault(clients, {way: measured[way] / nodes for way in ("read", "write")})
                    def over(this, that):
                        return f"{measured[this] / that:.2f}" if this in measured else "-"
                    rows.append([nodes, clients,
                                 *(f"{measured[way + mirrored]:.1f}" if way + mirrored in measured else "-"
                                   for mirrored in COPIES.values() for way in ("read", "write")),
                                 over("read", nodes * link), over("read", nodes * one_node[clients]["read"]),
                                 over("write", nodes * one_node[clients]["write"]), over("read-mirrored", measured["read"]),
                                 over("write-mirrored", measured["write"]), f"{again} + {lost_sessions(slice_)}"])
                    bench.say("  ".join(map(str, rows[-1])))
    bench.finish(options, "table2", figures, bench.table(rows))


if __name__ == "__main__":
    sys.exit(main())
