"""The suite `rolling`: every process of an ensemble is restarted, one after another, as a package's upgrade does it, while a kernel client and
slice-load work. With `--from FOLDER` the ensemble begins with the programs there, of an older build, and each process comes back as the new one: what
works between the two is what may be upgraded so. With `--from last` those are the last version's (last_version.py)."""

import contextlib
import json
import pathlib
import subprocess
import tempfile
import time

import last_version
import stalls
import uml
from load import Lasting
from targets import ensemble

ORDER = ("manager", "coord", "dir", "small", "store", "proxy")  # docs/operations.md, "Upgrading"
SECONDS_EACH = 8  # with --scale 1, until the next, about: back, whole again, and some work
# Of a client's operation. A server is away for a second; who found it away tries again within two.
LONGEST_SECONDS = 8.0
CLIENT_SECONDS = 900  # at the most
BACK_SECONDS = 30
LAST = pathlib.Path("last")  # in place of a folder


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} rolling {what}{'' if ok else f': {got}'}", flush=True)
    return ok


def version(folder):
    return subprocess.run([folder / "slice-managerd", "--version"], capture_output=True, text=True).stdout.strip()


def begun_with(options, new):
    """The folder of the programs that the ensemble begins with."""
    if options.old_programs != LAST:
        return (options.old_programs or new).resolve()
    try:
        return last_version.programs(options.programs.parent / "last-version")
    except last_version.NotHere as why:
        print(f"from this build to itself, since {why}", flush=True)
        return new


def upgraded_packages(folder, old, new):
    """A folder of programs as it is when nobody was restarted yet: the servers are the old ones, slicectl is new."""
    folder.mkdir()
    for program in [*ensemble.PROGRAMS.values(), ensemble.HOST_PROGRAM]:
        (folder / program).symlink_to(old / program)
    (folder / "slicectl").symlink_to(new / "slicectl")
    return folder


def run_all(target, folder):
    """Whether every process is a program of that folder."""
    programs = {name: pathlib.Path(f"/proc/{pid}/exe").readlink() for name, pid in target.pids().items()}
    others = {name: program for name, program in programs.items() if program != (folder / program.name).resolve()}
    return say(not others, f"every process is of {folder}", others)


def comes_back(target, name):
    """The process is restarted with the programs of target.bin_dir; the seconds until all is well again."""
    start = time.monotonic()
    target.restart(name)
    target.wait_serving(BACK_SECONDS)
    while unwell(target) and time.monotonic() < start + BACK_SECONDS:
        time.sleep(0.2)
    return time.monotonic() - start


def unwell(target):
    """What `status` finds wrong, but that processes of two versions are beside one another."""
    done = target.slicectl("--json", "status", check=False)
    return {each["name"] for each in json.loads(done.stdout)["findings"]} - {"VERSIONS_DIFFER"} if done.stdout else {"nothing"}


def restarted_one_after_another(target, new, seconds_each):
    names = [name for beginning in ORDER for name in target.servers(beginning)]
    target.use_programs(new)
    times = {}
    for name in names:
        before = time.monotonic()
        times[name] = round(comes_back(target, name), 1)
        time.sleep(max(0, before + seconds_each - time.monotonic()))
    return say(max(times.values()) < BACK_SECONDS, f"each of {len(names)} processes is back, and all is well again, after seconds: {times}", unwell(target))


def rolling(ensembles, options):
    new = pathlib.Path(ensembles.bin_dir or uml.ROOT / "build/release/bin").resolve()
    old = begun_with(options, new)
    print(f"from {old} ({version(old)}) to {new} ({version(new)})", flush=True)
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slice-rolling-", dir="/dev/shm")))
        ensembles.bin_dir = upgraded_packages(folder / "bin", old, new)
        target = stack.enter_context(ensembles.make("rolling", directories=2, storage=3))
        seconds_each = SECONDS_EACH * options.scale
        client = stack.enter_context(stalls.client(target, CLIENT_SECONDS))
        ok = run_all(target, old)
        with Lasting(target, options, folder) as load:
            ok &= restarted_one_after_another(target, new, seconds_each)
        ok &= run_all(target, new)
        ok &= say(not load.faults, f"slice-load saw nothing wrong, in {load.runs} runs", load.faults)
        ok &= client.well(say, LONGEST_SECONDS)
        found = target.slicectl("fsck", "--data", check=False)
        return ok & say(found.returncode == 0, "fsck --data is clean", found.stdout)
