"""Attacks by users of a client's host: what is another user's, at the virtual address and straight at servers."""

import contextlib
import itertools
import struct

from attacks import rpc
from attacks.attack import EVERYWHERE, attack, must

MUST_REFUSE = (rpc.PERM, rpc.ACCES, rpc.STALE, rpc.BADHANDLE, rpc.ROFS)
SERVERS = ("nfs", "dir", "small", "store", "coord")


def servers_of(scene):
    """The address of each server that takes NFS, and the virtual one."""
    return list(dict.fromkeys([scene.virtual, *(address for name, address in scene.addresses.items() if not name.startswith(("proxy", "manager")))]))


def everywhere(scene, uid, transports=("tcp", "udp")):
    """A caller to each server, and to the virtual address."""
    for server, transport in itertools.product(servers_of(scene), transports):
        with scene.attacker(transport, server=server, uid=uid, patience=10) as caller:
            yield server, transport, caller


def set_size(handle, size):
    return rpc.opaque(handle) + rpc.u32(0, 0, 0, 1) + rpc.u64(size) + rpc.u32(0, 0, 0)


def forbidden(scene):
    """(what, procedure, arguments) that a stranger has no right to."""
    for name, (handle, _) in scene.files.items():
        open_for_reading = name == "privateopen"
        if not open_for_reading:
            yield f"READ of {name}", rpc.READ, rpc.opaque(handle) + rpc.u64(0) + rpc.u32(100)
            yield f"READ behind the threshold of {name}", rpc.READ, rpc.opaque(handle) + rpc.u64(70_000) + rpc.u32(100)
            yield f"COMMIT of {name}", rpc.COMMIT, rpc.opaque(handle) + rpc.u64(0) + rpc.u32(0)
        yield f"WRITE of {name}", rpc.WRITE, rpc.write_arguments(handle, 0, b"stolen")
        yield f"WRITE behind the threshold of {name}", rpc.WRITE, rpc.write_arguments(handle, 70_000, b"stolen", rpc.UNSTABLE)
        yield f"truncation of {name}", rpc.SETATTR, set_size(handle, 0)
        yield f"chmod of {name}", rpc.SETATTR, rpc.opaque(handle) + rpc.u32(1, 0o4777, 0, 0, 0, 0, 0, 0)
        yield f"chown of {name}", rpc.SETATTR, rpc.opaque(handle) + rpc.u32(0, 1, 1001, 0, 0, 0, 0, 0)
    yield "LOOKUP in the private folder", rpc.LOOKUP, rpc.opaque(scene.private_folder) + rpc.opaque("privatesmall")
    yield "CREATE in the private folder", rpc.CREATE, rpc.opaque(scene.private_folder) + rpc.opaque("new") + rpc.u32(0) + rpc.with_mode(0o644)
    yield "REMOVE in the victim's folder", rpc.REMOVE, rpc.opaque(scene.victim_folder) + rpc.opaque("small")
    yield "READDIRPLUS of the private folder", rpc.READDIRPLUS, rpc.opaque(scene.private_folder) + rpc.u64(0, 0) + rpc.u32(8192, 32768)


def must_refuse(caller, things, where):
    """Each (what, procedure, arguments) of them, by a status or by an error of RPC."""
    for what, procedure, arguments in things:
        try:
            status, _ = caller.nfs(procedure, arguments)
        except rpc.Refused:
            continue
        must(status != rpc.OK, f"{what} {where} is permitted")


@attack("other-users-files", "reading, writing, cutting, committing and naming what is another user's, at every server", scenes=EVERYWHERE)
def other_users_files(scene):
    for uid in (1001, 0):  # root is squashed on the attacker's network
        for server, transport, caller in everywhere(scene, uid):
            must_refuse(caller, forbidden(scene), f"by user {uid} over {transport} at {server}")
    scene.check_victim()


