"""RPCSEC_GSS calls that are wrong, of the suite `kerberos`: each gets the answer that RFC 2203 has for it, or none, and others go on."""

import contextlib
import struct

from attacks import gss, rpc
from resident import resident

UNFINISHED, ABANDONED = 3000, 2000  # contexts
MEMORY_BYTES = 128 << 20  # that those may cost
TRANSPORTS = ("tcp", "udp")
GOOD = (None, 0)


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} kerberos attack: {what}{'' if ok or got == '' else f': {got}'}", flush=True)
    return bool(ok)


def is_known(scene, what):
    """What a peer is known to do wrong is left out with it."""
    return what in scene.known_failures


def getattr_of(scene):
    return rpc.opaque(scene.root)


def no_answer(caller, message, patience=1.5):
    """Whether nothing comes for the call: no reply, or over TCP the connection's end, which makes a client send it again."""
    before, caller.patience = caller.patience, patience
    caller.socket.settimeout(patience)
    try:
        caller.send(message)
        while True:
            if caller.receive()[:4] == message[:4]:
                return False
    except (rpc.NoAnswer, OSError):
        return True
    finally:
        caller.patience = before


def is_well(scene, context, what):
    """The context goes on."""
    if is_known(scene, what):
        context.sequence += 1  # as the call has, that others used up
        return True
    try:
        status, _ = context.nfs(rpc.GETATTR, getattr_of(scene))
        return say(status == rpc.OK, f"{what}, and it goes on", status)
    except (rpc.NoAnswer, rpc.Refused) as error:
        return say(False, f"{what}, and it goes on", error)


def answered(scene, context, what, wanted, **settings):
    """wanted: (auth_stat, accept_stat) that are right."""
    if is_known(scene, what):
        context.sequence += 1
        return True
    try:
        answer = context.ask(rpc.GETATTR, getattr_of(scene), **settings)
        got = (answer.denied, answer.status)
    except rpc.NoAnswer as error:
        got = str(error)
    return say(got in wanted, what, got)


def wrong_calls(scene, transport):
    with scene.user("games", transport) as context:
        credentials = [(gss.CREDPROBLEM, None)]
        garbage = [(None, gss.GARBAGE_ARGS)]
        malformed = [(gss.BADCRED, None), (gss.REJECTEDCRED, None), (gss.CREDPROBLEM, None)]
        # libntirpc's way and the kernel's differ about a verifier of another flavor.
        no_verifier = [*credentials, (gss.BADVERF, None), (gss.REJECTEDVERF, None)]

        def check(what, wanted, **settings):
            return answered(scene, context, what, wanted, **settings)
        print(f"over {transport}, a window of {context.window}", flush=True)
        ok = check("a verifier of other bytes", credentials, spoil=("verifier",)) & check("no verifier", no_verifier, spoil=("no verifier",))
        ok &= check("krb5i, a body of other bytes", garbage, service=gss.KRB5I, spoil=("body",))
        ok &= check("krb5i, a checksum of other bytes", garbage, service=gss.KRB5I, spoil=("checksum",))
        ok &= check("krb5p, a body of other bytes", garbage, service=gss.KRB5P, spoil=("body",))
        ok &= check("krb5i, a body with another number", garbage, service=gss.KRB5I, inner=77)
        ok &= check("krb5p, a body with another number", garbage, service=gss.KRB5P, inner=77)
        ok &= check("a handle that nobody was given", credentials, handle=b"\x5a" * len(context.handle))
        ok &= check("a handle of one byte", credentials, handle=b"\x5a") & check("a handle of no bytes", credentials, handle=b"")
        ok &= check("version 2", malformed, version=2) & check("service 9", malformed, service=9) & check("procedure 7", malformed, gss=7)
        for name, service in gss.SERVICES.items():
            ok &= check(f"a right call by {name}", [GOOD], service=service)
        return ok & is_well(scene, context, "a context has seen wrong calls")


