"""The suite `locks`: kernel clients that mount without nolock lock files of one volume, with fcntl(2), flock(2) and by open file description,
each against the other; who waits is told when it is its turn; clients are killed and come back, and every server is killed meanwhile: no lock
is lost, and none is had by two (docs/locks.md)."""

import contextlib
import json
import pathlib
import tempfile
import time

import uml
from beside import Beside

SCRIPT = uml.ROOT / "tests/cluster/guest/locks.py"
GUEST_SECONDS = 600
FIRST, SECOND = 31, 32  # hosts of the clients' network
TOLD_SECONDS = 5  # until who waits hears of it; by itself it asks again after 30
RESTART_SECONDS = 20  # until a client that was killed has booted and said so
COUNT_SECONDS, ROWS = 20, 100  # with --scale 1
MOVES_SECONDS = 60
LONGEST = 20.0  # seconds that a step may take while servers are killed


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} locks {what}{'' if ok or got == '' else f': {got}'}", flush=True)
    return bool(ok)


class Asked:
    """What a process of a client was asked, and what it answers."""

    def __init__(self, client, number):
        self.client, self.number = client, number

    def answer(self, seconds):
        """The line of its end, or None where that does not come in time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.client.guest.poll() is None:
            for line in self.client.guest.text.splitlines():
                if line.startswith("{") and (said := json.loads(line)).get("number") == self.number:
                    return said
            time.sleep(0.02)
        return None


class Client:
    """A kernel client whose processes do what they are asked (tests/cluster/guest/locks.py serve)."""

    def __init__(self, guest):
        self.guest, self.asked = guest, 0

    def ask(self, who, what, **words):
        """Asks the process `who`, and does not wait."""
        number, self.asked = self.asked, self.asked + 1
        part = self.guest.folder / "part"
        part.write_text(json.dumps({"who": who, "what": what, **words}))
        part.rename(self.guest.folder / f"say.{number}")
        return Asked(self, number)

    def do(self, who, what, seconds=20, **words):
        said = self.ask(who, what, **words).answer(seconds)
        return said["result"] if said else f"no answer in {seconds} s"

    def open(self, path, *processes):
        for who in processes:
            self.do(who, "open", path=path)


@contextlib.contextmanager
def client(target, host, status=None, **settings):
    control = "/run/slice/control"
    with target.client(["python3", str(SCRIPT), "serve", control], locks=True, host=host, status=status, timeout=GUEST_SECONDS, **settings) as guest:
        if not guest.says('"ready"'):
            raise uml.UmlError(f"the client does not get ready: {guest.wait()}, {guest.text[-1000:]} {guest.console[-2000:]}")
        yield Client(guest)


def status_folder():
    """What rpc.statd has of a host that was never up."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="slice-statd-", dir="/tmp"))
    for name in ("sm", "sm.bak"):
        (folder / name).mkdir()
    return folder


def rules(one, other):
    """What POSIX says of locks, between two clients and between processes of one."""
    path = "rules"
    one.open(path, "a", "b")
    other.open(path, "c")
    checks = []

    def expect(what, wanted, got):
        checks.append(say(got == wanted, what, f"{got}, wanted {wanted}"))

    for kind in ("fcntl", "flock", "ofd"):
        expect(f"{kind}: a lock", "ok", one.do("a", "lock", path=path, kind=kind))
        expect(f"{kind}: another client does not have it, too", "EAGAIN", other.do("c", "lock", path=path, kind=kind))
        expect(f"{kind}: nor another process", "EAGAIN", one.do("b", "lock", path=path, kind=kind))
        one.do("a", "unlock", path=path, kind=kind)
        expect(f"{kind}: then it has it", "ok", other.do("c", "lock", path=path, kind=kind))
        other.do("c", "unlock", path=path, kind=kind)
        expect(f"{kind}: two read", ["ok", "ok"], [each.do(who, "lock", path=path, kind=kind, exclusive=False) for each, who in ((one, "a"), (other, "c"))])
        expect(f"{kind}: nobody writes beside", "EAGAIN", one.do("a", "lock", path=path, kind=kind))
        other.do("c", "unlock", path=path, kind=kind)
        expect(f"{kind}: who reads alone may write", "ok", one.do("a", "lock", path=path, kind=kind))
        one.do("a", "unlock", path=path, kind=kind)
    far = 2**62
    expect("bytes", "ok", one.do("a", "lock", path=path, start=far, length=10))
    expect("others beside them", "ok", other.do("c", "lock", path=path, start=far + 10, length=0))
    expect("and not these", "EAGAIN", other.do("c", "lock", path=path, start=far + 9, length=1))
    expect("which are told", [far, 10, True], other.do("c", "test", path=path, start=0, length=far + 9))
    one.do("a", "unlock", path=path, start=far + 4, length=2)
    expect("a hole in the midst", "ok", other.do("c", "lock", path=path, start=far + 4, length=2))
    expect("not one more", "EAGAIN", other.do("c", "lock", path=path, start=far + 6, length=1))
    one.do("a", "close", path=path)
    expect("close(2) gives them up", "ok", other.do("c", "lock", path=path, start=0, length=0))
    waits = one.ask("b", "lock", path=path, wait=True)
    time.sleep(0.5)
    other.do("c", "die")
    said = waits.answer(TOLD_SECONDS)
    expect("who waits has it when the other process dies", "ok", said and said["result"])
    one.do("b", "unlock", path=path)
    return all(checks)


