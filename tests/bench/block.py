#!/usr/bin/env python3
"""A raw volume by slice-blockd beside the NBD servers of others (docs/raw-volumes.md): fio with its engine nbd, one connection, in turns, in one run.

    block.py [--json] [--seconds S] [--rounds N] [--systems SYSTEM,...] [--only PATTERN,...] [--depths N,...] [--pinned] [--folder DIR]

Systems: `slice` and `slice_two`, a volume of one copy and of two on three storage nodes, fio beside slice-blockd on the client's host, over its unix
socket; `link_udp` and `link_raw`, a volume of one copy over the link, fio beside slice-link on a host of its own; `nbdkit` (file) and `qemu_nbd` (raw, writeback), each on a host of its own, fio on another, over TCP; and both over a unix socket, `nbdkit_unix`
and `qemu_nbd_unix`, without any network, which none of the others can be faster than. All data is on the same tmpfs.

Patterns: random reads and writes of 4 and 128 KiB at each depth, and `flush`: 4 KiB, written and flushed, one after another; its latencies are the
flush's alone. What is written is flushed at the end of each measurement, at its cost. Figures are medians of the rounds: operations a second, the
median and the slowest hundredth of their latency, and the processor time of one operation: of all that serves (of Slice: slice-blockd, and all servers),
and of fio. --pinned: what is on the servers' hosts on one processor, what is on the client's on the other; else the kernel says who runs where."""

import argparse
import contextlib
import json
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

import bench
from bench import uml
from client_tls import processor_us
import link
import peer
from blockd import PORT, Blockd

PATTERNS = {"read_4k": ("randread", "4k"), "write_4k": ("randwrite", "4k"), "read_128k": ("randread", "128k"), "write_128k": ("randwrite", "128k"),
            "flush": ("randwrite", "4k")}
TITLES = {"read_4k": "READ 4 KiB", "write_4k": "WRITE 4 KiB", "read_128k": "READ 128 KiB", "write_128k": "WRITE 128 KiB", "flush": "WRITE 4 KiB + FLUSH"}
COPIES = {"slice": 1, "slice_two": 2}
LINKS = {"link_udp": "udp", "link_raw": "ethernet"}
OURS = [*COPIES, *LINKS]
PROGRAMS = {"nbdkit": "nbdkit", "qemu_nbd": "qemu-nbd"}
SYSTEMS = [*OURS, *PROGRAMS, *(f"{name}_unix" for name in PROGRAMS)]
LEG = 105  # of the host that has slice-blockd
LINK_LEGS = {"link_udp": 107, "link_raw": 108}  # of those that have slice-link
PATIENCE = 20  # seconds until a server answers
LATENCIES = {"p50": "50.000000", "p99": "99.000000"}


class NbdPeer(peer.Peer):
    """nbdkit or qemu-nbd with a file, on a host of its own; `unix`: on the client's, over a unix socket."""

    def __init__(self, system, folder, megabytes):
        program = system.removesuffix("_unix")
        self.TITLE, self.LETTER = PROGRAMS[program], {"nbdkit": "nk", "qemu_nbd": "qn"}[program] + ("u" if system != program else "t")
        super().__init__(folder, "/")
        self.unix, self.image, self.socket = system != program, self.folder / "image", self.folder / "nbd.sock"
        self.megabytes = megabytes

    def start(self):
        self.folder.mkdir()
        with open(self.image, "wb") as image:
            image.truncate(self.megabytes << 20)
        with open(self.folder / "log", "ab") as log:
            command = uml.in_netns(self.netns if self.unix else self.server_netns, *self.command())
            self.processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=uml.die_with_parent))
        wait_for(self.netns, self.uri(), self.processes[-1], self.folder / "log")

    def command(self):
        if self.TITLE == "nbdkit":
            return ["nbdkit", "--foreground", *(["--unix", str(self.socket)] if self.unix else ["--ipaddr", self.server, "--port", str(PORT)]), "file",
                    str(self.image)]
        return ["qemu-nbd", "--format=raw", "--cache=writeback", "--persistent", "--shared=16",
                *([f"--socket={self.socket}"] if self.unix else [f"--bind={self.server}", f"--port={PORT}"]), str(self.image)]

    def uri(self):
        return f"nbd+unix:///?socket={self.socket}" if self.unix else f"nbd://{self.server}:{PORT}/"

    def pids(self):
        return {self.TITLE: self.processes[-1].pid}


class System:
    """One that is measured: where fio runs, what it opens, and the processes that serve, by part."""

    def __init__(self, name, netns, uri, parts):
        self.name, self.netns, self.uri, self.parts = name, netns, uri, parts

    def used(self):
        return {part: processor_us(pids) for part, pids in self.parts.items()}


