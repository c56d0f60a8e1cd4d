"""The suite `managers`: three managers that share their state in an etcd of three members. Who leads is killed, and stopped for ten seconds and let
go; members of etcd are killed, one and all of them; then every manager and all of etcd. A storage node comes and sites move meanwhile, through a
leader's death. A kernel client and slice-load work all the time, and notice nothing. How long nobody led is printed."""

import contextlib
import functools
import json
import os
import pathlib
import signal
import tempfile
import time

import grow
import lost_manager_state
import stalls
import steps
from load import Lasting

FILES = 6  # of libnfs; 16 stripes each
LEASE_SECONDS = 2  # as by default
# Until another leads: the lease, an election of etcd's where its leader died with it, and what slicectl takes on a busy machine.
LEADS_SECONDS = 10
STOPPED_SECONDS = 10
AWAY_SECONDS = 15  # of all managers and etcd
# Of a client's operation: as with nothing wrong, on a machine that does much else beside.
LONGEST_SECONDS = 6.0
CLIENT_SECONDS = 600  # at the most
MOVE_RATE = "4MiB"  # slow enough for a leader to die in the middle


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} managers {what}{'' if ok else f': {got}'}", flush=True)
    return ok


class Scene(grow.Scene):
    say = staticmethod(say)

    def __init__(self, target, options, files, load):
        super().__init__(target, options, files, None)
        self.load = load
        self.folder = pathlib.Path(target.facts["config"]).parent
        self.managers, self.etcd = target.servers("manager"), [name for name in target.process_names if name.startswith("etcd")]

    def status(self):
        done = self.target.slicectl("--timeout", "2", "status", "--json", check=False)
        return json.loads(done.stdout) if done.stdout else {}

    def leader(self):
        said = self.status()
        return said.get("leader") if said.get("manager_answers") else None

    def leads(self, what, but=None, patience=LEADS_SECONDS):
        """Until somebody leads, who is not `but`: his name, with the seconds that it took printed."""
        start, names = time.monotonic(), []
        good = self.until(lambda: names.append(self.leader()) or names[-1] not in (None, but), patience)
        say(good, f"{what}: {names[-1]} leads after {time.monotonic() - start:.1f} s", self.ask("status").stdout)
        return names[-1] if good else None

    until = staticmethod(functools.partial(grow.Scene.until, pause=0.05))  # how long it takes is measured

    def whole(self, what):
        """All is as it should be, and nobody has noticed anything."""
        self.target.wait_serving()
        well = self.until(lambda: self.status().get("health") == "HEALTH_OK", 30)
        ok = say(well, f"{what}: HEALTH_OK", self.ask("status").stdout)
        ok &= self.works(what)
        wrong = self.files.wrong()
        return ok & say(not wrong and self.files.write(1), f"{what}: every byte is right, and a file is written", wrong)

    def works(self, what):
        return say(not self.load.faults, f"{what}: slice-load sees nothing wrong", self.load.faults)

    def log(self, name):
        return (self.folder / "log" / f"{name}.log").read_text(errors="replace")

    def drawn(self):
        """A verifier, by the restart of a storage node."""
        self.target.restart("store1")
        pid = self.target.pids()["store1"]

        def serves():
            return any((server["name"], server["pid"], server["state"]) == ("store1", pid, "serving") for server in self.status().get("servers", []))
        say(self.until(serves, 30), "store1 is restarted, and serves")
        return self.target.metrics("store1")["write_verifier"]


def leader_dies(scene):
    before, first = scene.drawn(), scene.leader()
    scene.target.kill(first)
    second = scene.leads("the leader is killed", but=first)
    ok = say(second is not None and scene.drawn() > before, "the leader is killed: verifiers go on from the largest")
    scene.target.start(first)
    return ok & scene.whole("the leader is killed") & say(scene.leader() == second, "the leader is killed: who comes back stands by", scene.leader())


def leader_is_stopped(scene):
    """It believes that no time has passed: it must not do anything as the leader when it goes on."""
    first, before = scene.leader(), json.loads(scene.tell("tables", "--json"))["generation"]
    mark, pid = len(scene.log(first)), scene.target.pids()[first]
    os.kill(pid, signal.SIGSTOP)
    start = time.monotonic()
    try:
        second = scene.leads("the leader is stopped", but=first)
        ok = say(second is not None, "the leader is stopped: another one leads")
        scene.tell("server", "set", "store1", "--weight", "2TiB")
        time.sleep(max(0, start + STOPPED_SECONDS - time.monotonic()))
    finally:
        os.kill(pid, signal.SIGCONT)
    ok &= say(scene.until(lambda: "does not lead any more" in scene.log(first)[mark:], 5), "the leader is stopped: it says that it leads no more", scene.log(first)[mark:][-500:])
    time.sleep(LEASE_SECONDS)
    said = json.loads(scene.tell("tables", "--json"))
    weight = next(server["weight"] for server in said["servers"] if server["name"] == "store1")
    ok &= say((scene.leader(), said["generation"], weight) == (second, before + 1, 2 << 40), "the leader is stopped: nothing but what the other one did has changed",
              (scene.leader(), said["generation"], before, weight))
    scene.tell("server", "set", "store1", "--weight", "disk")
    return ok & scene.whole("the leader is stopped")


