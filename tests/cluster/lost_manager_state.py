"""The suite `lost-manager-state`: what the manager knows is lost, in every way, after a storage node was added that has no sites yet. Whoever
dealt sites out of the configuration then would look for most bytes on nodes that do not have them, and find zeros. And a server loses what it
knows of its own sites, alone and with its data."""

import json
import pathlib
import random
import shutil
import subprocess
import tempfile
import time

import uml
from attacks import rpc

FILES, BYTES = 6, 1 << 20  # each over many stripes
SETTLES_SECONDS = 20  # in which what is told and removed by and by must be
STAYS_SECONDS = 12  # in which nothing may be dealt; longer than a manager's patience (control/manager/survey.h)


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} lost-manager-state {what}{'' if ok else f': {got}'}", flush=True)
    return ok


class Files:
    """Files written and read by libnfs's own tool, each time by a new client."""

    def __init__(self, target, folder):
        self.target, self.folder = target, pathlib.Path(folder)
        self.written, self.made = [], 0

    def _copy(self, source, to, patience=30):
        done = subprocess.run(uml.in_netns(self.target.netns, "timeout", str(patience), "nfs-cp", str(source), str(to)), capture_output=True, text=True)
        return done.returncode == 0

    def _remote(self, name):
        return f"nfs://{self.target.server}{self.target.export}/{name}?version=3&nfsport={self.target.port}&mountport={self.target.mount_port}"

    def write(self, count):
        for _ in range(count):
            name = f"file{self.made}"
            self.made += 1
            (self.folder / name).write_bytes(random.Random(name).randbytes(BYTES))
            if not self._copy(self.folder / name, self._remote(name)):
                return say(False, f"{name} cannot be written")
            self.written.append(name)
        return True

    def remove(self, name):
        with rpc.Caller(self.target.netns, self.target.server) as caller:
            caller.remove(rpc.mount_root(self.target.netns, self.target.server), name)

    def wrong(self):
        """Names of those that cannot be read, or have other bytes than were written."""
        return [name for name in self.written if self._read_back(name) != (self.folder / name).read_bytes()]

    def misread(self):
        """Names of those, among the first, that can be read and show other bytes than were written."""
        wrong = []
        for name in self.written[:4]:
            shown = self._read_back(name, patience=6) or b""
            if shown != (self.folder / name).read_bytes()[:len(shown)]:
                wrong.append(name)
        return wrong

    def _read_back(self, name, **how):
        """What there is of it after a copy that may fail half-way; nothing where that is unknown."""
        back = self.folder / "back"
        back.unlink(missing_ok=True)
        done = self._copy(self._remote(name), back, **how)
        return back.read_bytes() if done else None


class Scene:
    def __init__(self, target, folder):
        self.target = target
        self.files = Files(target, folder)
        self.data = pathlib.Path(target.facts["config"]).parent / "data"

    def tables(self):
        return json.loads(self.target.slicectl("tables", "--json").stdout)

    def kill(self, names):
        for name in names:
            self.target.kill(name)

    def start(self, names):
        for name in names:
            self.target.start(name)

    def forget(self, file, names):
        """A file that each of these servers keeps: `tables.copy`, `ownership`."""
        for name in names:
            (self.data / name / file).unlink(missing_ok=True)

    def forget_tables(self):
        """All but the servers' own records, and the pinned maps."""
        (self.data / "manager1/manager.state").unlink()
        self.forget("tables.copy", self.servers())

    def servers(self):
        return [name for name in self.target.process_names if not name.startswith("proxy")]

    def state_of(self, wanted):
        """A process's state, as `status` shows it; nothing where the manager does not answer."""
        status = self.target.status()
        if status is None:
            return ""
        return next(server["state"] for server in status["servers"] if server["name"] == wanted)

    def waits(self, name, why, what):
        """Within a while the process says that it waits, and why; it goes on doing so."""
        time.sleep(STAYS_SECONDS)
        said = self.state_of(name)
        return say(said.startswith("waiting") and all(word in said for word in why), what, f"{name}: {said}")

    def whole(self, what, before):
        """Everything serves, by the tables from before, and every byte is right."""
        start = time.monotonic()
        self.target.wait_serving()
        print(f"serving after {time.monotonic() - start:.1f} s", flush=True)
        tables = self.tables()
        ok = say(tables["classes"] == before["classes"] and tables["generation"] >= before["generation"], f"{what}: the tables are those from before",
                 f"generation {tables['generation']}, was {before['generation']}")
        wrong = self.files.wrong()
        ok &= say(not wrong, f"{what}: every byte is right", f"of {len(self.files.written)} files wrong: {', '.join(wrong)}")
        ok &= self.until(lambda: self.slicectl("tables", "--check"), lambda done: done.returncode == 0, f"{what}: slicectl tables --check")
        return ok & self.bytes_found(f"{what}: fsck --data", {}) & self.files.write(1)

    def bytes_found(self, what, expected, *flags, unmapped=0):
        """What `slicectl fsck --data` says of bytes: {kind: how many}, and of how many objects nobody said where their bytes should be."""
        def as_expected(done):
            said = json.loads(done.stdout) if done.stdout else None
            return said and (said["counts"], said["totals"]["unmapped_objects"]) == (expected, unmapped) and done.returncode == (1 if expected else 0)

        return self.until(lambda: self.slicectl("fsck", "--json", "--data", *flags), as_expected, what)

    def slicectl(self, *words):
        return self.target.slicectl(*words, check=False)

    def until(self, ask, good, what):
        """Asks until the answer is good: heartbeats, reports and removals take their time."""
        end = time.monotonic() + SETTLES_SECONDS
        while not good(done := ask()) and time.monotonic() < end:
            time.sleep(0.5)
        return say(good(done), what, f"exit code {done.returncode}\n{done.stdout}{done.stderr}")

    def objects(self, node):
        """The files that have the objects of a stopped node, by their place in its data directory."""
        return sorted(path.relative_to(self.data / node) for path in (self.data / node / "objects").rglob("*.0"))


