#!/usr/bin/env python3
"""Runs suites of tests from real clients against a volume:

    run.py --target slice|ganesha|local SUITE...

slice is the ensemble that `./slice up` made (or, with --own, one brought up for this run and taken away after); ganesha
and local show that the tests themselves are right. Suites: see `run.py --list`. Exit code 1 when one failed.
Needs root.
"""

import argparse
import os
import pathlib
import signal
import sys
import time

import disks
import suites
import targets
import uml


def make_target(options, own):
    if own:
        return targets.Ensembles(options.instance, options.run_dir, options.bin, options.one_process)
    if options.target == "slice":
        return targets.Slice(options.instance, options.run_dir, options.bin, options.own, options.config, {"one_process": options.one_process})
    if options.target == "ganesha":
        return targets.Peer(options.folder)
    return targets.Local(options.folder)


def run_suites(options):
    """Names of those that failed."""
    failed = []
    for own in (False, True):
        names = [name for name in options.suite if (name in suites.OWN_ENSEMBLES) == own]
        if names:
            with make_target(options, own) as target:
                failed += [name for name in names if not run_suite(name, target, options)]
    return failed


def run_on_disk(options):
    with disks.Disk(options.disk, options.instance) as disk:
        print(f"data on {disk.kind} ({disk.device()}): servers write and sync by threads and io_uring", flush=True)
        options.run_dir = disk.folder
        failed = run_suites(options)
        flushes = disk.flushes()
        print(f"the disk was flushed {flushes} times", flush=True)
        return failed if flushes > 0 else [*failed, "syncs reach the disk"]


def run_suite(name, target, options) -> bool:
    print(f"== {name} on {target.name}", flush=True)
    start = time.monotonic()
    try:
        ok = suites.SUITES[name][0](target, options)
    except uml.UmlError as error:
        print(f"run.py: {error}")
        ok = False
    print(f"== {name} on {target.name}: {'passed' if ok else 'FAILED'} in {time.monotonic() - start:.0f} s", flush=True)
    return ok


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=("slice", "ganesha", "local"), default="slice")
    parser.add_argument("--list", action="store_true", help="show the suites")
    parser.add_argument("--instance", default="local", help="of the ensemble")
    parser.add_argument("--run-dir", help="of the ensemble (default: run/)")
    parser.add_argument("--bin", help="folder of the ensemble's programs (default: build/release/bin)")
    parser.add_argument("--config", help="template of the ensemble's configuration, with --own")
    parser.add_argument("--own", action="store_true", help="bring an ensemble up for this run")
    parser.add_argument("--one-process", action="store_true", help="with suites of their own ensembles or --own: all servers of an ensemble in one process")
    parser.add_argument("--disk", choices=("ext4",), help="with suites of their own ensembles or --own: data on a file system like this, on a loop device, "
                        "in place of --run-dir")
    parser.add_argument("--slow-disk", type=int, metavar="MS", help="each fsync of the ensemble's processes takes so long, as on a slow disk; for data in memory")
    parser.add_argument("--folder", help="what ganesha exports, or local uses (default: a new one in /var/tmp)")
    parser.add_argument("--programs", type=pathlib.Path, help="folder of the test programs (default: the newest build)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="how much longer the long suites work")
    parser.add_argument("--json", type=pathlib.Path, help="where crashes writes its table, for machines")
    parser.add_argument("--only", help="topics of conformance, steps of everyday (also of ipv6's), process of durability, configurations of storm, "
                        "beginnings of crash points, parts of names of damaged files, by comma")
    parser.add_argument("--from", dest="old_programs", type=pathlib.Path, metavar="FOLDER|last", help="rolling: programs of an older build, which the "
                        "ensemble begins with; last: those of the last version, which are built where they are not yet (last_version.py)")
    parser.add_argument("--whole", action="store_true", help="damage: every region of every file, in place of a sample")
    parser.add_argument("--limit", type=int, default=0, metavar="SECONDS", help="what still runs then hangs: where is told, all is cleaned up, and it has failed")
    parser.add_argument("suite", nargs="*")
    options = parser.parse_args()
    if options.list or not options.suite:
        for name, (_, about) in suites.SUITES.items():
            print(f"{name:14} {about}")
        return 0 if options.list else 2
    unknown = [name for name in options.suite if name not in suites.SUITES]
    if unknown:
        parser.error(f"no such suite: {', '.join(unknown)}")
    if (options.disk or options.one_process or options.slow_disk) and not (options.own or all(name in suites.OWN_ENSEMBLES for name in options.suite)):
        parser.error("--disk, --one-process and --slow-disk need an ensemble of its own: --own")
    uml.exit_on_signals()
    signal.alarm(options.limit)
    options.programs = suites.find_programs(options.programs)
    if options.slow_disk:
        os.environ |= disks.slow_syncs(options.programs, "*", options.slow_disk)
    failed = run_on_disk(options) if options.disk else run_suites(options)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
