"""The suite `crashes`: a matrix of who dies, at which crash point, during which operation, with real processes.

Each case: a process is started again with SLICE_CRASH_AT (docs/operations.md), a client that never gives up works until
the process has died there by SIGKILL, the process is started once more, the client's calls end well, and everything that
was acknowledged is there. At the end of a scene everything is read once more and removed: then no storage node has an
object, no intention is open, and the name space is whole. A crash point of the servers' sources that no case has, or where
no process died, is a failure.

Scenes, on an ensemble each, side by side: files with one copy; files with two copies; block-mapped files, whose stripes are moved;
names and small files, over two directory servers; and for each class of sites files or names whose sites are moved.
"""

import concurrent.futures
import dataclasses
import itertools
import json
import multiprocessing
import pathlib
import random
import re
import signal
import subprocess
import threading
import time

import uml
from targets import ensemble

SERVERS = ("coordinator", "storagenode", "dirserver", "smallfile", "service", "control/manager")  # folders whose sources name crash points
DIES_SECONDS = 40  # for a process to come to the point
SERVES_SECONDS = 30  # for a process to serve
ENDS_SECONDS = 90  # for the client's calls
SETTLES_SECONDS = 120  # for what servers owe one another
STRIPES = 7  # of a file of crash_client, beyond the threshold
# Points that take a disk whose fsync fails: storagenode/server_test.cc has processes die there. And one that takes a write in the
# moments in which its site is copied: `./slice sim --moves` has. And those of the manager's reloads: the suite `reload` has.
# Those of a node's backing sets: storagenode/backing/backing_files_test.cc.
ELSEWHERE = {"heal.failed", "heal.renewed", "heal.healed", "site.forwarded", "settings.keeping", "settings.kept",
             "backing.owner", "backing.emptied", "backing.let_go", "backing.changes"}
DOWN_SECONDS = 0.2  # between a death and the start after it


class Wrong(Exception):
    """Why a case failed."""


@dataclasses.dataclass
class Case:
    who: str  # the role: coordinator, storage, directory, small-file
    point: str
    operations: tuple  # what reaches it; one is drawn, --scale 2 takes all
    how: str = "run"  # "run": it dies during the operation or soon after; "start": at its next start


def cases_of(who, operations, points, how="run"):
    return [Case(who, point, tuple(operations.split()), how) for point in points.split()]


WRITES = "write write-stable overwrite"
ONE_COPY = [
    *cases_of("coordinator", "write", "commit.begun commit.durable commit.part commit.parts commit.reported"),
    *cases_of("coordinator", "truncate truncate-short", "truncate.begun truncate.durable truncate.part truncate.parts"),
    *cases_of("coordinator", "remove", "remove.begun remove.durable remove.part remove.parts"),
    *cases_of("coordinator", "write truncate remove", "intentions.clearing intentions.cleared intentions.trimmed"),
    *cases_of("coordinator", "truncate remove", "intentions.recovered", "start"),
    *cases_of("storage", "write write-stable", "object.marking object.marked object.written write.striped"),
    *cases_of("storage", "write-stable overwrite", "object.synced write.told"),
    *cases_of("storage", "write", "object.committing object.committed"),
    *cases_of("storage", "truncate", "object.cutting object.shortened object.cut object.adopted"),
    *cases_of("storage", "truncate-short", "object.epoch-made object.epoch-kept"),
    *cases_of("storage", "remove", "object.removing object.emptied object.removed"),
    *cases_of("storage", "write-unstable", "clean.syncing clean.synced clean.unmarked clean.flushed"),
    *cases_of("directory", "truncate truncate-short", "change.first-committed change.first-durable"),
    *cases_of("directory", "write-stable", "authority.committed authority.durable"),
    *cases_of("storage", "write-unstable", "recovery.begun recovery.repaired recovery.ended", "start"),
]
TWO_COPIES = cases_of("storage", WRITES, "mirror.ordered mirror.written mirror.forwarding mirror.forwarded")
# While a storage node is away, which then misses writes, a truncation and a COMMIT. What it misses is noted once: by new files,
# and by what is more than writes. Of the nodes that are there only one notes it for a file, so several files are written.
WITHOUT_ONE = [
    *cases_of("coordinator", "write write-stable truncate", "missing.begun missing.durable missing.recalled"),
    *cases_of("storage", "write-several", "mirror.noted"),
]
# When that node is back.
MADE_WHOLE = [
    *cases_of("coordinator", "resync", "resync.cutting resync.cut missing.joining resync.copying"),
    *cases_of("storage", "resync", "mirror.copying mirror.copied"),
    *cases_of("coordinator", "resync", "resync.copied missing.whole"),
]
PLACED = cases_of("coordinator", "write write-stable", "map.placed")
# While stripes of a file are moved which a client overwrites. The first is also reached at a start that finds a move to fulfil, so
# it comes before there is any.
MOVED = [
    *cases_of("coordinator", "move", "move.given-back move.begun move.durable move.joining move.copied move.switched move.placed move.moved"),
    *cases_of("storage", "move", "object.discarding object.discarded map.discarded"),
]
# While storage nodes are drained one after another, which mirrored files that a client writes have stripes on.
EMPTIED = cases_of("coordinator", "write overwrite", "map.refitted evacuation.refitted evacuation.moved")
# While mirrored files that a client writes are evened out, by weights that change.
EVENED = cases_of("coordinator", "write overwrite", "spread.recorded spread.moved spread.done")
# While sites of a class are moved from server to server, and a client works on what they have: the old owner, the new one, the manager.
OF_ALL = ("site.prepared site.joined site.copied site.offering site.offered site.given site.taken site.freed site.done "
          "site.withdrawn site.cleared site.recording site.recorded site.took")
