"""The suite `session-keys`: the ensemble's session keys are changed as docs/operations.md says, under a checked load: nobody notices, and whoever
has the old key alone is a stranger afterwards. Sessions cover every byte, and come from the ensemble's networks alone."""

import json
import os
import pathlib
import re
import secrets
import signal
import subprocess
import time

import targets
import uml

LOAD_SECONDS = 24
ENSEMBLE = targets.ROOT / "deploy/local/ensemble.toml"


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} session-keys {what}{'' if ok else f': {got}'}", flush=True)
    return ok


class Keys:
    """The two files, and a configuration that names them."""

    def __init__(self, folder):
        self.files = [folder / "session.key", folder / "session-next.key"]
        self.config = folder / "session-keys.toml"
        self.config.write_text(self.text(self.files))
        self.old, self.new = secrets.token_bytes(32), secrets.token_bytes(32)
        self.put(self.old, b"")

    @staticmethod
    def text(files):
        named = ", ".join(f'"{path}"' for path in files)
        return f'{ENSEMBLE.read_text()}\n[network]\ninternal = ["10.77.0.0/16"]\ncover = "all"\nsession_keys = [{named}]\n'

    def put(self, *secrets_now):
        for path, secret in zip(self.files, secrets_now):
            path.touch(mode=0o600)
            path.write_bytes(secret)


class Load:
    """slice-load, whose replies are checked, in the background."""

    def __init__(self, target, options, folder):
        self.report = folder / "session-keys.json"
        command = [options.programs.parent / "bin/slice-load", "--server", f"{target.server}:{target.port}", "--export", target.export,
                   "--mount-port", target.mount_port, "--seed", options.seed, "--json", self.report, "--mix", "specsfs", "--bytes-per-op", "20KiB",
                   "--rate", 150, "--warm-up", 1, "--interval", LOAD_SECONDS]
        self.process = subprocess.Popen(uml.in_netns(target.netns, *map(str, command)), stdout=subprocess.DEVNULL)

    def point(self):
        self.process.wait(LOAD_SECONDS + 60)
        return json.loads(self.report.read_text())["points"][0]


def hang_up(target, step, say=say):
    """SIGHUP to every process; whether each has read its keys again."""
    logs = {name: pathlib.Path(target.facts["config"]).parent / "log" / f"{name}.log" for name in target.pids()}
    before = {name: log.read_text().count("SIGHUP:") for name, log in logs.items()}
    for pid in target.pids().values():
        os.kill(pid, signal.SIGHUP)
    for _ in range(50):
        silent = [name for name, log in logs.items() if log.read_text().count("SIGHUP:") == before[name]]
        if not silent:
            return say(True, step)
        time.sleep(0.1)
    return say(False, step, f"{silent} said nothing")


def counted(target, name):
    return sum(target.metrics(process).get(name, 0) for process in target.process_names)


def is_stranger(target, options, folder, secret):
    """Whether slicectl with this key alone is refused."""
    (folder / "stranger.key").touch(mode=0o600)
    (folder / "stranger.key").write_bytes(secret)
    text = pathlib.Path(target.facts["config"]).read_text()
    config = pathlib.Path(target.facts["config"]).parent / "stranger.toml"
    config.write_text(re.sub(r"session_keys = .*", f'session_keys = ["{folder / "stranger.key"}"]', text))
    done = subprocess.run(uml.in_netns(target.facts["proxy"], str(options.programs.parent / "bin/slicectl"), "--config", str(config),
                                       "--timeout", "3", "servers"), capture_output=True, text=True)
    return done.returncode != 0 and "key" in done.stderr


def session_keys(ensembles, options):
    folder = ensembles.folder / "session-keys"
    folder.mkdir(exist_ok=True)
    keys = Keys(folder)
    with targets.Slice(f"{ensembles.instance}-keys", ensembles.folder, ensembles.bin_dir, own=True, config=keys.config) as target:
        load = Load(target, options, folder)
        time.sleep(4)
        ok = say(not is_stranger(target, options, folder, keys.old) and is_stranger(target, options, folder, keys.new), "the old key is the key")
        for step, now in (("both keys are taken", (keys.old, keys.new)), ("sessions begin under the new key", (keys.new, keys.old)),
                          ("the old key is void", (keys.new, b""))):
            keys.put(*now)
            ok &= hang_up(target, step)
            time.sleep(2)
        ok &= say(is_stranger(target, options, folder, keys.old) and not is_stranger(target, options, folder, keys.new), "the new key is the key")
        keys.files[0].write_bytes(b"short")
        ok &= hang_up(target, "a key that cannot be used is refused")
        ok &= say(not is_stranger(target, options, folder, keys.new), "and changes nothing")
        keys.put(keys.new, b"")
        point = load.point()
        ok &= say(point["violations"] == 0 and point["failed"] == 0 and point["achieved_per_second"] > 100, "clients noticed nothing", point)
        forged = counted(target, "rpc_sessions_forged_total")
        return ok & say(forged == 0, "no frame was taken for forged", forged)
