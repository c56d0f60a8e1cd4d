"""The suite `health`: servers are killed, the manager among them, and brought back: `slicectl status` names what is wrong, and its exit codes and
`--watch` say the same. Then what a host is told whose key or configuration is another, and what `slicectl doctor` finds there."""

import json
import os
import pathlib
import signal
import subprocess
import tarfile
import time

import steps
import uml

NOTICED_SECONDS = 12  # a heartbeat is missed for 5 s
BACK_SECONDS = 40
SILENT_MANAGER_SECONDS = 5  # as long as status may take by default; a dead process refuses at once


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} health {what}{'' if ok else f': {got}'}", flush=True)
    return ok


class Scene:
    def __init__(self, target):
        self.target = target
        self.config = pathlib.Path(target.facts["config"])

    def ask(self, *words, config=None):
        command = [str(self.target.bin_dir / "slicectl"), "--config", str(config or self.config), *words]
        return subprocess.run(uml.in_netns(self.target.facts["proxy"], *command), capture_output=True, text=True)

    def findings(self, *words, config=None):
        """What status says: exit code, health, and NAME SERVER of each finding."""
        done = self.ask("--json", *words, "status", config=config)
        said = json.loads(done.stdout)
        return done.returncode, said["health"], [" ".join(filter(None, (each["name"], each["server"]))) for each in said["findings"]], said

    def comes(self, what, wanted, health="HEALTH_ERR", seconds=NOTICED_SECONDS):
        """Within a while status says that, all of it and nothing else."""
        end = time.monotonic() + seconds
        while True:
            code, said_health, names, _ = self.findings()
            good = (code, said_health, sorted(names)) == (3 if wanted else 0, health if wanted else "HEALTH_OK", sorted(wanted))
            if good or time.monotonic() > end:
                return say(good, what, f"{code} {said_health} {names}")
            time.sleep(0.3)

    def on_proxy(self, *words):
        subprocess.run(uml.in_netns(self.target.facts["proxy"], *words), check=True)

    def sysctl(self, name, value):
        self.on_proxy("sysctl", "-qw", f"{name}={value}")

    def address(self, verb):
        """The virtual address goes, or comes back."""
        self.on_proxy("ip", "address", verb, f"{self.target.server}/32", "dev", "lo")

    def copy(self, name, change):
        """The configuration, changed so, in a file beside it."""
        path = self.config.with_name(name)
        path.write_text(change(self.config.read_text()))
        return path


def support_tells_no_secret(scene):
    """The archive has what it should, also while the manager is away, and not the key."""
    archive = scene.config.with_name("support.tar.gz")
    done = scene.ask("support", str(archive))
    with tarfile.open(archive) as opened:
        files = {member.name.split("/", 1)[1]: opened.extractfile(member).read() for member in opened.getmembers() if member.isfile()}
    key = scene.config.with_name("ensemble.key").read_bytes()
    wanted = {"status.txt", "status.json", "doctor.txt", "tables.json", "metrics.txt", "ensemble.toml", "host/disks.txt", "log.txt"}
    ok = say(done.returncode == 0 and wanted <= set(files), "support writes an archive", f"{done.stderr} {sorted(files)}")
    ok &= say(b"slice_rpc_calls_total" in files["metrics.txt"] and files["status.txt"].startswith(b"HEALTH_"), "with what slicectl says", files["status.txt"][:200])
    secret = [name for name, text in files.items() if key in text or key.hex().encode() in text]
    return ok & say(not secret and len(key) >= 16, "and no key", secret)


