#!/usr/bin/env python3
"""Operations and MB per second of a local ensemble through its proxy over TCP, beside NFS-Ganesha on the same machine, in
the same run, with the same durability, and the kernel's own server where this kernel has one (nfsd): all keep their data in one folder's file system (tmpfs by default). Servers
share processor 0, the client has processor 1. They take turns, --rounds times; figures are medians. `slice`: a process a
server; `slice_one`: all servers in one slice-hostd.

Also `proxy_over_direct_1mib`: records of 1 MiB through the proxy's TCP path against the same records on a direct
connection to the storage node that owns them all (stripe unit 1 MiB, one storage node), the lesser of write and read.

    ops.py [--json] [--seconds N] [--rounds N] [--outstanding N] [--only OP,...] [--folder DIR] [--systems ganesha,kernel,slice,slice_one]
"""

import contextlib
import json
import statistics
import subprocess

import bench
from bench import targets, uml


def measure(options, reach, *more):
    """One run of ops_bench: {operation: {per_second, MB_per_second, processor_us}}."""
    command = uml.in_netns(reach.netns, "taskset", "-c", bench.client_cpu(), str(options.build / "bench/ops_bench"), "--json",
                           "--server", reach.server, "--export", reach.export, "--seconds", str(options.seconds),
                           "--outstanding", str(options.outstanding),
                           "--pids", ",".join(f"{name}={pid}" for name, pid in reach.pids.items()), *more)
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


def large_units(folder):
    """The local ensemble with stripe unit and threshold of 1 MiB."""
    text = (bench.ROOT / "deploy/local/ensemble.toml").read_text()
    path = folder / "large-units.toml"
    for key in ("threshold", "stripe_unit"):
        text = targets.ensemble.set_volume_key(text, key, '"1MiB"')
    path.write_text(text)
    return path


def compare(options, folder, figures):
    only = ["--only", options.only] if options.only else []
    runs = {name: [] for name in options.systems}
    with contextlib.ExitStack() as until:
        reach = {name: bench.start(name, options, folder, until) for name in options.systems}
        for turn in range(options.rounds):
            bench.say(f"round {turn + 1} of {options.rounds}")
            for name in options.systems:
                runs[name].append(measure(options, reach[name], *only))
    for operation in runs[options.systems[0]][0]:
        moves = runs[options.systems[0]][0][operation]["MB_per_second"] > 0 and operation.endswith("_1m")
        unit, key = ("MB/s", "MB_per_second") if moves else ("op/s", "per_second")
        rates, totals = {}, {}
        for name, their_runs in runs.items():
            rates[name] = median_of(their_runs, operation, key)
            figures.append(bench.figure(f"{name}_{operation}", unit, rates[name]))
            total = 0.0
            for process in their_runs[0][operation]["processor_us"]:
                used = median_of(their_runs, operation, "processor_us", process)
                total += used
                figures.append(bench.figure(f"{name}_{operation}_cpu_{process}", "us/op", used))
            figures.append(bench.figure(f"{name}_{operation}_cpu_total", "us/op", total))
            totals[name] = total
        for name in bench.against_ganesha(rates):
            figures.append(bench.figure(f"{name}_over_ganesha_{operation}", "ratio", rates[name] / rates["ganesha"]))
            figures.append(bench.figure(f"{name}_over_ganesha_{operation}_cpu", "ratio", totals[name] / totals["ganesha"]))
    return list(runs[options.systems[0]][0])


def readable(figures, operations, systems):
    """Each operation of each system; ratios to Ganesha."""
    compared = bench.against_ganesha(systems)
    value = {figure["name"]: figure["value"] for figure in figures}
    rows = [["operation", *(f"{bench.SYSTEMS[system]} {what}" for system in systems for what in ("op/s or MB/s", "CPU us")),
             *(f"{bench.SYSTEMS[system]} / Ganesha {what}" for system in compared for what in ("rate", "CPU"))]]
    def cell(name, digits):
        return f"{value[name]:.{digits}f}" if name in value else "-"
    for operation in operations:
        rows.append([operation, *(cell(f"{system}_{operation}{end}", 1) for system in systems for end in ("", "_cpu_total")),
                     *(cell(f"{system}_over_ganesha_{operation}{end}", 2) for system in compared for end in ("", "_cpu"))])
    rest = [figure for figure in figures if "direct" in figure["name"] or figure["name"].startswith("proxy_")]
    return bench.table(rows) + "".join(f"\n{figure['name']}: {figure['value']:.2f} {figure['unit']}" for figure in rest)


def proxy_over_direct(options, folder, figures):
    with bench.ensemble(options, folder, large_units(folder), storage=1) as ensemble:
        reach = bench.pinned(bench.reach(ensemble))
        storage = f"{ensemble.facts['addresses']['store1']}:2049"
        proxied, direct = [], []
        for turn in range(options.rounds):
            bench.say(f"1 MiB records, round {turn + 1} of {options.rounds}")
            both = ("--only", "write_1m,read_1m")
            proxied.append(measure(options, reach, *both))
            direct.append(measure(options, reach, *both, "--data-server", storage))
    ratios = []
    for operation in ("write_1m", "read_1m"):
        through, straight = (median_of(runs, operation, "MB_per_second") for runs in (proxied, direct))
        figures.append(bench.figure(f"proxy_{operation}", "MB/s", through))
        figures.append(bench.figure(f"direct_{operation}", "MB/s", straight))
        figures.append(bench.figure(f"proxy_over_direct_{operation}", "ratio", through / straight))
        ratios.append(through / straight)
    figures.append(bench.figure("proxy_over_direct_1mib", "ratio", min(ratios)))


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--seconds", type=int, default=1, help="for each operation")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--outstanding", type=int, default=16)
    parser.add_argument("--only", help="operations, by comma")
    bench.add_systems(parser)
    options = parser.parse_args()
    figures = []
    with bench.scratch(options) as folder:
        operations = compare(options, folder, figures)
        if "slice" in options.systems and not options.only:
            proxy_over_direct(options, folder, figures)
    bench.finish(options, "ops", figures, readable(figures, operations, options.systems))


if __name__ == "__main__":
    main()