def lengths_lie(scene):
    """Bodies of krb5i and krb5p that are none, or whose lengths reach beyond them."""
    ok = True
    with scene.user("games") as context:
        plain = rpc.u32(context.sequence + 1) + getattr_of(scene)
        for body in (b"", rpc.u32(0xffffffff), rpc.u32(len(plain)) + plain, rpc.opaque(plain) + rpc.u32(0xfffffff0), rpc.opaque(b"abc") * 2):
            answer = gss.Answer.of(context.caller.exchange(with_service(context, gss.KRB5I) + body))
            ok &= say((answer.denied, answer.status) == (None, gss.GARBAGE_ARGS), f"a krb5i body of {len(body)} bytes that is none", answer)
        for body in (b"", rpc.u32(0x7fffffff), rpc.opaque(b""), rpc.opaque(bytes(60)), rpc.opaque(b"\x05\x04\x06\xff" + bytes(12))):
            answer = gss.Answer.of(context.caller.exchange(with_service(context, gss.KRB5P) + body))
            ok &= say((answer.denied, answer.status) == (None, gss.GARBAGE_ARGS), f"a krb5p body of {len(body)} bytes that is none", answer)
        return ok & is_well(scene, context, "a context has seen such bodies")


def with_service(context, service):
    """A GETATTR up to its verifier, which is right."""
    context.sequence += 1
    head = rpc.u32(rpc.next_xid(), 0, 2, rpc.NFS, 3, rpc.GETATTR) + gss.credential(gss.DATA, context.sequence, service, context.handle)
    return head + rpc.u32(gss.FLAVOR) + rpc.opaque(context.security.get_signature(head))


def numbers(scene, transport):
    """Sequence numbers (RFC 2203 section 5.3.3.1)."""
    def lost(what, message):
        got = no_answer(context.caller, message)
        if transport == "tcp":  # which may have ended with it
            context.caller = stack.enter_context(scene.sys())
        return say(got, f"{what} over {transport} gets no answer")
    with contextlib.ExitStack() as stack:
        context = stack.enter_context(scene.user("games", transport))
        ok = is_well(scene, context, "a context is new")
        used = context.sequence
        ok &= lost("a number that was", context.message(rpc.GETATTR, getattr_of(scene), sequence=used))
        again = context.message(rpc.GETATTR, getattr_of(scene))
        first = gss.Answer.of(context.caller.exchange(again))
        ok &= say((first.denied, first.status) == GOOD, "a call is answered", first)
        ok &= lost("the same call, byte by byte,", again)
        context.sequence += 5
        ok &= is_well(scene, context, "five numbers are left out")
        ok &= answered(scene, context, "one of them, late", [GOOD], sequence=context.sequence - 3)
        ok &= lost("and once more", context.message(rpc.GETATTR, getattr_of(scene), sequence=context.sequence - 3))
        context.sequence += 10 * context.window
        ok &= is_well(scene, context, "the window moves")
        ok &= lost("a number below the window", context.message(rpc.GETATTR, getattr_of(scene), sequence=context.sequence - context.window - 5))
        ok &= answered(scene, context, "a number above all that may be", [(gss.CTXPROBLEM, None)], sequence=gss.MAXSEQ + 1)
        # A verifier that is wrong moves no window, or anybody could end a context.
        context.sequence += 1
        high = context.sequence + 100_000
        ok &= answered(scene, context, "a high number with a wrong verifier", [(gss.CREDPROBLEM, None)], sequence=high, spoil=("verifier",))
        return ok & is_well(scene, context, "a high number with a wrong verifier moves no window")