SITES = [
    *cases_of("storage", "write overwrite truncate remove", f"{OF_ALL} site.copying site.placing site.placed"),
    *cases_of("manager", "write overwrite", "site.published"),
]
SMALL_FILE_SITES = cases_of("small-file", "write-several small-write small-stable truncate-short small-truncate remove-several small-remove",
                            f"{OF_ALL} site.copying site.placing site.placed")
COORDINATOR_SITES = cases_of("coordinator", "write overwrite truncate remove", f"{OF_ALL} site.copying site.recalled site.receiving site.received")
DIRECTORY_SITES = cases_of("directory", "names", f"{OF_ALL} site.cells-sending site.frozen")
NAMES = [
    *cases_of("directory", "names", "initiator.locked initiator.prepared initiator.decided"),
    *cases_of("directory", "names", "participant.prepare participant.prepared participant.finish participant.finished"),
    *cases_of("directory", "names", "change.committed change.durable"),
    *cases_of("directory", "lock", "locks.committed locks.durable"),
    *cases_of("directory", "create-cut", "cut.recorded cut.done cut.answered"),
    *cases_of("small-file", "small-write small-stable write-several", "small.written small.durable"),
    *cases_of("small-file", "small-write small-stable", "small.reported"),
    *cases_of("small-file", "write-several", "small.committing small.committed"),
    *cases_of("small-file", "small-write small-stable", "save.logged save.written save.saved save.trimmed"),
    *cases_of("small-file", "truncate-short small-truncate", "small.cutting small.cut"),
    *cases_of("small-file", "remove-several small-remove", "small.removing small.removed"),
]


def named_points():
    """The crash points in the servers' sources."""
    names = set()
    for folder in SERVERS:
        for path in (uml.ROOT / folder).rglob("*.cc"):
            if path.name.endswith("_test.cc"):
                continue
            names |= set(re.findall(r'crash_?\.reach\("([^"]+)"\)', path.read_text()))
    return names


class Client:
    """crash_client in the client's namespace: a command at a time, each answered by one line."""

    def __init__(self, slice_, options, *words):
        command = uml.in_netns(slice_.netns, options.programs / "crash_client", "--server", slice_.server, "--patience",
                               str(ENDS_SECONDS), *words)
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pool = concurrent.futures.ThreadPoolExecutor(1)
        self._answer()

    def _answer(self):
        said = self.process.stdout.readline().strip()
        if said != "ok":
            raise Wrong(f"the client: {said or 'ended'}")

    def _ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        self._answer()

    def begin(self, *words):
        """The command's end, as a future."""
        return self.pool.submit(self._ask, " ".join(words))

    def do(self, *words):
        self.begin(*words).result()

    def close(self):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.pool.shutdown()


