#!/usr/bin/env python3
"""What RPCSEC_GSS costs (docs/kerberos.md): the same calls by AUTH_SYS and with krb5, krb5i and krb5p, in turns, on one ensemble in one run, each reply
checked: its status, its verifier, its bytes. Beside it NFS-Ganesha with Kerberos, with the same client, in the same turns. Servers share processor 0, the
client has processor 1.

    kerberos.py [--json] [--rounds N] [--systems slice,ganesha] [--small CALLS] [--large CALLS] [--huge CALLS] [--contexts N]

Figures are medians: the processor time that an operation costs the proxy, the servers, and Ganesha, and the time that it takes. That is of a client
in Python by hand, one call at a time, so that only the differences between flavors mean something. Then security contexts, one after another: how many a
second, and the processor time of one; the client's own part of each is done before and behind."""

import contextlib
import json
import os
import random
import statistics
import struct
import time

import bench
from bench import targets

import kerberos_peer
import kerberos_realm
from attacks import gss, rpc
from client_tls import processor_us

FLAVORS = ("sys", "krb5", "krb5i", "krb5p")
SYSTEMS = ("slice", "ganesha")
USER, UID, GID = "games", 5, 60  # an account that every Debian has
COMER = "irc"  # another, who makes contexts: of those of one user the proxy keeps so many, and USER's are to stay
CALLS = {"getattr": "GETATTR", "read": "READ of 64 KiB", "write": "WRITE of 64 KiB", "read_1m": "READ of 1 MiB"}
BLOCK, HUGE = 64 << 10, 1 << 20
BEGIN, SIZE = 1 << 20, 4 << 20  # of what is read and written: behind what small-file servers have
AT_A_TIME = 100  # contexts whose first messages are made before the first is sent
SETTLE = 0.2