class Watch:
    """`slicectl status --watch` on a pipe."""

    def __init__(self, scene, path):
        self.path = path
        with open(path, "w") as out:
            command = [str(scene.target.bin_dir / "slicectl"), "--config", str(scene.config), "status", "--watch"]
            self.process = subprocess.Popen(uml.in_netns(scene.target.facts["proxy"], *command), stdout=out, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()

    def until(self, word, times=1, seconds=NOTICED_SECONDS):
        end = time.monotonic() + seconds
        while self.lines().count(word) < times and time.monotonic() < end:
            time.sleep(0.2)
        return self.lines()

    def lines(self):
        return self.path.read_text()


def servers_die(scene):
    ok = scene.comes("all serve: HEALTH_OK, exit code 0", [])
    text = scene.ask("status").stdout
    ok &= say(text.startswith("HEALTH_OK\n") and "storage" in text and "alive" in text, "the text begins with it", text)
    for name in ("store1", "dir1"):
        scene.target.kill(name)
    ok &= scene.comes("a storage node and a directory server are dead", ["SERVER_DOWN dir1", "SERVER_DOWN store1"])
    text = scene.ask("status").stdout
    ok &= say("32 of 64 directory sites" in text and "systemctl start slice-stored@store1" in text and "since 20" in text,
              "what is out of reach, since when, and the cure", text)
    done = scene.ask("fsck", "--timeout", "1")
    ok &= say(done.returncode == 2 and "the manager does not hear dir1: waiting up to 1 s" in done.stderr, "fsck says at once whom it waits for", done.stderr)
    return ok & manager_dies_too(scene)


def manager_dies_too(scene):
    scene.target.kill("manager1")
    start = time.monotonic()
    code, health, names, said = scene.findings()
    took = time.monotonic() - start
    ok = say((code, health) == (3, "HEALTH_ERR") and names[0] == "MANAGER_SILENT manager1" and set(names[1:]) == {"SERVER_DOWN dir1", "SERVER_DOWN store1"},
             "and the manager: servers are asked themselves", f"{code} {health} {names}")
    ok &= say(took < SILENT_MANAGER_SECONDS, f"within {took:.1f} s", took)
    states = {server["name"]: server["state"] for server in said["servers"] if server["alive"]}
    return ok & say(states.get("store2") == "serving" and not said["manager_answers"], "what they say is shown", states)


def all_come_back(scene):
    for name in ("manager1", "store1", "dir1"):
        scene.target.start(name)
    return scene.comes("all are back", [], seconds=BACK_SECONDS)


def watched(scene):
    """A line for each change, and none for what stays."""
    with Watch(scene, scene.config.with_name("watch.txt")) as watch:
        ok = say("HEALTH_OK" in watch.until("HEALTH_OK"), "--watch begins with how it is", watch.lines())
        ok &= servers_die(scene)
        said = watch.until("MANAGER_SILENT")
        ok &= say(said.count(" SERVER_DOWN store1: ") == 1, "--watch: one line when it dies", said)
        ok &= all_come_back(scene)
        said = watch.until("HEALTH_OK", times=2)
        over = ("over: MANAGER_SILENT manager1\n", "over: SERVER_DOWN store1\n")
        return ok & say(said.count("HEALTH_OK") == 2 and all(said.count(line) == 1 for line in over), "--watch: and one when it is back", said)


def strangers(scene):
    """A host with another key, and one with another configuration."""
    key = scene.config.with_name("other.key")
    key.touch(mode=0o600)
    key.write_text(os.urandom(32).hex() + "\n")
    other_key = scene.copy("other-key.toml", lambda text: text.replace("ensemble.key", "other.key"))
    code, health, names, _ = scene.findings(config=other_key)
    ok = say((code, health, names[0]) == (3, "HEALTH_ERR", "KEY_DIFFERS manager1"), "who has another key is told so", names)
    other = scene.copy("other.toml", lambda text: text.replace('xdp = "generic"', 'xdp = "native"').replace("storage = 1024", "storage = 512"))
    code, health, names, said = scene.findings(config=other)
    differ = [each for each in said["findings"] if each["name"] == "CONFIG_DIFFERS"]
    ok &= say((code, health) == (3, "HEALTH_WARN") and "XDP_OFF proxy1" in names and len(differ) == len(said["servers"]),
              "what is warned of has exit code 3, too", f"{code} {health} {names}")
    return ok & say("[sites] storage (1024, here 512)" in differ[0]["what"], "the key that differs is named", differ[:1])


def examined(scene):
    """doctor on the proxy's host: what is wrong there is what the test's own ensemble cannot have otherwise, then what is made wrong."""
    def bad(*words, config=None):
        done = scene.ask("doctor", "--json", *words, config=config)
        said = json.loads(done.stdout)
        lines = [f"{each['level']} {each['name']}: {each['what']}" for each in said["checks"] if each["level"] != "ok"]
        # The machine's own limits, which its namespaces cannot change.
        return done.returncode, [line for line in lines if not line.startswith("warning sysctl: net.core.")], done.stdout
    _, first, text = bad()
    checks = {each["name"] for each in json.loads(text)["checks"]}
    ok = say(checks >= {"configuration", "key-file", "key", "same-configuration", "clock", "servers", "port", "virtual-address", "kernel", "xdp", "reachable"},
             "doctor looks at all of it", checks)
    ok &= say(first == [], "and finds nothing on a good host", first)
    scene.sysctl("net.ipv4.conf.client.rp_filter", 2)
    scene.address("del")
    try:
        code, names, _ = bad()
        ok &= say(code == 3 and any("rp_filter is not 1" in each for each in names) and any(each.startswith("error virtual-address") for each in names),
                  "a setting and an address that are wrong are found", names)
    finally:
        scene.sysctl("net.ipv4.conf.client.rp_filter", 1)
        scene.address("add")
    other_key = scene.copy("other-key.toml", lambda text: text.replace("ensemble.key", "other.key"))
    code, names, _ = bad(config=other_key)
    ok &= say(code == 3 and "error key: this host's key differs from the manager's" in names, "and another key", names)
    broken = scene.copy("broken.toml", lambda text: text.replace("[volume]", "[volumes]"))
    code, names, _ = bad(config=broken)
    return ok & say(code == 3 and len(names) == 1 and names[0].startswith("error configuration"), "and a configuration that is none", names)


STEPS = [support_tells_no_secret, watched, strangers, examined]


def health(ensembles, _options):
    with ensembles.make("health", directories=2) as target:
        return steps.carry_out(STEPS, Scene(target))
