"""The suite `lost-state`: what the manager knows is lost, in every way, after a storage node was added that has no sites yet. Whoever dealt
sites out of the configuration then would look for most bytes on nodes that do not have them, and find zeros."""

import json
import pathlib
import random
import shutil
import subprocess
import tempfile
import time

import uml

FILES, BYTES = 6, 1 << 20  # each over many stripes
STAYS_SECONDS = 12  # in which nothing may be dealt; longer than a manager's patience (control/manager/survey.h)


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} lost-state {what}{'' if ok else f': {got}'}", flush=True)
    return ok


class Files:
    """Files written and read by libnfs's own tool, each time by a new client."""

    def __init__(self, target, folder):
        self.target, self.folder = target, pathlib.Path(folder)
        self.written = []

    def _copy(self, source, to):
        done = subprocess.run(uml.in_netns(self.target.netns, "timeout", "30", "nfs-cp", str(source), str(to)), capture_output=True, text=True)
        return done.returncode == 0

    def _remote(self, name):
        return f"nfs://{self.target.server}{self.target.export}/{name}?version=3&nfsport={self.target.port}&mountport={self.target.mount_port}"

    def write(self, count):
        for _ in range(count):
            name = f"file{len(self.written)}"
            (self.folder / name).write_bytes(random.Random(name).randbytes(BYTES))
            if not self._copy(self.folder / name, self._remote(name)):
                return say(False, f"{name} cannot be written")
            self.written.append(name)
        return True

    def wrong(self):
        """Names of those with other bytes than were written."""
        wrong = []
        for name in self.written:
            back = self.folder / "back"
            back.unlink(missing_ok=True)
            if not self._copy(self._remote(name), back) or back.read_bytes() != (self.folder / name).read_bytes():
                wrong.append(name)
        return wrong


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

    def forget(self, *names):
        """The copies of the tables that these servers have kept."""
        for name in names:
            (self.data / name / "tables.copy").unlink(missing_ok=True)

    def servers(self):
        return [name for name in self.target.process_names if not name.startswith("proxy")]

    def manager_says(self):
        """Its state, as `status` shows it; nothing where it does not answer."""
        done = self.target.slicectl("status", "--json", check=False)
        if done.returncode != 0:
            return ""
        return next(server["state"] for server in json.loads(done.stdout)["servers"] if server["name"] == "manager1")

    def whole(self, what, before):
        """Everything serves, by the tables from before, and every byte is right."""
        start = time.monotonic()
        self.target.wait_serving()
        print(f"serving after {time.monotonic() - start:.1f} s", flush=True)
        tables = self.tables()
        ok = say(tables["classes"] == before["classes"] and tables["generation"] >= before["generation"], f"{what}: the tables are those from before",
                 f"generation {tables['generation']}, was {before['generation']}")
        wrong = self.files.wrong()
        return ok & say(not wrong, f"{what}: every byte is right", f"of {len(self.files.written)} files wrong: {', '.join(wrong)}") & self.files.write(1)


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


def pinned_alone(scene, before):
    """Nobody but the XDP program's pinned maps knows."""
    names = scene.target.process_names
    scene.kill(names)
    (scene.data / "manager1/manager.state").unlink()
    scene.forget(*scene.servers())
    scene.start(names)
    return scene.whole("all copies are lost but the pinned ones", before)


def nobody_knows(scene, before):
    """No tables are left: nothing is served until the manager's state is back."""
    names = scene.target.process_names
    scene.kill(names)
    state = scene.data / "manager1/manager.state"
    backup = state.read_bytes()
    state.unlink()
    scene.forget(*scene.servers())
    shutil.rmtree(f"/sys/fs/bpf/slice-{scene.target.instance}")
    scene.start(names)
    time.sleep(STAYS_SECONDS)
    said = scene.manager_says()
    ok = say("backup" in said and "store1" in said, "without any tables nothing is dealt", said)
    scene.kill(["manager1"])
    state.write_bytes(backup)
    scene.start(["manager1"])
    return ok & scene.whole("manager.state is back from a backup", before)


def lost_state(ensembles, options):
    with tempfile.TemporaryDirectory(prefix="slice-lost-state-", dir="/dev/shm") as folder, ensembles.make("lost", storage=3) as target:
        scene = Scene(target, folder)
        if not scene.files.write(FILES):
            return False
        dealt = scene.tables()
        added = target.add_storage_node(4)
        target.wait_serving()
        before = scene.tables()
        ok = say(before["classes"] == dealt["classes"] and before["generation"] == dealt["generation"] + 1, f"{added} is added and holds no sites")
        steps = [manager_alone, everything_restarts, *([pinned_alone] if target.has_xdp else []), nobody_knows]
        wanted = options.only.split(",") if options.only else [step.__name__ for step in steps]
        return ok & all([step(scene, before) for step in steps if step.__name__ in wanted])
