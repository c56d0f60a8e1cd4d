"""The suite `wanted`: storage sites are moved with their data by `bpftool map update pinned .../wanted`, as README and docs/formats/maps.md say: `sites`
follows, the entry is cleared, every byte is right; wrong entries are cleared, and what the manager cannot take now is taken later."""

import json
import tempfile
import time

import lost_manager_state
import sites
import steps

FILES = 6
MOVED = 48  # sites of one node
STORAGE = sites.CLASSES.index("storage") * sites.SITES_OF_A_CLASS
MOVES_SECONDS, SETTLES_SECONDS, STAYS_SECONDS = 60, 20, 4


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} wanted {what}{'' if ok else f': {got}'}", flush=True)
    return ok


class WantedTable(sites.SiteTable):
    """The pinned table `wanted`."""

    def __init__(self, target):
        super().__init__(target)
        self.bound = sites.SiteTable(target)
        self.pinned = self.pinned.removesuffix("sites") + "wanted"
        self.numbers = {server["name"]: number for number, server in self.servers.items()}

    def wish(self, key, number):
        self._bpftool("update", key, "value", *[str(byte) for byte in number.to_bytes(4, "little")])

    def open(self, keys):
        """Those whose entries are not cleared."""
        return [key for key in keys if any(int(byte, 16) for byte in json.loads(self._bpftool("lookup", key))["value"])]


class Scene:
    def __init__(self, target, files):
        self.target, self.files, self.table = target, files, WantedTable(target)

    def owners(self):
        return json.loads(self.target.slicectl("tables", "--json").stdout)["classes"]["storage"]

    def keys_of(self, server, count):
        return [STORAGE + site for site, owner in enumerate(self.owners()) if owner == server][:count]

    def counted(self, name):
        return self.target.metrics(self.target.proxy).get(name, 0)

    def until(self, good, patience):
        end = time.monotonic() + patience
        while not good() and time.monotonic() < end:
            time.sleep(0.2)
        return good()

    def wish(self, keys, server):
        for key in keys:
            self.table.wish(key, self.table.numbers[server])

    def fulfilled(self, what, keys, server):
        """Each entry is cleared, and whoever looks into `sites` then finds the site there."""
        start = time.monotonic()
        ok = say(self.until(lambda: not self.table.open(keys), MOVES_SECONDS), f"{what}: entries are cleared", f"{len(self.table.open(keys))} are not")
        there = [key for key in keys if self.table.bound.read(key)[0] == self.table.numbers[server]]
        ok &= say(len(there) == len(keys), f"{what}: `sites` has followed, after {time.monotonic() - start:.1f} s", f"{len(there)} of {len(keys)}")
        owners = self.owners()
        ok &= say(all(owners[key - STORAGE] == server for key in keys), f"{what}: the manager's tables say so")
        return ok & self.right(what)

    def right(self, what):
        wrong = self.files.wrong()
        return say(not wrong, f"{what}: every byte is right", ", ".join(wrong))


def moved(scene):
    keys = scene.keys_of("store1", MOVED)
    scene.wish(keys, "store2")
    ok = scene.fulfilled("moved", keys, "store2")
    copied = sum(move["copied_bytes"] for move in json.loads(scene.target.slicectl("moves", "--json").stdout)["moves"])
    ok &= say(copied > 0, f"moved: {copied} bytes went along", copied)
    scene.wish(keys, "store1")
    return ok & scene.fulfilled("back again", keys, "store1")


def wrong_entries(scene):
    site = scene.keys_of("store1", 4)
    before, refused = scene.owners(), scene.counted("proxy_wanted_refused_total")
    wrong = {STORAGE + 2000: scene.table.numbers["store2"], site[0]: 900, site[1]: scene.table.numbers["dir1"], site[2]: scene.table.numbers["proxy1"]}
    for key, number in wrong.items():
        scene.table.wish(key, number)
    ok = say(scene.until(lambda: not scene.table.open(wrong), SETTLES_SECONDS), "wrong entries are cleared", scene.table.open(wrong))
    counted = scene.counted("proxy_wanted_refused_total") - refused
    ok &= say(counted == len(wrong), "and counted", counted)
    log = (scene.target.hosts().dir / "log" / f"{scene.target.proxy}.log").read_text()
    ok &= say("there is no such site" in log and "there is no server 900" in log and "is a directory" in log, "and logged, with the reason")
    return ok & say(scene.owners() == before, "and move nothing") & scene.right("wrong entries")


def somebody_is_away(scene):
    keys = scene.keys_of("store1", 4)
    scene.target.kill("manager1")
    scene.wish(keys[:2], "store3")
    time.sleep(STAYS_SECONDS)
    ok = say(len(scene.table.open(keys[:2])) == 2, "without the manager entries stay")
    scene.target.start("manager1")
    ok &= scene.fulfilled("the manager is back", keys[:2], "store3")
    scene.target.kill("store3")
    time.sleep(7)  # the manager knows
    scene.wish(keys[2:], "store3")
    time.sleep(STAYS_SECONDS)
    ok &= say(len(scene.table.open(keys[2:])) == 2, "to a node that is away they stay, too")
    scene.target.kill(scene.target.proxy)
    scene.target.start("store3")
    scene.target.start(scene.target.proxy)
    scene.target.wait_serving()
    return ok & scene.fulfilled("it is back, and the proxy another one", keys[2:], "store3")


def wanted(ensembles, _options):
    with tempfile.TemporaryDirectory(prefix="slice-wanted-", dir="/dev/shm") as folder, ensembles.make("wanted", storage=3) as target:
        files = lost_manager_state.Files(target, folder)
        if not files.write(FILES):
            return False
        scene = Scene(target, files)
        ok = steps.carry_out((moved, wrong_entries, somebody_is_away), scene)
        for words in (("tables", "--check"), ("fsck", "--data")):
            done = [None]

            def good(words=words, done=done):
                done[0] = target.slicectl(*words, check=False)
                return done[0].returncode == 0
            ok &= say(scene.until(good, SETTLES_SECONDS), f"at the end: {' '.join(words)}", done[0].stdout)
        return ok
