"""RPCSEC_GSS (RFC 2203) by hand, on rpc.Caller: contexts whose calls may be anything but right."""

import functools
import importlib
import os
import struct
import sys
import typing

from attacks import rpc


FLAVOR = 6
DATA, INIT, CONTINUE, DESTROY = 0, 1, 2, 3
KRB5, KRB5I, KRB5P = 1, 2, 3  # services
SERVICES = {"krb5": KRB5, "krb5i": KRB5I, "krb5p": KRB5P}
FLAVORS = {"sys": 1, "krb5": 390003, "krb5i": 390004, "krb5p": 390005}  # as MOUNT names them
BADCRED, REJECTEDCRED, BADVERF, REJECTEDVERF, TOOWEAK, CREDPROBLEM, CTXPROBLEM = 1, 2, 3, 4, 5, 13, 14
GARBAGE_ARGS = 4
MAXSEQ = 0x80000000
MECHANISM = "1.2.840.113554.1.2.2"  # Kerberos


@functools.cache
def library():
    """python3-gssapi: other suites do without."""
    try:
        return importlib.import_module("gssapi")
    except ImportError:  # another Python than Debian's own, whose modules it does not look for
        sys.path.append("/usr/lib/python3/dist-packages")
        return importlib.import_module("gssapi")


class Answer(typing.NamedTuple):
    """Of an RPC reply: auth_stat where it is denied (then the rest is nothing), else accept_stat and what follows, and the verifier."""
    denied: int | None
    status: int | None
    data: bytes
    verifier: bytes

    @staticmethod
    def of(reply):
        _, kind, denied = struct.unpack_from("!3I", reply)
        if kind != 1:
            raise rpc.Refused("no reply")
        if denied:
            return Answer(struct.unpack_from("!2I", reply, 12)[1], None, b"", b"")
        verifier = rpc.take_opaque(reply[16:])
        at = 20 + len(verifier) + (-len(verifier) % 4)
        return Answer(None, struct.unpack_from("!I", reply, at)[0], reply[at + 4:], verifier)


def flipped(data, bit=0):
    changed = bytearray(data)
    changed[-1 - bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def behind_opaque(data):
    size, = struct.unpack_from("!I", data)
    return data[4 + size + (-size % 4):]


def credential(procedure, sequence, service, handle, version=1):
    return rpc.u32(FLAVOR) + rpc.opaque(rpc.u32(version, procedure, sequence, service) + rpc.opaque(handle))


def init_call(token, *, procedure=INIT, handle=b"", version=1, service=KRB5, program=rpc.NFS):
    """A call that begins a context, or goes on to."""
    return (rpc.u32(rpc.next_xid(), 0, 2, program, 3, 0) + credential(procedure, 0, service, handle, version) + rpc.NOBODY + rpc.opaque(token))


class InitAnswer(typing.NamedTuple):
    handle: bytes
    major: int
    minor: int
    window: int
    token: bytes

    @staticmethod
    def of(data):
        handle, rest = rpc.take_opaque(data), behind_opaque(data)
        return InitAnswer(handle, *struct.unpack_from("!3I", rest), rpc.take_opaque(rest[12:]))


def initiator(variables, service):
    """The user's end of a context that is to be; variables: those of Realm.ticket()."""
    os.environ |= {"KRB5_CONFIG": variables["KRB5_CONFIG"]}
    gssapi = library()
    name = gssapi.Name(service, gssapi.NameType.hostbased_service)
    own = gssapi.Credentials(usage="initiate", store={"ccache": variables["KRB5CCNAME"]})
    # As clients ask for it: RPC has numbers of its own, and messages come in any order.
    return gssapi.SecurityContext(name=name, creds=own, usage="initiate", mech=gssapi.OID.from_int_seq(MECHANISM), flags=[gssapi.RequirementFlag.mutual_authentication])


class Context:
    """One that is established. Calls have the next number, the handle and the service that are right, where nothing else is said."""

    def __init__(self, caller, variables, service="nfs@files.slice.test"):
        self.caller, self.sequence = caller, 0
        self.security = initiator(variables, service)
        said = Answer.of(caller.exchange(init_call(self.security.step())))
        if said.denied is not None or said.status != 0:
            raise rpc.Refused(f"INIT is answered {said.denied, said.status}")
        began = InitAnswer.of(said.data)
        if began.major != 0:
            raise rpc.Refused(f"INIT is answered major {began.major:#x}, minor {began.minor}")
        self.handle, self.window = began.handle, began.window
        self.security.step(began.token)
        self.security.verify_signature(rpc.u32(self.window), said.verifier)

    def message(self, procedure, arguments=b"", *, service=KRB5, sequence=None, inner=None, handle=None, gss=DATA, version=1, xid=None, program=rpc.NFS,
                spoil=()):
        """A call. inner: the number that the body has, where that is another one. spoil: of "verifier", "checksum", "body", "no verifier", those that
        are to be wrong."""
        if sequence is None:
            self.sequence += 1
            sequence = self.sequence
        head = rpc.u32(rpc.next_xid() if xid is None else xid, 0, 2, program, 3, procedure)
        head += credential(gss, sequence, service, self.handle if handle is None else handle, version)
        signature = self.security.get_signature(head)
        signature = flipped(signature) if "verifier" in spoil else signature
        verifier = rpc.NOBODY if "no verifier" in spoil else rpc.u32(FLAVOR) + rpc.opaque(signature)
        return head + verifier + self._body(arguments, service, sequence if inner is None else inner, spoil)

    def _body(self, arguments, service, number, spoil):
        if service not in (KRB5I, KRB5P):
            return arguments
        plain = rpc.u32(number) + arguments
        if service == KRB5I:
            checksum = self.security.get_signature(plain)
            return rpc.opaque(flipped(plain) if "body" in spoil else plain) + rpc.opaque(flipped(checksum) if "checksum" in spoil else checksum)
        sealed = self.security.wrap(plain, True).message
        return rpc.opaque(flipped(sealed, 200) if "body" in spoil else sealed)

    def opened(self, answer, service, sequence):
        """What an answer carries, whose verifier and body must be right."""
        self.security.verify_signature(rpc.u32(sequence), answer.verifier)
        if service == KRB5 or answer.status != 0:
            return answer.data
        plain = rpc.take_opaque(answer.data)
        if service == KRB5I:
            self.security.verify_signature(plain, rpc.take_opaque(behind_opaque(answer.data)))
        else:
            opened = self.security.unwrap(plain)
            if not opened.encrypted:
                raise rpc.Refused("an answer under krb5p is not encrypted")
            plain = opened.message
        if plain[:4] != rpc.u32(sequence):
            raise rpc.Refused(f"the answer to {sequence} has the number {plain[:4].hex()}")
        return plain[4:]

    def ask(self, procedure, arguments=b"", **settings):
        """The Answer, with its data undone where it is right."""
        message = self.message(procedure, arguments, **settings)
        sequence = settings.get("sequence", self.sequence)
        answer = Answer.of(self.caller.exchange(message))
        if answer.denied is None:
            answer = answer._replace(data=self.opened(answer, settings.get("service", KRB5), sequence))
        return answer

    def nfs(self, procedure, arguments, **settings):
        """(NFS status, what follows it); Refused where RPC refuses."""
        answer = self.ask(procedure, arguments, **settings)
        if answer.denied is not None or answer.status != 0:
            raise rpc.Refused(f"auth_stat {answer.denied}, accept_stat {answer.status}")
        return struct.unpack_from("!I", answer.data)[0], answer.data[4:]
