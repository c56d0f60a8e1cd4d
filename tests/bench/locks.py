#!/usr/bin/env python3
"""Locks of clients, beside NFS-Ganesha (docs/locks.md).

1. LOCK and UNLOCK by NLM over TCP, --outstanding at a time, each of a file of its own: pairs per second and the processor time of each process.
   Systems take turns, --rounds times; servers share processor 0, the client has processor 1; figures are medians. NM_LOCK, so that nobody has to
   watch the client.
2. A directory server, or Ganesha, is killed with SIGKILL and started again at once: seconds until another lock is given, and whether the one of
   before is still held by whom it was. Ganesha here has its time of grace, as it is shipped.

    locks.py [--json] [--seconds N] [--rounds N] [--outstanding N] [--trials N] [--systems ganesha,ganesha_dirsync,slice,slice_one] [--on tmpfs,ext4]
"""

import contextlib
import os
import pathlib
import select
import statistics
import struct
import time

import bench
from bench import targets, uml  # noqa: F401  (sets the path for what follows)
from attacks import nlm, rpc
import ganesha

TICKS = os.sysconf("SC_CLK_TCK")
GRACE_LIMIT = 150  # seconds that a lock is waited for after a death
ASK_SECONDS = 0.05


def processor_us(pids):
    used = {}
    for name, pid in pids.items():
        words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used[name] = (int(words[11]) + int(words[12])) * 1e6 / TICKS
    return used


def new_files(at, count, name):
    root = rpc.mount_root(at.netns, at.server, at.mount_port, path=at.export)
    with rpc.Caller(at.netns, at.server) as caller:
        return [caller.create(root, f"{name}-{number}") for number in range(count)]


class Pairs:
    """Calls that are under way: each slot takes its lock and gives it back, over and over."""

    def __init__(self, at, outstanding):
        self.connection = nlm.Locks(at.netns, at.server)
        files = new_files(at, outstanding, f"lock-{time.monotonic_ns()}")
        self.bodies = [(self._body(nlm.NM_LOCK, nlm.lock_arguments(file, slot)), self._body(nlm.UNLOCK, nlm.unlock_arguments(file, slot)))
                       for slot, file in enumerate(files)]
        self.next, self.xid, self.slots = [0] * outstanding, rpc.next_xid(), {}

    @staticmethod
    def _body(procedure, arguments):
        return rpc.call(nlm.NLM, 4, procedure, arguments, uid=0, xid=0)[4:]

    def _message(self, slot):
        self.xid = (self.xid + 1) & 0xffffffff
        self.slots[self.xid] = slot
        body = self.bodies[slot][self.next[slot]]
        self.next[slot] ^= 1
        return struct.pack("!II", rpc.RECORD | (4 + len(body)), self.xid) + body

    def run(self, seconds):
        """Pairs that were done."""
        socket, done, buffer = self.connection.socket, 0, b""
        socket.sendall(b"".join(self._message(slot) for slot in range(len(self.next))))
        end = time.monotonic() + seconds
        while time.monotonic() < end or self.slots:
            if not select.select([socket], [], [], 10)[0]:
                raise SystemExit("locks: no answer within 10 s")
            buffer += socket.recv(1 << 16)
            answers, at = [], 0
            while len(buffer) - at >= 4:
                size = struct.unpack_from("!I", buffer, at)[0] & ~rpc.RECORD
                if len(buffer) - at - 4 < size:
                    break
                answers.append(buffer[at + 4:at + 4 + size])
                at += 4 + size
            buffer = buffer[at:]
            more = []
            for answer in answers:
                if nlm.status_of(rpc.results(answer)) != nlm.GRANTED:
                    raise SystemExit(f"locks: refused with status {nlm.status_of(rpc.results(answer))}")
                slot = self.slots.pop(struct.unpack_from("!I", answer)[0])
                done += 1
                # The last one of each is an UNLOCK.
                if time.monotonic() < end or self.next[slot] == 1:
                    more.append(self._message(slot))
            if more:
                socket.sendall(b"".join(more))
        return done / 2


def measure(options, at):
    os.sched_setaffinity(0, {int(bench.client_cpu())})
    pairs = Pairs(at, options.outstanding)
    with pairs.connection:
        pairs.run(0.3)
        before, began = processor_us(at.pids), time.monotonic()
        done = pairs.run(options.seconds)
        took, after = time.monotonic() - began, processor_us(at.pids)
    return {"per_second": done / took, "processor_us": {name: (after[name] - before[name]) / done for name in after}}