class Scene:
    """An ensemble, a client of it, and the cases that are played there."""

    def __init__(self, name, slice_, options):
        self.name, self.slice, self.options = name, slice_, options
        self.servers = slice_.hosts()
        self.servers.load()
        self.chance = random.Random(f"{options.seed} {name}")
        self.outcomes = []
        self.since = {}  # of each process, where its log was when it was started last
        self.away = None  # a storage node that is down on purpose

    # ---- processes ----

    def of_role(self, role):
        return [server["name"] for server in self.servers.servers if server["role"] == role and server["name"] != self.away]

    # Each by the name of a server; what is started and killed is the process that it is in.

    def log(self, process):
        return self.servers.dir / "log" / f"{process}.log"

    def start(self, name, crash_at=None):
        process = self.servers.process(name)
        self.since[process] = self.log(process).stat().st_size
        self.servers.start(process, crash_at)

    def kill(self, name):
        self.servers.end(self.servers.process(name), signal.SIGKILL)

    def said(self, name):
        process = self.servers.process(name)
        with open(self.log(process), errors="replace") as file:
            file.seek(self.since[process])
            return file.read()

    def child(self, name):
        return self.servers.children[self.servers.process(name)]

    def wait_serving(self, name, or_death_at=None):
        """Until all servers of its process serve; or it dies at that point before, of what is left to do from the last case."""
        end = time.monotonic() + SERVES_SECONDS
        servers = self.servers.processes[self.servers.process(name)]
        while (serve := self.said(name).count(" serving as ")) < len(servers):
            ended = self.child(name).poll() is not None
            if ended and or_death_at and f"crash point {or_death_at} is reached" in self.said(name):
                return
            if ended or time.monotonic() > end:
                raise Wrong(f"{name} does not come to serve, {serve} of {len(servers)} do: {self.said(name)[-300:]}")
            time.sleep(0.02)

    def restart(self, name, crash_at=None):
        self.kill(name)
        self.start(name, crash_at)
        self.wait_serving(name, crash_at)

    def wait_death(self, name, point):
        """Until it has died, at that point and by SIGKILL."""
        try:
            code = self.child(name).wait(DIES_SECONDS)
        except subprocess.TimeoutExpired:
            raise Wrong("not hit") from None
        if code != -signal.SIGKILL or f"crash point {point} is reached" not in self.said(name):
            raise Wrong(f"{name} ended with {code}: {self.said(name)[-300:]}")

    # ---- cases ----

    def play(self, case, operation, body):
        """Runs body(name of the process, outcome), and notes what came of it."""
        victim = self.chance.choice(self.of_role(case.who))
        outcome = {"scene": self.name, "who": victim, "role": case.who, "point": case.point, "operation": operation, "hit": False, "recovered_s": None,
                   "result": "ok"}
        start = time.monotonic()
        try:
            body(victim, outcome)
        except (Wrong, OSError, ensemble.Failure) as error:
            outcome["result"] = f"FAILED: {error}"
            self.kill(victim)  # it may be waiting for its death still
            self.start(victim)
        outcome["took_s"] = round(time.monotonic() - start, 1)
        self.outcomes.append(outcome)
        print(row(outcome), flush=True)
        return outcome["result"] == "ok"

    def die_and_recover(self, victim, point, outcome, ended):
        """From its death on; `ended`: the client's command that is under way."""
        self.wait_death(victim, point)
        outcome["hit"] = True
        time.sleep(DOWN_SECONDS)
        self.start(victim)
        start = time.monotonic()
        self.wait_serving(victim)
        ended.result(ENDS_SECONDS)
        outcome["recovered_s"] = round(time.monotonic() - start, 2)

    def one(self, number, case, operation):
        """One case by itself."""
        name = f"{number}-{case.point}-{operation}"

        def body(victim, outcome):
            self.client.do("prepare", name, operation)
            if case.how == "run":
                self.restart(victim, case.point)
                ended = self.client.begin("run", name)
            elif case.who == "coordinator":
                self.kill(victim)
                ended = self.client.begin("run", name)
                self.start(victim, f"{operation}.durable")  # which leaves it something that it owes
                self.wait_death(victim, f"{operation}.durable")
                self.start(victim, case.point)
            else:
                self.client.do("run", name)
                self.kill(victim)
                self.start(victim, case.point)
                ended = self.client.begin("finish", name)
            self.die_and_recover(victim, case.point, outcome, ended)
            self.client.do("finish", name)
            self.client.do("check", name)
            if self.away is None:
                self.wait_owing_nothing()
        return self.play(case, operation, body)

    # ---- what must be so in the end ----

    def coordinators(self, figure):
        return sum(self.slice.metrics(name).get(figure, 0) for name in self.of_role("coordinator"))

    def wait_until(self, done, what):
        end = time.monotonic() + SETTLES_SECONDS
        while not done():
            if time.monotonic() > end:
                raise Wrong(what)
            time.sleep(0.1)

    def wait_owing_nothing(self):
        self.wait_until(lambda: self.coordinators("coordinator_open_intentions") == 0, "intentions stay open")

    def objects(self):
        folders = [pathlib.Path(server["data"]) / "objects" for server in self.servers.servers if server["role"] == "storage"]
        return [path for folder in folders for path in folder.rglob("*") if path.is_file()]

    def end(self):
        """Everything is there; then all of it is removed, and nothing is left anywhere."""
        self.client.do("verify")
        self.fsck("--data")
        there = len(self.objects())
        self.client.do("clear")
        self.wait_owing_nothing()
        self.wait_until(lambda: not self.objects(), f"objects of removed files stay on storage nodes: {[str(p) for p in self.objects()[:3]]}")
        self.fsck("--data")
        print(f"ok crashes {self.name}: all that was acknowledged is there; removed, none of {there} object files is left, "
              "no intention is open, fsck finds nothing", flush=True)

    def fsck(self, *flags):
        done = self.slice.slicectl("fsck", *flags, check=False)
        if done.returncode != 0:
            raise Wrong(f"fsck: {done.stdout}{done.stderr}")

    def drawn(self, cases):
        """(case, operation) pairs: with --scale 2 all, else one of each case."""
        every = self.options.scale >= 2
        return [(case, operation) for case in cases for operation in
                (case.operations if every else [self.chance.choice(case.operations)])]

    def each(self, cases):
        good = True
        for case, operation in self.drawn(cases):
            if wanted(case, self.options):
                good &= self.one(len(self.outcomes), case, operation)
        return good


