"""What the benchmarks of whole ensembles share: an ensemble of their own in a folder of their own, its processes and their
processor time, programs run as clients, figures printed."""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import typing

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/cluster"), str(ROOT / "tests/bench/peers"), str(ROOT / "tests")]
import disks  # noqa: E402
import ganesha  # noqa: E402
import kernel_server  # noqa: E402
import targets  # noqa: E402
import uml  # noqa: E402
from processors import processor_ticks  # noqa: E402

SERVER_CPU, CLIENT_CPU = "0", "1"
# What is compared. slice: a process a server; slice_one: all servers in one slice-hostd; kernel: nfsd; ganesha_dirsync: on a disk alone, an
# ext4 of its own that is mounted dirsync, so that it answers CREATE and REMOVE when they are on the disk, as Slice does; slice_all: as slice,
# its sessions cover every byte, compared only where it is asked for.
PEERS = {"ganesha": ganesha.Ganesha, "kernel": kernel_server.KernelServer, "ganesha_dirsync": ganesha.GaneshaDirsync}
SYSTEMS = {"ganesha": "Ganesha", "ganesha_dirsync": "Ganesha, dirsync", "kernel": "kernel", "slice": "Slice", "slice_one": "Slice, one process",
           "slice_all": "Slice, all covered"}
BASES = ("ganesha", "ganesha_dirsync")  # what others are held against
ASKED_FOR = {"slice_all"}
ALL = "all"  # of them that can run here
# Where all systems of a comparison keep their data, and with what the names of its figures begin.
PLACES = {"tmpfs": "", "ext4": "ext4_"}


def say(text):
    print(text, file=sys.stderr, flush=True)


def arguments(about, folder="/dev/shm"):
    """A parser with what every benchmark takes."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--folder", default=folder, help="where the ensemble keeps its data (of `ops` and `peers`: on tmpfs)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    return parser


@contextlib.contextmanager
def place(options, kind):
    """A new folder on tmpfs, or on a file system of that kind and of the run's own, removed afterwards, whatever ends the benchmark."""
    if kind == "tmpfs":
        with scratch(options) as folder:
            yield folder
    else:
        uml.exit_on_signals()
        with disks.Disk(kind, f"bench{os.getpid()}") as disk:
            yield disk.folder


@contextlib.contextmanager
def scratch(options):
    """A new folder in --folder, removed afterwards, whatever ends the benchmark."""
    uml.exit_on_signals()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="slice-bench-", dir=options.folder))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ensemble(options, folder, config=None, instance="bench", **shape):
    """A context: an ensemble of its own, after the template `config`, shaped as `ensemble.py up --help` says. `instance`: another where several are
    up at a time."""
    return targets.Slice(instance=f"{instance}{os.getpid()}", run_dir=folder, bin_dir=options.build / "bin", own=True, config=config,
                         shape={"stripe_unit": None, **shape})


class Reach(typing.NamedTuple):
    """What a client of a system, and who measures it, must know."""

    netns: str
    server: str
    export: str
    mount_port: int
    pids: dict  # of all processes that serve, by name


def reach(target):
    """Of a running targets.Slice or peer.Peer."""
    return Reach(target.netns, target.server, target.export, target.mount_port, target.pids())


def start(system, options, folder, until):
    """One of SYSTEMS, its processes on SERVER_CPU, running until `until` (an ExitStack) ends."""
    if system == "ganesha_dirsync":
        folder = until.enter_context(disks.Disk("ext4", f"dirsync{os.getpid()}", "dirsync")).folder
    if system in PEERS:
        target = PEERS[system](folder / system, cpus=SERVER_CPU)
    else:
        target = targets.Slice(f"{system.replace('_', '')}{os.getpid()}", folder, options.build / "bin", own=True,
                               config=all_covered(folder) if system == "slice_all" else None, shape={"stripe_unit": None, "one_process": system == "slice_one"})
    return pinned(reach(until.enter_context(target)))


def all_covered(folder):
    """The local ensemble's template, with sessions that cover every byte."""
    path = folder / "all-covered.toml"
    path.write_text((ROOT / "deploy/local/ensemble.toml").read_text() + '\n[network]\ncover = "all"\n')
    return path


def systems(text):
    """The argument --systems."""
    if text == ALL:
        return all_systems()
    names = text.split(",")
    if unknown := set(names) - set(SYSTEMS):
        raise argparse.ArgumentTypeError(f"no such system: {', '.join(unknown)}; there are: {', '.join(SYSTEMS)}")
    if "kernel" in names and (why := kernel_server.missing()):
        raise argparse.ArgumentTypeError(f"kernel: {why}")
    return names


def all_systems():
    """All that can run here. What cannot is said."""
    if why := kernel_server.missing():
        say(f"LEFT OUT: the kernel's own NFS server: {why}")
        return [name for name in SYSTEMS if name not in {"kernel", *ASKED_FOR}]
    return [name for name in SYSTEMS if name not in ASKED_FOR]


