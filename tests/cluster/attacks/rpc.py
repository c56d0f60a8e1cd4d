"""NFSv3, MOUNT and PORTMAP by hand: callers that may say anything, over UDP and TCP, from any namespace of the ensemble."""

import contextlib
import itertools
import random
import socket
import ssl
import struct
import time
import typing

from attacks import network

NFS, MOUNT, PORTMAP = 100003, 100005, 100000
GETATTR, SETATTR, LOOKUP, ACCESS, READLINK, READ, WRITE, CREATE, MKDIR, SYMLINK, REMOVE = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
RENAME, LINK, READDIRPLUS, COMMIT = 14, 15, 17, 21
OK, PERM, NOENT, ACCES, EXIST, ROFS, STALE, BADHANDLE = 0, 1, 2, 13, 17, 30, 70, 10001
UNSTABLE, FILE_SYNC = 0, 2
AUTH_SLICE = 0x534c4943
TLS_WISH = struct.pack("!2I", 7, 0)  # AUTH_TLS, as a credential
STARTTLS = b"STARTTLS"
RECORD = 1 << 31
HINT = slice(32, 40)  # of a file handle (docs/formats/file-handle.md)
MAC = slice(40, 56)

_xids = itertools.count(random.getrandbits(31))


def next_xid():
    return next(_xids) & 0xffffffff


def u32(*numbers):
    return struct.pack(f"!{len(numbers)}I", *(number & 0xffffffff for number in numbers))


def u64(*numbers):
    return struct.pack(f"!{len(numbers)}Q", *numbers)


def opaque(data):
    data = data.encode() if isinstance(data, str) else data
    return u32(len(data)) + data + b"\0" * (-len(data) % 4)


def auth_sys(uid, gid=None, groups=()):
    gid = uid if gid is None else gid
    body = u32(0) + opaque("attacker") + u32(uid, gid, len(groups), *groups)
    return u32(1) + opaque(body)


NOBODY = u32(0, 0)


def call(program, version, procedure, arguments=b"", *, uid=None, xid=None, verifier=NOBODY):
    """An RPC call; uid None: AUTH_NONE."""
    credential = NOBODY if uid is None else auth_sys(uid)
    return u32(next_xid() if xid is None else xid, 0, 2, program, version, procedure) + credential + verifier + arguments


def nfs_call(procedure, arguments, uid=0, xid=None):
    return call(NFS, 3, procedure, arguments, uid=uid, xid=xid)


def record(message):
    return u32(RECORD | len(message)) + message


class NoAnswer(Exception):
    pass


class Refused(Exception):
    """Answered by RPC with an error; the text says which."""


class Attributes(typing.NamedTuple):
    type: int
    mode: int
    nlink: int
    uid: int
    gid: int
    size: int
    used: int
    rdev: int
    fsid: int
    fileid: int
    atime: int
    mtime: int
    ctime: int

    @staticmethod
    def of(data):
        return Attributes(*struct.unpack("!5I8Q", data[:84]))


def results(reply):
    """What a reply's record carries behind its header."""
    xid, kind, denied = struct.unpack_from("!3I", reply)
    if kind != 1 or denied != 0:
        raise Refused("denied" if kind == 1 else "no reply")
    _, length = struct.unpack_from("!2I", reply, 12)
    at = 20 + length + (-length % 4)
    status, = struct.unpack_from("!I", reply, at)
    if status != 0:
        raise Refused(f"accepted with status {status}")
    return reply[at + 4:]


