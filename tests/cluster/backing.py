"""The suite `backing`: directory servers, the small-file server and the coordinator keep what they have on storage nodes. Each is killed, stopped for
ten seconds, and loses its host with all that was on it; storage nodes are killed and stay away; and a directory server is taken to another host by hand,
while its old process is only stopped, and goes on later. A kernel client and slice-load work all the time, and notice nothing but a pause."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import grow
import lost_manager_state
import stalls
import steps
import targets
import uml
from load import Lasting

FILES = 6  # of libnfs; 16 stripes each
COPIES = 2
STOPPED_SECONDS = 10
SERVES_SECONDS = 20  # from a start until a server serves, whose former session has to end before
WHOLE_SECONDS = 90  # until a node is filled: one that was a member is waited for 30 s before another one is
ROT_SECONDS = 60  # until copies have been compared
FORGOTTEN_SECONDS = 30  # until a manager without its state knows all sets again
CLIENT_SECONDS = 600  # at the most
ELSEWHERE_LEG = 150  # the host that dir1 is taken to
# Of a client's operation: the manager notices a stopped process after 5 s, and the session ends within 3.
LONGEST_SECONDS = 20.0


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} backing {what}{'' if ok else f': {got}'}", flush=True)
    return ok


class Scene(grow.Scene):
    say = staticmethod(say)

    def __init__(self, target, options, files, load):
        super().__init__(target, options, files, None)
        self.load = load
        self.folder = pathlib.Path(target.facts["config"]).parent
        self.backed = target.servers("dir") + target.servers("small") + target.servers("coord")
        self.nodes = target.servers("store")

    def metric(self, server, name):
        return self.target.metrics(server)[name]

    def members(self, name):
        return self.metric(name, "backing_members")

    def serves_or_starts(self, name):
        """Whether it serves; where its process has ended it is started again, as by systemd."""
        if self.target.pids()[name] is None:
            self.target.start(name)
        members = (self.target.status() or {"servers": []})["servers"]
        return any(each["name"] == name and each["alive"] and each["state"].startswith("serving") and each["pid"] == self.target.pids()[name] for each in members)

    def lost(self):
        """How often nodes were taken out of sets."""
        return sum(self.target.metrics(name)["backing_members_lost_total"] for name in self.backed)

    def whole(self, what):
        """All is as it should be, and nobody has noticed anything."""
        self.target.wait_serving()
        well = self.until(lambda: all(self.members(name) == COPIES for name in self.backed), WHOLE_SECONDS)
        ok = say(well, f"{what}: all sets have {COPIES} members", {name: self.members(name) for name in self.backed})
        ok &= say(not self.load.faults, f"{what}: slice-load sees nothing wrong", self.load.faults)
        wrong = self.files.wrong()
        return ok & say(not wrong and self.files.write(1), f"{what}: every byte is right, and a file is written", wrong)

    def sets(self):
        """{server: [storage nodes with a whole copy]}, as the manager knows it."""
        shown = self.target.slicectl("backing", "--json", check=False)
        return {each["server"]: each["members"] for each in json.loads(shown.stdout)["sets"]} if shown.returncode == 0 else {}

    def number(self, name):
        """Of a member: by it nodes name the folder of its set."""
        shown = json.loads(self.target.slicectl("tables", "--json").stdout)
        return next(server["index"] for server in shown["servers"] if server["name"] == name)

    def log(self, name):
        return (self.folder / "log" / f"{name}.log").read_text(errors="replace")


def owners_die(scene):
    for name in scene.backed:
        start = time.monotonic()
        scene.target.kill_and_start(name)
        scene.target.wait_serving(SERVES_SECONDS)
        print(f"{name}: killed, and serves after {time.monotonic() - start:.1f} s", flush=True)
    return scene.whole("each owner is killed")


def owner_is_stopped(scene):
    """Its session ends; nobody else wants the set, so it goes on."""
    os.kill(scene.target.pids()["dir1"], signal.SIGSTOP)
    time.sleep(STOPPED_SECONDS)
    os.kill(scene.target.pids()["dir1"], signal.SIGCONT)
    return scene.whole("dir1 is stopped for 10 s")


def hosts_are_lost(scene):
    ok = True
    for name in scene.backed:
        scene.target.kill(name)
        data = scene.folder / "data" / name
        had = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
        shutil.rmtree(data)
        start = time.monotonic()
        scene.target.start(name)
        scene.target.wait_serving(SERVES_SECONDS)
        print(f"{name}: its host is lost, with {had} bytes; serves from an empty directory after {time.monotonic() - start:.1f} s", flush=True)
        ok &= scene.whole(f"the host of {name} is lost")
    return ok & scene.clean("hosts are lost", "fsck", "--data")


def nodes_die(scene):
    """One after another; each is back before the next one goes."""
    ok = True
    for name in scene.nodes[:2]:
        scene.target.kill(name)
        time.sleep(6)
        ok &= say(not scene.load.faults, f"{name} is killed: slice-load sees nothing wrong", scene.load.faults)
        scene.target.start(name)
        ok &= scene.whole(f"{name} is killed, and back")
    return ok


def node_stays_away(scene):
    """Others are filled in its place, and later the next one goes: what was only there is not missed."""
    lost = scene.lost()
    scene.target.kill(scene.nodes[0])
    ok = say(scene.until(lambda: scene.lost() > lost, 20), f"{scene.nodes[0]} stays away: it is taken out")
    well = scene.until(lambda: all(scene.members(name) == COPIES for name in scene.backed), WHOLE_SECONDS)
    ok &= say(well, f"{scene.nodes[0]} stays away: others are filled", {name: scene.members(name) for name in scene.backed})
    for name in scene.backed:
        scene.target.kill_and_start(name)
    scene.target.start(scene.nodes[0])
    return ok & scene.whole(f"{scene.nodes[0]} was away")


def a_copy_rots(scene):
    """A byte of a node's copy changes behind its back, in a file that nobody writes. It is found and made anew; where it changed while its server was
    away, it is told alone, until the copy that an operator takes for wrong is gone."""
    copy = OneCopy(scene, "dir1")
    seen = scene.metric("dir1", "backing_scrub_passes_total")
    ok = say(scene.until(lambda: scene.metric("dir1", "backing_scrub_passes_total") > seen + 1, ROT_SECONDS), "copies are compared")
    copy.damage()
    ok &= say(scene.until(lambda: copy.whole() and scene.metric("dir1", "backing_damaged_total") == 1, ROT_SECONDS), "a byte has changed: it is found, and made anew")
    scene.target.kill("dir1")
    copy.damage()
    # A run that reads the damaged copy ends with an error, and the next one reads the other.
    ok &= say(scene.until(lambda: scene.serves_or_starts("dir1"), SERVES_SECONDS), "a byte has changed while its server was away: it starts by the other copy", scene.log("dir1")[-500:])
    ok &= say(scene.until(lambda: scene.metric("dir1", "backing_differing_pieces") == 1, ROT_SECONDS), "and says that copies differ", scene.log("dir1")[-500:])
    ok &= say(not copy.whole(), "and nothing is changed")
    ok &= say("COPIES_DIFFER" in scene.target.slicectl("status", check=False).stdout, "slicectl status: COPIES_DIFFER")
    scene.target.kill(copy.node)
    copy.forget()
    scene.target.start(copy.node)
    ok &= say(scene.until(lambda: scene.metric("dir1", "backing_differing_pieces") == 0, WHOLE_SECONDS), "the operator's choice is the other: it is filled from there")
    return ok & scene.whole("a copy was damaged")


class OneCopy:
    """A node's copy of the file that says which sites a server has: nothing changes it for now."""

    def __init__(self, scene, server):
        self.node, other = scene.sets()[server]
        folder = f"backing/{scene.number(server):08x}"
        self.folder = scene.folder / "data" / self.node / folder
        self.path = self.folder / "files/ownership"
        self.right = self.folder.parents[2] / other / folder / "files/ownership"

    def damage(self):
        with open(self.path, "r+b") as file:
            file.seek(self.path.stat().st_size // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))

    def whole(self):
        return self.path.read_bytes() == self.right.read_bytes()

    def forget(self):
        shutil.rmtree(self.folder)


class Elsewhere:
    """dir1 at another host: a context."""

    def __init__(self, scene):
        self.scene, target = scene, scene.target
        self.namespace = f"{target.facts['proxy'].removesuffix('-proxy')}-host{ELSEWHERE_LEG}"
        self.address, self.data = f"10.77.{ELSEWHERE_LEG}.2", scene.folder / "data" / "elsewhere"
        self.config, self.log = scene.folder / "elsewhere.toml", scene.folder / "log" / "elsewhere.log"
        text = pathlib.Path(target.facts["config"]).read_text()
        self.config.write_text(text.replace(f'data = "{scene.folder}/data/dir1"', f'data = "{self.data}"'))

    def __enter__(self):
        self.scene.target.add_leg(f"host{ELSEWHERE_LEG}", self.namespace, ELSEWHERE_LEG)
        self.scene.tell("server", "set", "dir1", "--address", self.address)
        command = uml.in_netns(self.namespace, str(self.scene.target.bin_dir / targets.ensemble.PROGRAMS["directory"]), "--config", str(self.config), "--name", "dir1")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)

    def says(self, text, patience):
        return self.scene.until(lambda: text in self.log.read_text(errors="replace"), patience)


