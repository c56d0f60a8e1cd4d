"""The suite `mirrors`: a directory whose files have two copies, and storage nodes that are killed under load."""

import json
import sys
import threading
import time

import uml

FOLDER = "/mirrors"
WHOLE_SECONDS = 120  # for copies to be whole again


def guest(target, folder, what, *words, timeout=240):
    """tests/cluster/guest/known_bytes.py on a client; whether all was right."""
    command = ["python3", str(uml.ROOT / "tests/cluster/guest/known_bytes.py"), what, f".{folder}", *map(str, words)]
    with target.client(command, output=sys.stdout, timeout=timeout) as client:
        return client.wait() == 0


def say(good, text):
    print(f"{'ok' if good else 'not ok'} mirrors {text}", flush=True)
    return good


def coordinators(target, figure):
    return sum(target.metrics(name).get(figure, 0) for name in target.process_names if name.startswith("coord"))


def whole_again(target):
    end = time.monotonic() + WHOLE_SECONDS
    while (missing := coordinators(target, "coordinator_copies_missing_something")) and time.monotonic() < end:
        time.sleep(0.5)
    return say(missing == 0, f"all copies are whole again; {coordinators(target, 'coordinator_resynced_stripes_total')} stripes were copied")


def written_while(target, victim, seconds):
    """A client writes; meanwhile the victim is killed, stays away, and comes back."""
    result = []
    load = threading.Thread(target=lambda: result.append(guest(target, FOLDER, "write", "--seconds", seconds)))
    load.start()
    time.sleep(seconds * 0.35)
    target.kill(victim)
    time.sleep(seconds * 0.45)
    target.start(victim)
    load.join()
    return say(bool(result and result[0]), f"writing went on while {victim} was killed and away")


def read_without(target, victim):
    target.kill(victim)
    try:
        return say(guest(target, FOLDER, "check"), f"every byte is right without {victim}")
    finally:
        target.start(victim)


def mirrors(target, options):
    with target.client(["mkdir", "-p", f".{FOLDER}"], output=sys.stdout) as client:
        if client.wait() != 0:
            return say(False, "mkdir")
    shown = json.loads(target.slicectl("policy", "set", FOLDER, "--copies", "2", "--stripe-unit", "128KiB", "--json").stdout)
    ok = say((shown["copies"], shown["stripe_unit"]) == (2, 128 << 10), "slicectl policy set")
    nodes = [name for name in target.process_names if name.startswith("store")]
    ok &= written_while(target, nodes[0], 20 * options.scale)
    where = json.loads(target.slicectl("where", f"{FOLDER}/file0", "--json").stdout)
    ok &= say(where.get("small_file") is None and sum(1 for node in where["storage"] if node.get("allocated")) >= 2,
              "slicectl where: bytes are on storage nodes alone, on two at least")
    ok &= say(coordinators(target, "coordinator_missed_total") > 0, "what was missed was noted")
    ok &= whole_again(target)
    for victim in nodes:
        ok &= read_without(target, victim)
        target.wait_serving()
    with target.client(["rm", "-r", f".{FOLDER}"], output=sys.stdout) as client:
        ok &= say(client.wait() == 0, "rm -r")
    return ok
