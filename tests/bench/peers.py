#!/usr/bin/env python3
"""A SPEC-like load at several offered rates: a local ensemble through its proxy, beside NFS-Ganesha on the same machine, in the
same run, with the same durability: both keep their data in one folder's file system (tmpfs by default). Servers share
processor 0, the generator (slice-load) has processor 1. Each rate: a warm-up, then an interval that is measured, and
within it the processor time of all processes that serve, together. Every reply is checked.

    peers.py [--json] [--mix M] [--rates A,B,C] [--transport tcp|udp] [--clients N] [--bytes-per-op SIZE] [--warm-up S] [--interval S]
             [--folder DIR] [--pictures DIR]

--pictures keeps both reports and draws them: MIX-TRANSPORT.svg."""

import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import bench
from bench import targets, uml
import ganesha
import ops

BEGINS = re.compile(r"operations/s for ")


def processor_seconds(pids):
    """Of all these processes together, user and kernel."""
    ticks = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Sampler:
    """Reads what slice-load says as it goes, and for each of its intervals the servers' processor time."""

    def __init__(self, process, pids, options):
        self.process, self.pids, self.options = process, pids, options
        self.used, self.said = [], ""
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()

    def _watch(self):
        for line in self.process.stderr:
            self.said += line
            bench.say(line.rstrip())
            if BEGINS.search(line):
                threading.Thread(target=self._sample, args=(len(self.used),)).start()
                self.used.append(None)

    def _sample(self, at):
        time.sleep(self.options.warm_up)
        before = processor_seconds(self.pids)
        time.sleep(self.options.interval)
        self.used[at] = processor_seconds(self.pids) - before


def measure(options, folder, label, netns, server, export, mount_port, pids):
    """The points of one system's report, each with the servers' processor time; the report stays in `folder`."""
    report = folder / f"{label.lower()}.json"
    words = ["taskset", "-c", ops.client_cpu(), options.build / "bin/slice-load", "--server", server, "--export", export,
             "--mount-port", mount_port, "--label", label, "--json", report, "--mix", options.mix, "--rates", options.rates,
             "--transport", options.transport, "--clients", options.clients, "--warm-up", options.warm_up, "--interval",
             options.interval]
    if options.bytes_per_op:
        words += ["--bytes-per-op", options.bytes_per_op]
    with subprocess.Popen(uml.in_netns(netns, *map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as load:
        sampler = Sampler(load, pids, options)
        sampler.thread.join()
    if load.returncode != 0:
        raise SystemExit(f"slice-load against {label}: exit code {load.returncode}")
    points = json.loads(report.read_text())["points"]
    for point, used in zip(points, sampler.used):
        point["server_us"] = 1e6 * used / max(1, sum(each["completed"] for each in point["operations"].values()))
    return points


def figures_of(system, points):
    figures = []
    for point in points:
        at = f"{system}_{point['offered_per_second']:.0f}"
        latency = point["latency_ns"]
        figures += [bench.figure(f"{at}_achieved", "op/s", point["achieved_per_second"]),
                    bench.figure(f"{at}_mean", "ms", latency["mean"] / 1e6), bench.figure(f"{at}_p50", "ms", latency["p50"] / 1e6),
                    bench.figure(f"{at}_p99", "ms", latency["p99"] / 1e6),
                    bench.figure(f"{at}_cpu_total", "us/op", point["server_us"])]
    return figures


def readable(results):
    rows = [["offered/s"] + [f"{system} {what}" for system in results for what in ("op/s", "mean ms", "p99 ms", "CPU us/op")]]
    for points in zip(*results.values()):
        row = [f"{points[0]['offered_per_second']:.0f}"]
        for point in points:
            row += [f"{point['achieved_per_second']:.0f}", f"{point['latency_ns']['mean'] / 1e6:.2f}",
                    f"{point['latency_ns']['p99'] / 1e6:.2f}", f"{point['server_us']:.0f}"]
        rows.append(row)
    return bench.table(rows)


def draw(options, folder, systems):
    pictures = pathlib.Path(options.pictures)
    pictures.mkdir(parents=True, exist_ok=True)
    name = f"{pathlib.Path(options.mix).stem}-{options.transport}"
    reports = []
    for system in systems:
        reports.append(pictures / f"{name}-{system.lower()}.json")
        reports[-1].write_text((folder / f"{system.lower()}.json").read_text())
    subprocess.run([options.build / "bin/slice-load", "--plot", pictures / f"{name}.svg", "--from", ",".join(map(str, reports))],
                   check=True)


def main() -> int:
    parser = bench.arguments(__doc__)
    parser.add_argument("--mix", default="specsfs")
    parser.add_argument("--rates", default="500,1000,2000,4000,6000,8000")
    parser.add_argument("--transport", choices=("tcp", "udp"), default="tcp")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--bytes-per-op", default="100KiB", help="of the file set; empty: the mix's own")
    parser.add_argument("--warm-up", type=float, default=2)
    parser.add_argument("--interval", type=float, default=6)
    parser.add_argument("--pictures", help="folder for the reports and the picture")
    options = parser.parse_args()
    results = {}
    with bench.scratch(options) as folder:
        with bench.ensemble(options, folder) as slice_:
            ops.pin(slice_.pids())
            results["Slice"] = measure(options, folder, "Slice", slice_.netns, slice_.server, slice_.export, slice_.mount_port,
                                       slice_.pids().values())
        with ganesha.Ganesha(folder / "ganesha", cpus=ops.SERVER_CPU) as peer:
            results["Ganesha"] = measure(options, folder, "Ganesha", peer.netns, peer.address, peer.export, peer.mount_port, [peer.pid])
        if options.pictures:
            draw(options, folder, results)
    figures = [figure for system, points in results.items() for figure in figures_of(system.lower(), points)]
    bench.finish(options, "peers", figures, readable(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