def owner_is_taken_elsewhere(scene):
    """By hand, as docs/operations.md says. Its old process is stopped meanwhile, believes that no time has passed, and must answer nobody when it
    goes on."""
    old = scene.target.pids()["dir1"]
    hosts = scene.target.hosts()
    hosts.load()
    was = hosts.server("dir1")["address"]
    os.kill(old, signal.SIGSTOP)
    start = time.monotonic()
    with Elsewhere(scene) as elsewhere:
        if not say(elsewhere.says("serving as", SERVES_SECONDS), "dir1 is stopped: another host has the set", elsewhere.log.read_text()[-1000:]):
            os.kill(old, signal.SIGCONT)
            return False  # nobody would answer those who read
        print(f"dir1 serves elsewhere after {time.monotonic() - start:.1f} s", flush=True)
        wrong = scene.files.wrong()
        ok = say(not wrong and scene.files.write(1), "dir1 elsewhere: every byte is right, and a file is written", wrong)
        os.kill(old, signal.SIGCONT)
        gone = scene.until(lambda: scene.target.pids()["dir1"] is None, 10)
        ok &= say(gone and "is not its own any more" in scene.log("dir1"), "the old dir1 finds out, and ends", scene.log("dir1")[-500:])
        ok &= say(not scene.load.faults, "dir1 elsewhere: slice-load sees nothing wrong", scene.load.faults)
        ok &= scene.clean("dir1 elsewhere", "fsck", "--data")
    scene.tell("server", "set", "dir1", "--address", was)
    scene.target.start("dir1")
    return ok & scene.whole("dir1 is back")


