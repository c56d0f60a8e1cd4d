"""Attacks by connections: those that read nothing, that send slowly, that say nothing, and more of them than anybody needs."""

import contextlib
import errno
import selectors
import socket
import struct
import time

from attacks import network, rpc
from attacks.attack import attack, must

KNOCKS = 200  # bytes of a NULL call, about


def ports_of_all(scene):
    """Where a client can connect: the virtual address, and each server itself."""
    return {"nfs": (scene.virtual, 2049), "mount": (scene.virtual, 20048), "portmap": (scene.virtual, 111),
            "manager": (scene.address_of("manager"), 2049), "dir": (scene.address_of("dir"), 2049), "small": (scene.address_of("small"), 2049),
            "store": (scene.address_of("store"), 2049), "coord": (scene.address_of("coord"), 2049)}


@contextlib.contextmanager
def connections(scene, address, count):
    """So many of the attacker's, not blocking; those that were refused are missing."""
    sockets = []
    with network.inside(scene.attacker_netns):
        for number in range(count):
            each = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            each.setblocking(False)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            if each.connect_ex(address) not in (0, errno.EINPROGRESS):
                each.close()
                break
            sockets.append(each)
            if number % 200 == 199:
                time.sleep(0.02)  # a queue of connections that nobody took is full at 4,096
    try:
        yield sockets
    finally:
        for each in sockets:
            each.close()


def pour(scene, sockets, data, each_at_most, seconds=None):
    """Sends the same bytes over all, reads nothing, until the load has ended; bytes that were taken."""
    sent = {each: 0 for each in sockets}
    end = time.monotonic() + (seconds or 60)
    with selectors.DefaultSelector() as selector:
        for each in sockets:
            selector.register(each, selectors.EVENT_WRITE)
        while selector.get_map() and not scene.over.is_set() and time.monotonic() < end:
            for key, _ in selector.select(0.1):
                try:
                    sent[key.fileobj] += key.fileobj.send(data)
                except BlockingIOError:
                    continue
                except OSError:
                    selector.unregister(key.fileobj)
                    continue
                if sent[key.fileobj] > each_at_most:
                    selector.unregister(key.fileobj)
    scene.hold()
    return sum(sent.values())