class System:
    """One that serves: a file of the user's there, what it holds, and a connection for each flavor."""

    def __init__(self, target, realm, until):
        self.target, self.at, self.ticket = target, bench.pinned(bench.reach(target)), realm.ticket(USER)
        self.comer = realm.ticket(COMER)
        root = rpc.mount_root(self.at.netns, self.at.server, self.at.mount_port, path=self.at.export)
        with rpc.Caller(self.at.netns, self.at.server) as caller:
            self.file = caller.create(root, "file")
            caller.good(rpc.SETATTR, rpc.opaque(self.file) + rpc.u32(0, 1, UID, 1, GID, 0, 0, 0) + rpc.u32(0))
        self.holds, self.random, self.next = bytearray(SIZE), random.Random(1), 0
        self.asks = {flavor: self._asks(flavor, until) for flavor in FLAVORS}
        for _ in range(SIZE // BLOCK):
            self.write(self.asks["sys"])

    def _asks(self, flavor, until):
        """Does a call as the user: (NFS status, what follows it)."""
        caller = until.enter_context(rpc.Caller(self.at.netns, self.at.server, uid=UID, patience=30))
        if flavor == "sys":
            return caller.nfs
        context, service = gss.Context(caller, self.ticket), gss.SERVICES[flavor]
        return lambda procedure, arguments: context.nfs(procedure, arguments, service=service)

    # --- calls ------------------------------------------------------------------------

    def getattr(self, ask):
        status, rest = ask(rpc.GETATTR, rpc.opaque(self.file))
        expect(status == rpc.OK and (got := rpc.Attributes.of(rest)).uid == UID and got.size == BEGIN + SIZE, "GETATTR", status)

    def write(self, ask):
        """Other bytes each time."""
        at, data = self._turn(BLOCK), self.random.randbytes(BLOCK)
        status, rest = ask(rpc.WRITE, rpc.write_arguments(self.file, BEGIN + at, data, rpc.UNSTABLE))
        expect(status == rpc.OK and struct.unpack_from("!I", rpc.behind_wcc(rest))[0] == BLOCK, "WRITE", status)
        self.holds[at:at + BLOCK] = data

    def read(self, ask, size=BLOCK):
        at = self._turn(size)
        status, rest = ask(rpc.READ, rpc.opaque(self.file) + rpc.u64(BEGIN + at) + rpc.u32(size))
        expect(status == rpc.OK, "READ", status)
        data = rpc.behind_attributes(rest)[12:]
        expect(data == self.holds[at:at + size], "READ's bytes", f"{len(data)} of them")

    def read_1m(self, ask):
        self.read(ask, HUGE)

    def _turn(self, size):
        """Where the next one of this size is."""
        self.next += 1
        return self.next * size % SIZE

    # --- figures ----------------------------------------------------------------------

    def parts(self):
        """Whose processor time is told apart: pids by part."""
        pids = self.at.pids
        if isinstance(self.target, targets.Slice):
            return {"proxy": [pids[self.target.proxy]], "servers": [pid for name, pid in pids.items() if name != self.target.proxy]}
        return {"ganesha": list(pids.values())}

    def measure(self, flavor, call, count):
        """us of an operation: `time`, and the processor time of each part."""
        one, ask, parts = getattr(self, call), self.asks[flavor], self.parts()
        one(ask)
        time.sleep(SETTLE)  # what the calls before have left to do
        before, began = {part: processor_us(pids) for part, pids in parts.items()}, time.monotonic()
        for _ in range(count):
            one(ask)
        took = (time.monotonic() - began) * 1e6 / count
        return {"time": took, **{part: (processor_us(pids) - before[part]) / count for part, pids in parts.items()}}

    def contexts(self, count):
        """`rate`: contexts a second; and the processor time of one, of each part."""
        parts, took = self.parts(), 0.0
        before = {part: processor_us(pids) for part, pids in parts.items()}
        with rpc.Caller(self.at.netns, self.at.server, patience=30) as caller:
            for _ in range(count // AT_A_TIME):
                users = [gss.initiator(self.comer, f"nfs@{kerberos_realm.SERVICE}") for _ in range(AT_A_TIME)]
                messages = [gss.init_call(user.step()) for user in users]
                began = time.monotonic()
                replies = [caller.exchange(message) for message in messages]
                took += time.monotonic() - began
                for user, reply in zip(users, replies):
                    finish(user, reply)
        made = count // AT_A_TIME * AT_A_TIME
        return {"rate": made / took, **{part: (processor_us(pids) - before[part]) / made for part, pids in parts.items()}}


def finish(user, reply):
    """The context is there, and the service's, whose verifier is right."""
    said = gss.Answer.of(reply)
    expect((said.denied, said.status) == (None, 0), "INIT", said)
    answer = gss.InitAnswer.of(said.data)
    expect(answer.major == 0, "INIT", answer)
    user.step(answer.token)
    user.verify_signature(rpc.u32(answer.window), said.verifier)


def expect(right, what, got):
    if not right:
        raise SystemExit(f"kerberos: {what} is answered {got}")


@contextlib.contextmanager
def slice_system(options, folder):
    realm = kerberos_realm.Realm(folder / "realm", None, "10.77.1.2", "10.77.0.1", users=[USER, COMER])
    realm.prepare()
    text = targets.with_lines((bench.ROOT / "deploy/local/ensemble.toml").read_text(), "[proxy]", f'kerberos_keytab = "{realm.keytab}"')
    config = folder / "kerberos.toml"
    config.write_text(targets.with_lines(text, "[[export]]", f"sec = {json.dumps(FLAVORS)}"))
    # Programs are started with the realm in their environment.
    with realm.environment(), bench.ensemble(options, folder, config, "krbb") as target:
        realm.netns = target.netns
        with realm.serving(), contextlib.ExitStack() as until:
            yield System(target, realm, until)


@contextlib.contextmanager
def ganesha_system(_, folder):
    exported = folder / "ganesha"
    exported.mkdir()
    with kerberos_peer.KerberosPeer(FLAVORS, folder=exported, users=[USER, COMER]) as target, contextlib.ExitStack() as until:
        yield System(target, target.realm, until)


def medians(said):
    return {name: statistics.median(one[name] for one in said) for name in said[0]}


def measure(options):
    """({(system, flavor, call): figures}, {system: figures of contexts})"""
    counts = {"getattr": options.small, "write": options.large, "read": options.large, "read_1m": options.huge}
    make = {"slice": slice_system, "ganesha": ganesha_system}
    calls, contexts = {}, {}
    with bench.scratch(options) as folder, contextlib.ExitStack() as until:
        systems = {name: until.enter_context(make[name](options, folder)) for name in options.systems}
        os.sched_setaffinity(0, {int(bench.client_cpu())})
        for turn in range(options.rounds):
            bench.say(f"round {turn + 1} of {options.rounds}")
            for flavor in FLAVORS[::1 if turn % 2 else -1]:
                for call, count in counts.items():
                    for name, system in systems.items():
                        calls.setdefault((name, flavor, call), []).append(system.measure(flavor, call, count))
            for name, system in systems.items():
                contexts.setdefault(name, []).append(system.contexts(options.contexts))
    return {key: medians(said) for key, said in calls.items()}, {key: medians(said) for key, said in contexts.items()}


def processor(of):
    """All that one operation costs whoever serves."""
    return sum(value for part, value in of.items() if part not in ("time", "rate"))


def figures_of(calls, contexts):
    figures = []
    for (system, flavor, call), said in calls.items():
        figures += [bench.figure(f"{system}_{flavor}_{call}_{name}", "us/op", value) for name, value in said.items()]
        if flavor != "sys":
            base = calls[system, "sys", call]
            figures += [bench.figure(f"{system}_{flavor}_over_sys_{call}_{name}", "ratio", ratio(said[name], base[name])) for name in said]
        if system == "slice" and ("ganesha", flavor, call) in calls:
            figures.append(bench.figure(f"slice_over_ganesha_{flavor}_{call}_processor", "ratio",
                                        ratio(processor(said), processor(calls["ganesha", flavor, call]))))
    for system, said in contexts.items():
        figures += [bench.figure(f"{system}_contexts_{name}", "1/s" if name == "rate" else "us/context", value) for name, value in said.items()]
    if len(contexts) == len(SYSTEMS):
        figures.append(bench.figure("slice_over_ganesha_contexts_processor", "ratio", ratio(processor(contexts["slice"]), processor(contexts["ganesha"]))))
    return figures


def ratio(value, base):
    """Few calls may cost less than the clock of processor time tells."""
    return value / base if base else 0.0


def table_of(systems, calls, contexts):
    """A ratio in brackets is to sys."""
    columns = [(system, part) for system in systems for part in calls[system, "sys", "getattr"]]
    columns.sort(key=lambda column: column[1] == "time")
    both = len(systems) == len(SYSTEMS)
    rows = [["us an operation", *(f"{system}'s {part}" if part == "time" else part for system, part in columns), *(["Slice / Ganesha"] if both else [])]]
    for call, title in CALLS.items():
        for flavor in FLAVORS:
            cells = []
            for system, part in columns:
                value, base = calls[system, flavor, call][part], calls[system, "sys", call][part]
                cells.append(f"{value:.0f}" + (f" ({ratio(value, base):.2f})" if flavor != "sys" else ""))
            if both:
                cells.append(f"{ratio(processor(calls['slice', flavor, call]), processor(calls['ganesha', flavor, call])):.2f}")
            rows.append([f"{title}, {flavor}", *cells])
    text = [bench.table(rows), ""]
    text += [f"contexts, {system}: {said['rate']:.0f} a second, {processor(said):.0f} us of processor time each" for system, said in contexts.items()]
    return "\n".join(text)


def systems_of(text):
    names = text.split(",")
    if "slice" not in names or set(names) - set(SYSTEMS):
        raise ValueError(text)
    return names


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--systems", type=systems_of, default=list(SYSTEMS), help="slice, or slice,ganesha (default)")
    parser.add_argument("--small", type=int, default=10000, help="GETATTRs a round, of each flavor")
    parser.add_argument("--large", type=int, default=3000, help="READs, and as many WRITEs, of 64 KiB")
    parser.add_argument("--huge", type=int, default=400, help="READs of 1 MiB")
    parser.add_argument("--contexts", type=int, default=2000, help=f"security contexts a round, by {AT_A_TIME}")
    options = parser.parse_args()
    if why := kerberos_realm.missing():
        raise SystemExit(f"kerberos: {why}")
    calls, contexts = measure(options)
    bench.finish(options, "kerberos", figures_of(calls, contexts), table_of(options.systems, calls, contexts))


if __name__ == "__main__":
    main()