def wanted(case, options):
    return not options.only or any(case.point.startswith(each) for each in options.only.split(","))


def row(outcome):
    recovered = "-" if outcome["recovered_s"] is None else f"{outcome['recovered_s']:.2f}"
    return (f"{outcome['scene']:12} {outcome['who']:8} {outcome['point']:22} {outcome['operation']:15} "
            f"{'hit' if outcome['hit'] else 'NOT HIT':8} {recovered:>8} {outcome['took_s']:>6} {outcome['result']}")


# ---- the scenes ----

def one_copy(scene):
    return scene.each(ONE_COPY)


def names(scene):
    return scene.each(NAMES)


def two_copies(scene):
    scene.slice.slicectl("policy", "set", "/two-copies", "--copies", "2", "--stripe-unit", "64KiB")
    good = scene.each(TWO_COPIES)
    # No storage node can be away by itself where all servers are one process.
    if scene.servers.one_process or not any(wanted(case, scene.options) for case in WITHOUT_ONE + MADE_WHOLE):
        return good
    scene.client.do("prepare", "missed", "truncate")
    scene.away = scene.chance.choice(scene.of_role("storage"))
    scene.kill(scene.away)
    good &= scene.each(WITHOUT_ONE)
    scene.client.do("run", "missed")
    return good & made_whole(scene)


def made_whole(scene):
    """The node comes back, and what it misses is copied, until somebody dies of it; again and again, since it goes away once more
    each time."""
    back, good = scene.away, True
    for case in MADE_WHOLE:
        def body(victim, outcome, point=case.point):
            scene.restart(victim, point)
            scene.start(back)
            try:
                scene.wait_death(victim, point)
            finally:
                scene.kill(back)
            scene.die_and_recover(victim, point, outcome, scene.client.begin("check", "missed"))
        if wanted(case, scene.options):
            good &= scene.play(case, "resync", body)
    scene.start(back)
    scene.away = None
    scene.wait_until(lambda: scene.coordinators("coordinator_copies_missing_something") == 0, "copies stay incomplete")
    return good


class Operator(threading.Thread):
    """Who changes something of an ensemble again and again, for as long as a `with` lasts."""

    def __init__(self, scene):
        super().__init__()
        self.scene, self.stopping = scene, threading.Event()

    def __enter__(self):
        self.start()

    def __exit__(self, *_):
        self.stopping.set()
        self.join()