@attack("unreserved-ports", "a user of the victim's host without root, who claims to be root: mounting, reading and writing at every server", scenes=EVERYWHERE)
def unreserved_ports(scene):
    for server, transport in itertools.product(servers_of(scene), ("tcp", "udp")):
        with scene.victim(transport, server=server, reserved=False, patience=10) as caller:
            for what, procedure, arguments in (("GETATTR", rpc.GETATTR, rpc.opaque(scene.root)), *forbidden(scene)):
                status, _ = caller.nfs(procedure, arguments)
                must(status == rpc.ACCES, f"{what} from port {caller.address[1]} over {transport} at {server} is answered {status}")
    for transport in ("tcp", "udp"):
        with scene.victim(transport, port=20048, reserved=False) as caller:
            data = caller.call(rpc.MOUNT, 3, 1, rpc.opaque("/"))
            must(data[:4] == rpc.u32(rpc.ACCES), f"a mount from port {caller.address[1]} over {transport} is permitted")
    scene.check_victim()


@attack("many-groups", "credentials with more groups than there may be, of other flavors, with lengths that lie", scenes=EVERYWHERE)
def many_groups(scene):
    handle = scene.files["small"][0]
    body = rpc.u32(0) + rpc.opaque("m") + rpc.u32(0, 0)
    credentials = [rpc.u32(1) + rpc.opaque(body + rpc.u32(17, *[0] * 17)), rpc.u32(1) + rpc.opaque(body + rpc.u32(16, *[1000] * 15)),
                   rpc.u32(1, 400) + bytes(400), rpc.u32(1, 0), rpc.u32(6) + rpc.opaque(bytes(20)), rpc.u32(0) + rpc.opaque(bytes(40)),
                   rpc.u32(rpc.AUTH_SLICE) + rpc.opaque(bytes(64)), rpc.u32(1) + rpc.opaque(body + rpc.u32(1, 0) + bytes(8))]
    for _, _, caller in everywhere(scene, 1001, ("udp",)):
        caller.patience = 0.3
        caller.socket.settimeout(0.3)
        for credential in credentials:
            message = rpc.u32(rpc.next_xid(), 0, 2, rpc.NFS, 3, rpc.READ) + credential + rpc.NOBODY + rpc.opaque(handle) + rpc.u64(0) + rpc.u32(100)
            caller.send(message)
            with contextlib.suppress(rpc.NoAnswer, rpc.Refused, struct.error):
                data = rpc.results(caller.receive())
                must(data[:4] != rpc.u32(rpc.OK), "a credential that does not decode reads another user's file")
    scene.check_victim()


@attack("same-xid", "the call of another user of the same host, again under its xid, by a stranger", scenes=("generic", "name-hashing", "one-process"))
def same_xid(scene):
    with scene.victim() as root:
        folder = root.mkdir(scene.root, f"secret-{rpc.next_xid()}", 0o700)
        root.chown(folder, 1002)
    for transport in ("tcp", "udp"):
        with scene.attacker(transport, uid=1002) as other:
            xid = rpc.next_xid()
            arguments = rpc.opaque(folder) + rpc.opaque(f"made-{transport}") + rpc.u32(0) + rpc.with_mode(0o644)
            must(other.nfs(rpc.CREATE, arguments, xid=xid)[0] == rpc.OK, "the owner's own CREATE is refused")
            # Of one socket, and so of one port: a client's kernel sends all its users' calls by one.
            status, rest = other.nfs(rpc.CREATE, arguments, uid=1001, xid=xid)
            must(status != rpc.OK, f"a stranger's call with the same xid gets the owner's answer, {len(rest)} bytes, over {transport}")
            status, _ = other.nfs(rpc.CREATE, arguments, xid=xid)
            must(status == rpc.OK, f"the owner's retransmission is answered {status} after a stranger's call with its xid")


@attack("forgotten-answers", "one user's thousands of REMOVEs, so that others' retransmissions find their answers gone")
def forgotten_answers(scene):
    with scene.victim() as root:
        root.create(scene.root, "removed-once")
        remove = rpc.nfs_call(rpc.REMOVE, rpc.opaque(scene.root) + rpc.opaque("removed-once"))
        rpc.results(root.exchange(remove))
        wanted = rpc.opaque(scene.own_folder) + rpc.opaque("nothing-of-that-name")
        with scene.attacker("tcp", patience=60) as caller:
            for _ in range(100):
                calls = [rpc.record(rpc.nfs_call(rpc.REMOVE, wanted, uid=1001)) for _ in range(1000)]
                caller.socket.sendall(b"".join(calls))
                for _ in calls:
                    caller.receive()
        again = rpc.results(root.exchange(remove))
        must(again[:4] == rpc.u32(rpc.OK), f"a REMOVE that was repeated is answered {struct.unpack('!I', again[:4])[0]}")


