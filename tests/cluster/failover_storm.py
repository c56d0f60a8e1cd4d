"""The suite `failover-storm`: hosts of every kind go and come back at random, one of each kind at a time at most: servers of names, small files and
intentions and those that stand by for them, storage nodes, managers and members of their etcd. Each is killed, loses its link, is stopped or is wanted
elsewhere, for up to twelve seconds. Meanwhile a storm of names, slice-load, a kernel client and a reader of files work: no error, nothing that was
acknowledged is missing, no retransmission is answered as a new call, every byte is right."""

import random
import threading
import time

import failover
import storms
from beside import Beside

SECONDS = 120.0  # with --scale 1
AWAY_SECONDS = (0.5, 12.0)
PAUSE_SECONDS = (1.0, 4.0)  # between two that go


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} failover-storm {what}{'' if ok else f': {got}'}", flush=True)
    return ok


def kind(process):
    return process.removesuffix(failover.STANDBY).rstrip("0123456789")


class Chaos(Beside):
    """A context: who goes, and comes back. `pause`: seconds between two that go, at least and at most."""

    def __init__(self, scene, seed, pause=PAUSE_SECONDS):
        super().__init__()
        self.scene, self.random, self.pause = scene, random.Random(seed), pause
        self.away, self.events, self.waiters = {}, 0, []  # away: by kind, who is

    def __exit__(self, *_):
        super().__exit__()
        for waiter in self.waiters:
            waiter.join()

    def run(self):
        while not self.over.wait(self.random.uniform(*self.pause)):
            free = [name for name in self.scene.hosts.processes if kind(name) not in self.away and kind(name) != "proxy" and self.scene.pid(name)]
            if not free:
                continue
            process = self.random.choice(free)
            way = self.random.choice([failover.killed, failover.vanished, failover.stopped])
            if self.random.random() < 0.15 and process in self.scene.backed:
                way = failover.planned
            self.away[kind(process)] = process
            seconds = self.random.uniform(*AWAY_SECONDS)
            print(f"{process} is {way.__name__}, for {seconds:.1f} s", flush=True)
            self.events += 1
            self.waiters.append(threading.Thread(target=self._bring_back, args=(process, way(self.scene, process), seconds)))
            self.waiters[-1].start()

    def _bring_back(self, process, come_back, seconds):
        time.sleep(seconds)
        come_back()
        time.sleep(AWAY_SECONDS[0])
        del self.away[kind(process)]


def failover_storm(ensembles, options):
    seconds = SECONDS * options.scale
    with failover.scene_of(ensembles, options, directories=2, managers=3, etcd=3) as scene:
        with Chaos(scene, options.seed) as chaos:
            ok = say(storms.run_storm(scene.target, options, seconds, "--workers", 4), "the storm of names: nothing acknowledged is missing, no wrong status")
        print(f"{chaos.events} went and came back in {seconds:.0f} s", flush=True)
        ok &= say(scene.whole(), "all is as before", scene.ask("status").stdout)
        wrong = scene.files.wrong()
        ok &= say(not wrong and scene.files.write(1), "every byte is right, and a file is written", wrong)
        ok &= say(not scene.load.faults, "slice-load sees nothing wrong", scene.load.faults)
        return ok & scene.clean("afterwards", "fsck", "--data")
