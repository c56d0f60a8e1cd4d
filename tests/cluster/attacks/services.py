"""Attacks on MOUNT, PORTMAP, logs, and programs that are the ensemble's own."""

import contextlib
import hashlib
import os
import pathlib
import re
import socket
import struct
import time

from attacks import network, rpc
from attacks.attack import EVERYWHERE, attack, must
from attacks.connections import ports_of_all

INTERNAL = {"authority": 0x20534c01, "object": 0x20534c02, "coordinator": 0x20534c03, "manager": 0x20534c04, "admin": 0x20534c05,
            "directory": 0x20534c06, "scan": 0x20534c07, "moves": 0x20534c08, "backing": 0x20534c09, "locks": 0x20534c0b}
AMPLIFICATION = 4  # an answer over UDP to its request, at most
LOG_BYTES = 200_000  # of one process, during one attack


def answers(scene, port, message, seconds=0.7):
    """Bytes that came back over UDP for one datagram."""
    with scene.attacker(port=port) as caller:
        caller.socket.settimeout(seconds)
        caller.send(message)
        try:
            return len(caller.receive())
        except rpc.NoAnswer:
            return 0


@attack("amplification", "MNTs of long paths, then DUMP, EXPORT and PORTMAP's DUMP over UDP")
def amplification(scene):
    with scene.attacker("tcp", port=20048) as caller:
        for number in range(60):
            caller.call(rpc.MOUNT, 3, 1, rpc.opaque("/" + "./" * 450 + f"attacker{'/' * number}"))
    for name, port, program, version, procedure in (("DUMP", 20048, rpc.MOUNT, 3, 2), ("EXPORT", 20048, rpc.MOUNT, 3, 5),
                                                    ("PORTMAP DUMP", 111, rpc.PORTMAP, 2, 4)):
        request = rpc.call(program, version, procedure)
        got = answers(scene, port, request)
        must(got <= AMPLIFICATION * len(request), f"{name}: {len(request)} bytes are answered by {got}")


def logs(scene):
    """Each process's log."""
    folder = pathlib.Path(scene.target.facts["config"]).parent / "log"
    return {path.stem: path for path in folder.glob("*.log")}


@attack("log-lines", "paths with line feeds and escapes, and as many refusals as can be made in two seconds")
def log_lines(scene):
    before = {name: path.stat().st_size for name, path in logs(scene).items()}
    lie = "x\n2026-01-01T00:00:00.000Z ERROR proxy1 everything is lost\x1b[2J\x7f\xff"
    with scene.attacker("tcp", port=20048) as caller:
        end = time.monotonic() + 2
        number = 0
        while time.monotonic() < end:
            burst = [rpc.record(rpc.call(rpc.MOUNT, 3, 1, rpc.opaque(f"/{number + each}".encode() + lie.encode("latin-1")))) for each in range(20)]
            caller.socket.sendall(b"".join(burst))
            for _ in burst:
                caller.receive()
            number += len(burst)
    with scene.attacker("tcp", server=scene.address_of("manager")) as caller:
        for _ in range(500):
            caller.exchange(rpc.call(INTERNAL["manager"], 1, 1, verifier=rpc.u32(rpc.AUTH_SLICE, 64) + bytes(64)))
    for name, path in logs(scene).items():
        with open(path, "rb") as log:
            log.seek(before.get(name, 0))
            fresh = log.read()
        must(len(fresh) < LOG_BYTES, f"{name} logged {len(fresh)} bytes")
        must(not any(byte < 0x20 and byte != 0x0a or byte > 0x7e for byte in fresh), f"{name} logged bytes that are no text")
        must(b"\n2026-01-01T00:00:00.000Z ERROR" not in fresh, f"{name} logged a line that a client made up")


@attack("portmap-changes", "PORTMAP SET, UNSET and CALLIT: other ports for NFS, calls in this host's name")
def portmap_changes(scene):
    for transport in ("udp", "tcp"):
        with scene.attacker(transport, port=111, uid=0) as caller:
            for procedure in (1, 2):
                for port in (2049, 4444):
                    try:
                        done = caller.call(rpc.PORTMAP, 2, procedure, rpc.u32(rpc.NFS, 3, 6, port))
                        must(done[:4] == rpc.u32(0), f"PORTMAP procedure {procedure} is done for a client")
                    except rpc.Refused:
                        pass
            got = struct.unpack("!I", caller.call(rpc.PORTMAP, 2, 3, rpc.u32(rpc.NFS, 3, 6, 0))[:4])[0]
            must(got == 2049, f"PORTMAP tells port {got} for NFS")
            caller.patience = 1.0
            for program, procedure, arguments in ((rpc.MOUNT, 1, rpc.opaque("/")), (rpc.NFS, 1, rpc.opaque(scene.root)), (INTERNAL["admin"], 1, b"")):
                try:
                    reply = caller.call(rpc.PORTMAP, 2, 5, rpc.u32(program, 3, procedure) + rpc.opaque(arguments))
                    must(False, f"CALLIT is answered with {len(reply)} bytes")
                except (rpc.Refused, rpc.NoAnswer):
                    pass
    scene.serves_newcomers()


def member_verifier(client=0):
    """As a member of the ensemble writes it (docs/formats/auth-slice.md): internal, or forwarded for a client."""
    return rpc.u32(rpc.AUTH_SLICE, 36) + rpc.u32(1) + rpc.u64(1) + rpc.u32(client, 700 if client else 0, 9 if client else 0) + bytes(12)


