"""The suite `reload`: exports and limits are changed while a kernel client is mounted, as docs/operations.md says, and nobody is restarted for it. All
processes of the ensemble read one file here; where it matters that the manager's file counts, it is put back before others start."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import uml
from attacks import rpc

GUEST_SECONDS = 600
SETTLES_SECONDS = 15
# Runs what the host puts into its folder, one script after another, in one shell, so that files stay open between them.
GUEST = """
n=0
echo ready
while [ ! -e /run/slice/control/end ]; do
    n=$((n + 1))
    while [ ! -e /run/slice/control/$n.ready ]; do sleep 0.05; [ -e /run/slice/control/end ] && exit 0; done
    . /run/slice/control/$n.sh > /tmp/said 2>&1
    code=$?
    sed "s/^/$n: /" /tmp/said
    echo "$n= $code"
done
"""
MOUNT = "mkdir -p /tmp/again && mount.nfs {server}:/ /tmp/again -o vers=3,proto=tcp,port={port},mountport={mount_port},mountproto=tcp,nolock && umount /tmp/again"
TO_OPEN_FILE = "python3 -c 'import os; os.write(9, b\"more\"); os.fsync(9)'"
EROFS, EACCES = "Read-only file system", "Permission denied"
MNT3ERR_ACCES = 13


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} reload {what}{'' if ok else f': {got}'}", flush=True)
    return ok


class Steps:
    """A guest whose command is GUEST, and its scripts one after another."""

    def __init__(self, guest):
        self.guest, self.steps = guest, 0

    def run(self, script):
        """(exit code, what it said) of a script in the guest."""
        self.steps += 1
        (self.guest.folder / f"{self.steps}.sh").write_text(script + "\n")
        (self.guest.folder / f"{self.steps}.ready").touch()
        if not self.guest.says(f"{self.steps}= "):
            raise uml.UmlError(f"the guest has ended: {self.guest.text[-500:]}{self.guest.console[-500:]}")
        said = "\n".join(re.findall(rf"^{self.steps}: (.*)$", self.guest.text, re.M))
        return int(re.search(rf"^{self.steps}= (\d+)", self.guest.text, re.M).group(1)), said


class Scene(Steps):
    def __init__(self, target, guest, options):
        super().__init__(guest)
        self.target, self.options = target, options
        self.config = pathlib.Path(target.facts["config"])
        self.first = self.config.read_text()

    def works(self, what, script):
        code, said = self.run(script)
        return say(code == 0, what, said)

    def fails(self, what, script, why):
        code, said = self.run(script)
        return say(code != 0 and why in said, what, f"exit code {code}: {said}")

    # Exports of the kernel client and of this host's own address, each None where there is none.

    def exports(self, guest="rw", own="rw"):
        """The file's text with these exports alone."""
        text = re.sub(r"\[\[export\]\].*?(?=\[\[server\]\])", "", self.first, flags=re.S)
        for clients, access in ((self.guest.address, guest), (uml.route_to(self.target.netns, self.target.server)[1], own)):
            if access:
                text = text.replace("[[server]]", f'[[export]]\nclients = "{clients}"\naccess = "{access}"\nsquash = "none"\n\n[[server]]', 1)
        return text

    def log(self, name):
        return (self.config.parent / "log" / f"{name}.log").read_text()

    def settings(self):
        """Generation in force, and what each living process has."""
        status = self.target.status()
        if status is None:
            return None, {}
        return status["settings"], {server["name"]: server["settings"] for server in status["servers"] if server["alive"]}

    def reload(self, text):
        self.config.write_text(text)
        return self.target.slicectl("reload", "--json", check=False)

    def reloads(self, what, text, late=()):
        """Takes the text, at once and everywhere."""
        before = self.settings()[0]
        start = time.monotonic()
        done = self.reload(text)
        took = time.monotonic() - start
        if done.returncode not in ((0, 3) if late else (0,)):
            return say(False, what, done.stderr or done.stdout)
        result = json.loads(done.stdout)
        ok = say(result["settings"] == before + 1 and set(result["late"]) <= set(late), f"{what}: generation {before + 1}, after {took:.2f} s", result)
        return ok and self.all_have(what, set(self.target.facts["processes"]) - set(late))

    def all_have(self, what, names):
        def good():
            generation, has = self.settings()
            return generation is not None and all(has.get(name) == generation for name in names)
        end = time.monotonic() + SETTLES_SECONDS
        while not good() and time.monotonic() < end:
            time.sleep(0.2)
        return say(good(), f"{what}: every process has them", self.settings())

    def mount(self):
        """What this host's own address is answered: "mounted", or the words of the refusal."""
        try:
            rpc.mount_root(self.target.netns, self.target.server)
            return "mounted"
        except rpc.Refused as refused:
            return str(refused)


