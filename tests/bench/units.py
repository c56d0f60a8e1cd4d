#!/usr/bin/env python3
"""Records of 1 MiB, written and read over TCP, by the stripe unit of their files: in how many pieces the proxy has to split them. Each unit has an
ensemble with a process a server (`many`) and one with all servers in one process (`one`), beside NFS-Ganesha, on tmpfs. Servers share processor 0,
the client has processor 1; they take turns, --rounds times, and figures are medians.

    units.py [--json] [--units SIZE,...] [--seconds N] [--rounds N] [--outstanding N]
"""

import contextlib

import bench
import ops

OPERATIONS = ("write_1m", "read_1m")


def start(options, folder, until):
    """{name: bench.Reach} of all that are compared, which run until `until` (an ExitStack) ends."""
    all_ = {"ganesha": bench.start("ganesha", options, folder, until)}
    for form in ("many", "one"):
        for unit in options.units.split(","):
            ensemble = bench.ensemble(options, folder, instance=f"{form}{unit}".lower(), stripe_unit=unit, one_process=form == "one")
            all_[f"{form}_{unit}"] = bench.pinned(bench.reach(until.enter_context(ensemble)))
    return all_


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--units", default="64KiB,256KiB,1MiB")
    parser.add_argument("--seconds", type=int, default=1, help="for each operation")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--outstanding", type=int, default=16)
    options = parser.parse_args()
    with bench.scratch(options) as folder, contextlib.ExitStack() as until:
        reach = start(options, folder, until)
        runs = {name: [] for name in reach}
        for turn in range(options.rounds):
            bench.say(f"round {turn + 1} of {options.rounds}")
            for name, at in reach.items():
                runs[name].append(ops.measure(options, at, options.seconds, "--only", ",".join(OPERATIONS)))
    rows, figures = [["form, unit", *(f"{operation} {what}" for operation in OPERATIONS for what in ("MB/s", "over Ganesha", "CPU us", "over Ganesha"))]], []
    base = {}
    for name, said in runs.items():
        row = [name.replace("_", ", ")]
        for operation in OPERATIONS:
            rate = ops.median_of(said, operation, "MB_per_second")
            cost = sum(ops.processor_us(said, operation).values())
            base.setdefault(operation, (rate, cost))  # Ganesha is the first
            ratios = rate / base[operation][0], cost / base[operation][1]
            row += [f"{rate:.0f}", f"{ratios[0]:.2f}", f"{cost:.0f}", f"{ratios[1]:.2f}"]
            figures += [bench.figure(f"{name}_{operation}", "MB/s", rate), bench.figure(f"{name}_{operation}_cpu", "us/op", cost),
                        bench.figure(f"{name}_over_ganesha_{operation}", "ratio", ratios[0]), bench.figure(f"{name}_over_ganesha_{operation}_cpu", "ratio", ratios[1])]
        rows.append(row)
    bench.finish(options, "units", figures, bench.table(rows))


if __name__ == "__main__":
    main()