@attack("unsealed-programs", "every procedure of every internal program, outside of a session, as a member writes it and otherwise, at every port",
        scenes=EVERYWHERE)
def unsealed_programs(scene):
    forged, client = member_verifier(), member_verifier(0x0a4d0102)
    for where, (server, port) in ports_of_all(scene).items():
        with scene.attacker("tcp", port, server=server, uid=0, patience=10) as caller:
            for name, program in INTERNAL.items():
                for procedure in range(12):
                    for verifier in (rpc.NOBODY, forged, client):
                        try:
                            caller.call(program, 1, procedure, rpc.opaque(scene.files["small"][0]) + bytes(64), verifier=verifier)
                            must(procedure == 0, f"{name} {procedure} at {where} is answered")
                        except rpc.Refused:
                            pass
            for verifier in (forged, client):
                try:
                    caller.call(rpc.NFS, 3, rpc.READ, rpc.opaque(scene.files["small"][0]) + rpc.u64(0) + rpc.u32(100), verifier=verifier)
                    must(where == "nfs", f"a member's verifier is taken at {where}")
                except rpc.Refused:
                    pass
    scene.check_victim()


def key_name(scene):
    """The name of the ensemble's key, which everybody can read who sees a hello (docs/formats/session.md)."""
    config = pathlib.Path(scene.target.facts["config"])
    file, = re.findall(r'^key_file = "(.*)"', config.read_text(), re.MULTILINE)
    secret = (config.parent / file).read_bytes()
    key = hashlib.sha256(b"slice ensemble" + bytes(4) + secret).digest()[:16]
    return hashlib.sha256(b"slice key name" + key).digest()[:8]


def hello(key, coverage=0, nonce=None):
    return rpc.u32(0x534c5331, coverage, 0, 0) + key + (nonce or os.urandom(32)) + bytes(16)


def frame(data, mac, covered=None):
    covered = len(data) if covered is None else covered
    return rpc.u32(covered, len(data) - covered) + mac + data


@attack("forged-sessions", "hellos under the ensemble's key's name and others, frames with other MACs, without covered bytes, of lengths that lie", scenes=EVERYWHERE)
def forged_sessions(scene):
    name = key_name(scene)
    call = rpc.record(rpc.call(INTERNAL["admin"], 1, 1, verifier=member_verifier()))
    frames = [frame(call, bytes(16)), frame(call, os.urandom(16)), frame(call, bytes(16), 0), frame(call, os.urandom(16), 4),
              rpc.u32(1 << 31, 0) + bytes(16) + call, rpc.u32(0, 1 << 24) + bytes(16) + bytes(100_000), call, b""]
    for where, (server, port) in ports_of_all(scene).items():
        for greeting in [hello(name), hello(name, 1), hello(bytes(8)), hello(name, 77), hello(name)[:40]]:
            for more in frames:
                with scene.attacker("tcp", port, server=server, uid=0, patience=0.5) as caller:
                    came = b""
                    with contextlib.suppress(OSError):  # the connection ends under it
                        caller.socket.sendall(greeting + more)
                        caller.socket.shutdown(socket.SHUT_WR)
                        while data := caller.socket.recv(4096):
                            came += data
                    must(len(came) <= 72, f"a forged session is answered with {len(came)} bytes at {where}")
    scene.check_victim()


@attack("unsealed-over-udp", "the same as datagrams, from servers' addresses", scenes=EVERYWHERE)
def unsealed_over_udp(scene):
    for server, port in ports_of_all(scene).values():
        for program in INTERNAL.values():
            for procedure in range(12):
                message = rpc.call(program, 1, procedure, rpc.opaque(scene.files["small"][0]) + bytes(64), uid=0)
                for source in (scene.attacker_address, scene.address_of("manager"), scene.address_of("dir")):
                    scene.wire.send(network.datagram(source, 2049, server, port, message))
    scene.check_victim()


@attack("long-read-over-udp", "READ and READDIRPLUS of 64 KiB and more over UDP, at storage nodes, small-file and directory servers", refused=False)
def long_read_over_udp(scene):
    for role, offset in (("store", 65536), ("small", 0)):
        for server in [address for name, address in scene.addresses.items() if name.startswith(role)]:
            with scene.attacker("udp", server=server, patience=4) as caller:
                for count in (65536, 1 << 20, 0xffffffff):
                    status, rest = caller.nfs(rpc.READ, rpc.opaque(scene.own["large"]) + rpc.u64(offset) + rpc.u32(count))
                    must(status == rpc.OK and len(rest) < 65536, f"READ of {count} bytes at a {role} server is answered {status}")
    with scene.attacker("tcp") as caller:
        folder = caller.mkdir(scene.own_folder, f"long-{rpc.next_xid()}")
        for number in range(300):
            caller.create(folder, f"{number}-{'n' * 100}")
    for server in [address for name, address in scene.addresses.items() if name.startswith("dir")]:
        with scene.attacker("udp", server=server, patience=4) as caller:
            for count in (65536, 1 << 20, 0xffffffff):
                status, rest = caller.nfs(rpc.READDIRPLUS, rpc.opaque(folder) + rpc.u64(0, 0) + rpc.u32(count, count))
                must(status == rpc.OK and len(rest) < 65536, f"READDIRPLUS of {count} bytes is answered {status}")
