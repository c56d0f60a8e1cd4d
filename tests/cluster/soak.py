"""The suite `soak`: an ensemble with standbys, three managers and etcd works for an hour at half of what it can do, while every two or three minutes a host
goes and comes back. No error, nothing that was acknowledged is missing, and no process grows: neither its memory nor its open files. (A run that is so short
that caches still fill says nothing about that.)"""

import collections
import json
import pathlib
import statistics
import tempfile
import time

import failover
import load
import targets
import uml
from beside import Beside
from failover_storm import Chaos, kind
from resident import resident
from targets import ensemble

SECONDS = 3600.0  # with --scale 1
PAUSE_SECONDS = (60.0, 240.0)  # between two hosts that go: processes live for long between them
DIRECTORIES = 2
CACHE = 'cache = "16MiB"'  # of every server, so that it is full soon
LOOKS = 240  # at every process, in all
CAN_SECONDS = 10.0  # in which it is measured how much can be done
SHARE = 1 / 3  # of that, for hours: files are new in these seconds, and TCP is cheaper; half of two processors are busy then
MOST_RATE = 30000  # operations a second, more than this ensemble can do on two processors
RUN_SECONDS = 300.0  # of one load
YOUNG_SECONDS = 900  # of a process: its caches fill
LONG_LIFE = 600  # seconds behind these, from which it is judged
GROWTH, GROWTH_BYTES, GROWTH_FILES = 1.1, 16 << 20, 8  # from the first quarter of these to the last, at most: this share, and so much

Look = collections.namedtuple("Look", "at bytes files")


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} soak {what}{'' if ok else f': {got}'}", flush=True)
    return ok


def looked_at(pid):
    """What a process has now; None: it has ended."""
    try:
        look = Look(time.monotonic(), resident(pid), len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir())))
    except OSError:
        return None
    return look if look.bytes else None


class Watch(Beside):
    """A context: looks at every process of the ensemble now and then. `lives`: names, each with what was seen while it was one process that served,
    or that stood by."""

    def __init__(self, scene, every):
        super().__init__()
        self.scene, self.every, self.lives, self.now = scene, every, [], {}

    def run(self):
        while not self.over.wait(self.every):
            serving = {self.scene.serving(name) for name in self.scene.backed}
            for process in self.scene.hosts.processes:
                self.note(process, (self.scene.pid(process), process in serving))

    def note(self, process, life):
        seen = looked_at(life[0]) if life[0] else None
        if not seen:
            return
        if process not in self.now or self.now[process][0] != life:
            self.now[process] = (life, [])
            self.lives.append((process, self.now[process][1]))
        self.now[process][1].append(seen)


def quarter(looks, number):
    """Medians of bytes and files in a quarter of the time, of 0 to 3."""
    begin, each = looks[0].at, (looks[-1].at - looks[0].at) / 4
    within = [look for look in looks if begin + number * each <= look.at <= begin + (number + 1) * each]
    return statistics.median(look.bytes for look in within), statistics.median(look.files for look in within)


def is_flat(process, looks):
    (bytes_then, files_then), (bytes_now, files_now) = quarter(looks, 0), quarter(looks, 3)
    print(f"{process}, for {(looks[-1].at - looks[0].at) / 60:.1f} minutes: {bytes_then / 2**20:.1f} to {bytes_now / 2**20:.1f} MiB, {files_then:.0f} to {files_now:.0f} open files", flush=True)
    return bytes_now <= bytes_then * GROWTH + GROWTH_BYTES and files_now <= files_then * GROWTH + GROWTH_FILES


def grown_up(looks):
    return [look for look in looks if look.at >= looks[0].at + YOUNG_SECONDS]


def all_flat(lives, seconds):
    """Whether none grew, of those that lived for long; there are some of each kind, unless the time is short."""
    if seconds < YOUNG_SECONDS + 2 * LONG_LIFE:
        print("SKIPPED whether processes grow: that takes longer to tell", flush=True)
        return True
    long = [(process, old) for process, looks in sorted(lives) if (old := grown_up(looks)) and old[-1].at - old[0].at >= LONG_LIFE]
    grown = [process for process, looks in long if not is_flat(process, looks)]
    kinds = {kind(process) for process, _ in long}
    ok = say({"proxy", "dir", "small", "store", "manager"} <= kinds, "processes of each kind lived for long", kinds)
    return ok & say(not grown, f"memory and open files are flat, of {len(long)} processes", grown)


def small_caches(folder):
    """The path of a configuration whose servers have them."""
    path = pathlib.Path(folder) / "ensemble.toml"
    template = (uml.ROOT / "deploy/local/ensemble.toml").read_text()
    path.write_text(targets.with_lines(ensemble.shaped(template, directories=DIRECTORIES), "[[server]]", CACHE))
    return path


def what_it_can_do(scene, options, folder):
    """Operations a second, of slice-load beside the scene's own clients."""
    report = pathlib.Path(folder) / "can.json"
    command = load.small_specsfs(scene.target, options, "tcp", MOST_RATE, CAN_SECONDS, options.seed, report)
    text, code = uml.run_in_netns(scene.target.netns, command, 10 * CAN_SECONDS, output=None)
    if code != 0:
        raise uml.UmlError(f"slice-load ends with {code}: {text[-800:]}")
    return json.loads(report.read_text())["points"][0]["achieved_per_second"]


def soak(ensembles, options):
    seconds = SECONDS * options.scale
    with tempfile.TemporaryDirectory(prefix="slice-soak-") as folder, \
            failover.scene_of(ensembles, options, directories=DIRECTORIES, managers=3, etcd=3, config=small_caches(folder)) as scene:
        can = what_it_can_do(scene, options, folder)
        rate = int(can * SHARE)
        print(f"{can:.0f} operations a second in {CAN_SECONDS:.0f} s; for {seconds:.0f} s it has {rate} a second to do", flush=True)
        with load.Lasting(scene.target, options, folder, rate=rate, seconds=RUN_SECONDS) as half, Watch(scene, seconds / LOOKS) as watch, \
                Chaos(scene, options.seed, PAUSE_SECONDS) as chaos:
            over = time.monotonic() + seconds
            while time.monotonic() < over and not half.faults and not scene.load.faults:
                time.sleep(1)
        print(f"{chaos.events} went and came back; {half.runs} runs of slice-load", flush=True)
        ok = say(not half.faults and not scene.load.faults, "slice-load sees nothing wrong", half.faults + scene.load.faults)
        ok &= say(scene.whole(), "all is as before", scene.ask("status").stdout)
        wrong = scene.files.wrong()
        ok &= say(not wrong and scene.files.write(1), "every byte is right, and a file is written", wrong)
        ok &= all_flat(watch.lives, seconds)
        return ok & scene.clean("afterwards", "fsck", "--data")
