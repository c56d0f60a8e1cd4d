#!/usr/bin/env python3
"""What TLS over clients' connections costs (docs/encryption.md): the same load in clear and through TLS, in turns, on one ensemble in one run, each reply
checked. Once small calls alone (GETATTR), once 64 KiB at a time of large files.

    client_tls.py [--json] [--rounds N] [--interval SECONDS] [--small RATE] [--large RATE]

Figures are medians: the time of an operation, and the processor time of the proxy, which has one end of TLS, of the servers, and of the client."""

import json
import os
import pathlib
import statistics
import subprocess
import time

import bench
from bench import targets, uml

import encryption as suite

WAYS = ("clear", "tls")
FIGURES = {"mean": "us", "p99": "us", "proxy": "us/op", "servers": "us/op", "client": "us/op"}


def processor_us(pids):
    """Spent so far, by all threads of these processes, and waited for by nobody."""
    ticks = os.sysconf("SC_CLK_TCK")
    spent = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
        spent += int(fields[11]) + int(fields[12])
    return spent * 1e6 / ticks


def measure(options, slice_, authority, folder, way, mix, rate):
    report = folder / f"{way}-{mix}.json"
    command = [options.build / "bin/slice-load", "--server", f"{slice_.server}:{slice_.port}", "--mount-port", slice_.mount_port, "--mix", mix, "--rate", rate,
               "--clients", 4, "--warm-up", 0, "--interval", options.interval, "--json", report, *(["--tls", authority] if way == "tls" else [])]
    pids = slice_.pids()
    of = {"proxy": [pids[slice_.proxy]], "servers": [pid for name, pid in pids.items() if name != slice_.proxy]}
    with subprocess.Popen(uml.in_netns(slice_.netns, *map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as load:
        said = load.stderr.readline()  # that its files are there
        before = {name: processor_us(each) for name, each in of.items()}
        time.sleep(options.interval)
        after = {name: processor_us(each) for name, each in of.items()}
        said += load.stderr.read()
    if load.returncode != 0:
        raise SystemExit(f"encryption: {way}, {mix}: {said[-1000:]}")
    point = json.loads(report.read_text())["points"][0]
    calls = point["achieved_per_second"] * point["seconds"]
    return {"mean": point["latency_ns"]["mean"] / 1e3, "p99": point["latency_ns"]["p99"] / 1e3, "client": point["processor_seconds"] * 1e6 / calls,
            **{name: (after[name] - before[name]) / calls for name in of}}


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--interval", type=float, default=5)
    parser.add_argument("--small", type=float, default=4000, help="operations a second")
    parser.add_argument("--large", type=float, default=1000, help="operations a second")
    options = parser.parse_args()
    loads = {"small": ("getattr", options.small), "large": ("sequential", options.large)}
    runs = {(way, size): [] for way in WAYS for size in loads}
    with bench.scratch(options) as folder:
        certificates = suite.Certificates(folder, "10.77.0.1")
        config = folder / "encryption.toml"
        config.write_text(certificates.into((bench.ROOT / "deploy/local/ensemble.toml").read_text()))
        with bench.ensemble(options, folder, config) as slice_:
            for turn in range(options.rounds):
                bench.say(f"round {turn + 1} of {options.rounds}")
                for way in WAYS[::1 if turn % 2 else -1]:
                    for size, (mix, rate) in loads.items():
                        runs[way, size].append(measure(options, slice_, certificates.authority(), folder, way, mix, rate))
    middle = {key: {name: statistics.median(run[name] for run in said) for name in FIGURES} for key, said in runs.items()}
    figures = [bench.figure(f"{way}_{size}_{name}", unit, middle[way, size][name]) for way, size in runs for name, unit in FIGURES.items()]
    figures += [bench.figure(f"tls_over_clear_{size}_{name}", "ratio", middle["tls", size][name] / middle["clear", size][name]) for size in loads for name in FIGURES]
    rows = [["us", *FIGURES]]
    for size in loads:
        rows += [[f"{size}, {way}", *(f"{middle[way, size][name]:.0f}" for name in FIGURES)] for way in WAYS]
        rows += [[f"{size}, tls / clear", *(f"{middle['tls', size][name] / middle['clear', size][name]:.2f}" for name in FIGURES)]]
    bench.finish(options, "encryption", figures, bench.table(rows))


if __name__ == "__main__":
    main()
