"""Attacks by frames that no kernel would send: other files' handles under one's own xid, forged replies, forged sources."""

import itertools
import random
import struct
import time

from attacks import network, rpc
from attacks.attack import EVERYWHERE, attack, must

GUESSED_OFFSET = 1 << 50


def grow_others(scene, victims, own):
    """WRITE on a file of one's own, and at once one on each victim's handle at a large offset, with the same xid from the same port. The
    offsets are many, so that some of both lead to one server."""
    for name, stripe in itertools.product(victims, range(12)):
        handle = scene.files[name][0]
        for target in (rpc.forged(handle), handle):
            with scene.attacker() as caller:
                caller.getattr(own)  # so that the proxy can fill in attributes, and servers leave room for them
                xid = rpc.next_xid()
                pair = [rpc.nfs_call(rpc.WRITE, rpc.write_arguments(each, offset, b"mine"), uid=caller.uid, xid=xid)
                        for each, offset in ((own, 65536 + stripe % 3 * 65536), (target, GUESSED_OFFSET + stripe * 65536))]
                for message in pair:
                    caller.send(message)


@attack("foreign-size", "WRITE on a handle that nobody verified, under the xid of a WRITE of one's own", scenes=EVERYWHERE)
def foreign_size(scene):
    grow_others(scene, ("small", "large", "privateopen"), scene.own["large"])
    time.sleep(0.2)
    scene.check_victim()


@attack("foreign-size-placed", "the same on mirrored and block-mapped files", scenes=("generic", "one-process"))
def foreign_size_placed(scene):
    for name in ("mirrored-large", "mapped-large"):
        grow_others(scene, (name,), scene.own[name])
        grow_others(scene, (name,), scene.own["large"])
    time.sleep(0.2)
    scene.check_victim()


@attack("foreign-flags", "handles with other flags than they were made with: mirrored, block-mapped, neither", scenes=EVERYWHERE)
def foreign_flags(scene):
    with scene.attacker("tcp") as caller:
        for name in ("large", "mirrored-large", "mapped-large"):
            for flags in (0, 1, 2, 3, 5, 0xff):
                handle = bytearray(scene.own[name])
                if handle[2] == flags:
                    continue
                handle[2] = flags
                for procedure, arguments in ((rpc.READ, rpc.opaque(bytes(handle)) + rpc.u64(65536) + rpc.u32(4096)),
                                             (rpc.WRITE, rpc.write_arguments(bytes(handle), 65536, b"x" * 100))):
                    status, _ = caller.nfs(procedure, arguments)
                    must(status not in (rpc.OK,), f"procedure {procedure} on {name} with flags {flags} is answered {status}")


def forged_attributes(fileid, mode=0o4755, size=1 << 40):
    now = int(time.time() + 1) << 32
    return struct.pack("!5I", 1, mode, 1, 0, 0) + rpc.u64(size, size, 0, 1, fileid, now, now, now)


# In one process the servers' addresses are the kernel's own there: it drops what claims to come from them, and no process sees it.
FORGED_IS_SEEN = ("generic", "native", "name-hashing")


@attack("forged-reply", "a server's reply, made by a client: mode 04755, user 0, on a file that others read",
        refused=FORGED_IS_SEEN, scenes=EVERYWHERE)
def forged_reply(scene):
    handle = scene.own["small"]
    fileid = struct.unpack("!Q", handle[8:16])[0]
    servers = [address for name, address in scene.addresses.items() if name.startswith(("dir", "small", "store"))]
    for server in servers * 4:
        with scene.attacker() as caller:
            xid = rpc.next_xid()
            ask = rpc.nfs_call(rpc.GETATTR, rpc.opaque(handle), uid=caller.uid, xid=xid)
            reply = rpc.u32(xid, 1, 0, 0, 0, 0, rpc.OK) + forged_attributes(fileid)
            packets = [network.datagram(server, 2049, destination, caller.address[1], reply) for destination in (scene.attacker_address, scene.virtual)]
            caller.send(ask)
            for packet in packets:
                scene.wire.send(packet)
    for transport in ("tcp", "udp"):
        with scene.victim(transport) as reader:
            rest = reader.good(rpc.READ, rpc.opaque(handle) + rpc.u64(0) + rpc.u32(100))
            seen = [reader.getattr(handle)] + ([rpc.Attributes.of(rest[4:])] if rest[:4] == rpc.u32(1) else [])
            must(all(each.mode & 0o4000 == 0 and each.uid != 0 and each.size < 1 << 30 for each in seen),
                 f"others see the file as {seen} ({transport})")