def manager_alone(scene, before):
    scene.kill(["manager1"])
    (scene.data / "manager1/manager.state").unlink()
    scene.start(["manager1"])
    return scene.whole("manager.state is lost", before)


def everything_restarts(scene, before):
    names = scene.target.process_names
    scene.kill(names)
    shutil.rmtree(scene.data / "manager1")
    scene.start(names)
    ok = scene.whole("the manager's disk is lost, everything starts again", before)
    return ok & say(scene.target.metrics("manager1")["manager_offers_taken_total"] > 0, "the tables came from the others")


def records_alone(scene, before):
    """No tables are left, not even pinned ones: servers know which sites they have."""
    names = scene.target.process_names
    scene.kill(names)
    scene.forget_tables()
    shutil.rmtree(f"/sys/fs/bpf/slice-{scene.target.instance}", ignore_errors=True)
    scene.start(names)
    return scene.whole("all tables are lost, records are there", before)


def pinned_alone(scene, before):
    """Nobody but the XDP program's pinned maps knows."""
    names = scene.target.process_names
    scene.kill(names)
    scene.forget_tables()
    scene.forget("ownership", scene.servers())
    scene.start(names)
    return scene.whole("records and tables are lost but the pinned ones", before)


def nobody_knows(scene, before):
    """Neither tables nor records are left: nothing is served until the manager's state is back."""
    names = scene.target.process_names
    scene.kill(names)
    state = scene.data / "manager1/manager.state"
    backup = state.read_bytes()
    scene.forget_tables()
    scene.forget("ownership", scene.servers())
    shutil.rmtree(f"/sys/fs/bpf/slice-{scene.target.instance}", ignore_errors=True)
    scene.start(names)
    ok = scene.waits("manager1", ("backup", "store1"), "without tables and records nothing is dealt")
    scene.kill(["manager1"])
    state.write_bytes(backup)
    scene.start(["manager1"])
    return ok & scene.whole("manager.state is back from a backup", before)


def record_is_lost(scene, before):
    """Of a server that has its data: it is granted again what it has by the tables."""
    scene.kill(["store1", "dir1"])
    scene.forget("ownership", ["store1", "dir1"])
    scene.start(["store1", "dir1"])
    return scene.whole("two servers' records are lost", before) & say((scene.data / "store1/ownership").exists(), "and made anew")


def data_is_lost(scene, before):
    """A storage node comes back with an empty disk: it must not serve zeros. Nor where the manager's state was lost meanwhile."""
    disk, away = scene.data / "store1", scene.data / "store1-away"
    scene.kill(["store1"])
    disk.rename(away)
    scene.start(["store1"])
    ok = scene.waits("store1", ("neither a record",), "a node whose disk is empty does not serve")
    wrong = scene.files.misread()
    ok &= say(not wrong, "and nobody is shown zeros for its bytes", ", ".join(wrong))
    scene.kill(["store1", "manager1"])
    (scene.data / "manager1/manager.state").unlink()
    shutil.rmtree(disk)
    scene.start(["manager1", "store1"])
    ok &= scene.waits("store1", ("neither a record",), "nor where the manager has lost its state")
    scene.kill(["store1"])
    shutil.rmtree(disk)
    away.rename(disk)
    scene.start(["store1"])
    return ok & scene.whole("the disk is back", before)


