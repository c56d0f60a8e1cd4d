#!/usr/bin/env python3
"""A SPEC-like load at several offered rates: a local ensemble through its proxy, beside NFS-Ganesha on the same machine, in the
same run, and the kernel's own server where this kernel has one (nfsd): all keep their data in one file system, tmpfs and then an ext4 of the
run's own (--on), where Ganesha on one that is mounted dirsync is beside them (bench.py). Servers share processor 0, the generator (slice-load)
has processor 1. Each rate: a warm-up, then an interval that is measured, and
within it the processor time of all processes that serve, together. Every reply is checked, and a wrong one of Slice's makes the exit code 1. The systems
take turns, --rounds times; of each rate the medians of the rounds count. `Slice`: a process a server; `Slice, one process`: all in one slice-hostd.

    peers.py [--json] [--mix M] [--rates A,B,C] [--transport tcp|udp] [--clients N] [--bytes-per-op SIZE] [--warm-up S] [--interval S]
             [--rounds N] [--systems ganesha,ganesha_dirsync,kernel,slice,slice_one] [--on tmpfs,ext4] [--pictures DIR]

--pictures keeps the reports and draws them: MIX-TRANSPORT.svg, and MIX-TRANSPORT-ext4.svg."""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import threading
import time

import bench
from bench import uml

BEGINS = re.compile(r"operations/s for ")


def processor_seconds(pids):
    """Of all these processes together, user and kernel."""
    ticks = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Sampler:
    """Reads what slice-load says as it goes, and for each of its intervals the servers' processor time; and by how much the numbers
    grew that `gauges` answers, {name: number}. `begins` is called as soon as a load begins, its files being there."""

    def __init__(self, process, pids, options, gauges=dict, begins=lambda: None):
        self.process, self.pids, self.options, self.gauges, self.begins = process, pids, options, gauges, begins
        self.used, self.grown, self.samples = [], [], []
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()

    def join(self):
        self.thread.join()
        for thread in self.samples:  # complete now: the watcher makes them
            thread.join()

    def _watch(self):
        for line in self.process.stderr:
            bench.say(line.rstrip())
            if BEGINS.search(line):
                self.begins()
                self.samples.append(threading.Thread(target=self._sample, args=(len(self.used),)))
                self.used.append(0)
                self.grown.append({})
                self.samples[-1].start()

    def _sample(self, at):
        time.sleep(self.options.warm_up)
        before, gauges = processor_seconds(self.pids), self.gauges()
        time.sleep(self.options.interval)
        self.used[at] = processor_seconds(self.pids) - before
        self.grown[at] = {name: number - gauges[name] for name, number in self.gauges().items()}


