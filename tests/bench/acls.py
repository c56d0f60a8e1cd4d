#!/usr/bin/env python3
"""What access control lists cost (docs/acls.md): a kernel client makes files, shows them with ls -l and removes them, one after another; mounted with
noacl, with lists, and with lists in a folder that has a default list. Modes take turns, --rounds times; figures are medians, in one run.

    acls.py [--json] [--files N] [--rounds N]

Beside the times: the calls of NFSACL a file, as directory servers count them."""

import json
import pathlib
import statistics

import bench
from bench import targets, uml  # noqa: F401  (sets the path for what follows)

SCRIPT = pathlib.Path(__file__).with_name("guest_acls.py")
MODES = {"noacl": ("noacl", ()), "acl": ("", ()), "list": ("", ("--list",))}
STEPS = {"create": "create", "ls_l": "ls -l", "remove": "remove"}


def acl_calls(slice_):
    return sum(count for name in slice_.servers("dir") for figure, count in slice_.metrics(name).items()
               if figure.startswith("nfs_calls_total") and ("GETACL" in figure or "SETACL" in figure))


def measure(options, slice_, mode):
    mount, words = MODES[mode]
    before = acl_calls(slice_)
    with slice_.client(["python3", str(SCRIPT), str(options.files), *words], options=mount, timeout=600) as guest:
        if guest.wait() != 0:
            raise SystemExit(f"acls: {mode}: {guest.text[-1000:]} {guest.console[-1000:]}")
    said = json.loads(guest.text.strip().splitlines()[-1])
    return {**said, "calls": (acl_calls(slice_) - before) / options.files}


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    runs = {mode: [] for mode in MODES}
    with bench.scratch(options) as folder, bench.ensemble(options, folder) as slice_:
        for turn in range(options.rounds):
            bench.say(f"round {turn + 1} of {options.rounds}")
            order = [*MODES][turn % len(MODES):] + [*MODES][:turn % len(MODES)]  # who comes first is another one each time
            for mode in order:
                runs[mode].append(measure(options, slice_, mode))
    middle = {mode: {step: statistics.median(run[step] for run in said) for step in (*STEPS, "calls")} for mode, said in runs.items()}
    figures = [bench.figure(f"{mode}_{step}", "1/file" if step == "calls" else "us/file", value) for mode, their in middle.items() for step, value in their.items()]
    figures += [bench.figure(f"{mode}_over_noacl_{step}", "ratio", middle[mode][step] / middle["noacl"][step]) for mode in ("acl", "list") for step in STEPS]
    rows = [["us a file", *STEPS.values(), "calls of NFSACL a file"]]
    rows += [[mode, *(f"{their[step]:.0f}" for step in STEPS), f"{their['calls']:.2f}"] for mode, their in middle.items()]
    rows += [[f"{mode} / noacl", *(f"{middle[mode][step] / middle['noacl'][step]:.2f}" for step in STEPS), ""] for mode in ("acl", "list")]
    bench.finish(options, "acls", figures, bench.table(rows))


if __name__ == "__main__":
    main()