def add_systems(parser):
    parser.add_argument("--systems", type=systems, default=ALL, help=f"by comma, of {', '.join(SYSTEMS)} (default: {ALL} that can run here)")


def take_turns(options, kind, folder, measure):
    """The systems there are in a place, one after another, --rounds times: what measure(name, reach) said in each, by name."""
    said = {name: [] for name in systems_on(kind, options.systems)}
    with contextlib.ExitStack() as until:
        reach = {name: start(name, options, folder, until) for name in said}
        for turn in range(options.rounds):
            say(f"{kind}, round {turn + 1} of {options.rounds}")
            for name, at in reach.items():
                said[name].append(measure(name, at))
    return said


def systems_on(kind, names):
    """Those that there are in a place: nothing is on a disk by dirsync in memory."""
    return [name for name in names if name != "ganesha_dirsync" or kind != "tmpfs"]


def places(text):
    """The argument --on."""
    names = text.split(",")
    if unknown := set(names) - set(PLACES):
        raise argparse.ArgumentTypeError(f"no such place: {', '.join(unknown)}; there are: {', '.join(PLACES)}")
    return names


def add_places(parser):
    parser.add_argument("--on", type=places, default=list(PLACES), help=f"where data lies, by comma, of {', '.join(PLACES)} (default: both, one after another)")


def client_cpu():
    return CLIENT_CPU if (os.cpu_count() or 1) > 1 else SERVER_CPU


def pairs(systems_):
    """Who of them is held against whom: (system, base)."""
    return [(name, base) for base in BASES if base in systems_ for name in systems_ if name not in BASES]


def pinned(at):
    """The same, its processes on SERVER_CPU."""
    for pid in at.pids.values():
        subprocess.run(["taskset", "-a", "-c", "-p", SERVER_CPU, str(pid)], check=True, stdout=subprocess.DEVNULL)
    return at


def client(options, slice_, program, *words):
    """Runs a benchmark's program in the client's namespace; the JSON that it prints."""
    command = uml.in_netns(slice_.netns, str(options.build / "bench" / program), "--server", slice_.server, "--json",
                           *map(str, words))
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{program} failed")
    return json.loads(done.stdout)


class Clients:
    """Several ops_bench, each with a folder of its own, which begin to measure at the same time. A context: those that are left end with it."""

    def __init__(self, options, slice_, outstanding, *words):
        """outstanding: calls of each of them."""
        command = uml.in_netns(slice_.netns, str(options.build / "bench/ops_bench"), "--server", slice_.server, "--export", slice_.export,
                               "--json", "--in-step", *map(str, words))
        self.processes = [subprocess.Popen([*command, "--name", f"client-{number}", "--outstanding", str(calls)], stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, text=True) for number, calls in enumerate(outstanding)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()

    def ready(self):
        """Waits until all are."""
        for process in self.processes:
            if process.stdout.readline() != "ready\n":
                raise SystemExit("ops_bench failed")

    def tell(self, lines):
        """Each its own line, as ops_bench.cc says; an empty one begins a measurement."""
        for process, line in zip(self.processes, lines):
            try:
                process.stdin.write(f"{line}\n")
                process.stdin.flush()
            except BrokenPipeError:
                raise SystemExit("ops_bench failed") from None

    def begin(self):
        self.ready()
        self.tell([""] * len(self.processes))

    def said(self):
        """Waits until all have ended; the JSON of each."""
        said = [process.communicate()[0] for process in self.processes]
        if any(process.returncode != 0 for process in self.processes):
            raise SystemExit("ops_bench failed")
        return [json.loads(one) for one in said]


def machine_gauges():
    """Numbers that grow, of which busy() makes a share."""
    ticks, idle = processor_ticks()
    return {"ticks": ticks, "idle": idle}


def busy(grown):
    """How busy this machine's processors were, by whomever, where machine_gauges() have grown so."""
    return 1 - grown["idle"] / grown["ticks"]


def directories(slice_):
    """Names of the directory servers."""
    return sorted((name for name in slice_.process_names if name.startswith("dir")), key=lambda name: int(name[3:]))


def finish(options, name, figures, table):
    """Prints the figures as JSON, or the table for people; `./slice bench all` wants both, the table in a file."""
    if "SLICE_BENCH_TEXT" in os.environ:
        pathlib.Path(os.environ["SLICE_BENCH_TEXT"]).write_text(table + "\n")
    if options.json:
        print(json.dumps({"benchmark": name, "figures": figures}, indent=1))
    else:
        print(table)


def figure(name, unit, value):
    return {"name": name, "unit": unit, "value": value}


def table(rows):
    """Text columns; the first row is the head."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def owners(slice_, site_class="directory"):
    """The server of each site of the class, by name."""
    return json.loads(slice_.slicectl("tables", "--sites", "--json").stdout)["classes"][site_class]


def pids(slice_, *roles):
    """NAME=PID,... of the processes whose names begin so."""
    return ",".join(f"{name}={pid}" for name, pid in slice_.pids().items() if name.startswith(roles))