def tls_context(authority, certificate=None):
    """Of a client that wants the service's certificate to be the authority's; `certificate`: (certificate, key) files of its own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority)
    context.set_alpn_protocols(["sunrpc"])
    if certificate:
        context.load_cert_chain(*certificate)
    return context


class Caller:
    """One socket to one port. Calls are sent again over UDP, never over TCP."""

    def __init__(self, netns, server, port=2049, transport="tcp", *, uid=0, patience=5.0, reserved=True, source_port=None):
        self.uid, self.patience, self.transport = uid, patience, transport
        self.socket = network.open_socket(netns, socket.SOCK_STREAM if transport == "tcp" else socket.SOCK_DGRAM)
        self.socket.settimeout(patience)
        if source_port is not None:
            self.socket.bind(("", source_port))
        elif reserved:
            self._bind_reserved()
        try:
            self.socket.connect((server, port))
        except OSError as error:
            self.socket.close()
            raise NoAnswer(f"no connection: {error}") from None

    def _bind_reserved(self):
        """A client with root on its machine calls from a port below 1024, as kernels do."""
        for port in random.sample(range(600, 1024), 424):
            with contextlib.suppress(OSError):
                self.socket.bind(("", port))
                return
        raise NoAnswer("no port below 1024 is free")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    @property
    def address(self):
        return self.socket.getsockname()

    def wish_for_tls(self):
        """The verifier of the answer: STARTTLS where the service has TLS, else nothing."""
        reply = self.exchange(u32(next_xid(), 0, 2, NFS, 3, 0) + TLS_WISH + NOBODY)
        results(reply)
        length, = struct.unpack_from("!I", reply, 16)
        return reply[20:20 + length]

    def begin_tls(self, context):
        """RFC 9289. Raises NoAnswer where there is no TLS to be had, or the handshake fails."""
        if self.wish_for_tls() != STARTTLS:
            raise NoAnswer("the service has no TLS")
        try:
            self.socket = context.wrap_socket(self.socket, server_hostname=self.socket.getpeername()[0])
        except OSError as error:
            raise NoAnswer(f"TLS: {error}") from None
        return self

    def send(self, message):
        self.socket.sendall(record(message) if self.transport == "tcp" else message)

    def receive(self):
        """The next reply's record."""
        try:
            if self.transport != "tcp":
                return self.socket.recv(65536)
            whole, last = b"", False
            while not last:
                mark, = struct.unpack("!I", self._exactly(4))
                last = bool(mark & RECORD)
                whole += self._exactly(mark & ~RECORD)
            return whole
        except OSError as error:
            raise NoAnswer(str(error)) from None

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise NoAnswer("the connection ended")
            data += piece
        return data

    def exchange(self, message):
        """The reply to this call, whose xid is its first word; older replies are passed over."""
        end = time.monotonic() + self.patience
        self.socket.settimeout(self.patience if self.transport == "tcp" else min(1.0, self.patience))
        self.send(message)
        while time.monotonic() < end:
            try:
                reply = self.receive()
            except NoAnswer:
                if self.transport == "tcp":
                    raise
                self.send(message)
                continue
            if reply[:4] == message[:4]:
                return reply
        raise NoAnswer(f"nothing within {self.patience:g} s")

    def call(self, program, version, procedure, arguments=b"", *, uid=None, xid=None, verifier=NOBODY):
        """Results, undecoded. Raises NoAnswer and Refused."""
        uid = self.uid if uid is None else uid
        return results(self.exchange(call(program, version, procedure, arguments, uid=uid, xid=xid, verifier=verifier)))

    def nfs(self, procedure, arguments, **settings):
        """(NFS status, what follows it)"""
        data = self.call(NFS, 3, procedure, arguments, **settings)
        return struct.unpack_from("!I", data)[0], data[4:]

    def good(self, procedure, arguments, **settings):
        status, rest = self.nfs(procedure, arguments, **settings)
        if status != OK:
            raise Refused(f"NFS status {status} from procedure {procedure}")
        return rest

    # --- in short; each raises where the status is not OK ---------------------------------

    def lookup(self, folder, name):
        return take_opaque(self.good(LOOKUP, opaque(folder) + opaque(name)))

    def getattr(self, handle):
        return Attributes.of(self.good(GETATTR, opaque(handle)))

    def create(self, folder, name, mode=0o644):
        return take_opaque(self.good(CREATE, opaque(folder) + opaque(name) + u32(0) + with_mode(mode))[4:])

    def remove(self, folder, name):
        self.good(REMOVE, opaque(folder) + opaque(name.encode()))

    def mkdir(self, folder, name, mode=0o755):
        return take_opaque(self.good(MKDIR, opaque(folder) + opaque(name) + with_mode(mode))[4:])

    def write(self, handle, offset, data, stable=FILE_SYNC):
        done = 0
        while done < len(data):
            rest = self.good(WRITE, write_arguments(handle, offset + done, data[done:], stable))
            done += struct.unpack_from("!I", behind_wcc(rest))[0]

    def read(self, handle, size):
        data = b""
        while len(data) < size:
            rest = behind_attributes(self.good(READ, opaque(handle) + u64(len(data)) + u32(min(32768, size - len(data)))))
            count, _, _ = struct.unpack_from("!3I", rest)
            if count == 0:
                break
            data += rest[12:12 + count]
        return data

    def chown(self, handle, uid):
        self.good(SETATTR, opaque(handle) + u32(0, 1, uid, 1, uid, 0, 0, 0) + u32(0))


def take_opaque(data):
    size, = struct.unpack_from("!I", data)
    return data[4:4 + size]


def behind_attributes(data):
    return data[88:] if data[:4] == u32(1) else data[4:]


def behind_wcc(data):
    return behind_attributes(data[28:] if data[:4] == u32(1) else data[4:])


def with_mode(mode):
    """sattr3"""
    return u32(1, mode, 0, 0, 0, 0, 0)


def write_arguments(handle, offset, data, stable=FILE_SYNC):
    return opaque(handle) + u64(offset) + u32(len(data), stable) + opaque(data)


def mount_root(netns, server, mount_port=20048, *, path="/", transport="tcp", patience=5.0):
    with Caller(netns, server, mount_port, transport, patience=patience) as mount:
        data = mount.call(MOUNT, 3, 1, opaque(path))
    if data[:4] != u32(0):
        raise Refused(f"MNT answers {struct.unpack_from('!I', data)[0]}")
    return take_opaque(data[4:])


def forged(handle, **fields):
    """The handle with other bytes and a MAC that nobody made; fields: fileid=N, flags=N."""
    changed = bytearray(handle)
    if "fileid" in fields:
        changed[8:16] = u64(fields["fileid"])
    if "flags" in fields:
        changed[2] = fields["flags"]
    changed[MAC] = bytes(16)
    return bytes(changed)
