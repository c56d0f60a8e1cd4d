#!/usr/bin/env python3
"""Operations and MB per second of a local ensemble through its proxy over TCP, beside NFS-Ganesha on the same machine, in
the same run, and the kernel's own server where this kernel has one (nfsd): all keep their data in one file system, tmpfs and then an ext4 of
the run's own (--on). Servers share processor 0, the client has processor 1. They take turns, --rounds times; figures are medians. `slice`: a
process a server; `slice_one`: all servers in one slice-hostd; `ganesha_dirsync`, on ext4: Ganesha on one that is mounted dirsync. Ganesha
answers CREATE and REMOVE before they are on the disk, and with dirsync when they are, as Slice does.

On ext4 what writes is measured alone, for --disk-seconds each: longer than what is deferred, Slice's saves of small files and ext4's commits,
5 s each. A wrong reply ends the run.

Also `proxy_over_direct_1mib`: records of 1 MiB through the proxy's TCP path against the same records on a direct
connection to the storage node that owns them all (stripe unit 1 MiB, one storage node), the lesser of write and read.

    ops.py [--json] [--seconds N] [--rounds N] [--outstanding N] [--only OP,...] [--on tmpfs,ext4] [--disk-seconds N]
           [--systems ganesha,ganesha_dirsync,kernel,slice,slice_one]
"""

import json
import statistics
import subprocess

import bench
from bench import targets, uml


WRITES = "create_remove,write_8k,write_8k_sync,write_1m"


def measure(options, reach, seconds, *more):
    """One run of ops_bench: {operation: {per_second, MB_per_second, processor_us}}."""
    command = uml.in_netns(reach.netns, "taskset", "-c", bench.client_cpu(), str(options.build / "bench/ops_bench"), "--json",
                           "--server", reach.server, "--export", reach.export, "--seconds", str(seconds),
                           "--outstanding", str(options.outstanding),
                           "--pids", ",".join(f"{name}={pid}" for name, pid in reach.pids.items()), *more)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 + 30 * seconds)
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


def processor_us(runs, operation):
    """{process: medians of what it used for one}"""
    return {process: median_of(runs, operation, "processor_us", process) for process in runs[0][operation]["processor_us"]}


def large_units(folder):
    """The local ensemble with stripe unit and threshold of 1 MiB."""
    text = (bench.ROOT / "deploy/local/ensemble.toml").read_text()
    path = folder / "large-units.toml"
    for key in ("threshold", "stripe_unit"):
        text = targets.ensemble.set_volume_key(text, key, '"1MiB"')
    path.write_text(text)
    return path


def compare(options, kind, folder, figures):
    """The operations that were measured."""
    only = options.only or (WRITES if kind != "tmpfs" else None)
    seconds = options.seconds if kind == "tmpfs" else options.disk_seconds
    runs = bench.take_turns(options, kind, folder, lambda _, at: measure(options, at, seconds, *(["--only", only] if only else [])))
    systems, begin = list(runs), bench.PLACES[kind]
    operations = list(runs[systems[0]][0])
    for operation in operations:
        moves = runs[systems[0]][0][operation]["MB_per_second"] > 0 and operation.endswith("_1m")
        unit, key = ("MB/s", "MB_per_second") if moves else ("op/s", "per_second")
        rates, totals = {}, {}
        for name, their_runs in runs.items():
            rates[name] = median_of(their_runs, operation, key)
            figures.append(bench.figure(f"{begin}{name}_{operation}", unit, rates[name]))
            used = processor_us(their_runs, operation)
            figures += [bench.figure(f"{begin}{name}_{operation}_cpu_{process}", "us/op", us) for process, us in used.items()]
            totals[name] = sum(used.values())
            figures.append(bench.figure(f"{begin}{name}_{operation}_cpu_total", "us/op", totals[name]))
        for name, base in bench.pairs(systems):
            figures.append(bench.figure(f"{begin}{name}_over_{base}_{operation}", "ratio", rates[name] / rates[base]))
            figures.append(bench.figure(f"{begin}{name}_over_{base}_{operation}_cpu", "ratio", totals[name] / totals[base]))
    return operations


def readable(figures, kind, operations, systems):
    """Each operation of each system; ratios to Ganesha."""
    pairs, begin = bench.pairs(systems), bench.PLACES[kind]
    value = {figure["name"]: figure["value"] for figure in figures}
    rows = [[f"operation, {kind}", *(f"{bench.SYSTEMS[system]} {what}" for system in systems for what in ("op/s or MB/s", "CPU us")),
             *(f"{bench.SYSTEMS[system]} / {bench.SYSTEMS[base]} {what}" for system, base in pairs for what in ("rate", "CPU"))]]
    def cell(name, digits):
        return f"{value[begin + name]:.{digits}f}" if begin + name in value else "-"
    for operation in operations:
        rows.append([operation, *(cell(f"{system}_{operation}{end}", 1) for system in systems for end in ("", "_cpu_total")),
                     *(cell(f"{system}_over_{base}_{operation}{end}", 2) for system, base in pairs for end in ("", "_cpu"))])
    return bench.table(rows)


def proxy_over_direct(options, folder, figures):
    with bench.ensemble(options, folder, large_units(folder), storage=1) as ensemble:
        reach = bench.pinned(bench.reach(ensemble))
        storage = f"{ensemble.facts['addresses']['store1']}:2049"
        proxied, direct = [], []
        for turn in range(options.rounds):
            bench.say(f"1 MiB records, round {turn + 1} of {options.rounds}")
            both = ("--only", "write_1m,read_1m")
            proxied.append(measure(options, reach, options.seconds, *both))
            direct.append(measure(options, reach, options.seconds, *both, "--data-server", storage))
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
    parser.add_argument("--seconds", type=int, default=1, help="for each operation, on tmpfs")
    parser.add_argument("--disk-seconds", type=int, default=6, help="for each operation, on a disk")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--outstanding", type=int, default=16)
    parser.add_argument("--only", help="operations, by comma")
    bench.add_systems(parser)
    bench.add_places(parser)
    options = parser.parse_args()
    figures, tables = [], []
    for kind in options.on:
        with bench.place(options, kind) as folder:
            operations = compare(options, kind, folder, figures)
            tables.append(readable(figures, kind, operations, bench.systems_on(kind, options.systems)))
            if kind == "tmpfs" and "slice" in options.systems and not options.only:
                more = []
                proxy_over_direct(options, folder, more)
                figures += more
                tables += [f"{figure['name']}: {figure['value']:.2f} {figure['unit']}" for figure in more]
    bench.finish(options, "ops", figures, "\n".join(tables))


if __name__ == "__main__":
    main()
