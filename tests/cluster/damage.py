"""The suite `damage`: every byte region of every file of every server, damaged, one a start.

An ensemble in one process gets files of every kind, is stopped, and its data directories are kept as they are. Then, again and again:
a region of 64 bytes of one file is changed, everything starts, and what comes of it is one of

    refused    the process ends, and says which file or store it is
    repaired   every name, attribute and byte is right, and the log says that something was not
    answered   NFS3ERR_IO where something cannot be told, with a word in the log; all the rest is right
    harmless   every name, attribute and byte is right, and stays so while more files are made: the region means nothing

Anything else fails: another answer, a name or byte that is wrong, an error without a word in the log, no answer, a crash.

A sample is drawn from --seed, of every kind of file as many regions; --whole takes every region that is not a hole."""

import collections
import contextlib
import dataclasses
import errno
import multiprocessing.connection
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import time

from attacks import rpc
from targets import ensemble

REGION = 64  # bytes
EACH_KIND, EACH_OBJECT = 8, 40  # regions of a kind of file, with --scale 1; of object files there are many kinds of regions
WORKERS = 2  # each with an ensemble of its own
STARTS_SECONDS = 15
PATIENCE = 10.0  # for an answer
CHUNK = 65536  # bytes of a READ
PROGRESS = 1000  # regions, after which it says how far it is
IO = 5  # NFS3ERR_IO
FORMS = ("bit", "inverted", "zeros", "random")
OUTCOMES = ("refused", "repaired", "answered", "harmless", "WRONG")
# What of a path differs from file to file of a kind.
SHAPES = [(re.compile(r"^objects/.*\.d/.*"), "objects/*.d/*"), (re.compile(r"^objects/.*"), "objects/*"), (re.compile(r"LOG\.old\.\d+"), "LOG.old.*"),
          (re.compile(r"[0-9a-f]{16}\.log$|\d{6}\.log$"), "*.log"), (re.compile(r"\d{6}\.sst$"), "*.sst"), (re.compile(r"-\d{6}$"), "-*"),
          (re.compile(r"[0-9a-f]{8}\.zone$"), "*.zone")]


class Wrong(Exception):
    """What must not have come of a damage."""


# ---- the content ----

def content(name, size):
    return random.Random(name).randbytes(size)


class Maker:
    """Makes files of every kind, in two parts, so that stores have some of them in tables and some in their logs."""

    def __init__(self, target, root, content_of=content):
        """content_of: the bytes of a file, by its name and size."""
        self.target, self.root, self.content = target, root, content_of

    def file(self, caller, folder, name, size):
        handle = caller.create(folder, name)
        for at in range(0, size, CHUNK):
            caller.write(handle, at, self.content(name, size)[at:at + CHUNK])
        return handle

    def first(self, caller):
        self.folders = {}
        for name, policy in (("striped", ()), ("mirrored", ("--copies", "2")), ("mapped", ("--placement", "free-space"))):
            self.folders[name] = caller.mkdir(self.root, name)
            if policy:
                self.target.slicectl("policy", "set", f"/{name}", *policy)
        self.names = caller.mkdir(self.root, "names")
        for number in range(24):
            below = caller.mkdir(self.names, f"folder-{number}")
            caller.mkdir(below, "empty")
            self.file(caller, below, f"tiny-{number}", 10 * number)
        self.part(caller, "first")

    def second(self, caller):
        self.part(caller, "second")
        for number in range(0, 12, 3):
            caller.good(rpc.RENAME, rpc.opaque(self.names) + rpc.opaque(f"folder-{number}") + rpc.opaque(self.root) + rpc.opaque(f"renamed-{number}"))
        far = self.file(caller, self.root, "far", 70_000)
        caller.write(far, FAR, self.content("far", 70_000))
        cut = self.file(caller, self.folders["striped"], "cut", 200_000)
        caller.good(rpc.SETATTR, rpc.opaque(cut) + rpc.u32(0, 0, 0, 1) + rpc.u64(100_000) + rpc.u32(0, 0) + rpc.u32(0))

    def part(self, caller, part):
        for size in (0, 1, 100, 5000, 8300, 20_000):
            self.file(caller, self.root, f"{part}-{size}", size)
        for name, folder in self.folders.items():
            self.file(caller, folder, f"{part}-large", 140_001)
        caller.good(rpc.SYMLINK, rpc.opaque(self.root) + rpc.opaque(f"{part}-symlink") + rpc.with_mode(0o777) + rpc.opaque("names/folder-1"))
        linked = self.file(caller, self.names, f"{part}-linked", 200)
        caller.good(rpc.LINK, rpc.opaque(linked) + rpc.opaque(self.root) + rpc.opaque(f"{part}-link"))