def waits(one, other):
    path = "waits"
    one.open(path, "a", "b")
    other.open(path, "c", "d")
    ok = say(one.do("a", "lock", path=path) == "ok", "one has it")
    later = other.ask("c", "lock", path=path, wait=True)
    ok &= say(later.answer(1.5) is None, "another client waits")
    began = time.monotonic()
    one.do("a", "unlock", path=path)
    said = later.answer(TOLD_SECONDS)
    ok &= say(said and said["result"] == "ok", f"it is told within {time.monotonic() - began:.2f} s")
    gave_up = one.do("a", "lock", path=path, wait=True, patience=1)
    ok &= say(gave_up == "EINTR", "who waits may give up", gave_up)
    other.do("c", "unlock", path=path)
    ok &= say(other.do("d", "lock", path=path) == "ok", "and has nothing then")
    other.do("d", "unlock", path=path)
    one.do("a", "lock", path=path, start=0, length=1)
    other.do("c", "lock", path=path, start=1, length=1)
    crossed = one.ask("a", "lock", path=path, start=1, length=1, wait=True)
    time.sleep(0.5)
    ok &= say(other.do("c", "lock", path=path, start=0, length=1, wait=True).startswith("EDEADL"), "two that would wait for one another: one is told so")
    other.do("c", "unlock", path=path)
    said = crossed.answer(TOLD_SECONDS)
    ok &= say(said and said["result"] == "ok", "and the other one goes on")
    one.do("a", "unlock", path=path)
    return ok


def restarted(target, other):
    """A client that is killed keeps its locks until it is back: then it says so, and who waits has them."""
    path, state = "restarted", status_folder()
    other.open(path, "c")
    with client(target, FIRST, state) as one:
        one.open(path, "a")
        ok = say(one.do("a", "lock", path=path) == "ok", "a client has a lock")
    later = other.ask("c", "lock", path=path, wait=True)
    ok &= say(later.answer(3) is None, "it is killed, and nobody else has it")
    with client(target, FIRST, state) as one:
        said = later.answer(RESTART_SECONDS)
        ok &= say(said and said["result"] == "ok", "it comes back, and who waits has it")
        one.open(path, "a")
        ok &= say(one.do("a", "lock", path=path) == "EAGAIN", "and it not any more")
    other.do("c", "unlock", path=path)
    return ok


def killed_meanwhile(target, one, other):
    """No death of a server loses a lock, or that somebody waits for one."""
    path, ok = "killed", True
    one.open(path, "a")
    other.open(path, "c")
    for process in target.process_names:
        ok &= say(one.do("a", "lock", path=path) == "ok", f"{process}: a lock")
        later = other.ask("c", "lock", path=path, wait=True)
        time.sleep(0.3)
        target.kill_and_start(process)
        target.wait_serving()
        ok &= say(one.do("b", "open", path=path) == "ok" and one.do("b", "lock", path=path) == "EAGAIN", f"{process} is killed: it is held", "")
        began = time.monotonic()
        one.do("a", "unlock", path=path)
        said = later.answer(TOLD_SECONDS + 10)
        ok &= say(said and said["result"] == "ok", f"and who waited has it within {time.monotonic() - began:.2f} s")
        other.do("c", "unlock", path=path)
    return ok


class Deaths(Beside):
    """Every process of the ensemble is killed, one after another, and started at once."""

    def __init__(self, target, pause):
        super().__init__()
        self.target, self.pause, self.deaths = target, pause, 0

    def before_round(self):
        """What else is done each time before all of them die."""

    def run(self):
        while True:
            self.before_round()
            for process in self.target.process_names:
                if self.over.wait(self.pause):
                    return
                self.target.kill_and_start(process)
                self.deaths += 1