def access_changes(scene):
    ok = scene.works("rw at first", "echo kept > kept && exec 9<>open && echo data >&9 && sync")
    ok &= scene.reloads("rw becomes ro", scene.exports(guest="ro"))
    ok &= scene.fails("ro: no new file", "touch new", EROFS) & scene.fails("ro: nor a directory", "mkdir new", EROFS)
    ok &= scene.fails("ro: nor a write to a file that is open", TO_OPEN_FILE, EROFS)
    ok &= scene.works("ro: what is there is read", "echo 3 > /proc/sys/vm/drop_caches; grep -q kept kept")
    ok &= scene.reloads("rw again", scene.exports())
    return ok & scene.works("rw again: all of it works", f"touch new && mkdir folder && {TO_OPEN_FILE}")


def exports_come_and_go(scene):
    mount = MOUNT.format(server=scene.target.server, port=scene.target.port, mount_port=scene.target.mount_port)
    forget = "echo 3 > /proc/sys/vm/drop_caches; "
    ok = scene.reloads("the client's export goes, another's comes", scene.exports(guest=None))
    ok &= scene.fails("gone: its calls are refused", forget + "cat kept", EACCES) & scene.fails("gone: and a mount", mount, "denied")
    ok &= scene.fails("gone: and a write to a file that is open", TO_OPEN_FILE, EACCES)
    ok &= say(scene.mount() == "mounted", "gone: the other one mounts", scene.mount())
    ok &= scene.reloads("it comes back, the other goes", scene.exports(own=None))
    ok &= scene.works("back: it goes on", forget + f"grep -q kept kept && {TO_OPEN_FILE} && touch newer")
    return ok & scene.works("back: and mounts", mount) & say(scene.mount() == f"MNT answers {MNT3ERR_ACCES}", "back: the other one does not", scene.mount())


def wrong_files(scene):
    """Refused by name, by slicectl and by the manager, and nothing changes."""
    before = scene.settings()
    good = scene.config.parent / "good.toml"
    good.write_text(scene.config.read_text())
    ok = True
    for what, text, words in (("a wrong network", scene.exports().replace(scene.guest.address, "10.77.1.0/99"), "clients of [[export]]"),
                              ("fixed keys", re.sub(r"storage = \d+", "storage = 2048", scene.exports(guest=None).replace('"64KiB"', '"128KiB"')),
                               "[volume] threshold, [volume] stripe_unit, [sites] storage")):
        scene.config.write_text(text)
        slicectl = [str(scene.target.bin_dir / "slicectl"), "--config", str(good), "reload"]  # whose own file is right
        done = subprocess.run(uml.in_netns(scene.target.facts["proxy"], *slicectl), capture_output=True, text=True)
        ok &= say(done.returncode == 1 and words in done.stderr and scene.config.name in done.stderr, f"{what}: refused", done.stderr)
        logged = scene.log("manager1").count("reload: nothing is changed")
        os.kill(scene.target.pids()[scene.target.facts["processes"]["manager1"]], signal.SIGHUP)
        end = time.monotonic() + SETTLES_SECONDS
        while scene.log("manager1").count("reload: nothing is changed") == logged and time.monotonic() < end:
            time.sleep(0.1)
        ok &= say(scene.log("manager1").count("reload: nothing is changed") == logged + 1, f"{what}: by SIGHUP, too")
    ok &= say(scene.settings() == before, "wrong files change nothing", scene.settings())
    return ok & scene.works("the client noticed nothing", "touch newest && echo 3 > /proc/sys/vm/drop_caches; grep -q kept kept")


def by_signal(scene):
    """SIGHUP to the manager is a reload; any other process says what is not its own to read."""
    before = scene.settings()[0]
    scene.config.write_text(scene.exports(guest="ro"))
    os.kill(scene.target.pids()[scene.target.facts["processes"]["store1"]], signal.SIGHUP)
    time.sleep(0.5)
    ok = say("which the manager reads (slicectl reload): [[export]]" in scene.log("store1"), "SIGHUP to another says whose they are")
    ok &= say(scene.settings()[0] == before, "and changes nothing")
    os.kill(scene.target.pids()[scene.target.facts["processes"]["manager1"]], signal.SIGHUP)
    end = time.monotonic() + SETTLES_SECONDS
    while scene.settings()[0] == before and time.monotonic() < end:
        time.sleep(0.1)
    ok &= scene.all_have("SIGHUP to the manager", scene.target.facts["processes"])
    return ok & scene.fails("SIGHUP: ro", "touch no", EROFS) & scene.reloads("and rw", scene.exports())


