#!/usr/bin/env python3
"""What a proxy on the client's own host (mount.slice, docs/client-proxy.md) costs and saves: the same calls of one client by the virtual address, and by
a slice-clientd beside it, of one ensemble with a process a server, in turns. Servers, and the ensemble's proxy, share processor 0; the client, and its
slice-clientd, processor 1. Figures are medians of --rounds; processor time of an operation: what the ensemble used, its proxy included, and what
slice-clientd used besides.

    client_proxy.py [--json] [--seconds N] [--rounds N] [--outstanding N] [--only OP,...]
"""

import contextlib
import pathlib
import subprocess
import tempfile
import time

import bench
import ops
from bench import uml

OPERATIONS = "null,getattr,lookup,create_remove,read_8k,write_8k,read_1m,write_1m"
OWN = "clientd"  # of its processes
START_SECONDS = 20


@contextlib.contextmanager
def own_proxy(options, at):
    """A slice-clientd on the client's host; its pid, and the port of 127.0.0.1 where it serves."""
    with tempfile.TemporaryDirectory(prefix="slice-client-") as folder:
        command = uml.in_netns(at.netns, "taskset", "-c", bench.client_cpu(), str(options.build / "bin/slice-clientd"), "--folder", folder, at.server)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port = pathlib.Path(folder) / f"{at.server}.port"
            end = time.monotonic() + START_SECONDS
            while not (port.exists() and listens(at, port.read_text().strip())):
                if process.poll() is not None or time.monotonic() > end:
                    raise SystemExit("client_proxy: slice-clientd does not start")
                time.sleep(0.1)
            yield process.pid, port.read_text().strip()
        finally:
            process.terminate()
            process.wait()


def listens(at, port):
    return subprocess.run(uml.in_netns(at.netns, "ss", "-Hltn", f"sport = :{port}"), capture_output=True, text=True, check=True).stdout != ""


def measure(options, at):
    """One round: {way: what ops.measure() says}."""
    only = ("--only", options.only)
    said = {"virtual": ops.measure(options, at, options.seconds, *only)}
    with own_proxy(options, at) as (pid, port):
        beside = at._replace(server="127.0.0.1", pids={**at.pids, OWN: pid})
        said["own"] = ops.measure(options, beside, options.seconds, "--port", port, "--mount-server", at.server, *only)
    return said


def figures_of(operation, said):
    """(operations a second, processor us of the ensemble, of slice-clientd)"""
    used = ops.processor_us(said, operation)
    own = used.pop(OWN, 0.0)
    return ops.median_of(said, operation, "per_second"), sum(used.values()), own


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--seconds", type=int, default=1, help="for each operation")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--outstanding", type=int, default=16)
    parser.add_argument("--only", default=OPERATIONS, help="operations, by comma")
    options = parser.parse_args()
    with bench.scratch(options) as folder, bench.ensemble(options, folder) as ensemble:
        at, rounds = bench.pinned(bench.reach(ensemble)), []
        for turn in range(options.rounds):
            bench.say(f"round {turn + 1} of {options.rounds}")
            rounds.append(measure(options, at))
    rows, figures = [["operation", "virtual address 1/s", "CPU us", "own proxy 1/s", "CPU us", "and its own", "rate", "ensemble's CPU"]], []
    for operation in rounds[0]["virtual"]:
        ways = {way: figures_of(operation, [said[way] for said in rounds]) for way in rounds[0]}
        (rate, cost, _), (own_rate, own_cost, besides) = ways["virtual"], ways["own"]
        rows.append([operation, f"{rate:.0f}", f"{cost:.1f}", f"{own_rate:.0f}", f"{own_cost:.1f}", f"{besides:.1f}", f"{own_rate / rate:.2f}", f"{own_cost / cost:.2f}"])
        figures += [bench.figure(f"own_over_virtual_{operation}", "ratio", own_rate / rate), bench.figure(f"own_over_virtual_{operation}_cpu", "ratio", own_cost / cost),
                    bench.figure(f"own_{operation}_cpu_{OWN}", "us/op", besides)]
    bench.finish(options, "client-proxy", figures, bench.table(rows))


if __name__ == "__main__":
    main()