def bytes_at_the_wrong_place(scene, _before):
    """What `fsck --data` must find, with servers that serve and with their data directories."""
    target = scene.target
    ok = scene.files.write(1)  # which is removed below
    removed = scene.files.written.pop()
    time.sleep(5)  # until what is stored is told
    names = target.process_names
    scene.kill(names)
    ok &= scene.bytes_found("offline: a volume that was killed is whole", {}, "--offline")
    objects = scene.objects("store1")
    moved, lost = objects[0], objects[-1]  # of the first file, and of the one that is removed
    kept = {node: (scene.data / node / lost).read_bytes() for node in ("store1", "store2", "store3") if (scene.data / node / lost).exists()}
    place = scene.data / "store4" / moved
    place.parent.mkdir(parents=True)
    shutil.copy(scene.data / "store1" / moved, place)
    ok &= scene.bytes_found("offline: bytes at a node without their site", {"stray": 1}, "--offline")
    for node in kept:
        (scene.data / node / lost).unlink()
    ok &= scene.bytes_found("offline: bytes that no node has", {"lost-bytes": 1, "stray": 1}, "--offline")
    scene.start(names)
    target.wait_serving()
    ok &= scene.bytes_found("bytes at a node without their site, and bytes that no node has", {"lost-bytes": 1, "stray": 1})
    scene.files.remove(removed)
    ok &= scene.bytes_found("the file whose bytes are lost is removed", {"stray": 1})
    scene.kill(["store1", "store4"])
    place.unlink()
    (scene.data / "store1" / lost).write_bytes(kept["store1"])
    scene.start(["store1", "store4"])
    target.wait_serving()
    ok &= scene.bytes_found("bytes of a file that there is not", {"nameless": 1})
    scene.kill(["store1"])
    (scene.data / "store1" / lost).unlink()
    scene.start(["store1"])
    target.wait_serving()
    return ok & scene.bytes_found("and all is whole", {})


def copies_at_the_wrong_place(scene, _before):
    """The same of a file with two copies, a stripe of which has gone to a node that came later: block maps say so, which the stopped coordinator has."""
    target = scene.target
    target.slicectl("policy", "set", "/", "--copies", "2")
    ok = scene.files.write(1)
    target.slicectl("move", f"/{scene.files.written[-1]}", "--stripe", "3", "--to", "store4")
    names = target.process_names
    scene.kill(names)
    there = scene.objects("store4")
    ok &= say(len(there) == 1, "offline: one object is at the node that came later", there)
    ok &= scene.bytes_found("offline: copies are where maps and records have them", {}, "--offline")
    place = scene.data / "store4" / there[0]
    kept = place.rename(scene.data / "kept")  # with its holes
    shutil.copy(scene.data / "store1" / there[0], place)
    ok &= scene.bytes_found("offline: copies at a node that has another stripe", {"stray": 1}, "--offline")
    kept.rename(place)
    coordinator = scene.data / "coord1"
    coordinator.rename(coordinator.with_name("away"))
    ok &= scene.bytes_found("offline: without the coordinator's maps", {}, "--offline", unmapped=4)
    coordinator.with_name("away").rename(coordinator)
    scene.start(names)
    target.wait_serving()
    wrong = scene.files.wrong()
    return ok & say(not wrong, "every byte is right after that", ", ".join(wrong)) & scene.bytes_found("and all is whole, copies too", {})


def lost_manager_state(ensembles, options):
    with tempfile.TemporaryDirectory(prefix="slice-lost-state-", dir="/dev/shm") as folder, ensembles.make("lost", storage=3) as target:
        scene = Scene(target, folder)
        if not scene.files.write(FILES):
            return False
        dealt, pids = scene.tables(), target.pids()
        added = target.add_storage_node(4)
        target.wait_serving()
        before = scene.tables()
        ok = say(before["classes"] == dealt["classes"] and before["generation"] == dealt["generation"] + 2, f"{added} is added, has started, and holds no sites")
        ok &= say({name: pid for name, pid in target.pids().items() if name != added} == pids, "nobody was restarted for that")
        steps = [manager_alone, everything_restarts, records_alone, *([pinned_alone] if target.has_xdp else []), nobody_knows, record_is_lost, data_is_lost, bytes_at_the_wrong_place,
                 copies_at_the_wrong_place]
        wanted = options.only.split(",") if options.only else [step.__name__ for step in steps]
        return ok & all([step(scene, before) for step in steps if step.__name__ in wanted])