FAR = 3_300_000_000  # in another segment of an object than the first
FAR_CHUNKS = [0, CHUNK, 1 << 30, FAR // CHUNK * CHUNK, FAR // CHUNK * CHUNK + CHUNK, (FAR + 69_999) // CHUNK * CHUNK]


class Observer:
    """All that a client can see: {what: value}, where a value may be an Error. `what` begins with a path."""

    def __init__(self, caller):
        self.caller, self.seen = caller, {}

    def ask(self, procedure, arguments):
        status, rest = self.caller.nfs(procedure, arguments)
        return rest if status == rpc.OK else Error(status)

    def note(self, path, what, value):
        self.seen[path, what] = value
        return not isinstance(value, Error)

    def folder(self, path, handle):
        names = self.names(handle)
        if not self.note(path, "names", names):
            return
        for name in names:
            self.entry(f"{path}/{name}", self.ask(rpc.LOOKUP, rpc.opaque(handle) + rpc.opaque(name)))

    def names(self, handle):
        found, cookie, verifier = [], 0, bytes(8)
        while True:
            rest = self.ask(rpc.READDIRPLUS, rpc.opaque(handle) + rpc.u64(cookie) + verifier + rpc.u32(8192, 32768))
            if isinstance(rest, Error):
                return rest
            rest = rpc.behind_attributes(rest)
            verifier, rest = rest[:8], rest[8:]
            while rest[:4] == rpc.u32(1):
                name = rpc.take_opaque(rest[12:])
                rest = rest[16 + len(name) + -len(name) % 4:]
                cookie, = struct.unpack_from("!Q", rest)
                rest = rpc.behind_attributes(rest[8:])
                rest = rest[8 + len(rpc.take_opaque(rest[4:])):] if rest[:4] == rpc.u32(1) else rest[4:]
                if name not in (b".", b".."):
                    found.append(name.decode(errors="replace"))
            if rest[4:8] == rpc.u32(1):
                return sorted(found)

    def entry(self, path, found):
        if not self.note(path, "handle", found if isinstance(found, Error) else rpc.take_opaque(found)):
            return
        handle = self.seen[path, "handle"]
        self.seen[path, "handle"] = handle[:rpc.HINT.start] + handle[rpc.HINT.stop:rpc.MAC.start]  # what it says, without where and by whom
        rest = self.ask(rpc.GETATTR, rpc.opaque(handle))
        if not self.note(path, "attributes", rest if isinstance(rest, Error) else rpc.Attributes.of(rest)._replace(used=0, atime=0)):
            return
        kind, size = self.seen[path, "attributes"].type, self.seen[path, "attributes"].size
        if kind == 2:
            self.folder(path, handle)
        elif kind == 5:
            rest = self.ask(rpc.READLINK, rpc.opaque(handle))
            self.note(path, "text", rest if isinstance(rest, Error) else rpc.take_opaque(rpc.behind_attributes(rest)))
        else:
            for at in range(0, size, CHUNK) if size < 1 << 30 else FAR_CHUNKS:
                rest = self.ask(rpc.READ, rpc.opaque(handle) + rpc.u64(at) + rpc.u32(CHUNK))
                self.note(path, at, rest if isinstance(rest, Error) else rpc.take_opaque(rpc.behind_attributes(rest)[8:]))


@dataclasses.dataclass(frozen=True)
class Error:
    status: int


def observe(caller, root):
    observer = Observer(caller)
    observer.folder("", root)
    return observer.seen


def errors_among(whole, seen):
    """What could not be told; raises Wrong where something that was told is another than before, or was not told at all."""
    errors = {what for what, value in seen.items() if isinstance(value, Error)}
    strange = {what: seen[what].status for what in errors if seen[what].status != IO}
    if strange:
        raise Wrong(f"NFS status {strange}")
    paths = {path for path, _ in errors}
    for what, value in whole.items():
        if what in errors:
            continue
        if what not in seen:
            if not any(what[0] == path or what[0].startswith(f"{path}/") for path in paths):
                raise Wrong(f"not there: {what}")
        elif seen[what] != value:
            raise Wrong(f"{what} is not as it was: {short(seen[what])}, was {short(value)}")
    more = seen.keys() - whole.keys()
    if more:
        raise Wrong(f"there, but never made: {sorted(more, key=str)[:3]}")
    return errors


def short(value):
    text = repr(value)
    return text if len(text) < 100 else f"{text[:100]}..."


# ---- what is damaged ----

@dataclasses.dataclass(frozen=True)
class Case:
    file: str  # below the folder of data
    offset: int
    length: int
    form: str

    def __str__(self):
        return f"{self.file}@{self.offset} {self.form}"

    def apply(self, folder, seed):
        chance = random.Random(f"{seed} {self}")
        with open(folder / self.file, "r+b") as file:
            file.seek(self.offset)
            was = file.read(self.length)
            file.seek(self.offset)
            file.write(self.changed(was, chance))

    def changed(self, was, chance):
        inverted = bytes(byte ^ 0xff for byte in was)
        if self.form == "zeros" and any(was):
            return bytes(len(was))
        if self.form == "random":
            return next(new for new in iter(lambda: chance.randbytes(len(was)), None) if new != was)
        if self.form == "bit":
            at = chance.randrange(len(was))
            return was[:at] + bytes([was[at] ^ 1 << chance.randrange(8)]) + was[at + 1:]
        return inverted


def regions(path):
    """(offset, length, whether a run of regions with anything in them begins or ends there) of what is no hole."""
    size, found = path.stat().st_size, []
    with open(path, "rb") as file:
        at = 0
        while at < size:
            try:
                start = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                break
            at = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            start = start // REGION * REGION
            data = os.pread(file.fileno(), min(at, size) - start, start)
            some = [any(data[i:i + REGION]) for i in range(0, len(data), REGION)]
            for number, filled in enumerate(some):
                edge = filled and not (0 < number < len(some) - 1 and some[number - 1] and some[number + 1])
                offset = start + number * REGION
                found.append((offset, min(REGION, size - offset), filled, edge))
    return found


def kind_of(file):
    server, path = file.split("/", 1)
    for pattern, name in SHAPES:
        path = pattern.sub(name, path)
    return f"{server.rstrip('0123456789')}/{path}"


def cases_of(folder, options, chance):
    """Of a kind of file each as many, half of them where something begins or ends; or all."""
    files = collections.defaultdict(list)
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.stat().st_size > 0:
            file = str(path.relative_to(folder))
            files[kind_of(file)] += [(file, *region) for region in regions(path)]
    found = []
    for kind, there in files.items():
        if options.whole:
            chosen = there
        else:
            wanted = max(1, int(options.scale * (EACH_OBJECT if "objects" in kind else EACH_KIND)))
            edges, filled = [one for one in there if one[4]], [one for one in there if one[3]]
            chosen = chance.sample(edges, min(len(edges), wanted // 2 + 1))
            chosen += chance.sample(filled, min(len(filled), wanted // 2))
            chosen += chance.sample(there, 1)
        found += [Case(file, offset, length, chance.choice(FORMS)) for file, offset, length, _, _ in dict.fromkeys(chosen)]
    return found


# ---- one ensemble ----

class Worker:
    def __init__(self, target, options):
        self.target, self.options = target, options
        self.servers = target.hosts()
        self.servers.load()
        self.process, = self.servers.processes
        self.data, self.kept = self.servers.dir / "data", self.servers.dir / "kept"
        self.log = self.servers.dir / "log" / f"{self.process}.log"

    def start(self):
        """Whether all serve, or the process has ended."""
        self.since = self.log.stat().st_size
        self.servers.start(self.process)
        end = time.monotonic() + STARTS_SECONDS
        child = self.servers.children[self.process]
        while self.said().count(" serving as ") < len(self.servers.servers):
            if child.poll() is not None:
                return False
            if time.monotonic() > end:
                raise Wrong(f"neither serves nor ends: {self.said()[-500:]}")
            time.sleep(0.004)
        return True

    def stop(self, number=signal.SIGTERM):
        self.servers.end(self.process, number)

    def said(self):
        with open(self.log, errors="replace") as file:
            file.seek(self.since)
            return file.read()

    def complaints(self):
        return re.findall(r"^\S+ (?:warning|error) (?!.*configuration).*", self.said(), re.MULTILINE)

    def caller(self):
        caller = rpc.Caller(self.target.netns, self.target.server, patience=PATIENCE)
        # Its port is free again at once: there are 400, and several callers a second.
        caller.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return caller

    def make_content(self):
        """Leaves everything stopped, and what is to be damaged in `kept`."""
        self.stop()
        self.start()
        self.root = rpc.mount_root(self.target.netns, self.target.server, patience=20)
        maker = Maker(self.target, self.root)
        with self.caller() as caller:
            maker.first(caller)
        self.stop()
        self.start()
        with self.caller() as caller:
            maker.second(caller)
            before = observe(caller, self.root)
        self.stop()
        self.data.rename(self.kept)
        self.whole = {}
        if self.play(None) != "harmless":
            raise Wrong(f"undamaged: {self.complaints()}")
        self.whole = self.seen
        if self.whole != before:
            raise Wrong(f"another content after a clean stop: {[what for what in before if self.whole.get(what) != before[what]][:3]}")

    def play(self, case):
        """The outcome of it; raises Wrong."""
        subprocess.run(["rm", "-rf", self.data], check=True)
        subprocess.run(["cp", "-a", "--sparse=always", self.kept, self.data], check=True)
        if case:
            case.apply(self.data, self.options.seed)
        try:
            return self.outcome(case)
        except (rpc.NoAnswer, rpc.Refused) as error:
            raise Wrong(f"{type(error).__name__}: {error}; {self.complaints()[-3:]}") from None
        finally:
            self.stop(signal.SIGKILL)

    def outcome(self, case):
        if not self.start():
            return self.refused(case)
        with self.caller() as caller:
            self.seen = observe(caller, self.root)
            errors = errors_among(self.whole or self.seen, self.seen)
            if self.whole:
                self.use(caller, errors)
        if self.servers.pid(self.process) is None:
            raise Wrong(f"the process ended: {self.said()[-500:]}")
        complaints = self.complaints()
        if errors and not complaints:
            raise Wrong(f"errors, and no word in the log: {sorted(errors, key=str)[:3]}")
        return "answered" if errors else "repaired" if complaints else "harmless"

    def refused(self, case):
        code, complaints = self.servers.children[self.process].wait(), self.complaints()
        if code not in (1, 2):
            raise Wrong(f"the process ended with {code}: {self.said()[-500:]}")
        server, path = case.file.split("/", 1)
        store = path.split("/")[0].split(".")[0]  # "cells" of cells/000012.sst and of cells.end
        if not any(server in line and (store in line or path in line) for line in complaints):
            raise Wrong(f"refused, but not said what: {complaints[-3:]}")
        return "refused"

    def use(self, caller, errors):
        """More is written, which may be refused, but may not change what was there."""
        for name, size in (("new-small", 9000), ("new-large", 150_000)):
            with contextlib.suppress(rpc.Refused):
                handle = caller.create(self.root, name)
                for at in range(0, size, CHUNK):
                    caller.write(handle, at, content(name, size)[at:at + CHUNK])
        again = {what: value for what, value in observe(caller, self.root).items() if not what[0].startswith("/new-")}
        names = again["", "names"]
        if not isinstance(names, Error):
            again["", "names"] = [name for name in names if not name.startswith("new-")]
        errors |= errors_among(self.whole, again)


def work(target, options, number, answer):
    """Sends (case, outcome, why) one by one, None at the end."""
    with target.make(f"damage{number}", directories=2, storage=3, one_process=True) as slice_:
        worker = Worker(slice_, options)
        worker.make_content()
        chance = random.Random(options.seed)
        cases = cases_of(worker.kept, options, chance)
        for index, case in enumerate(cases):
            if index % WORKERS != number or (options.only and not any(word in str(case) for word in options.only.split(","))):
                continue
            try:
                answer.send((case, worker.play(case), ""))
            except Wrong as error:
                answer.send((case, "WRONG", str(error)))
    answer.send(None)


# ---- the suite ----

def damage(target, options):
    fork = multiprocessing.get_context("fork")
    workers, kinds, wrong = [], collections.defaultdict(collections.Counter), []
    start = time.monotonic()
    try:
        for number in range(WORKERS):
            mine, its = fork.Pipe(duplex=False)
            workers.append((fork.Process(target=work, args=(target, options, number, its)), mine))
            workers[-1][0].start()
            its.close()
        waiting = [mine for _, mine in workers]
        while waiting:
            for mine in multiprocessing.connection.wait(waiting):
                try:
                    told = mine.recv()
                except EOFError:
                    wrong.append("a worker ended without a word")
                    told = None
                if told is None:
                    waiting.remove(mine)
                    continue
                case, outcome, why = told
                kinds[kind_of(case.file)][outcome] += 1
                done = sum(counts.total() for counts in kinds.values())
                if done % PROGRESS == 0:
                    print(f"   {done} regions, {time.monotonic() - start:.0f} s, {len(wrong)} wrong", flush=True)
                if outcome == "WRONG":
                    wrong.append(f"{case}: {why}")
                    print(f"not ok damage {wrong[-1]}", flush=True)
    finally:
        for process, _ in workers:
            if process.is_alive() and waiting:
                process.terminate()
            process.join()
    return told_all(kinds, wrong, options, time.monotonic() - start)


def told_all(kinds, wrong, options, seconds):
    print(f"{'file':34}" + "".join(f"{outcome:>10}" for outcome in OUTCOMES))
    total = collections.Counter()
    for kind in sorted(kinds):
        print(f"{kind:34}" + "".join(f"{kinds[kind][outcome]:10}" for outcome in OUTCOMES))
        total += kinds[kind]
    print(f"{'all':34}" + "".join(f"{total[outcome]:10}" for outcome in OUTCOMES))
    cases = sum(total.values())
    print(f"{'not ok' if wrong or not cases else 'ok'} damage: {cases} regions, {cases / seconds:.1f} a second, seed {options.seed}, {len(wrong)} wrong", flush=True)
    return bool(cases) and not wrong