def never_reads(scene, port, program, version, procedure=0, arguments=b"", count=64):
    call = rpc.record(rpc.call(program, version, procedure, arguments, uid=0))
    with connections(scene, ports_of_all(scene)[port], count) as sockets:
        pour(scene, sockets, call * (65536 // len(call)), 32 << 20)
    scene.check_victim()


@attack("never-reading-nfs", "64 connections to the virtual address, NULL calls, nothing read", scenes=("generic", "one-process"))
def never_reading_nfs(scene):
    never_reads(scene, "nfs", rpc.NFS, 3)


@attack("never-reading-mount", "64 to MOUNT", scenes=("generic", "one-process"))
def never_reading_mount(scene):
    never_reads(scene, "mount", rpc.MOUNT, 3)


@attack("never-reading-manager", "64 to the manager, which answers no client at all")
def never_reading_manager(scene):
    never_reads(scene, "manager", rpc.NFS, 3)


@attack("never-reading-directory", "64 to a directory server, GETATTR")
def never_reading_directory(scene):
    never_reads(scene, "dir", rpc.NFS, 3, rpc.GETATTR, rpc.opaque(scene.own["small"]))


@attack("never-reading-storage", "64 to a storage node, READ of 64 KiB each")
def never_reading_storage(scene):
    never_reads(scene, "store", rpc.NFS, 3, rpc.READ, rpc.opaque(scene.own["large"]) + rpc.u64(65536) + rpc.u32(65536))


@attack("never-reading-read", "64 to the virtual address, READ of 256 KiB each", scenes=("generic", "one-process"))
def never_reading_read(scene):
    never_reads(scene, "nfs", rpc.NFS, 3, rpc.READ, rpc.opaque(scene.own["large"]) + rpc.u64(0) + rpc.u32(262144))


def slow_records(scene, port, count, declared, first):
    """Records that are begun and then go on by a byte a second."""
    with connections(scene, ports_of_all(scene)[port], count) as sockets:
        time.sleep(0.5)
        for each in sockets:
            with contextlib.suppress(OSError):
                each.send(rpc.u32(rpc.RECORD | declared) + first)
        while not scene.over.wait(1.0):
            for each in sockets:
                with contextlib.suppress(OSError):
                    each.send(b"\0")
    scene.check_victim()


def begun_write(handle, declared):
    head = rpc.nfs_call(rpc.WRITE, rpc.opaque(handle) + rpc.u64(0) + rpc.u32(declared, rpc.UNSTABLE, declared), uid=1001)
    return head + b"x" * max(0, 2048 - len(head))


@attack("slow-writes", "700 WRITEs of a declared 1 MiB with a forged handle, of which 2 KiB came", scenes=("generic", "one-process"))
def slow_writes(scene):
    slow_records(scene, "nfs", 700, (1 << 20) + 200, begun_write(rpc.forged(scene.own["large"]), 1 << 20))


@attack("slow-writes-own", "700 of them with a handle of one's own", scenes=("generic", "one-process"))
def slow_writes_own(scene):
    slow_records(scene, "nfs", 700, (1 << 20) + 200, begun_write(scene.own["large"], 1 << 20))


@attack("slow-writes-storage", "1,500 of them straight to a storage node")
def slow_writes_storage(scene):
    slow_records(scene, "store", 1500, (1 << 20) + 200, begun_write(scene.own["large"], 1 << 20))


@attack("large-writes-storage", "400 WRITEs straight to a storage node, all but the last KiB of each")
def large_writes_storage(scene):
    size = 1 << 20
    data = rpc.u32(rpc.RECORD | size + 200) + begun_write(scene.own["large"], size) + b"y" * (size - 3072)
    with connections(scene, ports_of_all(scene)["store"], 400) as sockets:
        waiting = {each: memoryview(data) for each in sockets}
        while waiting and not scene.over.is_set():
            for each, rest in list(waiting.items()):
                try:
                    waiting[each] = rest[each.send(rest[:65536]):]
                except BlockingIOError:
                    continue
                except OSError:
                    del waiting[each]
                    continue
                if not waiting[each]:
                    del waiting[each]
        scene.hold()
    scene.check_victim()


@attack("half-records", "half a record mark, half a call, fragments without end: 100 connections to every port")
def half_records(scene):
    beginnings = (b"\x80", b"\x80\0\x10\0" + rpc.u32(1, 0), rpc.u32(0) * 200, rpc.u32(4) + b"abcd", rpc.u32(rpc.RECORD | 0x7fffffff),
                  rpc.u32(0x7fffffff), rpc.u32(1) + b"a")
    with contextlib.ExitStack() as stack:
        for port in ports_of_all(scene).values():
            for number, each in enumerate(stack.enter_context(connections(scene, port, 100))):
                with contextlib.suppress(OSError):
                    each.send(beginnings[number % len(beginnings)])
        scene.hold()
    scene.check_victim()


@attack("idle-connections", "more idle connections of one host than the proxy takes of all", scenes=("generic", "one-process"))
def idle_connections(scene):
    with connections(scene, ports_of_all(scene)["nfs"], 16_500), connections(scene, ports_of_all(scene)["mount"], 2_500):
        scene.serves_newcomers()
        scene.hold()


@attack("idle-manager", "4,200 idle connections at the manager: the operator must still get in")
def idle_manager(scene):
    with connections(scene, ports_of_all(scene)["manager"], 4_200):
        must(scene.target.status() is not None, "slicectl status: the manager does not answer")
        scene.hold()


@attack("idle-servers", "4,200 idle connections at a directory server and at a storage node")
def idle_servers(scene):
    with connections(scene, ports_of_all(scene)["dir"], 4_200), connections(scene, ports_of_all(scene)["store"], 4_200):
        scene.serves_newcomers()
        scene.check_victim()
        scene.hold()


@attack("churn", "connections that are opened, reset and opened again", refused=False, scenes=("generic", "one-process"))
def churn(scene):
    while not scene.over.is_set():
        with connections(scene, ports_of_all(scene)["nfs"], 50) as sockets:
            for each in sockets:
                with contextlib.suppress(OSError):
                    each.send(rpc.record(rpc.nfs_call(rpc.GETATTR, rpc.opaque(scene.own["small"]))))
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@attack("udp-senders", "20,000 ports of one host, each with a call that user space answers", refused=False)
def udp_senders(scene):
    message = rpc.call(rpc.NFS, 3, 0)
    for port in range(2000, 22_000):
        scene.wire.send(network.datagram(scene.attacker_address, port, scene.virtual, 2049, message))
        if port % 500 == 0:
            time.sleep(0.01)
    scene.serves_newcomers()
    with scene.victim("udp", patience=3) as caller:
        caller.call(rpc.NFS, 3, 0)
    scene.check_victim()


@attack("udp-flood", "calls over UDP as fast as they go, with every xid: the tables of requests and fragments are full", refused=False,
        scenes=("generic", "native"))
def udp_flood(scene):
    with scene.attacker() as caller:
        while not scene.over.is_set():
            for _ in range(200):
                caller.send(rpc.nfs_call(rpc.GETATTR, rpc.opaque(scene.own["small"]), uid=1001))
            scene.wire.send(network.ipv4(scene.attacker_address, scene.virtual, bytes(800), ident=rpc.next_xid() & 0xffff, fragment=0x2000))
            time.sleep(0.001)


@attack("greedy-writer", "16 connections that write 1 MiB after 1 MiB as fast as they are taken", refused=False, scenes=("generic", "one-process"))
def greedy_writer(scene):
    message = rpc.nfs_call(rpc.WRITE, rpc.write_arguments(scene.own["large"], 1 << 20, bytes(1 << 20), rpc.UNSTABLE), uid=1001)
    with connections(scene, ports_of_all(scene)["nfs"], 16) as sockets:
        pour(scene, sockets, rpc.record(message), 64 << 20)