def others_contexts(scene):
    with scene.user("games") as one, scene.user("irc") as other:
        ok = answered(scene, other, "another user's handle", [(gss.CREDPROBLEM, None)], handle=one.handle)
        ok &= is_well(scene, one, "a handle was tried by another user")
        status, _ = one.nfs(rpc.CREATE, rpc.opaque(scene.open) + rpc.opaque(f"private-{rpc.next_xid()}") + rpc.u32(0) + rpc.with_mode(0o600))
        return ok & say(status == rpc.OK, "a user makes a file", status)


def ended_contexts(scene):
    with scene.user("games") as one, scene.user("irc") as other:
        ok = answered(scene, other, "another user's DESTROY", [(gss.CREDPROBLEM, None)], handle=one.handle, gss=gss.DESTROY)
        ok &= is_well(scene, one, "another user tried to end a context")
        answer = one.ask(0, b"", gss=gss.DESTROY)
        ok &= say((answer.denied, answer.status) == GOOD, "DESTROY is answered", answer)
        ok &= answered(scene, one, "a context that was destroyed", [(gss.CREDPROBLEM, None)])
        return ok & is_well(scene, other, "another's context ended")


def garbage(scene):
    """INIT and CONTINUE_INIT with tokens that are none: an error of GSS-API, without a context."""
    if is_known(scene, "garbage"):
        return True
    ok = True
    for transport in TRANSPORTS:
        with scene.sys(transport=transport) as caller:
            for token in (b"", b"x", b"x" * 100, b"\x60" + bytes(50), b"\x60\x84\xff\xff\xff\xff" + bytes(40), bytes(8000)):
                for procedure, handle in ((gss.INIT, b""), (gss.INIT, b"handle"), (gss.CONTINUE, b"handle"), (gss.CONTINUE, b"")):
                    answer = gss.Answer.of(caller.exchange(gss.init_call(token, procedure=procedure, handle=handle)))
                    refused = answer.denied is not None or answer.status != 0 or gss.InitAnswer.of(answer.data).major != 0
                    ok &= say(refused, f"a token of {len(token)} bytes by procedure {procedure} over {transport}", answer)
    return ok


def many_contexts(scene):
    """Begun with what is no ticket, and such as are made and left: memory stays in bounds, and others go on or make their contexts anew."""
    before = resident(scene.pid())
    ticket = scene.realm.ticket("irc")
    with scene.user("games") as one, scene.sys() as caller:
        if not is_known(scene, "garbage"):
            calls = b"".join(rpc.record(gss.init_call(struct.pack("!Q", number) * 400)) for number in range(UNFINISHED))
            send_and_receive(caller, calls, UNFINISHED)
        ok = is_well(scene, one, f"{UNFINISHED} contexts were begun with garbage")
        for _ in range(ABANDONED):
            gss.Context(caller, ticket)
        grown = resident(scene.pid()) - before
        ok &= say(grown < MEMORY_BYTES, f"{ABANDONED} contexts that nobody uses cost little memory", f"{grown >> 20} MiB")
    with scene.user("games") as one:
        return ok & is_well(scene, one, "another user begins a context beside them")


def send_and_receive(caller, calls, count):
    """A window's worth at a time, as neither side is to wait for the other."""
    size = len(calls) // count
    for at in range(0, count, 10):
        caller.socket.sendall(calls[at * size:(at + 10) * size])
        for _ in range(min(10, count - at)):
            caller.receive()


def not_over_udp(scene):
    """Where users come over TCP alone, a datagram that asks for a context says so at once."""
    if "udp" in scene.transports or is_known(scene, "garbage"):
        return True
    with scene.sys(transport="udp") as caller:
        answer = gss.Answer.of(caller.exchange(gss.init_call(b"token")))
        return say(answer.denied == gss.REJECTEDCRED, "a context over UDP is denied", answer)


def attacks(scene):
    ok = not_over_udp(scene)
    for transport in scene.transports:
        ok &= wrong_calls(scene, transport) & numbers(scene, transport)
    return ok & lengths_lie(scene) & others_contexts(scene) & ended_contexts(scene) & garbage(scene) & many_contexts(scene)