def away_meanwhile(scene):
    """Servers that were down, started while the manager is dead, by files that say otherwise."""
    down = ["dir1", "store1", "proxy1"]
    for name in down:
        scene.target.kill(name)
    ok = scene.reloads("a reload while some are down", scene.exports(guest="ro"), late=down)
    scene.target.kill("manager1")
    scene.config.write_text(scene.exports())
    scene.target.start("dir1")
    scene.target.start("proxy1")
    ok &= scene.fails("started without the manager: dir1 knows", "mkdir late", EROFS)
    scene.target.start("manager1")
    scene.target.start("store1")
    scene.target.wait_serving()
    ok &= scene.all_have("the manager is back, and its file says otherwise", scene.target.facts["processes"])
    ok &= say("was edited and not read again" in scene.log("manager1"), "which it says")
    ok &= scene.fails("store1 knows", TO_OPEN_FILE, EROFS) & scene.fails("and dir1 still", "mkdir late", EROFS)
    ok &= scene.reloads("the file is taken", scene.exports())
    return ok & scene.works("rw again", f"mkdir late && {TO_OPEN_FILE}")


def manager_dies(scene):
    """At both points of a reload: the old settings are in force then, or the new ones, everywhere."""
    hosts, ok = scene.target.hosts(), True
    hosts.load()
    for point, access, change in (("settings.keeping", "rw", "ro"), ("settings.kept", "ro", "ro")):
        scene.target.kill("manager1")
        hosts.start("manager1", point)
        scene.target.wait_serving()
        before = scene.settings()[0]
        done = scene.reload(scene.exports(guest=change))
        ok &= say(done.returncode != 0 and f"crash point {point} is reached" in scene.log("manager1"), f"dies at {point}", done.stdout)
        hosts.children["manager1"].wait(SETTLES_SECONDS)
        hosts.start("manager1")
        scene.target.wait_serving()
        ok &= scene.all_have(f"{point}, started again", scene.target.facts["processes"])
        ok &= say(scene.settings()[0] == before + (access == change), f"{point}: {'the new' if access == change else 'the old'} ones", scene.settings())
        ok &= scene.fails(f"{point}: ro", "mkdir dies", EROFS) if access == "ro" else scene.works(f"{point}: rw", "mkdir dies && rmdir dies")
    return ok & scene.reloads("rw after all", scene.exports())


def limits(scene):
    """A reserve that no disk has, and the level of the log."""
    def state():
        return next(server["state"] for server in scene.target.status()["servers"] if server["name"] == "store1")

    text = scene.exports().replace('name = "store1"', 'name = "store1"\nreserve = "1024TiB"')
    ok = scene.reloads("a reserve", text)
    time.sleep(1.5)
    ok &= say(state() == "read-only: no space", "store1 is out of space", state())
    ok &= scene.reloads("and none", scene.exports())
    time.sleep(1.5)
    ok &= say(state() == "serving", "and is not any more", state())
    ok &= scene.reloads("limits and the log's level", f'log_level = "error"\n{scene.exports()}\n[limits]\nconnections = 100\n')
    before = scene.log("dir1")
    scene.target.kill_and_start("dir1")
    scene.target.wait_serving()
    return ok & say("info" not in scene.log("dir1")[len(before):].split("settings of generation")[-1], "the log has errors alone") & \
        scene.reloads("back", scene.exports())


STEPS = [access_changes, exports_come_and_go, wrong_files, by_signal, away_meanwhile, manager_dies, limits]


@contextlib.contextmanager
def mounted(target):
    with target.client(["sh", "-c", GUEST], timeout=GUEST_SECONDS) as guest:
        if not guest.says("ready"):
            raise uml.UmlError(f"the kernel client does not get ready: {guest.text}{guest.console[-500:]}")
        yield guest


def reload(ensembles, options):
    wanted = options.only.split(",") if options.only else [step.__name__ for step in STEPS]
    with ensembles.make("reload") as target, mounted(target) as guest:
        scene = Scene(target, guest, options)
        pids, ok = target.pids(), scene.reloads("first", scene.exports())
        for step in [step for step in STEPS if step.__name__ in wanted]:
            start = time.monotonic()
            ok &= step(scene)
            if step is by_signal:
                ok &= say(target.pids() == pids, "nobody was restarted for it", target.pids())
            print(f"{step.__name__}: {time.monotonic() - start:.0f} s", flush=True)
        ok &= scene.works("at the end", "grep -q kept kept")
        (guest.folder / "end").touch()
        return ok & say(guest.wait() == 0, "the kernel client ends well", guest.text[-500:])
