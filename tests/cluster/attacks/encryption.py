"""Attacks on clients' TLS (docs/encryption.md): what comes in its place, and more of it than anybody needs."""

import contextlib
import os
import ssl
import time

from attacks import rpc
from attacks.attack import attack, must

SILENT = 300  # connections
WISH = rpc.u32(1, 0, 2, rpc.NFS, 3, 0) + rpc.TLS_WISH + rpc.NOBODY


def asked(scene):
    """A connection that may go over to TLS now."""
    caller = scene.attacker("tcp")
    must(caller.wish_for_tls() == rpc.STARTTLS, "the service has no TLS")
    return caller


def answered(caller, handle):
    """Whether a call over this connection gets an answer."""
    try:
        caller.nfs(rpc.GETATTR, rpc.opaque(handle))
    except (rpc.NoAnswer, rpc.Refused):
        return False
    return True


@attack("clear-within-tls", "calls in clear behind the wish for TLS, before its answer and after; wishes that are none; older TLS; another protocol's name")
def clear_within_tls(scene):
    write = rpc.nfs_call(rpc.WRITE, rpc.write_arguments(scene.own["small"], 0, b"said in clear"))
    with scene.attacker("tcp") as caller:
        caller.socket.sendall(rpc.record(WISH) + rpc.record(write))
        must(not answered(caller, scene.own["small"]), "who says more in clear behind its wish is served")
    with asked(scene) as caller:
        caller.socket.sendall(rpc.record(write))
        must(not answered(caller, scene.own["small"]), "who goes on in clear where TLS is to begin is served")
    with scene.victim() as root:
        must(b"said in clear" not in root.read(scene.own["small"], 500), "a call in clear was carried out where TLS was to begin")
    with scene.attacker("tcp") as caller:
        begun = rpc.u32(2, 0, 2, rpc.NFS, 3, rpc.GETATTR) + rpc.TLS_WISH + rpc.NOBODY + rpc.opaque(scene.own["small"])
        must(caller.exchange(begun)[8:12] == rpc.u32(1), "AUTH_TLS is a credential for more than NULL")
    for garbage in (bytes(2048), os.urandom(2048), b"\x16\x03\x01\xff\xff" + os.urandom(1024), b"\x16\x03\x01\x00\x05\x01\xff\xff\xff\x03"):
        with asked(scene) as caller:
            with contextlib.suppress(OSError):
                caller.socket.sendall(garbage)
            must(not answered(caller, scene.own["small"]), "who answers STARTTLS with garbage is served")
    for what, change in (("TLS 1.2", lambda context: setattr(context, "maximum_version", ssl.TLSVersion.TLSv1_2)),
                         ("HTTP", lambda context: context.set_alpn_protocols(["http/1.1"]))):
        context = rpc.tls_context(scene.authority)
        change(context)
        with scene.attacker("tcp") as caller, contextlib.suppress(rpc.NoAnswer):
            caller.begin_tls(context)
            must(not answered(caller, scene.own["small"]), f"{what} is taken")
    scene.check_victim()


@attack("silent-handshakes", f"{SILENT} connections that ask for TLS and then say nothing, or half of a handshake")
def silent_handshakes(scene):
    with contextlib.ExitStack() as stack:
        for number in range(SILENT):
            with contextlib.suppress(rpc.NoAnswer):
                caller = stack.enter_context(asked(scene))
                if number % 2:
                    caller.socket.sendall(b"\x16\x03\x01\x02\x00\x01")
        scene.hold()
    scene.check_victim()


@attack("many-handshakes", "handshakes without end, each over a connection of its own", refused=False)
def many_handshakes(scene):
    context, end = rpc.tls_context(scene.authority), time.monotonic() + 60
    while not scene.over.is_set() and time.monotonic() < end:
        with contextlib.suppress(rpc.NoAnswer), scene.attacker("tcp") as caller:
            caller.begin_tls(context)
    scene.check_victim()
