#!/usr/bin/env python3
"""What one greedy client costs the others: 20 normal clients, each on a host of its own, do what they do at a fixed rate, alone and
beside a host that takes all it can, in one run: connections that ask for as many small operations as are answered, and connections that
read and write as many bytes.

    fairness.py [--json] [--clients N] [--rate R] [--rounds N] [--warm-up S] [--interval S] [--folder DIR]

The ratio is that of the slowest hundredth of the normal clients' operations (99th percentile), beside the greedy one over alone, each round its own;
told is the median of the rounds. Servers run on one processor, all clients on another, and there the normal ones never wait for the
greedy one: its machine is not theirs."""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time

import bench
from bench import uml

FIRST_NET = 110  # 10.77.N of the greedy host; the others' follow
PORT = 20490
FILES = """
[files]
sizes = {{ {size} = 1 }}
least = {count}
per_directory = 30
links_per_directory = 0
"""
GREEDY = {"operations": 'name = "operations"\n[operations]\ngetattr = 1\n' + FILES.format(size="1KiB", count=10),
          "bytes": 'name = "bytes"\n[operations]\nread = 50\nwrite = 50\n' + FILES.format(size="4MiB", count=2) +
                   '[io]\ntransfer = "64KiB"\norder = "sequential"\n'}
GREEDY_CONNECTIONS, GREEDY_OUTSTANDING, GREEDY_RATE = 64, 64, 1e6
GREEDY_HEAD_START = 5  # seconds, in which it makes its files, too
AT_ONCE = ("chrt", "--rr", "1")  # the one that is measured is woken, whoever else has the processor


class Hosts:
    """The clients' hosts, each a namespace on a link of its own; they go with the ensemble."""

    def __init__(self, slice_, count, until):
        self.slice, self.until = slice_, until
        self.greedy, *self.normal = [self.add(FIRST_NET + number) for number in range(count + 1)]

    def add(self, number):
        namespace = f"{self.slice.facts['proxy'].removesuffix('-proxy')}-host{number}"
        self.slice.add_leg(f"client{number}", namespace, number)
        return namespace, f"10.77.{number}.2"

    def start(self, host, *words):
        """A program there, ended with the rest."""
        command = uml.in_netns(host[0], "taskset", "-c", bench.client_cpu(), *map(str, words))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        self.until.callback(stop, process)
        return process


def stop(process):
    """At once, with the processes that it has started: its files go with the ensemble."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Load:
    """slice-load against the ensemble."""

    def __init__(self, options, slice_, folder):
        self.options, self.folder = options, folder
        self.program = options.build / "bin/slice-load"
        self.base = [self.program, "--server", slice_.server, "--export", slice_.export, "--mount-port", slice_.mount_port]

    def workers(self, hosts):
        for host in hosts.normal:
            hosts.start(host, *AT_ONCE, self.program, "worker", "--listen", f"{host[1]}:{PORT}")
        time.sleep(0.5)

    def normal(self, hosts):
        """All normal clients at once: their report's one point."""
        options, path = self.options, self.folder / "normal.json"
        words = ["--hosts", ",".join(f"{address}:{PORT}" for _, address in hosts.normal), "--mix", "specsfs", "--bytes-per-op", "20KiB",
                 "--rate", options.rate * len(hosts.normal), "--warm-up", options.warm_up, "--interval", options.interval, "--json", path]
        command = uml.in_netns(hosts.slice.netns, "taskset", "-c", bench.client_cpu(), *AT_ONCE, *map(str, [*self.base, *words]))
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"slice-load failed: {(done.stderr or done.stdout)[-400:]}")
        return json.loads(path.read_text())["points"][0]

    def greedy(self, hosts, name):
        """Takes what it can until it is stopped."""
        mix = self.folder / f"{name}.toml"
        mix.write_text(GREEDY[name])
        process = hosts.start(hosts.greedy, *self.base, "--mix", mix, "--rate", GREEDY_RATE, "--clients", GREEDY_CONNECTIONS,
                              "--outstanding", GREEDY_OUTSTANDING, "--warm-up", 600)
        time.sleep(GREEDY_HEAD_START)
        return process


def measure(options, folder):
    """Of each round, {name: a point}."""
    rounds = []
    with bench.ensemble(options, folder, directories=2) as slice_, contextlib.ExitStack() as until:
        bench.pinned(bench.reach(slice_))
        hosts = Hosts(slice_, options.clients, until)
        load = Load(options, slice_, folder)
        load.workers(hosts)
        for number in range(options.rounds):
            points = {"alone": load.normal(hosts)}
            for name in GREEDY:
                process = load.greedy(hosts, name)
                points[name] = load.normal(hosts)
                if process.poll() is not None:
                    raise SystemExit(f"the greedy client ({name}) ended by itself")
                stop(process)
            rounds.append(points)
            bench.say(f"round {number + 1}: " + ", ".join(f"{name} p99 {milliseconds(point, 'p99'):.1f} ms" for name, point in points.items()))
    return rounds


def milliseconds(point, which):
    return point["latency_ns"][which] / 1e6


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--rate", type=float, default=10, help="operations a second of each normal client")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=float, default=5)
    parser.add_argument("--interval", type=float, default=15)
    options = parser.parse_args()
    with bench.scratch(options) as folder:
        rounds = measure(options, folder)
    rows = [["normal clients", "operations/s", "p50, ms", "p99, ms", "p99 over alone"]]
    figures = []
    for name in rounds[0]:
        middle = {key: statistics.median(milliseconds(points[name], key) for points in rounds) for key in ("p50", "p99")}
        ratio = statistics.median(milliseconds(points[name], "p99") / milliseconds(points["alone"], "p99") for points in rounds)
        achieved = statistics.median(points[name]["achieved_per_second"] for points in rounds)
        rows.append([name if name == "alone" else f"beside greedy {name}", f"{achieved:.0f}", f"{middle['p50']:.2f}", f"{middle['p99']:.2f}", f"{ratio:.2f}"])
        figures += [bench.figure(f"{name}_p99", "ms", middle["p99"]), bench.figure(f"{name}_achieved", "1/s", achieved)]
        if name != "alone":
            figures.append(bench.figure(f"{name}_p99_over_alone", "ratio", ratio))
    bench.finish(options, "fairness", figures, bench.table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
