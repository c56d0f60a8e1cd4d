"""The suite `failover`: each server of names, small files and intentions has a process on a second host that stands by. The one that serves is killed, its
host vanishes without a word, it is stopped for ten seconds and goes on, and it is wanted elsewhere by command: another serves within seconds, and the old
one never answers anybody again. A kernel client and slice-load work all the time. What a client waited is printed; `./slice bench failover` measures it."""

import contextlib
import os
import pathlib
import signal
import statistics
import tempfile
import time

import grow
import lost_manager_state
import stalls
import steps
import uml
from load import Lasting
from standbys import STANDBY, Supervisor, killed, serving, stood_by

FILES = 6  # of libnfs; 16 stripes each
COPIES = 2
SERVES_SECONDS = 30  # until another serves, on a machine that does much else; the goal is 5
WHOLE_SECONDS = 120  # until everything is as before
STOPPED_SECONDS = 10
CLIENT_SECONDS = 3600  # at the most
TELLS = 0.3  # seconds of an operation from which the client tells of it
QUIET_SECONDS = 1.5  # without another one, after which a trial is over


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} failover {what}{'' if ok else f': {got}'}", flush=True)
    return ok


class Scene(grow.Scene):
    say = staticmethod(say)

    def __init__(self, target, options, files, load, supervisor, client):
        super().__init__(target, options, files, None)
        self.load, self.supervisor, self.hosts, self.client = load, supervisor, supervisor.hosts, client
        self.backed = [name for name in target.servers("") if name + STANDBY in self.hosts.processes]

    def pid(self, process):
        return self.hosts.pid(process)

    def serving(self, name):
        return serving(self.target, self.hosts, name)

    def leader(self):
        """The manager that leads; None: nobody does."""
        return (self.target.status("--timeout", "1") or {}).get("leader")

    def ready(self, name):
        """Somebody serves it, and another one could."""
        return self.serving(name) is not None and stood_by(self.target, name)

    def whole(self):
        """Nobody is away, and every copy is there again."""
        return self.until(lambda: self.ask("status").returncode == 0 and all(self.ready(name) for name in self.backed), WHOLE_SECONDS)

    def other(self, name, process):
        return name if process.endswith(STANDBY) else name + STANDBY

    def log(self, process):
        return (pathlib.Path(self.target.facts["config"]).parent / "log" / f"{process}.log").read_text(errors="replace")

    def link(self, process, state):
        """The host of a process, seen from all others."""
        self.hosts.ip(self.hosts.proxy_ns(), "link", "set", f"host{self.hosts.leg_number(self.hosts.place(process))}", state)


# ---- the ways in which a server's process goes; each leaves it so that it can come back ----

def vanished(scene, process):
    scene.link(process, "down")
    return lambda: scene.link(process, "up")


def stopped(scene, process):
    pid = scene.pid(process)
    os.kill(pid, signal.SIGSTOP)
    begun = time.monotonic()

    def go_on():
        time.sleep(max(0, begun + STOPPED_SECONDS - time.monotonic()))
        os.kill(pid, signal.SIGCONT)
    return go_on


def planned(scene, process):
    scene.ask("failover", process.removesuffix(STANDBY), "--wait", "0")  # whether it is carried out is looked at by who calls
    return lambda: None


def ended(scene, process):
    """What is planned for one that nobody stands by for."""
    scene.supervisor.held.add(process)
    os.kill(scene.pid(process), signal.SIGTERM)
    return lambda: scene.supervisor.held.discard(process)


WAYS = (killed, vanished, stopped, planned)


def until_over(scene, way, process, others_do):
    """It goes: (seconds until others do what was its part, longest stalls of the client by operation); None where they do not."""
    told, begun = scene.client.mark(), time.monotonic()
    come_back = way(scene, process)
    if not scene.until(others_do, SERVES_SECONDS, pause=0.05):
        come_back()
        return None
    took = time.monotonic() - begun
    # The client has got through, and nothing stands still any more.
    while True:
        seen = scene.client.mark()
        time.sleep(QUIET_SECONDS)
        if scene.client.mark() == seen:
            break
    come_back()
    return took, scene.client.longest_told(told)


def trial(scene, name, way):
    """One failover of a server that has a standby: as until_over()."""
    old = scene.serving(name)
    new = scene.other(name, old)
    return until_over(scene, way, old, lambda: scene.serving(name) == new)


def fails_over(way):
    def step(scene):
        ok, pauses = True, []
        for name in scene.backed:
            old = scene.serving(name)
            begins = len(scene.log(old))
            took = trial(scene, name, way)
            ok &= say(took is not None, f"{name} is {way.__name__}: another host serves it", scene.ask("status").stdout)
            if not took:
                continue
            pauses.append(max([0, *took[1].values()]))
            print(f"{name} {way.__name__}: served by {scene.other(name, old)} after {took[0]:.1f} s; the client waited {took[1] or 'less than 0.3 s'}", flush=True)
            ok &= say(scene.until(lambda: "it stands by" in scene.log(old)[begins:], 30), f"{name} is {way.__name__}: {old} stands by", scene.log(old)[-800:])
        if pauses:
            print(f"{way.__name__}: the client waited {statistics.median(pauses):.1f} s in the middle, {max(pauses):.1f} s at most", flush=True)
        wrong = scene.files.wrong()
        ok &= say(not wrong and scene.files.write(1), f"{way.__name__}: every byte is right, and a file is written", wrong)
        ok &= say(not scene.load.faults, f"{way.__name__}: slice-load sees nothing wrong", scene.load.faults)
        return ok & scene.clean(way.__name__, "fsck", "--data")
    step.__name__ = way.__name__
    return step


@contextlib.contextmanager
def scene_of(ensembles, options, **shape):
    """An ensemble whose servers have standbys, with its clients."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="slice-failover-", dir="/dev/shm"))
        target = stack.enter_context(ensembles.make("failover", storage=3, copies=2, backing=COPIES, standbys=True, **shape))
        files = lost_manager_state.Files(target, folder)
        if not files.write(FILES):
            raise uml.UmlError("files cannot be written")
        client = stack.enter_context(stalls.client(target, CLIENT_SECONDS, tell=TELLS))
        supervisor = stack.enter_context(Supervisor(target))
        with Lasting(target, options, folder) as load:
            yield Scene(target, options, files, load, supervisor, client)
        say(not load.faults, f"slice-load saw nothing wrong, in {load.runs} runs", load.faults)
        if client.end() is None:
            raise uml.UmlError(f"the kernel client saw an error: {client.guest.text}")


def failover(ensembles, options):
    ways = [way for way in WAYS if not options.only or way.__name__ in options.only.split(",")]
    with scene_of(ensembles, options, directories=2) as scene:
        ok = steps.carry_out([fails_over(way) for way in ways], scene)
        return ok & say(not scene.load.faults, "slice-load sees nothing wrong", scene.load.faults)
