#!/usr/bin/env python3
"""A raw volume by ATA over Ethernet beside vblade (docs/raw-volumes.md): fio in a guest, on the disks of its kernel's driver `aoe`, in turns, in one run.

    aoe.py [--json] [--seconds S] [--rounds N] [--only PATTERN,...] [--depths N,...] [--folder DIR]

Systems: `slice`, a volume of one copy on three storage nodes, by slice-blockd on the guest's host; `vblade` there, with a file; and `vblade_sync`, which
opens it with O_SYNC, as it has to where what it answers is to be durable: slice-blockd does so always. All data is on the same tmpfs, where O_SYNC costs
nothing; give --folder on a disk to see what it costs. The network is the guest's tap, with an MTU of 1500, so that a frame has 1 KiB.

Patterns: random reads and writes of 4 and 128 KiB at each depth. Figures are medians of the rounds: operations a second, the median and the slowest
hundredth of their latency, and the processor time of one operation of all that serves (of Slice: slice-blockd, and all servers)."""

import contextlib
import json
import shutil
import signal
import statistics
import subprocess
import sys

import bench
import block
from bench import uml
from blockd import Blockd
from client_tls import processor_us
from reload import GUEST, Steps

PATTERNS = {name: pattern for name, pattern in block.PATTERNS.items() if name != "flush"}
SHELVES = {"slice": 7, "vblade": 8, "vblade_sync": 9}
LEG = 105  # of the host that has slice-blockd
GUEST_SECONDS = 3000
FOUND = "disk={disk}; tries=0; until test -b $disk && test $(blockdev --getsize64 $disk) -gt 0; do tries=$((tries + 1)); test $tries -lt 400 || break; sleep 0.1; done; test -b $disk"


def disk(system):
    return f"/dev/etherd/e{SHELVES[system]}.1"


def vblade(options, system, folder, netns, interface, until):
    """Its process, with a file, which serves the interface."""
    image = folder / f"{system}.image"
    with open(image, "wb") as made:
        made.truncate(options.megabytes << 20)
    with open(folder / f"{system}.log", "ab") as log:
        command = ["vblade", *(["-s"] if system == "vblade_sync" else []), str(SHELVES[system]), "1", interface, str(image)]
        process = subprocess.Popen(uml.in_netns(netns, *command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=uml.die_with_parent)
    until.callback(process.wait)
    until.callback(process.kill)
    return process.pid


class Scene:
    """A guest, and who serves it, by system: the processes. All of it ends with `until`."""

    def __init__(self, options, folder, until):
        target = until.enter_context(bench.ensemble(options, folder, storage=3, xdp="off"))
        target.slicectl("volume", "create", "slice", "--size", f"{options.megabytes}MiB", "--copies", "1")
        self.blockd = Blockd(target, LEG)
        self.guest = until.enter_context(uml.Guest(self.blockd.namespace, target.server, ["sh", "-c", GUEST], mount=False, timeout=GUEST_SECONDS,
                                                   modules=("aoe",)))
        self.steps = Steps(self.guest)
        client = self.run("cat /sys/class/net/vec0/address")
        until.callback(self.blockd.end, signal.SIGKILL)
        self.blockd.words = ("--aoe", f"{SHELVES['slice']}.1=slice", "--aoe-interface", self.guest.tap, "--aoe-client", client)
        self.blockd.start()
        self.pids = {"slice": [self.blockd.process.pid, *target.pids().values()]}
        for system in options.systems:
            if system != "slice":
                self.pids[system] = [vblade(options, system, folder, self.blockd.namespace, self.guest.tap, until)]
        for system in options.systems:
            self.run(FOUND.format(disk=disk(system)))

    def run(self, script):
        code, said = self.steps.run(script)
        if code != 0:
            raise SystemExit(f"aoe: in the guest: {said[-1000:]}")
        return said.strip()

    def fio(self, options, system, *words):
        """Its one job, as it reports it."""
        said = self.run(" ".join(["fio", "--name=aoe", f"--filename={disk(system)}", "--ioengine=libaio", "--direct=1", f"--size={options.megabytes}M",
                                  "--output-format=json", *words]))
        job = json.loads(said[said.index("{"):said.rindex("}") + 1])["jobs"][0]
        if job["error"] != 0:
            raise SystemExit(f"aoe: fio on {system}: error {job['error']}")
        return job


def measure(options, scene, system, pattern, depth):
    order, size = PATTERNS[pattern]
    before = processor_us(scene.pids[system])
    job = scene.fio(options, system, f"--rw={order}", f"--bs={size}", f"--iodepth={depth}", "--norandommap", "--randrepeat=0", "--time_based",
                    f"--runtime={int(options.seconds * 1000)}ms", "--lat_percentiles=1", "--clat_percentiles=0", "--percentile_list=50:99")
    used = processor_us(scene.pids[system]) - before
    moved = job["write" if order == "randwrite" else "read"]
    latency = moved["lat_ns"]["percentile"]
    return {"iops": moved["iops"], **{name: latency[key] / 1e3 for name, key in block.LATENCIES.items()}, "cpu_serving": used / moved["total_ios"]}


def run(options, folder):
    """{(pattern, depth): {system: [what was measured in each round]}}"""
    said = {(pattern, depth): {name: [] for name in options.systems} for pattern in options.only for depth in options.depths}
    with contextlib.ExitStack() as until:
        scene = Scene(options, folder, until)
        for system in options.systems:
            scene.fio(options, system, "--rw=write", "--bs=1M", "--iodepth=2")  # every block is there
        for turn in range(options.rounds):
            bench.say(f"round {turn + 1} of {options.rounds}")
            for (pattern, depth), their in said.items():
                for system in options.systems:
                    their[system].append(measure(options, scene, system, pattern, depth))
        (scene.guest.folder / "end").touch()
    return said


def report(options, said):
    rows = [["", "depth", "system", "IOPS", "p50 us", "p99 us", "serving: CPU us"]]
    figures = []
    for (pattern, depth), their in said.items():
        middle = {name: {key: statistics.median(one[key] for one in rounds) for key in rounds[0]} for name, rounds in their.items()}
        for name, values in middle.items():
            figures += [bench.figure(f"{name}_{pattern}_{depth}_{key}", block.unit(key), value) for key, value in values.items()]
            rows.append([block.TITLES[pattern], depth, name, *(f"{values[key]:.0f}" for key in ("iops", "p50", "p99")), f"{values['cpu_serving']:.1f}"])
        for base in middle:
            if base != "slice" and "slice" in middle:
                figures.append(bench.figure(f"slice_over_{base}_{pattern}_{depth}", "ratio", middle["slice"]["iops"] / middle[base]["iops"]))
    bench.finish(options, "aoe", figures, bench.table(rows))


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=1, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=block.names_of(PATTERNS), default=list(PATTERNS), help=f"patterns, by comma, of {', '.join(PATTERNS)}")
    parser.add_argument("--depths", type=lambda text: [int(word) for word in text.split(",")], default=[1, 8, 32], help="requests under way, by comma")
    parser.add_argument("--megabytes", type=int, default=64, help="of each disk")
    options = parser.parse_args()
    if not shutil.which("fio"):
        raise SystemExit("aoe: needs fio: package fio")
    options.systems = list(SHELVES) if shutil.which("vblade") else ["slice"]
    if len(options.systems) == 1:
        bench.say("SKIPPED: vblade, which is not installed")
    with bench.scratch(options) as folder:
        said = run(options, folder)
    report(options, said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
