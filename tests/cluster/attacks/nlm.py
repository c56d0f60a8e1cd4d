"""NLM version 4 and NSM by hand (docs/locks.md)."""

import struct

from attacks import rpc

NLM, NSM = 100021, 100024
TEST, LOCK, CANCEL, UNLOCK, SHARE, NM_LOCK, FREE_ALL = 1, 2, 3, 4, 20, 22, 23
NOTIFY = 6
GRANTED, DENIED, NO_LOCKS, BLOCKED, GRACE, DEADLOCK, READ_ONLY, STALE, TOO_BIG, FAILED = range(10)
TCP, UDP = 6, 17
COOKIE = rpc.opaque("cook")


def alock(handle, svid, *, offset=0, length=0, caller="client", owner="owner"):
    return rpc.opaque(caller) + rpc.opaque(handle) + rpc.opaque(owner) + rpc.u32(svid) + rpc.u64(offset, length)


def lock_arguments(handle, svid, *, block=False, exclusive=True, state=3, **what):
    return COOKIE + rpc.u32(block, exclusive) + alock(handle, svid, **what) + rpc.u32(0, state)


def unlock_arguments(handle, svid, **what):
    return COOKIE + alock(handle, svid, **what)


def status_of(results):
    """Of all results but those of SHARE."""
    return struct.unpack_from("!I", results, 4 + len(rpc.take_opaque(results)))[0]


def port_of(netns, server, program=NLM, version=4, transport="tcp"):
    """Where the server's PORTMAP says that it is; 0 where it is not."""
    with rpc.Caller(netns, server, 111, transport) as portmap:
        return struct.unpack("!I", portmap.call(rpc.PORTMAP, 2, 3, rpc.u32(program, version, TCP if transport == "tcp" else UDP, 0)))[0]


class Locks(rpc.Caller):
    """A connection to a server's lock manager."""

    def __init__(self, netns, server, transport="tcp", **settings):
        super().__init__(netns, server, port_of(netns, server, transport=transport), transport, **settings)

    def ask(self, procedure, arguments, **settings):
        return status_of(self.call(NLM, 4, procedure, arguments, **settings))

    def lock(self, handle, svid, **what):
        return self.ask(LOCK, lock_arguments(handle, svid, **what))

    def lock_unmonitored(self, handle, svid, **what):
        """As a client without NSM does, whom no server watches."""
        return self.ask(NM_LOCK, lock_arguments(handle, svid, **what))

    def unlock(self, handle, svid, **what):
        return self.ask(UNLOCK, unlock_arguments(handle, svid, **what))