def manager_forgets(scene):
    """Its disk is lost while all goes on: owners tell it of their sets. Then one of them is started again, and a node goes."""
    scene.target.kill("manager1")
    shutil.rmtree(scene.folder / "data/manager1")
    scene.target.start("manager1")
    well = scene.until(lambda: len(scene.sets()) == len(scene.backed), FORGOTTEN_SECONDS)
    missing = [name for name in scene.backed if name not in scene.sets()]
    ok = say(well, "the manager's disk is lost: it knows all sets again", {name: scene.log(name)[-1000:] for name in missing})
    scene.target.kill_and_start("dir1")
    scene.target.kill(scene.nodes[1])
    time.sleep(6)
    scene.target.start(scene.nodes[1])
    return ok & scene.whole("the manager's disk was lost")


def all_forget(scene):
    """All is stopped, and the manager's disk lost with it: who has what is found on the nodes. A node that has lost its part of a set is missed until an
    operator says that another one has all."""
    names = [name for name in scene.target.process_names if not name.startswith("proxy")]
    victim, *others = scene.sets()["small1"]
    number = scene.number("small1")
    for name in names:
        scene.target.kill(name)
    shutil.rmtree(scene.folder / "data/manager1")
    shutil.rmtree(scene.folder / f"data/{victim}/backing/{number:08x}")
    for name in names:
        scene.target.start(name)
    well = scene.until(lambda: {"dir1", "dir2", "coord1"} <= set(scene.sets()), FORGOTTEN_SECONDS)
    ok = say(well, "all is started again without the manager's disk: sets are found on the nodes", scene.sets())
    ok &= say("small1" not in scene.sets(), "but that of which a member has lost its part", scene.sets())
    said = scene.until(lambda: f"{victim} is a member of it" in scene.log("small1"), FORGOTTEN_SECONDS)
    ok &= say(said, "whose server says whom it waits for", scene.log("small1")[-500:])
    adopted = scene.target.slicectl("backing", "adopt", "small1", "--members", ",".join(others), check=False)
    ok &= say(adopted.returncode == 0, "slicectl backing adopt", adopted.stderr)
    return ok & scene.whole("all was forgotten") & scene.clean("all was forgotten", "fsck", "--data")


STEPS = (owners_die, owner_is_stopped, hosts_are_lost, nodes_die, node_stays_away, owner_is_taken_elsewhere, a_copy_rots, manager_forgets, all_forget)


def backing(ensembles, options):
    chosen = [step for step in STEPS if not options.only or step.__name__ in options.only.split(",")]
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="slice-backing-", dir="/dev/shm"))
        target = stack.enter_context(ensembles.make("backing", directories=2, storage=4, copies=2, backing=COPIES))
        files = lost_manager_state.Files(target, folder)
        if not files.write(FILES):
            return False
        client = stack.enter_context(stalls.client(target, CLIENT_SECONDS))
        with Lasting(target, options, folder) as load:
            ok = steps.carry_out(chosen, Scene(target, options, files, load))
        ok &= say(not load.faults, f"slice-load saw nothing wrong, in {load.runs} runs", load.faults)
        return ok & client.well(say, LONGEST_SECONDS)
