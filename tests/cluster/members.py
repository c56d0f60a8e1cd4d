"""The suite `members`: the procedures of docs/operations.md by which a storage node comes and goes for good, carried out as they are written. A
node that was removed is refused with what it has on its disk, one that comes again by its name begins with nothing; the manager is
killed in between. df and status show those who are there. And files with two copies are evened out over one that comes, whoever dies."""

import json
import os
import pathlib
import shutil
import signal
import struct
import tempfile
import time

from attacks import rpc
import grow
import lost_manager_state
import steps

FILES = 12  # of libnfs; 16 stripes each
FSSTAT = 18
REMOVED = "was removed from the ensemble"
ENDS_SECONDS = 10  # in which a process notices that it is no member any more
POLICY_SECONDS = 3  # in which all directory servers go by a policy
SESSION_SECONDS = 5  # after which a coordinator that has started would act
COMES_SECONDS = 20  # in which figures that are told once a second have come everywhere


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} members {what}{'' if ok else f': {got}'}", flush=True)
    return ok


class Scene(grow.Scene):
    """One without kernel clients."""

    say = staticmethod(say)

    def __init__(self, target, options, files):
        super().__init__(target, options, files, None)
        self.folder = pathlib.Path(target.facts["config"]).parent

    def right(self, what):
        wrong = self.files.wrong()
        return say(not wrong, f"{what}: every byte is right", f"of {len(self.files.written)} files wrong: {', '.join(wrong)}")

    def good(self, what):
        """By every check there is, and files are written on."""
        ok = self.clean(what, "tables", "--check") & self.clean(what, "fsck", "--data") & self.right(what)
        return ok & say(self.files.write(1), f"{what}: a file is written")

    def moved(self, what):
        return say(self.until(lambda: self.going() == [], grow.MOVES_SECONDS), f"{what}: moves end", self.ask("moves").stdout)

    def df(self):
        """What clients are told of the volume's size, in bytes."""
        root = rpc.mount_root(self.target.netns, self.target.server)
        with rpc.Caller(self.target.netns, self.target.server) as caller:
            rest = rpc.behind_attributes(caller.good(FSSTAT, rpc.opaque(root)))
        return struct.unpack_from("!Q", rest)[0]

    def shows(self, what, nodes, before):
        """df counts as many nodes as hold sites, of which each has as much as one of `before` had; status has those of `nodes`."""
        listed = [server["name"] for server in self.target.status()["servers"] if server["role"] == "storage"]
        ok = say(listed == nodes, f"{what}: status has {' '.join(nodes)}", listed)
        holders, wanted = set(self.owners()), len(set(self.owners())) * before
        got = []
        counts = self.until(lambda: got.append(self.df()) or abs(got[-1] - wanted) <= 0.02 * wanted, COMES_SECONDS)
        return ok & say(counts, f"{what}: df shows what {len(holders)} nodes have", f"{got[-1]} bytes, wanted {wanted}")

    def refused(self, what, *words, because, code=1):
        done = self.ask(*words)
        return say(done.returncode == code and because in done.stderr, f"{what}: {' '.join(words)} is refused", f"exit code {done.returncode}: {done.stderr}")

    def log(self, name):
        return (self.folder / "log" / f"{name}.log").read_text(errors="replace")

    def ends(self, what, name, says, before):
        """The process ends by itself, and its log, from `before` on, says why; nothing was served meanwhile."""
        gone = self.until(lambda: self.target.pids()[name] is None, ENDS_SECONDS)
        told = self.log(name)[before:]
        return say(gone and says in told, f"{what}: its process ends, and says why", told[-800:])

    def start_in_vain(self, what, name, says):
        before = len(self.log(name))
        self.target.start(name)
        ok = self.ends(what, name, says, before)
        return ok & say("serving as" not in self.log(name)[before:], f"{what}: it served nothing")


def comes(scene, node):
    """docs/operations.md, "A new server"."""
    scene.tell("rebalance")
    ok = scene.moved("added") & scene.good("added") & scene.shows("added", ["store1", "store2", "store3"], node)
    scene.tell("server", "set", "store3", "--weight", "2TiB", "--host", "host3", "--rack", "left")
    said = next(server for server in json.loads(scene.tell("tables", "--json"))["servers"] if server["name"] == "store3")
    ok &= say((said["weight"], said["host"], said["rack"]) == (2 << 40, "host3", "left"), "added: its weight, host and rack are known", said)
    return ok & weighed(scene)