def count_up(target, seconds, kind):
    """Two clients count in one file, each step under a lock, while servers are killed: no step is lost."""
    path = f"count-{kind}"
    words = ["python3", str(SCRIPT), "count", path, "--seconds", str(seconds), "--kind", kind]
    ok = True
    with target.client(words, locks=True, host=FIRST, timeout=GUEST_SECONDS) as one, target.client(words, locks=True, host=SECOND, timeout=GUEST_SECONDS) as other:
        ready = one.says('"ready"') and other.says('"ready"')
        with Deaths(target, 3.0) as deaths:
            codes = [guest.wait() for guest in (one, other)]
        ok &= say(ready and codes == [0, 0], f"{kind}: no error", f"{codes} {one.text[-1500:]} {other.text[-1500:]}")
        said = [json.loads(guest.text.splitlines()[-1]) for guest in (one, other)] if ok else []
    target.wait_serving()
    with target.client(["cat", path]) as guest:
        guest.wait()
        found = int(guest.text.split()[0]) if guest.text.split() else None
    steps, longest = sum(each["steps"] for each in said), max((each["longest"] for each in said), default=0)
    ok &= say(found == steps, f"{kind}: {steps} steps of two clients, {deaths.deaths} deaths of servers: each is counted", f"{found} is in the file")
    return ok & say(longest < LONGEST, f"{kind}: the longest wait for a lock {longest} s")


def sqlite(target, rows):
    words = ["python3", str(SCRIPT), "sqlite", "base.sqlite", "--rows", str(rows), "--by"]
    with target.client([*words, "one"], locks=True, host=FIRST) as one, target.client([*words, "other"], locks=True, host=SECOND) as other:
        codes = [guest.wait() for guest in (one, other)]
        ok = say(codes == [0, 0], f"sqlite: two clients write {rows} rows each", f"{codes} {one.text[-800:]} {other.text[-800:]}")
    check = "import sqlite3; base = sqlite3.connect('base.sqlite'); print(*base.execute('PRAGMA integrity_check').fetchone(), *base.execute('SELECT count(*) FROM lines').fetchone())"
    with target.client(["python3", "-c", check], locks=True) as guest:
        guest.wait()
        return ok & say(guest.text.split() == ["ok", str(2 * rows)], "sqlite: all of them are there", guest.text)


def moved(target, one, other):
    """The file's site goes to another server: locks and who waits go along."""
    servers = target.servers("dir")
    path, ok = "moved", True
    one.open(path, "a")
    other.open(path, "c", "d")
    ok &= say(one.do("a", "lock", path=path) == "ok", "a lock")
    later = other.ask("c", "lock", path=path, wait=True)
    time.sleep(0.5)
    for server in (*servers, servers[0]):
        target.slicectl("site", "move", "directory", "0-63", server, check=False)
        end = time.monotonic() + MOVES_SECONDS
        while time.monotonic() < end and any(not move["ended_ns"] for move in json.loads(target.slicectl("moves", "--json").stdout)["moves"]):
            time.sleep(0.2)
        ok &= say(other.do("d", "lock", path=path) == "EAGAIN", f"all sites at {server}: it is held")
    one.do("a", "unlock", path=path)
    said = later.answer(TOLD_SECONDS)
    ok &= say(said and said["result"] == "ok", "and who waited has it")
    other.do("c", "unlock", path=path)
    return ok


def plain_mount(target):
    """As a newcomer types it: neither options nor ports, statd runs."""
    trial = "cd / && mount -t nfs {0}:{1} /mnt && grep ' /mnt ' /proc/mounts && cd /mnt && flock plain-lock echo locked && cd / && umount /mnt".format(target.server, target.export)
    with target.client(["sh", "-c", trial], mount=False, locks=True, timeout=90) as guest:
        code = guest.wait()
        return say(code == 0 and "locked" in guest.text and "nolock" not in guest.text, "mount without an option, and flock(1)", f"{code} {guest.text[-500:]}")


def locks(ensembles, options):
    with ensembles.make("locks", directories=2) as target:
        ok = plain_mount(target)
        with client(target, SECOND) as other:
            with client(target, FIRST) as one:
                ok &= rules(one, other) & waits(one, other) & moved(target, one, other) & killed_meanwhile(target, one, other)
            ok &= restarted(target, other)
        for kind in ("fcntl", "flock"):
            ok &= count_up(target, COUNT_SECONDS * options.scale, kind)
        ok &= sqlite(target, int(ROWS * options.scale))
        left = {name: target.metrics(name)["dir_client_locks"] for name in target.servers("dir")}
        ok &= say(not any(left.values()), "nobody has a lock at the end", left)
        checked = target.slicectl("fsck", check=False)
        return ok & say(checked.returncode == 0, "fsck", checked.stdout[-500:])
