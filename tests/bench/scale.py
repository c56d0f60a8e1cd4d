#!/usr/bin/env python3
"""How a SPEC-like load grows with the ensemble: 1, 2, 4 and 8 servers of every role, each a host with a slow processor of its own.

    scale.py [--json] [--servers N,...] [--share S] [--rate R] [--mix M] [--policy P] [--transport tcp|udp] [--clients N]
             [--bytes-per-op SIZE] [--warm-up S] [--interval S] [--folder DIR]

The cpu cgroup gives each directory server, small-file server, storage node and coordinator --share of a processor and no more (shares.py),
as soon as the files are there; proxy, manager and the generator have what is left. Offered are --rate operations a second for each server of
a role, more than it can do, so that what is achieved is what servers do at most. Every reply is checked.

busiest: the processor time of the server of that role which had most, over its share: near 1 it was the limit. evenness: of all servers of
the role, the mean over the busiest. machine: how busy this machine's processors were, by whomever: near 1 the figure is the machine's."""

import sys

import bench
import peers
import shares

ROLES = {"directory": "dir", "small-file": "small", "storage": "store"}  # and the beginning of their servers' names
SHARED = (*ROLES.values(), "coord")


def shape(servers, options):
    return {"directories": servers, "small_files": servers, "storage": servers, "coordinators": servers, "policy": options.policy}


def gauges(pids):
    return {**{name: peers.processor_seconds([pid]) for name, pid in pids.items()}, **bench.machine_gauges()}


def measure(options, folder, servers):
    """The one point of its report; `used` are seconds of processor time by server, among what else has grown, `machine` a share."""
    options.rates = f"{servers * options.rate:g}"
    with bench.ensemble(options, folder, **shape(servers, options)) as slice_, shares.Shares(options.share) as groups:
        reach = bench.reach(slice_)
        slow = {name: pid for name, pid in reach.pids.items() if name.startswith(SHARED)}
        report = peers.measure(options, folder, f"Slice {servers}", reach, gauges=lambda: gauges(slow), begins=lambda: groups.give(slow), pin=False,
                               keep=True)
    point = report["points"][0]
    point["used"] = point.pop("grown")
    point["machine"] = bench.busy(point["used"])
    return point


def of_role(point, beginning):
    """Seconds of its servers."""
    return [used for name, used in point["used"].items() if name.startswith(beginning)]


def figures_of(servers, point, first, options):
    at, latency = f"scale_{servers}", point["latency_ns"]
    figures = [bench.figure(f"{at}_achieved", "op/s", point["achieved_per_second"]),
               bench.figure(f"{at}_speedup", "ratio", point["achieved_per_second"] / first["achieved_per_second"]),
               bench.figure(f"{at}_server_us", "us/op", point["server_us"]), bench.figure(f"{at}_mean", "ms", latency["mean"] / 1e6),
               bench.figure(f"{at}_machine", "share", point["machine"]), bench.figure(f"{at}_violations", "replies", point["violations"])]
    for role, beginning in ROLES.items():
        used = of_role(point, beginning)
        figures += [bench.figure(f"{at}_{role}_busiest", "share", max(used) / options.interval / options.share),
                    bench.figure(f"{at}_{role}_evenness", "ratio", sum(used) / len(used) / max(used) if any(used) else 1)]
    return figures


def row(figures):
    """Of one number of servers, by the heads below."""
    value = {figure["name"].split("_", 2)[2]: figure["value"] for figure in figures}
    return [f"{value['achieved']:.0f}", f"{value['speedup']:.2f}", f"{value['server_us']:.0f}",
            *(f"{value[f'{role}_busiest']:.2f}, {value[f'{role}_evenness']:.2f}" for role in ROLES), f"{value['machine']:.2f}", f"{value['violations']:.0f}"]


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--servers", default="1,2,4,8", help="of each role")
    parser.add_argument("--share", type=float, default=0.02, help="of a processor for each server")
    parser.add_argument("--rate", type=float, default=2000, help="operations a second that are offered for each server of a role")
    parser.add_argument("--mix", default="specsfs")
    parser.add_argument("--policy", choices=("mkdir-switching", "name-hashing"), default="mkdir-switching")
    parser.add_argument("--transport", choices=("tcp", "udp"), default="tcp")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--bytes-per-op", default="50KiB", help="of the file set; empty: the mix's own")
    parser.add_argument("--warm-up", type=float, default=6)
    parser.add_argument("--interval", type=float, default=10)
    options = parser.parse_args()
    rows, figures, first = [["servers", "op/s", "speed-up", "CPU us/op", *(f"{role} busiest, evenness" for role in ROLES), "machine", "wrong"]], [], None
    with bench.scratch(options) as folder:
        for servers in (int(number) for number in options.servers.split(",")):
            point = measure(options, folder, servers)
            first = first or point
            said = figures_of(servers, point, first, options)
            rows.append([servers, *row(said)])
            bench.say("  ".join(map(str, rows[-1])))
            figures += said
    bench.finish(options, "scale", figures, bench.table(rows) + f"\n{options.share:.0%} of a processor for each server; {options.policy}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