def weighed(scene):
    """With as much weight as both others it would have half of all sites, and by its disk what it has."""
    for name in ("store1", "store2"):
        scene.tell("server", "set", name, "--weight", "1TiB")
    planned = json.loads(scene.tell("rebalance", "--class", "storage", "--dry-run", "--json"))
    wanted = planned["sites"] / 2 - scene.owners().count("store3")
    ok = say({move["to"] for move in planned["moves"]} == {"store3"} and abs(planned["sites_to_move"] - wanted) <= 1, "weighed: it would get half", planned)
    for name in ("store1", "store2", "store3"):
        scene.tell("server", "set", name, "--weight", "disk")
    return ok & say(json.loads(scene.tell("rebalance", "--class", "storage", "--dry-run", "--json"))["sites_to_move"] <= 1, "weighed: and by their disks all have their shares")


def goes(scene, node):
    """docs/operations.md, "A server that is to go"."""
    ok = scene.refused("with sites", "server", "remove", "store3", because="storage sites")
    ok &= scene.refused("the last", "server", "remove", "dir1", because="the last directory server")
    scene.tell("server", "drain", "store3")
    ok &= scene.moved("drained") & scene.good("drained") & scene.shows("drained", ["store1", "store2", "store3"], node)
    scene.target.kill_and_start("manager1")
    scene.target.wait_serving()
    before = len(scene.log("store3"))
    ok &= say(scene.until(lambda: scene.ask("server", "remove", "store3").returncode == 0), "drained: nothing is left there",
              scene.ask("server", "remove", "store3").stderr)
    ok &= scene.ends("removed", "store3", REMOVED, before)
    ok &= scene.good("removed") & scene.shows("removed", ["store1", "store2"], node)
    ok &= scene.start_in_vain("removed", "store3", REMOVED)
    scene.target.kill_and_start("manager1")
    scene.target.wait_serving()
    ok &= scene.start_in_vain("removed, with another manager", "store3", REMOVED)
    return ok & scene.good("removed, with another manager")


def comes_again(scene, node):
    """docs/operations.md: by the same name, which is another server from now on."""
    address = scene.target.facts["addresses"]["store3"]
    scene.tell("server", "add", "store3", "--role", "storage", "--address", address)
    ok = scene.start_in_vain("again, with its old data", "store3", "begins with an empty one")
    data = scene.folder / "data/store3"
    data.rename(data.with_name("store3-of-before"))
    scene.target.start("store3")
    scene.target.wait_serving()
    numbers = json.loads(scene.tell("tables", "--json"))
    now = next(server["index"] for server in numbers["servers"] if server["name"] == "store3")
    then = [server["index"] for server in numbers["removed"] if server["name"] == "store3"]
    ok &= say(len(then) == 1 and now > then[0], f"again: it is number {now}, was {then}")
    ok &= say("store3" not in scene.owners(), "again: it has no sites yet")
    scene.tell("rebalance")
    return ok & scene.moved("again") & scene.good("again") & scene.shows("again", ["store1", "store2", "store3"], node)


