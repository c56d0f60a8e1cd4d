"""The suite `quotas`: users and groups of a kernel client reach their limits, of space and of files, hard and soft; what was acknowledged is
there, what was removed makes room; quota(1) shows it; and what servers count is what there is, while they are killed, while sites move and
behind that, on several directory servers under both policies (docs/quotas.md)."""

import json
import time

import uml
from acls import Meanwhile

SCRIPT = uml.ROOT / "tests/cluster/guest/quotas.py"
SECONDS = 40  # of changes at random, with --scale 1
PAUSE = 3.0  # between deaths of servers
LIMIT = 8 << 20  # bytes
SETTLES = 20  # seconds until what servers count is what there is, when nobody changes anything
RANDOM_USERS = ("user 1001", "user 1002", "group 1001")
TREE = "tree /quotas"  # the folder for everybody


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} quotas {what}{'' if ok or got == '' else f': {got}'}", flush=True)
    return bool(ok)


class Scene:
    def __init__(self, target):
        self.target, self.ok = target, True

    def say(self, ok, what, got=""):
        self.ok &= say(ok, what, got)
        return ok

    def guest(self, *words, timeout=120):
        """What a client's script says at its end; None where it fails."""
        with self.target.client(["python3", str(SCRIPT), *map(str, words)], timeout=timeout) as guest:
            code = guest.wait()
        last = guest.text.strip().splitlines()[-1] if guest.text.strip() else ""
        if code == 0 and last.startswith("{"):
            return json.loads(last)
        self.say(False, " ".join(map(str, words)), f"exit code {code}: {guest.text[-1500:]} {guest.console[-300:]}")
        return None

    def set(self, whose, *limits):
        self.target.slicectl("quota", "set", *whose.split(), *limits)

    def make(self):
        """The folder for everybody, which is a tree."""
        self.target.slicectl("tree", "make", TREE.split()[1], "--mode", "0777")

    def remove(self, whose):
        self.target.slicectl("quota", "remove", *whose.split())

    def listed(self):
        """(space, files) by who has a quota; None while not all is counted."""
        said = json.loads(self.target.slicectl("--json", "quota", "list").stdout)
        return {f"{each['kind']} {each['name'] if each['kind'] == 'tree' else each['id']}": (each["space"]["used"], each["files"]["used"]) for each in said["quotas"]} if said["counted"] else None

    @staticmethod
    def same(listed, found):
        """lstat(2) has space in whole sectors, each file's rounded up."""
        return all(files == found[whose][1] and 0 <= found[whose][0] - space < 512 * max(files, 1) for whose, (space, files) in listed.items())

    def exact(self, what):
        """What is listed is what a client finds."""
        end = time.monotonic() + SETTLES
        while True:
            found = self.guest("sums")
            if found is None:
                return
            listed = self.listed()
            wanted = {whose: tuple(found.get(whose, (0, 0))) for whose in listed or {}}
            if listed is not None and self.same(listed, wanted):
                self.say(True, f"{what}: usage is what there is: {', '.join(f'{whose} {space} bytes in {files}' for whose, (space, files) in listed.items())}")
                return
            if time.monotonic() > end:
                self.say(False, f"{what}: usage is what there is", f"{listed}, found {wanted}")
                return
            time.sleep(1)


def limits(scene):
    scene.make()
    scene.set("user 1001", "--space", f"0:{LIMIT}")
    if said := scene.guest("fill", 1001, LIMIT):
        scene.say(True, f"a hard limit of {LIMIT} bytes: {said['blocks']} blocks of 64 KiB, all of them there; truncation and removal make room")
    scene.guest("dd", 1001)
    scene.exact("after dd(1)")
    scene.set("user 1001", "--space", "0", "--files", "0:30")
    scene.say(scene.guest("objects", 1001, 30) is not None, "30 objects, and no more")
    scene.remove("user 1001")
    scene.set("group 1001", "--space", f"0:{LIMIT}")
    scene.say(scene.guest("fill", 1001, LIMIT) is not None, "a group's hard limit")
    scene.set("group 60", "--space", "0:4096")
    scene.say(scene.guest("chgrp", 1001, 60) is not None, "chgrp to a group without room is refused")
    scene.set("user 1001", "--space", f"0:{LIMIT}")
    scene.set("user 1002", "--space", "0:65536")
    scene.say(scene.guest("chown", 1001, 1002, 1 << 20) is not None, "root gives a file away, whatever there is room for")
    scene.exact("after chown")
    scene.set("user 1003", "--space", f"{LIMIT // 4}:{4 * LIMIT}", "--grace", "6s")
    if said := scene.guest("soft", 1003, LIMIT // 4, 6):
        scene.say(True, f"a soft limit, passed for {said['seconds']:.1f} s of 6")


def asking(scene):
    said = scene.guest("ask", 1001)
    if said:
        hard = LIMIT // 1024
        scene.say(said["own"][3] == str(hard) and said["own"][1:4] == said["root"][1:4], "quota(1) shows it to its user and to root", said)
    unknown = scene.target.slicectl("quota", "show", "user", "1999", check=False)
    scene.say(unknown.returncode == 1 and "has no quota" in unknown.stderr, "slicectl quota show of somebody without", unknown)
    wrong = scene.target.slicectl("quota", "set", "user", "1001", "--space", "2GiB:1GiB", check=False)
    scene.say(wrong.returncode == 2, "a soft limit above the hard one is refused", wrong)


def deaths(scene, seconds, seed):
    for whose in RANDOM_USERS:
        scene.set(whose, "--space", f"0:{LIMIT}", "--files", "0:200")
    scene.set(TREE, "--space", f"0:{LIMIT * 3 // 2}")
    with Meanwhile(scene.target, PAUSE) as meanwhile:
        said = scene.guest("churn", seconds, seed, timeout=300 + seconds)
    scene.target.wait_serving()
    if said:
        scene.say(said.get("EDQUOT", 0) > 0 and meanwhile.deaths > 0 and meanwhile.moves > 0,
                  f"changes at random, seed {seed}: {said}, {meanwhile.deaths} deaths, {meanwhile.moves} moves of all sites")
    scene.exact("after servers died and sites moved")


def restarted(scene):
    """Limits are durable, and what there is is counted again."""
    before = scene.listed()
    for name in ("manager1", *scene.target.servers("dir")):
        scene.target.kill_and_start(name)
    scene.target.wait_serving()
    scene.exact("after all directory servers and the manager were killed")
    after = scene.listed()
    scene.say(before is not None and after is not None and before.keys() == after.keys(), "limits are kept", f"{before}, {after}")
    scene.target.slicectl("reload")
    scene.say((scene.listed() or {}).keys() == (before or {}).keys(), "a reload leaves them")


def quotas(ensembles, options):
    seconds, seed = max(10, SECONDS * options.scale), int(time.time()) % 1_000_000
    with ensembles.make("quotas", directories=2) as target:
        scene = Scene(target)
        limits(scene)
        asking(scene)
        deaths(scene, seconds, seed)
        restarted(scene)
        checked = target.slicectl("fsck", check=False)
        scene.say(checked.returncode == 0, "fsck", checked.stdout[-500:])
        ok = scene.ok
    with ensembles.make("quotas-hashed", directories=2, policy="name-hashing", copies=2) as target:
        scene = Scene(target)
        scene.make()
        scene.set("user 1001", "--space", f"0:{LIMIT}")
        scene.say(scene.guest("fill", 1001, LIMIT) is not None, "name hashing, two copies: a hard limit")
        deaths(scene, seconds, seed + 1)
        return ok & scene.ok
