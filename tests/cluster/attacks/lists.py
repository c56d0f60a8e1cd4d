"""Attacks on access control lists (docs/acls.md)."""

import time

from attacks import rpc
from attacks.access import everywhere, must_refuse, set_size
from attacks.attack import EVERYWHERE, attack, must
from attacks.scene import ATTACKER_UID, LARGE, VICTIM_UID, content

NFSACL, GETACL, SETACL = 100227, 1, 2
OWNER, USER, GROUP_OWNER, GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32
ACCESS_LIST = 1
SOMEBODY = 1005
BEHIND_THRESHOLD = 70_000
TAKEN_AWAY = 2.5  # seconds until every data server knows that a permission is no more


def words(entries, said=None):
    return rpc.u32(len(entries) if said is None else said, len(entries), *(word for entry in entries for word in entry))


def setacl_arguments(handle, entries, mask=ACCESS_LIST, said=None):
    return rpc.opaque(handle) + rpc.u32(mask) + words(entries, said) + words([])


def setacl(caller, handle, entries):
    data = caller.call(NFSACL, 3, SETACL, setacl_arguments(handle, entries))
    return int.from_bytes(data[:4], "big")


def listed_files(scene, root):
    """(name, handle) of files whose mode says that anybody may read and write them, and whose list says that the attacker may not: by name, or as
    a member of the file's group, whose bits in the mode are the mask."""
    by_name = [(OWNER, 0, 6), (USER, ATTACKER_UID, 0), (GROUP_OWNER, 0, 6), (MASK, 0, 6), (OTHER, 0, 6)]
    by_group = [(OWNER, 0, 6), (USER, SOMEBODY, 6), (GROUP_OWNER, 0, 0), (MASK, 0, 6), (OTHER, 0, 6)]
    for placement in ("", "mirrored", "mapped"):
        folder = root.lookup(scene.victim_folder, placement) if placement else scene.victim_folder
        for kind, entries in (("name", by_name), ("group", by_group)):
            name = f"listed-{kind}-{rpc.next_xid()}"
            handle = root.create(folder, name, 0o666)
            root.write(handle, 0, content(name, LARGE))
            root.good(rpc.SETATTR, rpc.opaque(handle) + rpc.u32(0, 1, VICTIM_UID, 1, ATTACKER_UID, 0, 0, 0, 0))
            must(setacl(root, handle, entries) == rpc.OK, "SETACL of a file by root is refused")
            yield f"{placement or 'plain'} by {kind}", handle


def forbidden(handle):
    for at in (0, BEHIND_THRESHOLD):
        yield f"READ at {at}", rpc.READ, rpc.opaque(handle) + rpc.u64(at) + rpc.u32(100)
        yield f"WRITE at {at}", rpc.WRITE, rpc.write_arguments(handle, at, b"stolen")
    yield "COMMIT", rpc.COMMIT, rpc.opaque(handle) + rpc.u64(0) + rpc.u32(0)
    yield "truncation", rpc.SETATTR, set_size(handle, 0)


@attack("beyond-lists", "what a list forbids and the mode allows, at every server: reading, writing, cutting; and others' lists set, and lists that lie", refused=False,
        scenes=EVERYWHERE)
def beyond_lists(scene):
    with scene.victim(patience=20) as root:
        files = list(listed_files(scene, root))
    scene.remember()
    time.sleep(TAKEN_AWAY)
    for server, transport, caller in everywhere(scene, ATTACKER_UID):
        for name, handle in files:
            must_refuse(caller, forbidden(handle), f"of {name} over {transport} at {server}")
        for handle in (files[0][1], scene.files["small"][0], scene.private_folder):
            refused(caller, handle, [(OWNER, 0, 7), (USER, ATTACKER_UID, 7), (GROUP_OWNER, 0, 7), (MASK, 0, 7), (OTHER, 0, 7)], f"the victim's list over {transport} at {server}")
        for what, entries, said in lies():
            refused(caller, scene.own["small"], entries, f"{what} over {transport} at {server}", said)
    with scene.victim(patience=20, uid=SOMEBODY) as other:
        for name, handle in files:
            must(other.nfs(rpc.READ, rpc.opaque(handle) + rpc.u64(0) + rpc.u32(100))[0] == rpc.OK, f"who may read {name} by its list is refused")
    scene.check_victim()


def lies():
    plain = [(OWNER, 0, 7), (GROUP_OWNER, 0, 7), (OTHER, 0, 7)]
    yield "a list without an owner", plain[1:], None
    yield "a list with two owners", [*plain, plain[0]], None
    yield "a permission that there is not", [(OWNER, 0, 0xFFFFFFFF), *plain[1:]], None
    yield "a tag that there is not", [*plain, (0x40, 5, 7)], None
    yield "a name without a mask", [*plain, (USER, 5, 7)], None
    yield "a list longer than it says", plain, 2
    yield "a list shorter than it says", plain, 1000
    yield "too long a list", [*plain, (MASK, 0, 7), *((USER, number, 7) for number in range(1200))], None
    yield "a length that lies", plain, 0xFFFFFFFF


def refused(caller, handle, entries, what, said=None):
    try:
        data = caller.call(NFSACL, 3, SETACL, setacl_arguments(handle, entries, said=said))
    except (rpc.Refused, rpc.NoAnswer):
        return
    must(data[:4] != rpc.u32(rpc.OK), f"{what} is set")