@attack("reply-to-others", "forged replies to the victim's requests under way: every xid near its own",
        refused=FORGED_IS_SEEN, scenes=EVERYWHERE)
def reply_to_others(scene):
    handle = scene.files["small"][0]
    fileid = struct.unpack("!Q", handle[8:16])[0]
    with scene.victim("udp") as caller:
        address, port = caller.address
        for _ in range(50):
            xid = rpc.next_xid()
            for server in (scene.address_of("dir"), scene.address_of("small"), scene.virtual):
                reply = rpc.u32(xid, 1, 0, 0, 0, 0, rpc.OK) + forged_attributes(fileid)
                scene.wire.send(network.datagram(server, 2049, address, port, reply))
            must(caller.nfs(rpc.GETATTR, rpc.opaque(handle), xid=xid)[1][:4] == rpc.u32(1), "the victim's GETATTR shows no regular file")
            caller.send(rpc.nfs_call(rpc.GETATTR, rpc.opaque(handle), xid=xid))
    scene.check_victim()


FORGERS = (("a network that is nowhere", "10.77.201.9"), ("the victim", "10.77.1.2"), ("a neighbour of the victim's", "10.77.1.77"),
           ("a server", "10.77.3.2"), ("the virtual address", "10.77.0.1"), ("this host", "127.0.0.1"), ("everybody", "255.255.255.255"),
           ("a group", "224.0.0.1"))


def names_by_forgers(scene, send):
    """Has root of each forged source make a name; which names came to be."""
    for number, (_, source) in enumerate(FORGERS):
        arguments = rpc.opaque(scene.root) + rpc.opaque(f"forged-{number}") + rpc.u32(0) + rpc.with_mode(0o644)
        send(source, rpc.nfs_call(rpc.CREATE, arguments, uid=0))
        remove = rpc.opaque(scene.victim_folder) + rpc.opaque("small")
        send(source, rpc.nfs_call(rpc.REMOVE, remove, uid=0))
    scene.serves_newcomers(10)
    made = [who for number, (who, _) in enumerate(FORGERS) if scene.exists(scene.root, f"forged-{number}")]
    must(not made, f"a name was made as root of {', '.join(made)}")
    scene.check_victim()


@attack("forged-source", "root of an exported network, from the attacker's own link", scenes=EVERYWHERE)
def forged_source(scene):
    names_by_forgers(scene, lambda source, message: scene.send_forged(source, 800, message))


@attack("forged-source-direct", "the same straight to a directory server", scenes=EVERYWHERE)
def forged_source_direct(scene):
    names_by_forgers(scene, lambda source, message: scene.send_forged(source, 800, message, destination=scene.address_of("dir")))


@attack("forged-source-tagged", "the same behind VLAN tags: of no network, of one, of two, of the largest", scenes=EVERYWHERE)
def forged_source_tagged(scene):
    def send(source, message):
        for tags in ((0,), (5,), (0, 0), (5, 7), (4095,), (0, 5, 0)) * 3:
            scene.send_forged(source, 800, message, tags=tags)
    names_by_forgers(scene, send)


IP_OPTIONS = (b"\x01" * 4, b"\x01" * 40, b"\x83\x0b\x04" + bytes([10, 77, 1, 2, 10, 77, 0, 1]) + b"\0",  # no operation; a loose route
              b"\x89\x0b\x04" + bytes([10, 77, 1, 2, 10, 77, 0, 1]) + b"\0",  # a strict route
              b"\x07\x27\x04" + bytes(36) + b"\0", b"\x44\x28\x05\x03" + bytes(36), b"\x94\x04\0\0", b"\xff\xff\xff\xff")


@attack("forged-source-options", "the same with IP options: source routes, records of routes, nonsense", scenes=EVERYWHERE)
def forged_source_options(scene):
    def send(source, message):
        for options in IP_OPTIONS:
            scene.wire.send(network.datagram(source, 800, scene.virtual, 2049, message, options=options))
    names_by_forgers(scene, send)


