#!/usr/bin/env python3
"""The paper's Figures 5 and 6: a SPECsfs97-like load (slice-load's `specsfs`) on Slice with 1, 2, 4 and 8 nodes whose disks have emulated
arms. Figure 5 is the throughput that is delivered over what is offered, Figure 6 the latency over the throughput that is delivered.

    figure5.py [--figure 5|6] [--json] [--nodes N,...] [--arms A,B] [--access-us N] [--transfer SIZE] [--memory SIZE] [--cache SIZE]
               [--per-node RATE] [--loads F,...] [--bytes-per-op SIZE] [--transport tcp|udp] [--clients N] [--warm-up S] [--interval S]
               [--ganesha] [--pictures DIR] [--from DIR] [--folder DIR]

A node is a storage node and a small-file server, each with a disk of its own: --arms are the small-file server's and the storage node's.
One directory server serves all; its cells wait for no arm. One node stands for the paper's single NFS server with as many arms. Offered are
--loads times the number of nodes times --per-node operations a second. `arms` is how busy the small-file servers' arms were, and `machine`
how busy this machine's processors, whoever used them: where `machine` comes near 1 before `arms` does, figures are the machine's.

--ganesha: also NFS-Ganesha, whose data lies in memory and waits for no arm, under the loads of the largest Slice: no peer, but what this
machine's processors can do. --pictures keeps each system's report, and draws both figures, specsfs.svg; --from DIR takes the reports that
an earlier run kept instead of measuring."""

import functools
import json
import pathlib
import subprocess
import sys

import bench
import ganesha
import peers

PICTURE, BUSY = "specsfs.svg", "slice_emulated_disk_busy_seconds_total"


def numbers(text, kind=int):
    return [kind(one) for one in text.split(",")]


def template(options, folder, nodes):
    """The local ensemble with that many nodes, and their arms."""
    head, *servers = (bench.ROOT / "deploy/local/ensemble.toml").read_text().split("\n[[server]]\n")
    servers = [server for server in servers if 'role = "small-file"' not in server and 'role = "storage"' not in server]
    small, storage = options.arms
    for number in range(1, nodes + 1):
        for name, role, leg, arms in (("small", "small-file", 60, small), ("store", "storage", 40, storage)):
            servers.append(f'name = "{name}{number}"\nrole = "{role}"\naddress = "10.77.{leg + number}.2"\n'
                           f'data = "@RUN@/data/{name}{number}"\ncache = "{options.cache}"\n'
                           f'emulated_disk = {{ arms = {arms}, access_us = {options.access_us}, transfer = "{options.transfer}", '
                           f'memory = "{options.memory}" }}\n')
    path = folder / f"{nodes}-nodes.toml"
    path.write_text("\n[[server]]\n".join([head, *servers]))
    return path


def gauges(slice_):
    """Seconds that arms were busy, of each role; processors' ticks."""
    said = json.loads(slice_.slicectl("--json", "metrics", "--match", BUSY).stdout)["processes"]
    busy = {role: sum(each["metrics"][BUSY] for each in said if each["process"].startswith(role)) for role in ("small", "store")}
    return {**busy, **bench.machine_gauges()}


def measure_slice(options, folder, nodes):
    options.rates = ",".join(f"{load * nodes * options.per_node:g}" for load in options.loads)
    label = f"Slice {nodes}"
    bench.say(f"{label}: {options.rates} operations/s")
    with bench.ensemble(options, folder, template(options, folder, nodes)) as slice_:
        report = peers.measure(options, folder, label, bench.reach(slice_), gauges=functools.partial(gauges, slice_), pin=False, keep=True)
    for point in report["points"]:
        grown = point.pop("grown")
        for role, arms in zip(("small", "store"), options.arms):
            point[f"{role}_arms"] = grown[role] / (nodes * arms * options.interval)
        point["machine"] = bench.busy(grown)
    return report


def measure_ganesha(options, folder):
    with ganesha.Ganesha(folder / "ganesha") as peer:
        return peers.measure(options, folder, "Ganesha without arms", bench.reach(peer), pin=False, keep=True)


def measure(options):
    reports = []
    with bench.scratch(options) as folder:
        for nodes in options.nodes:
            reports.append(measure_slice(options, folder, nodes))
        if options.ganesha:
            reports.append(measure_ganesha(options, folder))
    return reports


def kept(folder):
    paths = sorted(pathlib.Path(folder).glob("specsfs-*.json"))
    if not paths:
        raise SystemExit(f"figure5: no specsfs-*.json in {folder}: make them by --pictures {folder}")
    return [json.loads(path.read_text()) for path in paths]