def rates(options, kind, folder, figures):
    runs = bench.take_turns(options, kind, folder, lambda _, at: measure(options, at))
    os.sched_setaffinity(0, range(os.cpu_count()))
    begin, systems = bench.PLACES[kind], list(runs)
    rate, used = {}, {}
    for name, their in runs.items():
        rate[name] = statistics.median(run["per_second"] for run in their)
        used[name] = statistics.median(sum(run["processor_us"].values()) for run in their)
        figures += [bench.figure(f"{begin}{name}_lock_unlock", "pairs/s", rate[name]), bench.figure(f"{begin}{name}_lock_unlock_cpu_total", "us/pair", used[name])]
        for process in their[0]["processor_us"]:
            figures.append(bench.figure(f"{begin}{name}_lock_unlock_cpu_{process}", "us/pair", statistics.median(run["processor_us"][process] for run in their)))
    rows = [[f"LOCK + UNLOCK, {kind}", "pairs/s", "CPU us"]] + [[bench.SYSTEMS[name], f"{rate[name]:.0f}", f"{used[name]:.1f}"] for name in systems]
    for name, base in bench.pairs(systems):
        figures += [bench.figure(f"{begin}{name}_over_{base}_lock_unlock", "ratio", rate[name] / rate[base]),
                    bench.figure(f"{begin}{name}_over_{base}_lock_unlock_cpu", "ratio", used[name] / used[base])]
        rows.append([f"{bench.SYSTEMS[name]} / {bench.SYSTEMS[base]}", f"{rate[name] / rate[base]:.2f}", f"{used[name] / used[base]:.2f}"])
    return bench.table(rows)


class GaneshaWithGrace(ganesha.Ganesha):
    def script(self):
        script = super().script()
        config = self.work / "ganesha.conf"
        config.write_text(config.read_text().replace("NFSv4 { Graceless = true; }", ""))
        return script


def after_death(at, die):
    """(seconds until a lock is given, whether the one of before is still another's)"""
    held, wanted = new_files(at, 2, f"death-{time.monotonic_ns()}")
    granted_after(at, held, 1)  # a server that has just started may have a time of grace, too
    began = time.monotonic()
    die()
    granted_after(at, wanted, 2)
    took = time.monotonic() - began
    with nlm.Locks(at.netns, at.server) as one:
        return took, one.lock_unmonitored(held, 3) == nlm.DENIED


def granted_after(at, file, svid):
    """Asked for again and again until it is."""
    began = time.monotonic()
    while time.monotonic() - began < GRACE_LIMIT:
        with contextlib.suppress(rpc.NoAnswer, rpc.Refused, OSError):
            with nlm.Locks(at.netns, at.server, patience=2.0) as one:
                if one.lock_unmonitored(file, svid) == nlm.GRANTED:
                    return
        time.sleep(ASK_SECONDS)
    raise SystemExit(f"locks: no lock within {GRACE_LIMIT} s")


def deaths(options, folder, figures):
    rows = [["killed and started again", "seconds to a lock", "the lock of before"]]
    systems = {"slice": lambda: targets.Slice(f"locks{os.getpid()}", folder, options.build / "bin", own=True),
               "ganesha": lambda: GaneshaWithGrace(folder / "grace")}
    for name, make in systems.items():
        if name not in options.systems:
            continue
        with make() as target:
            dies = (lambda: target.kill_and_start("dir1")) if name == "slice" else (lambda: (target.kill(), target.start()))
            said = [after_death(bench.reach(target), dies) for _ in range(options.trials if name == "slice" else 1)]
        longest, kept = max(took for took, _ in said), sum(kept for _, kept in said)
        figures += [bench.figure(f"{name}_lock_after_death", "s", longest), bench.figure(f"{name}_locks_kept", "ratio", kept / len(said))]
        rows.append([bench.SYSTEMS[name], f"{longest:.2f}", f"{kept} of {len(said)} kept"])
    return bench.table(rows)


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--outstanding", type=int, default=16)
    parser.add_argument("--trials", type=int, default=5, help="deaths of Slice's directory server; Ganesha dies once")
    bench.add_systems(parser)
    bench.add_places(parser)
    options = parser.parse_args()
    options.systems = [name for name in options.systems if name != "kernel"]
    figures, tables = [], []
    for kind in options.on:
        with bench.place(options, kind) as folder:
            tables.append(rates(options, kind, folder, figures))
    with bench.scratch(options) as folder:
        tables.append(deaths(options, folder, figures))
    bench.finish(options, "locks", figures, "\n\n".join(tables))


if __name__ == "__main__":
    main()
