"""The suite of attacks: hostile clients beside a kernel client and slice-load, whose replies are checked. Each attack (attacks/*.py) is held
when nothing of the victim's is other than it was, newcomers are served, the good clients' slowest hundredth takes at most three times
as long as before, no process grows beyond its limit, and what was refused is counted by name."""

import contextlib
import json
import os
import pathlib
import re
import resource
import tempfile
import threading
import time
import traceback

import load
import targets
import uml
from attacks import access, connections, encryption, frames, lists, locking, operators, programs, quotas, rpc, services  # noqa: F401  (each registers its attacks)
from attacks.attack import ATTACKS, Succeeded
from attacks.scene import Memory, Scene, template
from encryption import Certificates

SHAPES = {"generic": {"directories": 2}, "native": {"directories": 2, "xdp": "native"}, "name-hashing": {"directories": 2, "policy": "name-hashing"},
          "one-process": {"directories": 2, "one_process": True}}
RATE, SECONDS = 40, 3.0  # operations a second over each of TCP and UDP, for each attack
CALM_RUNS = 3
SLOWER = 3.0
LEAST_P99_MS = 100.0  # below that on a machine that runs client, attacker and all servers, it is the machine's own delay
GROWTH_MIB = {"proxy": 640, "host": 1024}  # all clients of all workers: 512 MiB (docs/proxy.md); and what the allocator keeps
OTHERS_GROWTH_MIB = 320  # an address has 128 MiB, at most twice that for a moment (docs/operations.md)
VIRTUAL = "10.77.0.1"  # of the local ensemble, whose certificate is for it
ATTACKERS_NICENESS = 5  # its machine is not the servers'
REFUSALS = re.compile(r"refus|denied|dropped|broken|garbage|unknown|not_calls|too_large|bad_|closed|expired|limit|forged|repeat|unsent|overflow|"
                      r"misdirected|failures|not_taken|shed|spoof|amplif|silenced|untrusted|evict|ended|waited|withheld")
PACKET = re.compile(r'(?:xdp|proxy_user)_outcomes_total\{outcome="(\w+)"\}')
USUAL = re.compile(r"ROUTED_|READ_CLAMPED|FRAGMENT_RE|^REPLY(_LEARNED|_PATCHED)?$|CHECKSUM_CLEARED|ATTR_|NOT_OURS|NOT_UDP|OTHER_PORT|TO_USER_SPACE|MIRRORED|BLOCK_MAPPED")
FEW_PACKETS = 20  # such as ARP's, of which good clients send some, too
GUEST = """
mkdir -p {folder} && {programs}/tree make {folder}/tree --files 60 --largest 200000 || exit 1
echo ready
while [ ! -e {folder}/end ]; do {programs}/tree verify {folder}/tree --files 60 --largest 200000 || exit 1; sleep 1; done
"""


def hostile(target, options):
    wanted = options.only.split(",") if options.only else None
    if wanted and (unknown := set(wanted) - {each.name for each in ATTACKS} - set(SHAPES)):
        print(f"no such attack or ensemble: {', '.join(sorted(unknown))}; there are: {', '.join(each.name for each in ATTACKS)}")
        return False
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # this process holds the attacker's connections
    rows = []
    for name in SHAPES:
        chosen = [each for each in ATTACKS if name in each.scenes and picked(wanted, name, each)]
        if chosen:
            rows += on_ensemble(target, options, name, chosen)
    tell(rows)
    return bool(rows) and all(row.held for row in rows)


def picked(wanted, scene, attack):
    """By default all; a name of an attack alone means the first ensemble that it is for."""
    if wanted is None or scene in wanted:
        return wanted is None or attack.name in wanted or not any(each.name in wanted for each in ATTACKS)
    return attack.name in wanted and not any(each in wanted for each in SHAPES) and scene == attack.scenes[0]


def on_ensemble(target, options, name, chosen):
    print(f"-- {name}: {len(chosen)} attacks", flush=True)
    text = (uml.ROOT / "deploy/local/ensemble.toml").read_text()
    with tempfile.TemporaryDirectory(prefix="slice-hostile-") as folder:
        config = pathlib.Path(folder) / "ensemble.toml"
        certificates = Certificates(pathlib.Path(folder), VIRTUAL)
        config.write_text(certificates.into(template(text)))
        with target.make(name[:3], config=config, **SHAPES[name]) as ensemble, Scene(ensemble, name, options) as scene:
            scene.authority = certificates.authority()
            return Siege(scene, options, pathlib.Path(folder)).carry_out(chosen)