def wait_for(netns, uri, process, log):
    """Until an NBD server answers."""
    end = time.monotonic() + PATIENCE
    while subprocess.run(uml.in_netns(netns, "nbdinfo", "--size", uri), capture_output=True).returncode != 0:
        if process.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"block: {uri} does not answer: {log.read_text(errors='replace')[-1000:]}")
        time.sleep(0.1)


def slice_systems(options, folder, names, until):
    """Volumes of one ensemble, which one slice-blockd serves."""
    # Nothing is a proxy's here; but hosts of the local ensemble reach each other through that of the proxy, where its XDP program would have each packet
    # copied that only goes through.
    config = folder / "spinning.toml"
    config.write_text(f"spin_us = {options.spin}\n" + (bench.ROOT / "deploy/local/ensemble.toml").read_text())
    target = until.enter_context(bench.ensemble(options, folder, config, storage=3, xdp="off"))
    for name in names:
        target.slicectl("volume", "create", name, "--size", f"{options.megabytes}MiB", "--copies", str(COPIES.get(name, 1)))
    blockd = Blockd(target, LEG)
    until.callback(blockd.end, signal.SIGKILL)
    hosts = {name: blockd if name in COPIES else link_host(options, target, blockd, name, until) for name in names}
    blockd.start()
    servers, door = target.pids(), blockd.process.pid
    parts = {name: {"blockd": [door], "servers": list(servers.values())} for name in names}
    for name, host in hosts.items():
        if host is not blockd:
            host.start()
            parts[name]["link"] = [host.process.pid]
        wait_for(host.namespace, host.at(name), host.process, host.log)
    pin(options, bench.SERVER_CPU, servers.values())
    pin(options, bench.client_cpu(), [host.process.pid for host in {blockd, *hosts.values()}])
    return [System(name, host.namespace, host.at(name), parts[name]) for name, host in hosts.items()]


def link_host(options, target, blockd, name, until):
    host = link.LinkHost(target, blockd, LINK_LEGS[name])
    until.callback(host.end, signal.SIGKILL)
    host.way = LINKS[name]
    host.words = ("--spin", str(options.spin))
    where = ("--link-udp", host.ends[0]) if host.way == "udp" else ("--link-interface", host.cable[0])
    blockd.words = (*blockd.words, *where, "--link-key", str(host.key))
    return host


def peer_system(options, folder, name, until):
    server = until.enter_context(NbdPeer(name, folder / name, options.megabytes))
    # Also over a unix socket: a bound that has both processors.
    pin(options, bench.SERVER_CPU, server.pids().values())
    return System(name, server.netns, server.uri(), {"server": list(server.pids().values())})


def pin(options, processor, pids):
    for pid in pids if options.pinned else ():
        subprocess.run(["taskset", "-a", "-c", "-p", processor, str(pid)], check=True, stdout=subprocess.DEVNULL)


def fio(options, system, *words):
    """Its one job, as it reports it."""
    command = uml.in_netns(system.netns, *(["taskset", "-c", bench.client_cpu()] if options.pinned else []), "fio", "--name=block", "--ioengine=nbd",
                           f"--uri={system.uri}", f"--size={options.megabytes}M", "--output-format=json", *words)
    done = subprocess.run(command, capture_output=True, text=True, cwd=options.folder)
    if done.returncode != 0:
        raise SystemExit(f"block: fio against {system.name}: {(done.stderr or done.stdout)[-1000:]}")
    # Before its JSON it may say what it thinks of its options.
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    if job["error"] != 0:
        raise SystemExit(f"block: fio against {system.name}: error {job['error']}")
    return job


def measure(options, system, pattern, depth):
    """Of one round: operations a second, latencies in us, and us of processor time an operation by part and of fio."""
    order, size = PATTERNS[pattern]
    words = [f"--rw={order}", f"--bs={size}", f"--iodepth={depth}", "--norandommap", "--randrepeat=0", "--time_based",
             f"--runtime={int(options.seconds * 1000)}ms", "--lat_percentiles=1", "--clat_percentiles=0", "--percentile_list=50:99"]
    # What is not flushed would be the next measurement's to write.
    words += ["--fsync=1"] if pattern == "flush" else ["--end_fsync=1"] if order == "randwrite" else []
    before = system.used()
    job = fio(options, system, *words)
    after = system.used()
    moved = job["write" if order == "randwrite" else "read"]
    done = moved["total_ios"]
    latency = job["sync" if pattern == "flush" else "write" if order == "randwrite" else "read"]["lat_ns"]["percentile"]
    return {"iops": moved["iops"], **{name: latency[key] / 1e3 for name, key in LATENCIES.items()},
            **{f"cpu_{part}": (after[part] - before[part]) / done for part in before}, "cpu_serving": (sum(after.values()) - sum(before.values())) / done,
            "cpu_client": (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] * 1e3 / done}


