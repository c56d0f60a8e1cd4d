"""The suite `acls`: on a kernel client, access control lists do what they do on a local file system, at random and by several users; also while
every server is killed and all sites move; a client that knows none inherits them all the same (docs/acls.md)."""

import json
import time

import uml
from locks import Deaths

SCRIPT = uml.ROOT / "tests/cluster/guest/acls.py"
SECONDS = 60  # of each comparison, with --scale 1
PAUSE = 2.0  # between deaths of servers


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} acls {what}{'' if ok or got == '' else f': {got}'}", flush=True)
    return bool(ok)


class Meanwhile(Deaths):
    """Servers die, and directory sites move from one to another."""

    def __init__(self, target, pause=PAUSE):
        super().__init__(target, pause)
        self.moves = 0

    def before_round(self):
        servers = self.target.servers("dir")
        self.target.slicectl("site", "move", "directory", "0-63", servers[self.moves % len(servers)], check=False)
        self.moves += 1


def compared(target, what, seed, seconds, **mount):
    with target.client(["python3", str(SCRIPT), "--seed", str(seed), "--seconds", str(seconds)], timeout=600 + seconds, **mount) as guest:
        code = guest.wait()
    last = guest.text.strip().splitlines()[-1] if guest.text.strip() else ""
    if code != 0 or not last.startswith("{"):
        return say(False, what, f"exit code {code}: {guest.text[-3000:]} {guest.console[-500:]}")
    said = json.loads(last)
    return say(said["steps"] > 100 and said["refused"] > 10, f"{what}: {said['steps']} steps, {said['refused']} of them refused, all as on tmpfs; getfacl -R: {said['lines']} lines", said)


def with_deaths(target, seed, seconds):
    with Meanwhile(target) as meanwhile:
        ok = compared(target, "while servers die and sites move", seed, seconds)
    target.wait_serving()
    return ok & say(meanwhile.deaths > 0 and meanwhile.moves > 0, f"{meanwhile.deaths} deaths, {meanwhile.moves} moves of all sites")


def without(target):
    with target.client(["python3", str(SCRIPT), "--without"], timeout=90) as guest:
        code = guest.wait()
        return say(code == 0 and '"without"' in guest.text, "a client without lists: what it makes inherits them, and they are enforced", f"{code} {guest.text[-1500:]}")


def acls(ensembles, options):
    ok, seconds, seed = True, max(5, SECONDS * options.scale), int(time.time()) % 1_000_000
    with ensembles.make("acls", directories=2) as target:
        ok &= compared(target, f"one client, seed {seed}", seed, seconds) & without(target)
        ok &= with_deaths(target, seed + 1, seconds)
        checked = target.slicectl("fsck", check=False)
        ok &= say(checked.returncode == 0, "fsck", checked.stdout[-500:])
    with ensembles.make("acls-hashed", directories=2, policy="name-hashing") as target:
        return ok & compared(target, f"name hashing, seed {seed + 2}", seed + 2, seconds)
