"""The suite `block-maps`: a directory whose files are placed by free space, and stripes that are moved under load."""

import itertools
import json
import random
import sys
import threading
import time

import mirrors

FOLDER = "/mapped"
STRIPE_UNIT = 64 << 10
FILES, STRIPES = 12, 10  # of known_bytes.py: 700,001 bytes each; the first stripe is below the threshold
GIVEN_BACK_SECONDS = 30


def say(good, text):
    print(f"{'ok' if good else 'not ok'} block-maps {text}", flush=True)
    return good


class Mover(threading.Thread):
    """An operator: moves one stripe after another until it is stopped."""

    def __init__(self, target, nodes):
        super().__init__()
        self.target, self.nodes = target, nodes
        self.moved, self.refused, self.stopping = 0, 0, threading.Event()

    def run(self):
        choose = random.Random(1)
        while not self.stopping.is_set():
            path, stripe, node = f"{FOLDER}/file{choose.randrange(FILES)}", choose.randrange(1, STRIPES), choose.choice(self.nodes)
            done = self.target.slicectl("move", path, "--stripe", str(stripe), "--to", node, check=False)
            self.moved += done.returncode == 0
            self.refused += done.returncode != 0  # no such file yet, a coordinator that is away
            time.sleep(0.02)


def written_while_moved(target, nodes, seconds):
    """A client writes; stripes are moved, and the coordinator is killed and started again."""
    mover, result = Mover(target, nodes), []
    load = threading.Thread(target=lambda: result.append(mirrors.guest(target, FOLDER, "write", "--seconds", seconds)))
    load.start()
    mover.start()
    time.sleep(seconds * 0.5)
    target.kill("coord1")
    time.sleep(1)
    target.start("coord1")
    load.join()
    mover.stopping.set()
    mover.join()
    good = say(bool(result and result[0]), "writing went on while stripes were moved and the coordinator was killed")
    return say(mover.moved > 20, f"{mover.moved} stripes were moved, {mover.refused} not") and good


def parts(target, path):
    where = json.loads(target.slicectl("where", path, "--json").stdout)
    return {part["server"]: part for part in where["storage"]}


def emptied(target, node, other):
    """All stripes of a file go to another node; this one gives their space back."""
    path = f"{FOLDER}/file0"
    for stripe in range(1, STRIPES + 1):
        for tries in itertools.count():
            if target.slicectl("move", path, "--stripe", str(stripe), "--to", other, check=False).returncode == 0:
                break
            if tries == 20:
                return say(False, f"stripe {stripe} cannot be moved")
            time.sleep(0.5)
    end = time.monotonic() + GIVEN_BACK_SECONDS
    while (left := parts(target, path)[node].get("allocated") or 0) > STRIPE_UNIT and time.monotonic() < end:
        time.sleep(0.5)
    # What remains are the object's own header and checksums.
    return say(left <= STRIPE_UNIT and not parts(target, path)[node]["stripes"], f"{node} has given back what it had of a file: {left} bytes remain")


def block_maps(target, options):
    with target.client(["mkdir", "-p", f".{FOLDER}"], output=sys.stdout) as client:
        if client.wait() != 0:
            return say(False, "mkdir")
    shown = json.loads(target.slicectl("policy", "set", FOLDER, "--placement", "free-space", "--stripe-unit", str(STRIPE_UNIT), "--json").stdout)
    ok = say((shown["placement"], shown["placement_from"]) == ("free-space", "directory"), "slicectl policy set")
    nodes = target.servers("store")
    ok &= written_while_moved(target, nodes, 20 * options.scale)
    stripes = {name: part["stripes"] for name, part in parts(target, f"{FOLDER}/file1").items()}
    ok &= say(sum(map(len, stripes.values())) == STRIPES, f"slicectl where: {stripes}")
    ok &= say(mirrors.guest(target, FOLDER, "check"), "every byte is right")
    ok &= emptied(target, nodes[0], nodes[1])
    ok &= say(mirrors.guest(target, FOLDER, "check"), "every byte is right after that")
    fetched = target.metrics("proxy1").get("proxy_map_fetches_total", 0)
    ok &= say(fetched > 0, f"the proxy has fetched {fetched} pieces of maps")
    with target.client(["rm", "-r", f".{FOLDER}"], output=sys.stdout) as client:
        ok &= say(client.wait() == 0, "rm -r")
    return ok