def is_lost(scene, node):
    """docs/operations.md, "A storage node that is lost": store3, with its disk. One file had bytes there and nowhere else."""
    lose = ("server", "remove", "store3", "--lost")
    alone = scene.files.written[-1]
    scene.tell("policy", "set", "/", "--copies", "2")
    time.sleep(POLICY_SECONDS)
    for name in scene.files.written[:-1]:
        scene.files.remove(name)
    scene.files.written = [alone]
    ok = say(scene.files.write(FILES), "lost: files with two copies are written")
    ok &= scene.refused("lost, but alive", *lose, because="nowhere else", code=4)
    scene.target.kill("store3")
    shutil.rmtree(scene.folder / "data/store3")
    done = scene.ask(*lose)
    ok &= say(done.returncode == 4 and "1 file has bytes on store3 and nowhere else" in done.stderr, "lost: a file with one copy is in the way", done.stderr)
    ok &= say(f'"/{alone}"' in done.stderr, f"lost: it is {alone}, says the refusal", done.stderr)
    scene.files.remove(alone)
    scene.files.written.remove(alone)
    silent = scene.until(lambda: (done := scene.ask(*lose)).returncode == 0 or "is alive" not in done.stderr, grow.MOVES_SECONDS)
    done = scene.ask(*lose)
    ok &= say(silent and done.returncode == 0, "lost: it is removed", f"{done.returncode}: {done.stdout}{done.stderr}")
    ok &= scene.good("lost") & scene.shows("lost", ["store1", "store2"], node)
    ok &= say(grow.missing(scene) == 0, "lost: all copies are whole")
    scene.target.stop("store2")
    ok &= scene.right("lost, and another is away")
    scene.target.start("store2")
    scene.target.wait_serving()
    ok &= scene.start_in_vain("lost", "store3", REMOVED)
    return ok & scene.good("lost, at the end")


def dies_evening_out(scene, hosts):
    """The coordinator is killed by itself when it has moved some stripes."""
    hosts.end("coord1", signal.SIGTERM)
    hosts.start("coord1", crash_at="spread.moved:5")
    scene.target.wait_serving()
    scene.tell("rebalance", "--class", "storage")
    return say(scene.until(lambda: hosts.pid("coord1") is None), "evened out: the coordinator dies in the middle")


def evens_out(scene, _node):
    """docs/block-maps.md, "Evening out": store4 comes, and files get their parts of it though the coordinator dies in the middle, and the manager.
    Then it is to have less, which is given up in the middle."""
    added, hosts = scene.target.add_storage_node(4), scene.target.hosts()
    scene.target.wait_serving()
    hosts.load()
    ok = dies_evening_out(scene, hosts)
    hosts.start("coord1")
    scene.target.kill_and_start("manager1")
    scene.target.wait_serving()
    ok &= say(scene.until(lambda: "even" not in scene.ask("status").stdout), "evened out: it is done, and nobody has asked again", scene.ask("status").stdout)
    moved = scene.target.metrics("coord1")["coordinator_spread_stripes_total"]
    there, nodes = scene.stripes(scene.files.written), ("store1", "store2", added)
    share = there.total() / len(nodes)
    ok &= say(moved > 0 and all(abs(there[name] - share) <= 0.1 * share for name in nodes), f"evened out: {moved} stripes after the start, each node has its share", there)
    for name, weight in (("store1", "4TiB"), ("store2", "4TiB"), (added, "1TiB")):
        scene.tell("server", "set", name, "--weight", weight)
    ok &= dies_evening_out(scene, hosts)
    gives = hosts.pid(added)  # it stands still, or all may be moved before that is to stop
    os.kill(gives, signal.SIGSTOP)
    hosts.start("coord1")
    ok &= say(scene.until(lambda: scene.ask("rebalance", "--stop").returncode == 0), "given up: rebalance --stop")
    os.kill(gives, signal.SIGCONT)
    scene.target.kill_and_start("coord1")
    scene.target.wait_serving()
    time.sleep(SESSION_SECONDS)
    ok &= say("even" not in scene.ask("status").stdout, "given up: nothing is evened out", scene.ask("status").stdout)
    now = scene.stripes(scene.files.written)
    ok &= say(there[added] - 10 <= now[added] < there[added], f"given up: {now[added]} of {there[added]} copies of stripes stay", now)
    return ok & scene.moved("given up") & scene.good("given up")


def members(ensembles, options):
    with tempfile.TemporaryDirectory(prefix="slice-members-", dir="/dev/shm") as folder, ensembles.make("members", storage=2) as target:
        files = lost_manager_state.Files(target, folder)
        if not files.write(FILES):
            return False
        scene = Scene(target, options, files)
        node = scene.df() // 2
        target.add_storage_node(3)
        target.wait_serving()
        ok = scene.shows("without sites", ["store1", "store2", "store3"], node)
        ok &= steps.carry_out((comes, goes, comes_again, is_lost, evens_out), scene, node)
        if not ok:
            print(scene.ask("status").stdout, scene.ask("moves").stdout, sep="\n")
        return ok
