#!/usr/bin/env python3
"""Operations and MB per second of a local ensemble through its proxy over TCP, beside NFS-Ganesha on the same machine, in
the same run, with the same durability: all keep their data in one folder's file system (tmpfs by default). Servers
share processor 0, the client has processor 1. They take turns, --rounds times; figures are medians. `slice`: a process a
server; `slice_one`: all servers in one slice-hostd.

Also `proxy_over_direct_1mib`: records of 1 MiB through the proxy's TCP path against the same records on a direct
connection to the storage node that owns them all (stripe unit 1 MiB, one storage node), the lesser of write and read.

    ops.py [--json] [--seconds N] [--rounds N] [--outstanding N] [--only OP,...] [--folder DIR] [--systems ganesha,slice,slice_one]
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/cluster"), str(ROOT / "tests/bench/peers")]
import ganesha  # noqa: E402
import targets  # noqa: E402
import uml  # noqa: E402

SERVER_CPU, CLIENT_CPU = "0", "1"
SYSTEMS = ("ganesha", "slice", "slice_one")


def say(text):
    print(text, file=sys.stderr, flush=True)


def client_cpu():
    return CLIENT_CPU if (os.cpu_count() or 1) > 1 else SERVER_CPU


def pin(pids):
    for pid in pids.values():
        subprocess.run(["taskset", "-a", "-c", "-p", SERVER_CPU, str(pid)], check=True, stdout=subprocess.DEVNULL)


def measure(options, netns, server, export, pids, *more):
    """One run of ops_bench: {operation: {per_second, MB_per_second, processor_us}}."""
    command = uml.in_netns(netns, "taskset", "-c", client_cpu(), str(options.build / "bench/ops_bench"), "--json",
                           "--server", server, "--export", export, "--seconds", str(options.seconds),
                           "--outstanding", str(options.outstanding),
                           "--pids", ",".join(f"{name}={pid}" for name, pid in pids.items()), *more)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 + 30 * options.seconds)
    if done.returncode != 0:
        raise SystemExit(f"ops: {done.stderr.strip()}")
    return json.loads(done.stdout)


def median_of(runs, *path):
    values = []
    for run in runs:
        for key in path:
            run = run[key]
        values.append(run)
    return statistics.median(values)


def one_node_template(folder):
    """The local ensemble with one storage node, and stripe unit and threshold of 1 MiB."""
    text = (ROOT / "deploy/local/ensemble.toml").read_text()
    head, *servers = text.split("[[server]]")
    servers = [server for server in servers if not re.search(r'name = "store[2-9]"', server)]
    head = re.sub(r'^(threshold|stripe_unit) = .*$', r'\1 = "1MiB"', head, flags=re.MULTILINE)
    path = folder / "one-node.toml"
    path.write_text("[[server]]".join([head, *servers]))
    return path


def slice_ensemble(options, folder, instance, config=None, **shape):
    return targets.Slice(instance=f"{instance}{os.getpid()}", run_dir=folder, bin_dir=options.build / "bin", own=True,
                         config=config, shape=shape)


def start(name, options, folder, until):
    """One of SYSTEMS, running until `until` (an ExitStack) ends: what measure() is told of it."""
    if name == "ganesha":
        peer = until.enter_context(ganesha.Ganesha(folder / "ganesha", cpus=SERVER_CPU))
        return peer.netns, peer.address, peer.export, {"ganesha": peer.pid}
    ensemble = until.enter_context(slice_ensemble(options, folder, name.replace("_", ""), one_process=name == "slice_one"))
    pids = ensemble.pids()
    pin(pids)
    return ensemble.netns, ensemble.server, ensemble.export, pids


def compare(options, folder, figures):
    only = ["--only", options.only] if options.only else []
    runs = {name: [] for name in options.systems}
    with contextlib.ExitStack() as until:
        reach = {name: start(name, options, folder, until) for name in options.systems}
        for turn in range(options.rounds):
            say(f"round {turn + 1} of {options.rounds}")
            for name in options.systems:
                runs[name].append(measure(options, *reach[name], *only))
    for operation in runs[options.systems[0]][0]:
        moves = runs[options.systems[0]][0][operation]["MB_per_second"] > 0 and operation.endswith("_1m")
        unit, key = ("MB/s", "MB_per_second") if moves else ("op/s", "per_second")
        rates, totals = {}, {}
        for name, their_runs in runs.items():
            rates[name] = median_of(their_runs, operation, key)
            figures.append({"name": f"{name}_{operation}", "unit": unit, "value": rates[name]})
            total = 0.0
            for process in their_runs[0][operation]["processor_us"]:
                used = median_of(their_runs, operation, "processor_us", process)
                total += used
                figures.append({"name": f"{name}_{operation}_cpu_{process}", "unit": "us/op", "value": used})
            figures.append({"name": f"{name}_{operation}_cpu_total", "unit": "us/op", "value": total})
            totals[name] = total
        for name in rates.keys() - {"ganesha"} if "ganesha" in rates else ():
            figures.append({"name": f"{name}_over_ganesha_{operation}", "unit": "ratio", "value": rates[name] / rates["ganesha"]})
            figures.append({"name": f"{name}_over_ganesha_{operation}_cpu", "unit": "ratio", "value": totals[name] / totals["ganesha"]})


def proxy_over_direct(options, folder, figures):
    with slice_ensemble(options, folder, "direct", one_node_template(folder)) as ensemble:
        pids = ensemble.pids()
        pin(pids)
        storage = f"{ensemble.facts['addresses']['store1']}:2049"
        proxied, direct = [], []
        for turn in range(options.rounds):
            say(f"1 MiB records, round {turn + 1} of {options.rounds}")
            reach = (options, ensemble.netns, ensemble.server, ensemble.export, pids, "--only", "write_1m,read_1m")
            proxied.append(measure(*reach))
            direct.append(measure(*reach, "--data-server", storage))
    ratios = []
    for operation in ("write_1m", "read_1m"):
        through, straight = (median_of(runs, operation, "MB_per_second") for runs in (proxied, direct))
        figures.append({"name": f"proxy_{operation}", "unit": "MB/s", "value": through})
        figures.append({"name": f"direct_{operation}", "unit": "MB/s", "value": straight})
        figures.append({"name": f"proxy_over_direct_{operation}", "unit": "ratio", "value": through / straight})
        ratios.append(through / straight)
    figures.append({"name": "proxy_over_direct_1mib", "unit": "ratio", "value": min(ratios)})


def print_readable(figures):
    width = max(len(figure["name"]) for figure in figures)
    for figure in figures:
        print(f"{figure['name']:{width}} {figure['value']:12.2f} {figure['unit']}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=int, default=1, help="for each operation")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--outstanding", type=int, default=16)
    parser.add_argument("--only", help="operations, by comma")
    parser.add_argument("--folder", default="/dev/shm", help="where both keep their data")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--systems", type=lambda text: text.split(","), default=list(SYSTEMS), help="by comma (default: all)")
    options = parser.parse_args()
    if unknown := set(options.systems) - set(SYSTEMS):
        parser.error(f"no such system: {', '.join(unknown)}")
    uml.exit_on_signals()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="slice-ops-", dir=options.folder))
    figures = []
    try:
        compare(options, folder, figures)
        if "slice" in options.systems and not options.only:
            proxy_over_direct(options, folder, figures)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        print(json.dumps({"benchmark": "ops", "figures": figures}, indent=1))
    else:
        print_readable(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
