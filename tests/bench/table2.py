#!/usr/bin/env python3
"""The paper's Table 2: bandwidth of one client and of eight, reading and writing 1 MiB at a time through the proxy over TCP, over 1, 2, 4 and 8
storage nodes, of files with one copy and with two. All clients write in the same time, and then all read. One client has two requests outstanding for
each node, eight have four for each node among them, but at least eight altogether.

    table2.py [--json] [--rate MBIT] [--nodes N,...] [--clients N,...] [--seconds N] [--folder DIR]

The links of the storage nodes are throttled (tc, --rate megabits a second each way), so that nodes and not this machine's processors are
the limit. `of nodes`: the bandwidth over that of all nodes' links together; `linear`: over that of one node times their number. `again`:
calls that were answered NFS3ERR_JUKEBOX, and sessions of storage nodes with coordinators that ended: both are 0 in a run that is well."""

import subprocess
import sys

import bench

COPIES = {1: "", 2: "-mirrored"}
WAYS = ["write", "read"]


def throttle(slice_, rate, names=None):
    """Both ways of the link of each of these storage nodes, or of all. Below the limit connections share the link by turns, as they do with
    the queue that hosts and routers have by default (fq_codel): in one plain queue every small call would wait behind all bytes of all
    connections, as on no link that is sold. By HTB with a class for each value of eight bits of the port that is not the server's, since not
    every kernel has fq_codel; connect() gives even ports."""
    classes, leaves, ports = 256, 16, 2  # classes' numbers and the tables of ports are far from each other and from 1:1 and 1:10
    for name, namespace in slice_.facts["hosts"].items():
        if name not in (names or slice_.servers("store")):
            continue
        leg = namespace.rsplit("-", 1)[1]
        for where, device in ((namespace, "eth0"), (slice_.facts["proxy"], leg)):
            lines = [f"qdisc add dev {device} root handle 1: htb default 10",
                     f"class add dev {device} parent 1: classid 1:1 htb rate {rate}mbit quantum 10000 burst 128kb "
                     "cburst 128kb",
                     f"filter add dev {device} parent 1: prio 1 handle {ports}: protocol ip u32 divisor {classes}"]
            for number in range(classes):
                leaf = f"1:{leaves + number:x}"
                lines += [f"class add dev {device} parent 1:1 classid {leaf} htb rate {rate * 1000 // classes}kbit ceil {rate}mbit "
                          "quantum 10000 burst 16kb cburst 128kb",
                          f"qdisc add dev {device} parent {leaf} bfifo limit 2mb",
                          f"filter add dev {device} parent 1: protocol ip prio 1 u32 ht {ports}:{number:x}: match u32 0 0 flowid {leaf}"]
            # The word at 20, behind a head of IP without options, has both ports. Its bits of a port choose the table's row.
            for match, bits in (("ip sport 2049 0xffff", classes - 1 << 1), ("u32 0 0", classes - 1 << 17)):
                lines.append(f"filter add dev {device} parent 1: protocol ip prio 1 u32 ht 800: match {match} "
                             f"hashkey mask {bits:#010x} at 20 link {ports}:")
            subprocess.run(["tc", "-n", where, "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)


def load(options, slice_, nodes, clients):
    """Of all clients together, MB/s and calls that were answered JUKEBOX: {"write": (x, n), "read": (y, m)}."""
    outstanding = max(8, (2 if clients == 1 else 4) * nodes) // clients
    with bench.Clients(options, slice_, [outstanding] * clients, "--only", "write_1m,read_1m", "--seconds", options.seconds) as running:
        for _ in WAYS:
            running.begin()
        said = running.said()
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
                        slice_.slicectl("policy", "set", "/", "--copies", str(copies), "--force")  # also from two to one
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
