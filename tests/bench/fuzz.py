#!/usr/bin/env python3
"""Mutated calls, records and frames to every port of every process of an ensemble of its own, from a client's link: NFS at the virtual
address and straight at servers, MOUNT, PORTMAP, internal programs. No process may end or fall silent, none may grow beyond its
limit, nothing of another client's may change, and good clients are served afterwards. At last, shortly, as a member with the ensemble's own key,
with which anything can be asked for: then processes must live and serve, no more.

    fuzz.py [--json] [--minutes N | --cases N] [--seed S] [--case N] [--member-share X] [--xdp generic|native|off] [--one-process]

A case is made from seed and number; one that fails is named, and --case sends it again, alone, to a fresh ensemble. Exit code 1
when something was wrong."""

import pathlib
import re
import sys
import time

import bench
from bench import targets, uml
from targets import ensemble

from attacks import rpc
from attacks.attack import Succeeded
from attacks.scene import ATTACKER_LEG, ATTACKER_NET, ATTACKER_UID, STRANGER, Memory, Scene, template
from encryption import Certificates

GROWTH_MIB = 640  # of a process, all the run: caches fill, and connections have their share


def make_handles(scene):
    """A folder and files that may be changed, of every placement."""
    with scene.victim() as root:
        folder = root.mkdir(scene.root, "fuzz", 0o777)
        handles = [folder]
        for name in ("small", "large"):
            handles.append(root.create(folder, name, 0o666))
            root.write(handles[-1], 0, bytes(SIZES[name]))
        for name, policy in (("mirrored", ("--copies", "2")), ("mapped", ("--placement", "free-space"))):
            below = root.mkdir(folder, name, 0o777)
            scene.target.slicectl("policy", "set", f"/fuzz/{name}", *policy)
            handles.append(root.create(below, "large", 0o666))
            root.write(handles[-1], 0, bytes(SIZES["large"]))
        for handle in handles:
            root.chown(handle, ATTACKER_UID)
    return [handle.hex() for handle in handles]


SIZES = {"small": 1000, "large": 300_000}
ATTACKER_NET6 = ensemble.NET6.format(ATTACKER_LEG)
# The attacker's own, one of nowhere, and a server's host.
SOURCES6 = [f"{ATTACKER_NET6}:2", "fd77:0:0:201::9", f"{ensemble.NET6.format(3)}:2"]


class Fuzz:
    def __init__(self, options, scene):
        self.options, self.scene, self.memory = options, scene, Memory(scene.target)
        self.handles = make_handles(scene)
        self.begun = scene.target.pids()
        self.sizes = self.memory.now()
        self.faults, self.cases, self.seconds = [], {}, 0.0

    def send(self, sender, seconds=None, cases=None, case=None):
        """One run of fuzz_ensemble; its counts go to `cases`."""
        sources = [self.scene.attacker_address, STRANGER, self.scene.address_of("dir"), *SOURCES6]
        command = [self.options.build / "bench/fuzz_ensemble", "--config", self.scene.target.facts["config"], "--handles", ",".join(self.handles),
                   "--seed", self.options.seed, "--as", sender, "--link", "eth0", "--gateway", self.scene.wire.gateway.hex(),
                   "--sources", ",".join(sources)]
        command += ["--case", case] if case is not None else ["--cases", cases] if cases else ["--seconds", int(seconds)]
        start = time.monotonic()
        text, code = uml.run_in_netns(self.scene.attacker_netns, command, 120 + 20 * (seconds or 600), output=sys.stderr)
        self.seconds += time.monotonic() - start
        for port, count in re.findall(r"^(\S+)\s+cases\s+(\d+)", text, re.MULTILINE):
            self.cases[port] = self.cases.get(port, 0) + int(count)
        if code != 0:
            self.faults.append(next((line for line in text.splitlines() if line.startswith("not ok")), f"fuzz_ensemble ends with {code}"))

    def look(self, what, victim=True):
        """What must hold behind the cases."""
        pids = self.scene.target.pids()
        ended = [name for name, pid in pids.items() if pid != self.begun[name]]
        self.faults += [f"{what}: {name} ended: {self.last_words(name)}" for name in ended]
        growth = {name: size - self.sizes.get(name, 0) for name, size in self.memory.peak.items()}
        self.faults += [f"{what}: {name} grew by {more:.0f} MiB" for name, more in growth.items() if more > GROWTH_MIB]
        for check in [self.scene.serves_newcomers, self.works, *([self.scene.check_victim] if victim else [])]:
            try:
                check()
            except (Succeeded, rpc.NoAnswer, rpc.Refused) as error:
                self.faults.append(f"{what}: {type(error).__name__}: {error}")

    def works(self):
        """A good client makes, writes, reads and removes a file."""
        with self.scene.victim(patience=20) as root:
            name = f"after-{rpc.next_xid()}"
            handle = root.create(self.scene.root, name)
            data = bytes(range(256)) * 800
            root.write(handle, 0, data)
            if root.read(handle, len(data)) != data:
                raise Succeeded("a file that was written reads otherwise")
            root.good(rpc.REMOVE, rpc.opaque(self.scene.root) + rpc.opaque(name))

    def last_words(self, name):
        log = pathlib.Path(self.scene.target.facts["config"]).parent / "log" / f"{name}.log"
        return " / ".join(log.read_text(errors="replace").splitlines()[-3:])