def measure(options, folder, label, reach, gauges=dict, begins=lambda: None, pin=True, keep=False):
    """One system's report, each point with the servers' processor time for an operation, `server_us`, and what became of `gauges`,
    `grown`. `gauges`, `begins`: as Sampler's. `pin`: the generator has a processor of its own. `keep`: its files are not taken away,
    since the whole server will be."""
    report = folder / f"{label.lower().replace(' ', '-')}.json"
    words = [*(["taskset", "-c", bench.client_cpu()] if pin else []), options.build / "bin/slice-load", "--server", reach.server, "--export", reach.export,
             "--mount-port", reach.mount_port, "--label", label, "--json", report, "--mix", options.mix, "--rates", options.rates,
             "--transport", options.transport, "--clients", options.clients, "--warm-up", options.warm_up, "--interval",
             options.interval]
    if keep:
        words.append("--keep")
    if options.bytes_per_op:
        words += ["--bytes-per-op", options.bytes_per_op]
    with subprocess.Popen(uml.in_netns(reach.netns, *map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as load:
        sampler = Sampler(load, reach.pids.values(), options, gauges, begins)
        sampler.join()
    if load.returncode not in (0, 1) or not report.exists():  # 1: wrong replies, which the figures tell
        raise SystemExit(f"slice-load against {label}: exit code {load.returncode}")
    result = json.loads(report.read_text())
    for point, used, grown in zip(result["points"], sampler.used, sampler.grown):
        point["grown"] = grown
        point["server_us"] = 1e6 * used / max(1, sum(each["completed"] for each in point["operations"].values()))
    return result


def median_of(reports):
    """A report with, for each rate, the medians of the rounds; what has no median (operations, histograms) of the round whose mean
    latency is the median; the wrong replies of all rounds."""
    middle = []
    for points in zip(*(report["points"] for report in reports)):
        point = dict(sorted(points, key=lambda point: point["latency_ns"]["mean"])[len(points) // 2])
        quantiles = {name: statistics.median_low(each["latency_ns"][name] for each in points) for name in ("p50", "p90", "p99", "p999")}
        point["latency_ns"] = {**point["latency_ns"], **quantiles}
        for name in ("achieved_per_second", "server_us"):
            point[name] = statistics.median_low(each[name] for each in points)
        point["violations"] = sum(each["violations"] for each in points)
        middle.append(point)
    return {**reports[0], "points": middle}


def figures_of(begin, system, points):
    figures = []
    for point in points:
        at = f"{begin}{system}_{point['offered_per_second']:.0f}"
        latency = point["latency_ns"]
        figures += [bench.figure(f"{at}_achieved", "op/s", point["achieved_per_second"]),
                    bench.figure(f"{at}_mean", "ms", latency["mean"] / 1e6), bench.figure(f"{at}_p50", "ms", latency["p50"] / 1e6),
                    bench.figure(f"{at}_p99", "ms", latency["p99"] / 1e6),
                    bench.figure(f"{at}_cpu_total", "us/op", point["server_us"]),
                    bench.figure(f"{at}_violations", "replies", point["violations"])]
    return figures


def carried(point):
    return point["achieved_per_second"] >= 0.98 * point["offered_per_second"]


def ratios(begin, results):
    """Of each other system to Ganesha's, at each rate: processor time for an operation that was done; and the latency of the slowest
    hundredth, where both did what was offered: beyond that it says how long the overload lasted."""
    figures = []
    for system, base in bench.pairs(results):
        for ours, theirs in zip(results[system]["points"], results[base]["points"]):
            at = f"{begin}{system}_over_{base}_{ours['offered_per_second']:.0f}"
            figures.append(bench.figure(f"{at}_cpu", "ratio", ours["server_us"] / theirs["server_us"]))
            if carried(ours) and carried(theirs):
                figures.append(bench.figure(f"{at}_p99", "ratio", ours["latency_ns"]["p99"] / theirs["latency_ns"]["p99"]))
    return figures


def readable(results):
    rows = [["offered/s"] + [f"{bench.SYSTEMS[system]} {what}" for system in results for what in ("op/s", "mean ms", "p99 ms", "CPU us/op", "wrong")]]
    for points in zip(*(report["points"] for report in results.values())):
        row = [f"{points[0]['offered_per_second']:.0f}"]
        for point in points:
            row += [f"{point['achieved_per_second']:.0f}", f"{point['latency_ns']['mean'] / 1e6:.2f}",
                    f"{point['latency_ns']['p99'] / 1e6:.2f}", f"{point['server_us']:.0f}", str(point["violations"])]
        rows.append(row)
    return bench.table(rows)


def draw(options, kind, results):
    pictures = pathlib.Path(options.pictures)
    pictures.mkdir(parents=True, exist_ok=True)
    name = f"{pathlib.Path(options.mix).stem}-{options.transport}" + ("" if kind == "tmpfs" else f"-{kind}")
    reports = []
    for system, report in results.items():
        reports.append(pictures / f"{name}-{system}.json")
        reports[-1].write_text(json.dumps(report, indent=1) + "\n")
    subprocess.run([options.build / "bin/slice-load", "--plot", pictures / f"{name}.svg", "--from", ",".join(map(str, reports))],
                   check=True)


def main() -> int:
    parser = bench.arguments(__doc__)
    parser.add_argument("--mix", default="specsfs")
    parser.add_argument("--rates", default="1000,4000,8000,12000,24000,40000")
    parser.add_argument("--transport", choices=("tcp", "udp"), default="tcp")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--bytes-per-op", default="50KiB", help="of the file set; empty: the mix's own")
    # Longer than small files wait to be saved (smallfile::Store::kSaveAfter), so that what making the file set left to do is done.
    parser.add_argument("--warm-up", type=float, default=6)
    parser.add_argument("--interval", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    bench.add_systems(parser)
    bench.add_places(parser)
    parser.add_argument("--pictures", help="folder for the reports and the picture")
    options = parser.parse_args()
    figures, said, wrong = [], [], 0
    for kind in options.on:
        begin = bench.PLACES[kind]
        with bench.place(options, kind) as folder:
            rounds = bench.take_turns(options, kind, folder, lambda name, at: measure(options, folder, bench.SYSTEMS[name], at))
        results = {name: median_of(reports) for name, reports in rounds.items()}
        if options.pictures:
            draw(options, kind, results)
        over = sorted(ratios(begin, results), key=lambda figure: figure["name"])
        figures += [figure for system, report in results.items() for figure in figures_of(begin, system, report["points"])] + over
        said += [f"on {kind}", readable(results), *(f"{figure['name']}: {figure['value']:.2f}" for figure in over)]
        wrong += sum(point["violations"] for system, report in results.items() if system.startswith("slice") for point in report["points"])
    if wrong:
        said.append(f"{wrong} WRONG REPLIES of Slice: the figures do not count")
    bench.finish(options, "peers", figures, "\n".join(said))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