@attack("changed-handles", "handles with every bit turned, of every kind of file, at every server", scenes=EVERYWHERE)
def changed_handles(scene):
    for name in ("small", "mirrored-large"):
        handle = scene.files[name][0]
        for server, _, caller in everywhere(scene, 0, ("tcp",)):
            for bit in range(0, 8 * len(handle), 3):
                if 8 * 32 <= bit < 8 * 40:
                    continue  # the hint, which changes the reply to its sender alone
                changed = bytearray(handle)
                changed[bit // 8] ^= 1 << bit % 8
                status, _ = caller.nfs(rpc.GETATTR, rpc.opaque(bytes(changed)))
                must(status != rpc.OK, f"a handle of {name} with bit {bit} turned is taken at {server}")
    scene.check_victim()


@attack("forged-hints", "hints that a client made up: sizes, and that its proxy would fill in attributes", refused=False, scenes=EVERYWHERE)
def forged_hints(scene):
    for hint in (1 << 63, 3 << 62, (3 << 62) | (1 << 50), (1 << 64) - 1, 1 << 62):
        for name in ("small", "large", "mirrored-large", "mapped-large"):
            handle = bytearray(scene.own[name])
            handle[rpc.HINT] = rpc.u64(hint)
            for _, _, caller in everywhere(scene, 1001, ("tcp",)):
                caller.nfs(rpc.READ, rpc.opaque(bytes(handle)) + rpc.u64(100_000) + rpc.u32(4096))
                caller.nfs(rpc.WRITE, rpc.write_arguments(bytes(handle), 66_000, b"own"))
                caller.nfs(rpc.COMMIT, rpc.opaque(bytes(handle)) + rpc.u64(0) + rpc.u32(0))
    with scene.victim() as root:
        for name, handle in scene.own.items():
            size = root.getattr(handle).size
            must(size < 1 << 30, f"{name} is said to have {size} bytes")
    scene.check_victim()


@attack("one-place", "names that all lead to one site, and a folder with all of them", refused=False, scenes=("name-hashing",))
def one_place(scene):
    import hashlib
    fileid = scene.own_folder[8:16]
    names = (f"n{number}" for number in itertools.count())
    one_site = (name for name in names if hashlib.md5(fileid + name.encode()).digest()[7] & 63 == 0)
    with scene.attacker("tcp", patience=20) as caller:
        for name in itertools.islice(one_site, 60 if scene.options.scale <= 1 else 2000):
            caller.create(scene.own_folder, f"{name}")
    scene.check_victim()


@attack("locks", "renames and links between folders of all sites, all at once: tables of locks fill", refused=False, scenes=("generic", "name-hashing"))
def locks(scene):
    with scene.attacker("tcp", patience=30) as caller:
        tag = rpc.next_xid()
        folders = [caller.mkdir(scene.own_folder, f"f{number}-{tag}") for number in range(8)]
        for folder in folders:
            caller.create(folder, "x")
        calls = []
        for number in range(400):
            one, other = folders[number % 8], folders[(number * 3 + 1) % 8]
            calls.append(rpc.record(rpc.nfs_call(14, rpc.opaque(one) + rpc.opaque("x") + rpc.opaque(other) + rpc.opaque(f"y{number % 5}"), uid=1001)))
            calls.append(rpc.record(rpc.nfs_call(14, rpc.opaque(other) + rpc.opaque(f"y{number % 5}") + rpc.opaque(one) + rpc.opaque("x"), uid=1001)))
        caller.socket.sendall(b"".join(calls))
        for _ in calls:
            caller.receive()
    scene.check_victim()