class Row:
    """What is told of one attack."""

    def __init__(self, scene, attack):
        self.scene, self.attack = scene, attack
        self.faults, self.counted, self.ratio, self.peak = [], {}, 0.0, ("", 0.0)
        self.slow = ""  # where the good clients were too slow

    @property
    def held(self):
        return not self.faults and not self.slow

    def line(self):
        most = sorted(self.counted.items(), key=lambda each: -each[1])[:3]
        counted = ", ".join(f"{name} {count:.0f}" for name, count in most) or "nothing"
        return (f"{'ok' if self.held else 'not ok'} hostile {self.scene}/{self.attack.name}: {'held' if self.held else '; '.join(filter(None, [*self.faults, self.slow]))}"
                f" | counted {counted} | p99 x{self.ratio:.1f} | most memory {self.peak[0]} {self.peak[1]:.0f} MiB")


class Siege:
    """One ensemble under attack after attack, with the good clients beside them."""

    def __init__(self, scene, options, folder):
        self.scene, self.options, self.folder = scene, options, folder
        self.target = scene.target
        self.seconds = SECONDS * options.scale
        self.runs = 0
        self.sizes = {}  # of processes before the first attack, MiB: what one attack leaves behind counts at all that follow

    def carry_out(self, chosen):
        memory = Memory(self.target)
        try:
            with self.kernel_client() as guest:
                self.calm_down(memory)
                rows = []
                for attack in chosen:
                    rows.append(self.under(attack, memory))
                    if rows[-1].slow and not rows[-1].faults:  # once more: the machine may have had a slow moment of its own
                        rows[-1] = self.under(attack, memory)
                    print(rows[-1].line(), flush=True)
                    if guest.poll() is not None:
                        rows[-1].faults.append(f"the kernel client's files: {guest.text.strip().splitlines()[-1]}")
                        break
                return rows
        finally:
            memory.stop()

    def calm_down(self, memory):
        """What it is like before: times, memory, and what the good clients themselves have counted as refused."""
        self.usual = {}
        before = self.metrics()
        self.calm = max(self.load()["p99"] for _ in range(CALM_RUNS))
        self.scene.check_victim()
        self.scene.serves_newcomers()
        self.usual = self.refused(before)
        self.sizes = memory.now()
        print(f"   before: slowest hundredth {self.calm:.1f} ms; MiB " +
              ", ".join(f"{name} {size:.0f}" for name, size in self.sizes.items()), flush=True)

    @contextlib.contextmanager
    def kernel_client(self):
        """A kernel client that verifies a tree of its own all the time."""
        folder = f"guest-{self.scene.name}"
        command = ["sh", "-c", GUEST.format(programs=self.options.programs, folder=folder)]
        with self.target.client(command, timeout=3000) as guest:
            if not guest.says("ready"):
                raise uml.UmlError(f"the kernel client does not get ready: {guest.text}{guest.console[-500:]}")
            yield guest

    def load(self):
        """slice-load over TCP and UDP at once: the slowest hundredth (ms, the worse of both) and what was wrong."""
        self.runs += 1
        results = {}
        threads = [threading.Thread(target=lambda transport=transport: results.update({transport: self._load(transport)}))
                   for transport in ("tcp", "udp")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"p99": max(each["p99"] for each in results.values()), "faults": [fault for each in results.values() for fault in each["faults"]]}

    def _load(self, transport):
        report = self.folder / f"{transport}-{self.runs}.json"
        command = load.small_specsfs(self.target, self.options, transport, RATE, self.seconds, self.runs, report)
        text, code = uml.run_in_netns(self.target.netns, command, 120 + self.seconds, output=None)
        if not report.exists():
            return {"p99": 1e6, "faults": [f"slice-load over {transport}: {text.strip()[-200:] or 'no word'}"]}
        point = json.loads(report.read_text())["points"][0]
        faults = [f"slice-load over {transport}: {line}" for line in point["texts"][:2]]
        if code != 0 and not faults:
            faults = [f"slice-load over {transport} ends with {code}: {text.strip()[-200:]}"]
        return {"p99": point["latency_ns"]["p99"] / 1e6, "faults": faults}

    def under(self, attack, memory):
        row = Row(self.scene.name, attack)
        before = self.metrics()
        memory.restart()
        self.scene.over.clear()
        thread = threading.Thread(target=self._attack, args=(attack, row), daemon=True)
        thread.start()
        beside = self.load()
        newcomers = self._checked(self.scene.serves_newcomers, 10.0)
        self.scene.over.set()
        thread.join(180)
        row.faults += ["the attack does not end"] if thread.is_alive() else []
        if not attack.disturbs:
            row.faults += beside["faults"] + newcomers
            row.ratio = beside["p99"] / self.calm
            if beside["p99"] > max(SLOWER * self.calm, LEAST_P99_MS):
                row.slow = f"slowest hundredth {beside['p99']:.0f} ms, {self.calm:.0f} ms before"
        row.faults += self._checked(self.scene.serves_newcomers, 10.0) + self._checked(self.scene.check_victim)
        self._processes(row, attack, memory)
        if row.faults:
            row.faults += self._checked(self.scene.restore)
        row.counted = self.refused(before)
        if self.scene.name in attack.refused and not row.counted:
            row.faults.append("nothing was counted as refused")
        return row

    def _processes(self, row, attack, memory):
        growth = {name: size - self.sizes.get(name, 0) for name, size in memory.peak.items()}
        if memory.peak:
            row.peak = max(memory.peak.items(), key=lambda each: each[1])
        for name, more in growth.items():
            limit = next((limit for role, limit in GROWTH_MIB.items() if name.startswith(role)), OTHERS_GROWTH_MIB)
            if more > limit:
                row.faults.append(f"{name} grows by {more:.0f} MiB")
        pids = self.target.pids()
        gone = [name for name, pid in pids.items() if pid is None or (pid != memory.pids[name] and not attack.disturbs)]
        if gone:
            row.faults.append(f"ended: {', '.join(gone)}")
            for name in gone:
                self.target.start(name)
            self.target.wait_serving()
        memory.pids = self.target.pids()

    def _attack(self, attack, row):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), ATTACKERS_NICENESS)
        try:
            attack.run(self.scene)
        except Succeeded as success:
            row.faults.append(str(success))
        except (rpc.NoAnswer, rpc.Refused, OSError) as error:
            row.faults.append(f"the attacker was not answered as it should be: {type(error).__name__} {error}")
        except BaseException:  # noqa: B902  (a thread's exception is lost otherwise)
            row.faults.append(traceback.format_exc())

    @staticmethod
    def _checked(check, *arguments):
        try:
            check(*arguments)
        except Succeeded as success:
            return [str(success)]
        except (rpc.NoAnswer, rpc.Refused, OSError) as error:
            return [f"the good client gets {type(error).__name__}: {error}"]
        return []

    def metrics(self):
        """{(process, metric): value} of all that answer."""
        try:
            told = json.loads(self.target.slicectl("--json", "metrics", check=False).stdout)["processes"]
        except (ValueError, KeyError):
            return {}
        return {(each["process"], name): value for each in told for name, value in targets.without_prefix(each.get("metrics", {})).items()}

    def refused(self, before):
        """Counts of refusals that grew, by name, over all processes."""
        grown = {}
        for (process, name), value in self.metrics().items():
            more = value - before.get((process, name), 0)
            packet = PACKET.fullmatch(name)
            if more > 0 and (more > FEW_PACKETS and not USUAL.search(packet[1]) if packet else REFUSALS.search(name) and "_total" in name):
                grown[packet[1] if packet else name] = grown.get(packet[1] if packet else name, 0) + more
        return {name: more for name, more in grown.items() if more > self.usual.get(name, 0)}


def tell(rows):
    """The table of all."""
    if not rows:
        return
    width = max(len(row.attack.name) for row in rows)
    print(f"\n{'ensemble':12}  {'attack':{width}}  held  p99   most memory")
    for row in rows:
        print(f"{row.scene:12}  {row.attack.name:{width}}  {'yes' if row.held else 'NO':4}  x{row.ratio:<4.1f} {row.peak[1]:4.0f} MiB of {row.peak[0]}")
    failed = sum(not row.held for row in rows)
    print(f"{len(rows) - failed} of {len(rows)} attacks held", flush=True)
