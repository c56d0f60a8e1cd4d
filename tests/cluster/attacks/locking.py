"""Attacks on clients' locks (docs/locks.md)."""

import time

from attacks import nlm, rpc
from attacks.attack import EVERYWHERE, attack, must

VICTIM_SVID, OTHER_SVID = 7, 8
VICTIM_NAME = "victim"
MANY = 3000  # locks that the attacker wants on one file
SECONDS = 8


def denied_or_silent(ask):
    """What the attacker is answered; None where it gets no answer, or an RPC error."""
    try:
        return ask()
    except (rpc.Refused, rpc.NoAnswer):
        return None


class VictimsLock:
    """A context: the victim has a lock on a file of its own."""

    def __init__(self, scene):
        self.scene, self.file = scene, scene.files["small"][0]
        self.locks = nlm.Locks(scene.victim_netns, scene.virtual, uid=0)

    def __enter__(self):
        must(self.locks.lock(self.file, VICTIM_SVID, caller=VICTIM_NAME) == nlm.GRANTED, "the victim cannot lock its own file")
        return self

    def check(self, after):
        got = self.locks.lock(self.file, OTHER_SVID, caller=VICTIM_NAME)
        must(got == nlm.DENIED, f"after {after} the victim's lock is gone: {got}")

    def __exit__(self, *_):
        self.locks.unlock(self.file, VICTIM_SVID, caller=VICTIM_NAME)
        self.locks.unlock(self.file, OTHER_SVID, caller=VICTIM_NAME)
        self.locks.__exit__()


@attack("others-locks", "the victim's locks, given back, given up and taken in its name: by calls, notices of a restart, forged sources", refused=False,
        scenes=EVERYWHERE)
def others_locks(scene):
    lock_port = nlm.port_of(scene.attacker_netns, scene.virtual)
    with VictimsLock(scene) as victims, nlm.Locks(scene.attacker_netns, scene.virtual, uid=1001) as attacker:
        file, as_victim = victims.file, {"caller": VICTIM_NAME}
        attacker.unlock(file, VICTIM_SVID, **as_victim)
        victims.check("an UNLOCK in its name")
        attacker.ask(nlm.CANCEL, nlm.COOKIE + rpc.u32(1, 1) + nlm.alock(file, VICTIM_SVID, **as_victim))
        attacker.call(nlm.NLM, 4, nlm.FREE_ALL, rpc.opaque(VICTIM_NAME) + rpc.u32(99))
        victims.check("FREE_ALL in its name")
        got = attacker.lock(file, VICTIM_SVID, length=0, **as_victim)
        must(got != nlm.GRANTED, "a lock on a file that the attacker may not open")
        for transport in ("tcp", "udp"):
            with rpc.Caller(scene.attacker_netns, scene.virtual, lock_port, transport, patience=2.0) as caller:
                denied_or_silent(lambda: caller.call(nlm.NSM, 1, nlm.NOTIFY, rpc.opaque(VICTIM_NAME) + rpc.u32(99)))
        victims.check("a notice of its restart")
        notice = rpc.call(nlm.NSM, 1, nlm.NOTIFY, rpc.opaque(VICTIM_NAME) + rpc.u32(99))
        with scene.victim() as of_victim:
            address = of_victim.address[0]
        for _ in range(20):
            scene.send_forged(address, 700, notice, port=lock_port)
        time.sleep(1)
        victims.check("forged notices from its address")
        with rpc.Caller(scene.victim_netns, scene.virtual, lock_port, "udp", reserved=False, patience=2.0) as user:
            denied_or_silent(lambda: user.call(nlm.NSM, 1, nlm.NOTIFY, rpc.opaque(VICTIM_NAME) + rpc.u32(99)))
        victims.check("a notice by a user of its own host")
        # A directory server takes them from proxies alone.
        with rpc.Caller(scene.attacker_netns, scene.address_of("dir"), 2049, "tcp", patience=2.0) as straight:
            got = denied_or_silent(lambda: straight.call(nlm.NLM, 4, nlm.UNLOCK, nlm.unlock_arguments(file, VICTIM_SVID, **as_victim)))
            must(got is None, "a directory server takes an UNLOCK from a client")
        victims.check("an UNLOCK at its directory server")


@attack("lock-flood", "as many locks and waits as are given, on one file and on others, and nobody who answers when it is their turn", refused=False,
        scenes=("generic", "one-process"))
def lock_flood(scene):
    with nlm.Locks(scene.attacker_netns, scene.virtual, patience=20) as attacker:
        statuses = set()
        for name, svids in (("small", 1), ("large", MANY)):
            for number in range(MANY):
                statuses.add(attacker.lock(scene.own[name], number % svids, offset=2 * number, length=1, block=True, caller="x" * 900))
                if nlm.NO_LOCKS in statuses:
                    break
        must(nlm.NO_LOCKS in statuses, "there is no end to a client's locks on a file")
        end = time.monotonic() + SECONDS
        number = 0
        while time.monotonic() < end and not scene.over.is_set():
            number += 1
            attacker.lock(scene.own["mirrored-large"], 1, length=10)
            attacker.lock(scene.own["mirrored-large"], 2, length=10, block=True)
            attacker.unlock(scene.own["mirrored-large"], number % 3, length=10)
        with VictimsLock(scene) as victims:
            victims.check("a flood of locks")
        attacker.call(nlm.NLM, 4, nlm.FREE_ALL, rpc.opaque("x" * 900) + rpc.u32(3))
        attacker.call(nlm.NLM, 4, nlm.FREE_ALL, rpc.opaque("client") + rpc.u32(3))
        must(attacker.lock(scene.own["small"], 9) == nlm.GRANTED, "locks are left after FREE_ALL")
        attacker.unlock(scene.own["small"], 9)