@attack("forged-source-fragments", "the same cut into fragments, and with the source forged in the later ones alone", scenes=EVERYWHERE)
def forged_source_fragments(scene):
    def send(source, message):
        ident = random.randrange(65536)
        datagram = network.udp(800, 2049, message)
        for packet in network.fragments(source, scene.virtual, datagram, ident, 96):
            scene.wire.send(packet)
        for packet in reversed(network.fragments(source, scene.virtual, datagram, ident + 1 & 0xffff, 48)):
            scene.wire.send(packet)
    names_by_forgers(scene, send)


@attack("forged-mac", "the victim's addresses in the frame and in the packet, from the attacker's link", scenes=("generic", "native"))
def forged_mac(scene):
    names_by_forgers(scene, lambda source, message: scene.wire.send(
        network.datagram(source, 800, scene.virtual, 2049, message), source=b"\x02\0\0\0\0\x01"))


@attack("fragments-of-others", "later fragments with the victim's address and identifiers, to lead its WRITEs astray", scenes=("generic", "native"))
def fragments_of_others(scene):
    for turn in range(6):
        with scene.victim("udp", patience=15) as caller:
            for ident in range(turn * 500, turn * 500 + 500):
                for offset in (185, 370):  # in units of 8 bytes: of the second and third packet at an MTU of 1500
                    scene.wire.send(network.ipv4(caller.address[0], scene.virtual, bytes(1400), ident=ident, fragment=0x2000 | offset))
            data = bytes([turn]) * 20_000
            caller.write(scene.scratch, 0, data)
            must(caller.read(scene.scratch, len(data)) == data, "a WRITE in fragments kept other bytes than its own")
    scene.check_victim()


@attack("odd-frames", "frames whose lengths, versions, tags and offsets contradict one another", scenes=EVERYWHERE)
def odd_frames(scene):
    chance = random.Random(scene.seed)
    message = rpc.nfs_call(rpc.WRITE, rpc.write_arguments(scene.files["small"][0], 0, b"no" * 50), uid=0)
    for _ in range(400):
        source = chance.choice([source for _, source in FORGERS] + [scene.attacker_address])
        payload = network.udp(800, 2049, message, length=chance.choice([0, 7, 8, 20, len(message), 8 + len(message), 0xffff]))
        packet = bytearray(network.ipv4(source, scene.virtual, payload, fragment=chance.choice([0, 0, 0x2000, 0x4000, 0x8000, 1, 0x1fff]),
                                        length=chance.choice([None, 0, 20, 28, 60, 0xffff])))
        if chance.random() < 0.5:
            packet[chance.randrange(len(packet))] = chance.randrange(256)
        scene.wire.send(bytes(packet), tags=chance.choice([(), (), (0,), (1, 2)]))
        scene.wire.send(bytes(packet)[:chance.randrange(1, len(packet))])
    scene.check_victim()


@attack("jumbo-frames", "frames longer than the servers' links take, with forged sources and one's own",
        refused=FORGED_IS_SEEN, scenes=EVERYWHERE)
def jumbo_frames(scene):
    forged = rpc.nfs_call(rpc.WRITE, rpc.write_arguments(scene.files["small"][0], 0, b"no" * 4000), uid=0)
    with scene.jumbo():
        for _, source in FORGERS * 5:
            scene.send_forged(source, 800, forged)
        # The kernel drops what is longer than the link that it is redirected to (docs/operations.md): nobody but its sender waits.
        with scene.attacker() as caller:
            for _ in range(50):
                caller.send(rpc.nfs_call(rpc.WRITE, rpc.write_arguments(scene.own["large"], 0, b"long" * 2000), uid=caller.uid))
        scene.serves_newcomers(10)
    scene.check_victim()


@attack("arp", "ARP requests and answers that claim the addresses of servers, of the victim and of the virtual address", refused=False,
        scenes=("generic", "native"))
def arp(scene):
    own = scene.wire.own
    for claimed in [*scene.addresses.values(), "10.77.1.2", scene.virtual]:
        for kind, asked in ((1, "10.77.100.1"), (2, "10.77.100.1"), (1, claimed), (2, claimed), (1, scene.virtual)):
            scene.wire.send_arp(kind, own, claimed, asked)
    for _ in range(5):  # the proxy looks at neighbours every two seconds
        time.sleep(0.5)
        with scene.victim("udp", patience=5) as caller:
            caller.getattr(scene.files["small"][0])
            caller.read(scene.files["large"][0], 200_000)
    scene.check_victim()