def draw(options, reports):
    pictures = pathlib.Path(options.pictures)
    pictures.mkdir(parents=True, exist_ok=True)
    for old in pictures.glob("specsfs-*.json"):
        old.unlink()
    paths = [pictures / f"specsfs-{number}.json" for number in range(len(reports))]
    for path, report in zip(paths, reports):
        path.write_text(json.dumps(report, indent=1) + "\n")
    subprocess.run([options.build / "bin/slice-load", "--plot", pictures / PICTURE, "--from", ",".join(map(str, paths))], check=True)


def figures_of(reports):
    figures = []
    for report in reports:
        name = report["system"].lower().replace(" ", "_")
        for point in report["points"]:
            at, latency = f"{name}_{point['offered_per_second']:.0f}", point["latency_ns"]
            figures += [bench.figure(f"{at}_delivered", "op/s", point["achieved_per_second"])]
            figures += [bench.figure(f"{at}_{each}", "ms", latency[each] / 1e6) for each in ("mean", "p50", "p99")]
            figures += [bench.figure(f"{at}_{each}", "share", point[each]) for each in ("small_arms", "store_arms", "machine") if each in point]
            figures += [bench.figure(f"{at}_cpu_total", "us/op", point["server_us"]),
                        bench.figure(f"{at}_violations", "replies", point["violations"])]
        figures.append(bench.figure(f"{name}_most_delivered", "op/s", most(report)))
    first = most(reports[0])
    figures += [bench.figure(f"{report['system'].lower().replace(' ', '_')}_over_{reports[0]['system'].lower().replace(' ', '_')}", "ratio",
                             most(report) / first) for report in reports[1:] if first]
    return figures


def most(report):
    return max(point["achieved_per_second"] for point in report["points"])


def readable(reports, figure):
    """Figure 5 in the order of what was offered, Figure 6 in that of what was delivered."""
    first, then = (("offered/s", "offered_per_second"), ("delivered/s", "achieved_per_second"))[::1 if figure == 5 else -1]
    rows = [["system", first[0], then[0], "mean ms", "p50 ms", "p99 ms", "arms", "machine", "CPU us/op", "wrong"]]
    for report in reports:
        for point in sorted(report["points"], key=lambda point: point[first[1]]):
            share = [f"{point[each]:.2f}" if each in point else "-" for each in ("small_arms", "machine")]
            rows.append([report["system"], *(f"{point[each[1]]:.0f}" for each in (first, then)),
                         *(f"{point['latency_ns'][each] / 1e6:.1f}" for each in ("mean", "p50", "p99")), *share, f"{point['server_us']:.0f}",
                         point["violations"]])
    lines = [f"{report['system']}: at most {most(report):.0f} operations/s, {most(report) / most(reports[0]):.2f} of {reports[0]['system']}"
             for report in reports]
    return "\n".join([bench.table(rows), "", *lines])


def arguments():
    parser = bench.arguments(__doc__)
    parser.add_argument("--figure", type=int, choices=(5, 6), default=5)
    parser.add_argument("--nodes", type=numbers, default=[1, 2, 4, 8])
    parser.add_argument("--arms", type=numbers, default=[2, 1], help="of a node: the small-file server's, the storage node's")
    parser.add_argument("--access-us", type=int, default=12000, help="seek and rotation: a disk of 7,200 turns a minute")
    parser.add_argument("--transfer", default="32MiB", help="a second, of one arm")
    parser.add_argument("--memory", default="1MiB", help="of each emulated disk")
    parser.add_argument("--cache", default="1MiB", help="of each small-file server and storage node")
    parser.add_argument("--per-node", type=float, default=800, help="operations/s of a node at load 1")
    parser.add_argument("--loads", type=functools.partial(numbers, kind=float), default=[0.25, 0.5, 0.75, 1, 1.25, 1.5])
    parser.add_argument("--bytes-per-op", default="128KiB", help="of the file set, for each operation/s")
    parser.add_argument("--transport", choices=("tcp", "udp"), default="tcp")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--warm-up", type=float, default=2)
    parser.add_argument("--interval", type=float, default=8)
    parser.add_argument("--ganesha", action="store_true")
    parser.add_argument("--pictures", help="folder for the reports and the picture")
    parser.add_argument("--from", dest="kept", help="folder of reports that --pictures made")
    options = parser.parse_args()
    if len(options.arms) != 2:
        parser.error("--arms: two numbers are expected, as 6,2")
    options.mix = "specsfs"
    return options


def main():
    options = arguments()
    reports = kept(options.kept) if options.kept else measure(options)
    if options.pictures:
        draw(options, reports)
    bench.finish(options, f"figure{options.figure}", figures_of(reports), readable(reports, options.figure))
    return 0


if __name__ == "__main__":
    sys.exit(main())
