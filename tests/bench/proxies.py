#!/usr/bin/env python3
"""How NFS over TCP grows with proxies that share the clients: 1, 2 and 4 of them, each a host with a slow processor of its own.

    proxies.py [--json] [--proxies N,...] [--share S] [--rate R] [--mix M] [--clients N] [--warm-up S] [--interval S] [--folder DIR]

Proxies, clients and servers have network namespaces of their own, joined by two bridges, as in the suite `spread`. The cpu cgroup gives
each proxy --share of a processor and no more (shares.py); clients and servers have what is left. Four hosts of clients make the load, by
slice-load, as many for each proxy; --rate operations a second are offered for each proxy, more than it can do. Every reply is checked.

busiest: the processor time of the proxy that had most, over its share: near 1 proxies were the limit. evenness: of all proxies the mean
over the busiest; the kernel's part in sending packets on is nobody's process, and not in it. machine: how busy this machine's processors
were, by whomever: near 1 the figure is the machine's."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

import bench
import peers
import shares

import address  # of the suites, after bench: it has put their folder on the path
import spread
import uml

CLIENT_HOSTS, PORT = 4, 7000
START_SECONDS = 40


class Load:
    """Hosts with a worker of slice-load each, for as long as it lasts."""

    def __init__(self, pair, build, numbers):
        self.pair, self.program, self.numbers, self.workers = pair, build / "bin/slice-load", numbers, []

    def host(self, number):
        return f"load{number}"

    def at(self, number):
        return f"{address.CLIENTS.format(number)}:{PORT}"

    def __enter__(self):
        for number in self.numbers:
            address.run("ip", "netns", "add", self.pair.netns(self.host(number)))
            self.pair.link("clients", self.host(number), self.host(number), "eth0", address.CLIENTS.format(number))
            self.workers.append(subprocess.Popen(uml.in_netns(self.pair.netns(self.host(number)), str(self.program), "worker", "--listen",
                                                              self.at(number)), stdout=subprocess.DEVNULL))
        return self

    def __exit__(self, *_):
        for worker in self.workers:
            worker.terminate()
            worker.wait(15)
        for number in self.numbers:
            address.run("ip", "netns", "del", self.pair.netns(self.host(number)), check=False)

    def run(self, options, rate):
        report = self.pair.folder / "report.json"
        command = [self.program, "--server", address.VIRTUAL, "--mount-port", 20048, "--hosts", ",".join(map(self.at, self.numbers)), "--mix", options.mix,
                   "--rate", rate, "--clients", options.clients, "--warm-up", options.warm_up, "--interval", options.interval, "--json", report]
        done = self.pair.on("client", *command, check=False)
        if done.returncode != 0:
            raise SystemExit(f"slice-load: exit code {done.returncode}: {done.stderr[-2000:]}")
        return json.loads(report.read_text())["points"][0]


def client_numbers(pair):
    """Last numbers of addresses of hosts, as many for each proxy."""
    of_proxy = {}
    for client, owner in pair.sharing()[1].items():
        of_proxy.setdefault(owner, []).append(int(client.rsplit(".", 1)[1]))
    return [number for name in pair.proxies for number in of_proxy[name][:CLIENT_HOSTS // len(pair.proxies)]]


def measure(options, folder, count):
    names = {f"proxy{number}": 10 + number for number in range(1, count + 1)}
    with contextlib.ExitStack() as stack:
        pair = stack.enter_context(spread.Shared(f"bench{os.getpid()}", pathlib.Path(folder), options.build / "bin", names, spread.SETTINGS))
        if not pair.wait(lambda: pair.shared_by(*names), START_SECONDS, pause=0.3):
            raise SystemExit(f"the proxies do not share the clients: {pair.details()}")
        load = stack.enter_context(Load(pair, options.build, client_numbers(pair)))
        groups = stack.enter_context(shares.Shares(options.share))
        pids = {name: pair.processes[name].pid for name in names}
        groups.give(pids)
        before = {name: peers.processor_seconds([pid]) for name, pid in pids.items()}, bench.machine_gauges()
        point = load.run(options, count * options.rate)
        used = [peers.processor_seconds([pid]) - before[0][name] for name, pid in pids.items()]
        grown = {name: value - before[1][name] for name, value in bench.machine_gauges().items()}
        seconds = options.warm_up + options.interval
        return {"achieved": point["achieved_per_second"], "violations": point["violations"], "busiest": max(used) / seconds / options.share,
                "evenness": sum(used) / len(used) / max(used), "machine": bench.busy(grown), "mean": point["latency_ns"]["mean"] / 1e6,
                "sent_on": sum(pair.sent_on(name) for name in names) / (point["achieved_per_second"] * seconds)}


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--proxies", default="1,2,4")
    parser.add_argument("--share", type=float, default=0.04, help="of a processor for each proxy")
    parser.add_argument("--rate", type=float, default=40000, help="operations a second that are offered for each proxy")
    parser.add_argument("--mix", default="getattr")
    parser.add_argument("--clients", type=int, default=2, help="of each of the four hosts")
    parser.add_argument("--warm-up", type=float, default=3)
    parser.add_argument("--interval", type=float, default=8)
    options = parser.parse_args()
    rows, figures, first = [["proxies", "op/s", "speed-up", "mean ms", "busiest", "evenness", "sent on/op", "machine", "wrong"]], [], None
    for count in (int(number) for number in options.proxies.split(",")):
        with bench.scratch(options) as folder:
            point = measure(options, folder, count)
        first = first or point
        point["speedup"] = point["achieved"] / first["achieved"]
        units = {"achieved": "op/s", "mean": "ms", "busiest": "share", "machine": "share", "violations": "replies", "sent_on": "packets/op"}
        figures += [bench.figure(f"proxies_{count}_{name}", units.get(name, "ratio"), value) for name, value in point.items()]
        rows.append([count, f"{point['achieved']:.0f}", f"{point['speedup']:.2f}", f"{point['mean']:.1f}", f"{point['busiest']:.2f}",
                     f"{point['evenness']:.2f}", f"{point['sent_on']:.2f}", f"{point['machine']:.2f}", point["violations"]])
        bench.say("  ".join(map(str, rows[-1])))
    bench.finish(options, "proxies", figures, bench.table(rows) + f"\n{options.share:.0%} of a processor for each proxy; {options.mix}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
