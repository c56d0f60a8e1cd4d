"""The suite `mirrors`: a directory whose files have two copies, and storage nodes that are killed under load."""

import json
import sys
import time

import uml
from load import while_killed
from xdp_proof import XdpProof

FOLDER = "/mirrors"
WHOLE_SECONDS = 120  # for copies to be whole again
STRIPE_UNIT = 128 << 10
TIMED_FILES = 3
LEAST_RATE = 0.25  # over the usual one, while a node is away; the goal is 0.8, and a busy machine's single files vary by 2
LEAST_WRITING = 18  # seconds, for 8 without the node: the first write without it waits for half of that
TOLD_TO_WAIT = 4  # seconds; a kernel client waits for 5 when it is (NFS3ERR_JUKEBOX)
MOST_NOTES = 30  # of a file of 240 stripes, 160 of which have a copy on a node that is away


def guest(target, folder, what, *words, timeout=240):
    """tests/cluster/guest/known_bytes.py on a client; whether all was right."""
    command = ["python3", str(uml.ROOT / "tests/cluster/guest/known_bytes.py"), what, f".{folder}", *map(str, words)]
    with target.client(command, output=sys.stdout, timeout=timeout) as client:
        return client.wait() == 0


def say(good, text):
    print(f"{'ok' if good else 'not ok'} mirrors {text}", flush=True)
    return good


def coordinators(target, figure):
    return sum(target.metrics(name).get(figure, 0) for name in target.servers("coord"))


def whole_again(target):
    end = time.monotonic() + WHOLE_SECONDS
    while (missing := coordinators(target, "coordinator_copies_missing_something")) and time.monotonic() < end:
        time.sleep(0.5)
    return say(missing == 0, f"all copies are whole again; {coordinators(target, 'coordinator_resynced_stripes_total')} stripes were copied")


def written_while(target, victim, seconds):
    """A client writes; meanwhile the victim is killed, stays away, and comes back."""
    command = ["python3", str(uml.ROOT / "tests/cluster/guest/known_bytes.py"), "write", f".{FOLDER}", "--seconds", str(seconds)]
    with target.client(command, output=sys.stdout, timeout=240) as client:
        if client.says("begun"):
            time.sleep(seconds * 0.35)
            target.kill(victim)
            time.sleep(seconds * 0.45)
            target.start(victim)
        return say(client.wait() == 0, f"writing went on while {victim} was killed and away")


def time_writes(target, name):
    """Seconds that each of some new files of 30 MB took a client."""
    command = ["python3", str(uml.ROOT / "tests/cluster/guest/known_bytes.py"), "time", f".{FOLDER}", "--files", str(TIMED_FILES),
               "--size", str(30 << 20), "--seed", name]
    with target.client(command, timeout=240) as client:
        return json.loads(client.text.splitlines()[-1]) if client.wait() == 0 else []


def written_without(target, victim):
    """Files of many stripes are written with few notes while a node is away, and not much slower after the first of them."""
    usual = time_writes(target, "usual")
    target.kill(victim)
    try:
        away, before = time_writes(target, "away"), coordinators(target, "coordinator_missed_total")
        later, notes = time_writes(target, "later"), coordinators(target, "coordinator_missed_total") - before
    finally:
        target.start(victim)
    if not usual or not away or not later:
        return say(False, f"30 MB were not written without {victim}")
    rate = min(usual) / min(away[1:] + later)
    print(f"30 MB: usually {usual} s, without {victim} {away} s, then {later} s", flush=True)
    ok = say(max(away[1:] + later) < TOLD_TO_WAIT, f"no client was told to wait without {victim}, after the first file")
    ok &= say(rate >= LEAST_RATE, f"the rate over the usual one, after the first file: {rate:.2f}")
    return ok & say(notes <= TIMED_FILES * MOST_NOTES, f"{notes} notes for {TIMED_FILES} files of {(30 << 20) // STRIPE_UNIT} stripes without {victim}")


def read_without(target, victim):
    target.kill(victim)
    try:
        return say(guest(target, FOLDER, "check"), f"every byte is right without {victim}")
    finally:
        target.start(victim)


def read_by_xdp(target, options, victim):
    """XDP sends READs over UDP to the copies by itself, also while one of them is away."""
    if not target.has_xdp:
        return True
    with XdpProof(target) as proof:
        fine, said = while_killed(target, options, [victim], 12, 60, "--export", FOLDER, "--transport", "udp", pause=4)
    by_xdp, by_user_space = (counts.get("ROUTED_READ", 0) + counts.get("READ_CLAMPED", 0) for counts in (proof.xdp, proof.user))
    ok = say(fine, f"a mixed load over UDP finds every reply right while {victim} is killed and away for 4 s{'' if fine else ': ' + said}")
    return ok & say(by_user_space < by_xdp / 10, f"XDP has sent {by_xdp:.0f} READs to copies, and user space {by_user_space:.0f}")


def policy_commands(target):
    """`policy set` changes what it is told and nothing else; fewer copies by mistake are refused."""
    def policy(*words):
        done = target.slicectl("policy", *words, "--json", check=False)
        shown = json.loads(done.stdout) if done.returncode == 0 else {}
        return done.returncode, shown.get("copies"), shown.get("placement")

    both = ["set", FOLDER, "--placement", "free-space"]
    ok = say(policy(*both) == (0, 2, "free-space"), "policy set --placement leaves the copies as they are")
    ok &= say(policy("unset", FOLDER)[0] == 4 and policy("show", FOLDER) == (0, 2, "free-space"), "fewer copies are refused")
    ok &= say(policy("unset", FOLDER, "--placement") == (0, 2, "hash"), "policy unset --placement")
    ok &= say(policy("set", FOLDER, "--copies", "1", "--force") == (0, 1, "hash"), "fewer copies with --force")
    return ok & say(policy("set", FOLDER, "--copies", "2") == (0, 2, "hash") and policy("set", FOLDER)[0] == 2, "two again")


def mirrors(target, options):
    with target.client(["mkdir", "-p", f".{FOLDER}"], output=sys.stdout) as client:
        if client.wait() != 0:
            return say(False, "mkdir")
    shown = json.loads(target.slicectl("policy", "set", FOLDER, "--copies", "2", "--stripe-unit", f"{STRIPE_UNIT >> 10}KiB", "--json").stdout)
    ok = say((shown["copies"], shown["stripe_unit"]) == (2, STRIPE_UNIT), "slicectl policy set")
    ok &= policy_commands(target)
    nodes = target.servers("store")
    ok &= written_while(target, nodes[0], max(LEAST_WRITING, 26 * options.scale))
    where = json.loads(target.slicectl("where", f"{FOLDER}/file0", "--json").stdout)
    ok &= say(where.get("small_file") is None and sum(1 for node in where["storage"] if node.get("allocated")) >= 2,
              "slicectl where: bytes are on storage nodes alone, on two at least")
    ok &= say(coordinators(target, "coordinator_missed_total") > 0, "what was missed was noted")
    ok &= whole_again(target)
    ok &= written_without(target, nodes[1])
    target.wait_serving()
    ok &= whole_again(target)
    ok &= read_by_xdp(target, options, nodes[0])
    ok &= whole_again(target)
    for victim in nodes:
        ok &= read_without(target, victim)
        target.wait_serving()
    with target.client(["rm", "-r", f".{FOLDER}"], output=sys.stdout) as client:
        ok &= say(client.wait() == 0, "rm -r")
    return ok
