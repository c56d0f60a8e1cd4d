"""Attacks on quotas (docs/quotas.md)."""

import struct

from attacks import nlm, rpc
from attacks.attack import EVERYWHERE, attack, must
from attacks.scene import ATTACKER_UID, VICTIM_UID

RQUOTA, GETQUOTA, GETACTIVEQUOTA = 100011, 1, 2
OK, NO_QUOTA, PERMISSION = 1, 2, 3
USER, GROUP = 0, 1


def status_of(data):
    return struct.unpack_from("!I", data)[0]


def arguments(version, whose, kind=USER, path="/"):
    return rpc.opaque(path) + (rpc.u32(whose) if version == 1 else rpc.u32(kind, whose))


@attack("others-quotas", "rquota: what others may have and have, asked by a user and by a squashed root; garbage; and limits set", refused=False, scenes=EVERYWHERE)
def others_quotas(scene):
    scene.target.slicectl("quota", "set", "user", str(VICTIM_UID), "--space", "0:1TiB")
    scene.target.slicectl("quota", "set", "user", str(ATTACKER_UID), "--space", "0:1TiB")
    try:
        for transport in ("tcp", "udp"):
            port = nlm.port_of(scene.attacker_netns, scene.virtual, RQUOTA, 2, transport)
            must(port != 0, f"PORTMAP knows no rquota over {transport}")
            for uid in (ATTACKER_UID, 0):
                with rpc.Caller(scene.attacker_netns, scene.virtual, port, transport, uid=uid, patience=10) as caller:
                    asked(caller, uid, transport)
                    garbage(caller, transport)
        scene.check_victim()
    finally:
        for uid in (VICTIM_UID, ATTACKER_UID):
            scene.target.slicectl("quota", "remove", "user", str(uid))


def asked(caller, uid, transport):
    for version, procedure in ((1, GETQUOTA), (2, GETQUOTA), (2, GETACTIVEQUOTA)):
        for kind, whose in ((USER, VICTIM_UID), (USER, 0), *(((GROUP, VICTIM_UID),) if version == 2 else ())):
            got = status_of(caller.call(RQUOTA, version, procedure, arguments(version, whose, kind)))
            must(got == PERMISSION, f"uid {uid} is told of {whose} over {transport}, version {version}: {got}")
    if uid != 0:
        got = status_of(caller.call(RQUOTA, 2, GETQUOTA, arguments(2, uid)))
        must(got == OK, f"uid {uid} is not told of its own over {transport}: {got}")


def garbage(caller, transport):
    for what, words in (("nothing", b""), ("a path that lies", rpc.u32(0xFFFFFFFF) + b"/" * 8), ("a path too long", arguments(2, 1, path="x" * 2000)),
                        ("a kind that there is not", arguments(2, ATTACKER_UID, 7)), ("too much", arguments(2, ATTACKER_UID) + bytes(400))):
        refused(caller, 2, GETQUOTA, words, f"{what} over {transport}")
    for procedure in (3, 4):
        refused(caller, 2, procedure, arguments(2, ATTACKER_UID) + bytes(48), f"setting a quota over {transport}")


def refused(caller, version, procedure, words, what):
    try:
        data = caller.call(RQUOTA, version, procedure, words)
    except (rpc.Refused, rpc.NoAnswer):
        return
    must(status_of(data) != OK, f"{what} is taken")