def cases(options):
    """(pattern, depth)"""
    return [(pattern, depth) for pattern in options.only for depth in ([1] if pattern == "flush" else options.depths)]


def run(options, folder):
    """{(pattern, depth): {system: [what was measured in each round]}}"""
    said = {case: {name: [] for name in options.systems} for case in cases(options)}
    with contextlib.ExitStack() as until:
        ours = [name for name in options.systems if name in OURS]
        systems = slice_systems(options, folder, ours, until) if ours else []
        systems += [peer_system(options, folder, name, until) for name in options.systems if name not in OURS]
        for system in systems:
            # Every block is there, as on a disk that is in use.
            fio(options, system, "--rw=write", "--bs=1M", "--iodepth=4", "--end_fsync=1")
        for turn in range(options.rounds):
            bench.say(f"round {turn + 1} of {options.rounds}")
            for (pattern, depth), their in said.items():
                for system in systems:
                    their[system.name].append(measure(options, system, pattern, depth))
    return said


def unit(key):
    return "1/s" if key == "iops" else "us" if key in LATENCIES else "us/op"


def report(options, said):
    rows = [["", "depth", "system", "IOPS", "p50 us", "p99 us", "serving: CPU us", "of it blockd", "fio: CPU us"]]
    figures = []
    for (pattern, depth), their in said.items():
        middle = {name: {key: statistics.median(one[key] for one in rounds) for key in rounds[0]} for name, rounds in their.items()}
        for name, values in middle.items():
            label = f"{name}_{pattern}_{depth}"
            figures += [bench.figure(f"{label}_{key}", unit(key), value) for key, value in values.items()]
            blockd = f"{values['cpu_blockd']:.1f}" if name in OURS else ""
            rows.append([TITLES[pattern], depth, name, f"{values['iops']:.0f}", f"{values['p50']:.0f}", f"{values['p99']:.0f}", f"{values['cpu_serving']:.1f}",
                         blockd, f"{values['cpu_client']:.1f}"])
        for ours, base in ((ours, base) for ours in OURS for base in PROGRAMS if ours in middle and base in middle):
            figures.append(bench.figure(f"{ours}_over_{base}_{pattern}_{depth}", "ratio", middle[ours]["iops"] / middle[base]["iops"]))
            if middle[base]["cpu_serving"] > 0:
                figures.append(bench.figure(f"{ours}_over_{base}_{pattern}_{depth}_cpu", "ratio", middle[ours]["cpu_serving"] / middle[base]["cpu_serving"]))
    bench.finish(options, "block", figures, bench.table(rows))


def names_of(known):
    """An argument: some of them, by comma."""
    def parse(text):
        names = text.split(",")
        if unknown := set(names) - set(known):
            raise argparse.ArgumentTypeError(f"no such: {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
        return [name for name in known if name in names]
    return parse


def there(names):
    """Those whose programs are installed. Which are not is said."""
    for name, program in PROGRAMS.items():
        if not shutil.which(program) and any(one.startswith(name) for one in names):
            bench.say(f"SKIPPED: {program}, which is not installed")
    return [name for name in names if name in OURS or shutil.which(PROGRAMS[name.removesuffix("_unix")])]


def need_fio():
    if not shutil.which("fio") or not re.search(r"^\s*nbd$", subprocess.run(["fio", "--enghelp"], capture_output=True, text=True).stdout, re.M):
        raise SystemExit("block: needs fio with its engine nbd: package fio")
    if not shutil.which("nbdinfo"):
        raise SystemExit("block: needs nbdinfo: package libnbd-bin")


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--systems", type=names_of(SYSTEMS), default=SYSTEMS, help=f"by comma, of {', '.join(SYSTEMS)} (default: all that are installed)")
    parser.add_argument("--only", type=names_of(PATTERNS), default=list(PATTERNS), help=f"patterns, by comma, of {', '.join(PATTERNS)}")
    parser.add_argument("--depths", type=lambda text: [int(word) for word in text.split(",")], default=[1, 8, 32], help="requests under way, by comma")
    parser.add_argument("--megabytes", type=int, default=256, help="of each volume")
    parser.add_argument("--spin", type=int, default=0, help="microseconds that Slice's processes look for work before they sleep")
    parser.add_argument("--pinned", action="store_true", help="each host's processes on a processor of their own")
    options = parser.parse_args()
    need_fio()
    options.systems = there(options.systems)
    with bench.scratch(options) as folder:
        said = run(options, folder)
    report(options, said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