class Moving(Operator):
    """Moves stripes of a file to and fro."""

    def __init__(self, scene, path):
        super().__init__(scene)
        self.path = path

    def run(self):
        nodes = [server["name"] for server in self.scene.servers.servers if server["role"] == "storage"]
        for turn in itertools.count():
            if self.stopping.is_set():
                return
            words = ("--stripe", str(1 + turn % STRIPES), "--to", nodes[turn // STRIPES % len(nodes)])
            self.scene.slice.slicectl("move", self.path, *words, check=False)


def block_mapped(scene):
    scene.slice.slicectl("policy", "set", "/block-mapped", "--placement", "free-space", "--stripe-unit", "64KiB")
    good = scene.each(PLACED)
    for number, case in enumerate(MOVED):
        def body(victim, outcome, point=case.point, name=f"moved-{number}"):
            scene.client.do("prepare", name, "overwrite")
            scene.restart(victim, point)
            with Moving(scene, f"/block-mapped/{name}/file"):
                scene.die_and_recover(victim, point, outcome, scene.client.begin("run", name))
            scene.client.do("finish", name)
            scene.client.do("check", name)
            scene.wait_owing_nothing()
        if wanted(case, scene.options):
            good &= scene.play(case, "move", body)
    return good


class Draining(Operator):
    """Drains the storage nodes one after another, each for some seconds."""

    SECONDS = 3

    def run(self):
        nodes = self.scene.of_role("storage")
        for turn in itertools.count(self.scene.chance.randrange(len(nodes))):
            node = nodes[turn % len(nodes)]
            self.scene.slice.slicectl("server", "drain", node, check=False)
            ended = self.stopping.wait(self.SECONDS)
            while self.scene.slice.slicectl("server", "drain", node, "--undo", check=False).returncode != 0:
                time.sleep(0.2)
            if ended:
                return


def emptied(scene):
    scene.slice.slicectl("policy", "set", "/emptied", "--copies", "2", "--stripe-unit", "64KiB")
    return while_an_operator(scene, EMPTIED, Draining)


class Weighing(Operator):
    """Gives one storage node after another most of the weight, and evens out by that."""

    SECONDS = 5
    LITTLE, MUCH = "1TiB", "3TiB"

    def run(self):
        nodes = self.scene.of_role("storage")
        for turn in itertools.count():
            for number, node in enumerate(nodes):
                self.scene.slice.slicectl("server", "set", node, "--weight", self.MUCH if number == turn % len(nodes) else self.LITTLE, check=False)
            self.scene.slice.slicectl("rebalance", check=False)
            if self.stopping.wait(self.SECONDS):
                return


def evened(scene):
    scene.slice.slicectl("policy", "set", "/evened", "--copies", "2", "--stripe-unit", "64KiB")
    return while_an_operator(scene, EVENED, Weighing)


class MovingSites(Operator):
    """Moves all sites of a class round its servers, some at a time."""

    WHICH = {"storage": (1024, 64), "small-file": (64, 4), "coordinator": (64, 32), "directory": (64, 16)}  # sites; how many at once

    def __init__(self, scene, site_class):
        super().__init__(scene)
        self.site_class = site_class

    def run(self):
        servers = [server["name"] for server in self.scene.servers.servers if server["role"] == self.site_class]
        every, count = self.WHICH[self.site_class]
        for turn in itertools.count(self.scene.chance.randrange(1000)):
            first = turn * count % every
            # Another one each time that all have been moved.
            words = ("site", "move", self.site_class, f"{first}-{first + count - 1}", servers[(turn + turn * count // every) % len(servers)])
            self.scene.slice.slicectl(*words, check=False)  # refused where some are on their way
            if self.stopping.wait(0.1):
                return


def moved_sites(scene):
    return while_sites_move(scene, SITES, "storage")


def moved_small_file_sites(scene):
    return while_sites_move(scene, SMALL_FILE_SITES, "small-file")


def moved_coordinator_sites(scene):
    scene.slice.slicectl("policy", "set", "/coordinator-sites", "--placement", "free-space", "--stripe-unit", "64KiB")
    return while_sites_move(scene, COORDINATOR_SITES, "coordinator")


def moved_directory_sites(scene):
    return while_sites_move(scene, DIRECTORY_SITES, "directory")


def while_sites_move(scene, cases, site_class):
    return while_an_operator(scene, cases, lambda of: MovingSites(of, site_class))


def while_an_operator(scene, cases, operator):
    good = True
    for number, case in enumerate(cases):
        operation = scene.chance.choice(case.operations)

        def body(victim, outcome, point=case.point, operation=operation, name=f"sites-{number}"):
            scene.client.do("prepare", name, operation)
            scene.restart(victim, point)
            with operator(scene):
                scene.die_and_recover(victim, point, outcome, scene.client.begin("run", name))
            scene.client.do("finish", name)
            scene.client.do("check", name)
            scene.wait_owing_nothing()
        if wanted(case, scene.options):
            good &= scene.play(case, operation, body)
    scene.wait_until(lambda: not going_on(scene), "moves do not end")
    return good


def going_on(scene):
    done = scene.slice.slicectl("moves", "--json", check=False)
    return done.returncode != 0 or any(move["ended_ns"] is None for move in json.loads(done.stdout)["moves"])


SCENES = {
    "moved-sites": (moved_sites, {"storage": 3}, []),
    "small-sites": (moved_small_file_sites, {"storage": 2, "small_files": 3}, ["--transport", "udp"]),
    "coordinator-sites": (moved_coordinator_sites, {"storage": 3, "coordinators": 2}, []),
    "directory-sites": (moved_directory_sites, {"directories": 3, "storage": 2, "probability": 1}, ["--transport", "udp"]),
    "block-mapped": (block_mapped, {"storage": 3}, []),
    "emptied": (emptied, {"storage": 4}, []),
    "evened": (evened, {"storage": 4}, []),
    "one-copy": (one_copy, {"storage": 3}, ["--far"]),
    "two-copies": (two_copies, {"storage": 3}, []),
    "names": (names, {"directories": 2, "storage": 2, "probability": 1}, ["--transport", "udp"]),
}


def play_scene(target, options, name, answer):
    """Sends (whether all was well, the outcomes) to `answer`."""
    body, shape, words = SCENES[name]
    outcomes = []
    start = time.monotonic()
    with target.make(name[:3], **shape) as slice_:
        scene = Scene(name, slice_, options)
        scene.client = Client(slice_, options, "--folder", name, *words)
        try:
            good = body(scene)
            scene.end()
        except (Wrong, OSError, ensemble.Failure, concurrent.futures.TimeoutError) as error:
            print(f"not ok crashes {name}: {error!r}", flush=True)
            good = False
        finally:
            scene.client.close()
            outcomes += scene.outcomes
    print(f"-- {name}: {'passed' if good else 'FAILED'} in {time.monotonic() - start:.0f} s", flush=True)
    answer.send((good, outcomes))


def play_all(target, options):
    """All scenes at once, each in a process of its own, so that a signal ends each where it is, and takes its ensemble away.
    Result: whether all was well, and the outcomes."""
    fork = multiprocessing.get_context("fork")
    scenes, good, outcomes, ended = [], True, [], False
    try:
        for name in SCENES:
            mine, its = fork.Pipe(duplex=False)
            scenes.append((fork.Process(target=play_scene, args=(target, options, name, its)), mine))
            scenes[-1][0].start()
            its.close()
        for process, answer in scenes:
            try:
                well, some = answer.recv()
            except EOFError:  # it ended without a word
                well, some = False, []
            good &= well
            outcomes += some
        ended = True
    finally:
        for process, _ in scenes:
            if not ended:
                process.terminate()
            process.join()
    return good, outcomes


def crashes(target, options):
    moved = [*MOVED, *EMPTIED, *EVENED, *SITES, *SMALL_FILE_SITES, *COORDINATOR_SITES, *DIRECTORY_SITES]
    cases = [*ONE_COPY, *TWO_COPIES, *WITHOUT_ONE, *MADE_WHOLE, *PLACED, *moved, *NAMES]
    covered = {case.point for case in cases} | ELSEWHERE
    missing, strange = named_points() - covered, covered - named_points()
    if missing or strange:
        print(f"not ok crashes: no case has {sorted(missing)}; the sources do not have {sorted(strange)}")
        return False
    print(f"{'scene':12} {'who':8} {'point':22} {'operation':15} {'':8} {'recov. s':>8} {'case s':>6} result", flush=True)
    good, outcomes = play_all(target, options)
    if target.one_process:
        cases = [case for case in cases if case not in [*WITHOUT_ONE, *MADE_WHOLE]]
    hit = {(outcome["role"], outcome["point"]) for outcome in outcomes if outcome["hit"]}
    not_hit = {(case.who, case.point) for case in cases if wanted(case, options)} - hit
    if options.json:
        options.json.write_text(json.dumps({"cases": outcomes, "not_hit": sorted(not_hit)}, indent=1) + "\n")
    recovered = sorted(outcome["recovered_s"] for outcome in outcomes if outcome["recovered_s"] is not None)
    middle = recovered[len(recovered) // 2] if recovered else 0
    print(f"{len(outcomes)} cases, {len(hit)} crash points of roles hit, recovered after {middle} s (median), {max(recovered, default=0)} s (longest)")
    if not_hit:
        print(f"not ok crashes: nobody died at {', '.join(f'{point} ({role})' for role, point in sorted(not_hit))}")
    return good and not not_hit and all(outcome["result"] == "ok" for outcome in outcomes)