def moves_go_on(scene):
    """A storage node comes, and the leader dies; its share goes there, and the leader dies."""
    name = scene.target.add_storage_node(3)
    first = scene.leader()
    scene.target.kill(first)
    second = scene.leads("a server was added", but=first)
    scene.target.start(first)
    scene.target.wait_serving()
    listed = [server["name"] for server in scene.status()["servers"]]
    ok = say(second is not None and name in listed, "a server was added: the next leader knows it", listed)
    scene.tell("moves", "limit", MOVE_RATE)
    scene.tell("rebalance", "--class", "storage")
    begun = len(scene.going() or [])
    scene.target.kill(second)
    third = scene.leads("sites move", but=second)
    left = len(scene.going() or [])
    ok &= say(third is not None and begun > 0 and left > 0, f"sites move: {begun} moves were begun, and the next leader goes on with {left}", scene.ask("moves").stdout)
    scene.target.start(second)
    scene.tell("moves", "limit", "0")
    ok &= say(scene.until(lambda: scene.going() == [], grow.MOVES_SECONDS), "sites move: all moves end", scene.ask("moves").stdout)
    share = scene.owners().count(name)
    ok &= say(abs(share - len(scene.owners()) / 3) < len(scene.owners()) / 20, f"sites move: {name} has its share, {share} sites")
    return ok & scene.whole("sites move") & scene.clean("sites move", "tables", "--check") & scene.clean("sites move", "fsck", "--data")


def etcd_member_dies(scene):
    ok = True
    for name in scene.etcd:
        scene.target.kill(name)
        leader = scene.leads(f"{name} is killed")
        seen = scene.until(lambda: [each["name"] for each in scene.status().get("findings", [])] == ["ETCD_DEGRADED"], 20)
        ok &= say(leader is not None and seen, f"{name} is killed: status says ETCD_DEGRADED, and nothing else", scene.ask("status").stdout)
        scene.tell("server", "set", "store1", "--weight", "3TiB")
        scene.target.start(name)
        ok &= scene.whole(f"{name} is killed, and back")
    scene.tell("server", "set", "store1", "--weight", "disk")
    return ok


def etcd_dies(scene):
    """Two of three: nothing can be changed, so nobody leads; and nothing is lost of what was."""
    generation = json.loads(scene.tell("tables", "--json"))["generation"]
    for name in scene.etcd[:2]:
        scene.target.kill(name)
    gone = scene.until(lambda: scene.leader() is None, 3 * LEASE_SECONDS)
    ok = say(gone, "most of etcd is killed: nobody leads", scene.ask("status").stdout)
    time.sleep(5)
    ok &= scene.works("most of etcd is killed") & say(not scene.files.wrong() and scene.files.write(1), "most of etcd is killed: files are read and written")
    for name in scene.etcd[:2]:
        scene.target.start(name)
    ok &= say(scene.leads("etcd is back", patience=20) is not None, "etcd is back: somebody leads")
    ok &= say(json.loads(scene.tell("tables", "--json"))["generation"] == generation, "etcd is back: the tables are those from before")
    return ok & scene.whole("etcd is back")


def all_die(scene):
    """Managers and etcd: nothing on the data path notices."""
    generation = json.loads(scene.tell("tables", "--json"))["generation"]
    for name in [*scene.managers, *scene.etcd]:
        scene.target.kill(name)
    time.sleep(AWAY_SECONDS)
    ok = scene.works("every manager and etcd is dead") & say(not scene.files.wrong() and scene.files.write(1), "every manager and etcd is dead: files are read and written")
    for name in [*scene.etcd, *scene.managers]:
        scene.target.start(name)
    ok &= say(scene.leads("all are back", patience=20) is not None, "all are back: somebody leads")
    ok &= say(json.loads(scene.tell("tables", "--json"))["generation"] == generation, "all are back: the tables are those from before")
    return ok & scene.whole("all are back")


STEPS = (leader_dies, leader_is_stopped, moves_go_on, etcd_member_dies, etcd_dies, all_die)


def managers(ensembles, options):
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="slice-managers-", dir="/dev/shm"))
        target = stack.enter_context(ensembles.make("managers", managers=3, etcd=3, storage=2))
        files = lost_manager_state.Files(target, folder)
        if not files.write(FILES):
            return False
        client = stack.enter_context(stalls.client(target, CLIENT_SECONDS))
        with Lasting(target, options, folder) as load:
            ok = steps.carry_out(STEPS, Scene(target, options, files, load))
        ok &= say(not load.faults, f"slice-load saw nothing wrong, in {load.runs} runs", load.faults)
        return ok & client.well(say, LONGEST_SECONDS)
