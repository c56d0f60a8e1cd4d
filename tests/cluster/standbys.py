"""Servers with a process on a second host that stands by: which one serves, what a supervisor does, and one that is killed."""

import contextlib
import json
import os
import signal
import time

import targets
from beside import Beside

STANDBY = targets.ensemble.STANDBY


class Supervisor(Beside):
    """Starts again what has ended, after a second, as systemd does; a context. Not who is in `held`."""

    def __init__(self, target):
        super().__init__()
        self.hosts, self.held = target.hosts(), set()
        self.hosts.load()

    def run(self):
        ended = {}
        while not self.over.wait(0.2):
            for name in self.hosts.processes:
                if name in self.held or self.hosts.pid(name) is not None:
                    ended.pop(name, None)
                elif time.monotonic() - ended.setdefault(name, time.monotonic()) > 1:
                    with contextlib.suppress(targets.ensemble.Failure):
                        self.hosts.start(name)


def serving(target, hosts, name):
    """The process that serves it, as the manager hears; None: nobody does."""
    said = next((server for server in (target.status() or {"servers": []})["servers"] if server["name"] == name), None)
    if not said or not said["alive"] or not said["state"].startswith("serving"):
        return None
    return next((process for process in (name, name + STANDBY) if hosts.pid(process) == said["pid"]), None)


def stood_by(target, name):
    sets = json.loads(target.slicectl("backing", "--json").stdout)["sets"]
    return any(each["server"] == name and each["standbys"] for each in sets)


# ---- as the ways of failover.py ----

def killed(scene, process):
    scene.supervisor.held.add(process)
    os.kill(scene.pid(process), signal.SIGKILL)
    return lambda: scene.supervisor.held.discard(process)