def measure(options, folder):
    config = folder / "fuzz.toml"
    text = template((bench.ROOT / "deploy/local/ensemble.toml").read_text())
    text = text.replace(f'clients = "{ATTACKER_NET}.0/24"', f'clients = ["{ATTACKER_NET}.0/24", "{ATTACKER_NET6}:/64"]')
    config.write_text(Certificates(folder, "10.77.0.1").into(text))
    slice_ = targets.Slice(options.instance, folder, options.build / "bin", own=True, config=config,
                           shape={"directories": 2, "ipv6": "clients", "one_process": options.one_process, "xdp": None if options.one_process else options.xdp})
    with slice_, Scene(slice_, "fuzz", options) as scene:
        fuzz = Fuzz(options, scene)
        if options.case is not None:
            fuzz.send(options.sender, case=options.case)
            fuzz.look("replayed", victim=options.sender == "stranger")
        else:
            share = options.member_share
            seconds = 60 * options.minutes if not options.cases else None
            fuzz.send("stranger", seconds and seconds * (1 - share), options.cases and int(options.cases * (1 - share)))
            fuzz.look("without the key")
            if share > 0:
                fuzz.send("member", seconds and max(1, seconds * share), options.cases and int(options.cases * share))
                fuzz.look("with the key", victim=False)
        fuzz.memory.stop()
        return fuzz


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--cases", type=int, help="instead of --minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="sends this one alone, and prints it")
    parser.add_argument("--as", dest="sender", choices=("stranger", "member"), default="stranger", help="of --case: which run it was of")
    parser.add_argument("--member-share", type=float, default=0.1, help="of the time, or the cases, with the ensemble's key")
    parser.add_argument("--xdp", choices=("generic", "native", "off"), default="generic")
    parser.add_argument("--one-process", action="store_true")
    parser.add_argument("--instance", default="fuzz")
    options = parser.parse_args()
    with bench.scratch(options) as folder:
        fuzz = measure(options, folder)
    total = sum(fuzz.cases.values())
    figures = [bench.figure(f"cases_{port}", "cases", count) for port, count in fuzz.cases.items()]
    figures += [bench.figure("cases", "cases", total), bench.figure("cases_per_second", "1/s", total / max(fuzz.seconds, 1e-9)),
                bench.figure("largest_process", "MiB", max(fuzz.memory.peak.values(), default=0))]
    for fault in fuzz.faults:
        bench.say(f"not ok fuzz: {fault}   (again: --seed {options.seed} --case N)")
    verdict = "FAILED" if fuzz.faults else "every process lives, nothing of others' changed, good clients are served"
    rows = [["port", "cases"], *([port, count] for port, count in fuzz.cases.items()), ["all", total]]
    bench.finish(options, "fuzz", figures, f"{bench.table(rows)}\nseed {options.seed}, {total / max(fuzz.seconds, 1e-9):.0f} cases a second: {verdict}")
    sys.exit(1 if fuzz.faults else 0)


if __name__ == "__main__":
    main()
