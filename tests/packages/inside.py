#!/usr/bin/env python3
"""inside.py ROOT: in namespaces of its own (run.py makes them, and they end with it), an ensemble of the programs that are installed in that
root, with the configuration that comes with them, as the user that comes with them; a client writes a file, reads it back, and puts a
load on the volume."""

import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

HOST, VIRTUAL, VIRTUAL6 = "10.77.0.10", "10.77.0.1", "fd77::1"
SERVERS = {"manager1": "slice-managerd", "dir1": "slice-dird", "small1": "slice-smallfiled", "store1": "slice-stored", "coord1": "slice-coordd",
           "proxy1": "slice-proxyd"}
PATIENCE = 90  # seconds until all serve
CAPABILITIES = "+net_admin,+net_bind_service"
CONFIG = "/etc/slice/ensemble.toml"


def run(*command, check=True):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if check and done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


class Inside:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def run(self, *command, check=True):
        return run("chroot", self.folder, *command, check=check)

    def prepare(self):
        run("mount", "-t", "proc", "proc", self.folder / "proc")
        run("mount", "--bind", "/dev", self.folder / "dev")
        run("ip", "link", "set", "lo", "up")
        run("ip", "address", "add", f"{HOST}/24", "dev", "lo")
        text = (self.folder / "usr/share/doc/slice/examples/ensemble.toml").read_text()
        text = text.replace("192.0.2.10", HOST).replace("192.0.2.1", VIRTUAL).replace("192.0.2.0", "10.77.0.0")
        text = text.replace(f'"{VIRTUAL}"', f'["{VIRTUAL}", "{VIRTUAL6}"]').replace('"10.77.0.0/24"', '["10.77.0.0/24", "fd77::/16"]')
        (self.folder / CONFIG[1:]).write_text(text)
        self.run("sh", "-c", "cd /etc/slice && head -c 32 /dev/urandom > ensemble.key && chown slice: ensemble.key && chmod 600 ensemble.key")
        self.run("slicectl", "check")
        self.run("/usr/lib/slice/proxy-network", "up")

    def start(self):
        for name, program in SERVERS.items():
            confined = ["setpriv", "--reuid=slice", "--regid=slice", "--clear-groups"]
            if program == "slice-proxyd":
                confined += [f"--inh-caps={CAPABILITIES}", f"--ambient-caps={CAPABILITIES}"]
            log = open(self.folder / f"tmp/{name}.log", "w")
            subprocess.Popen(["chroot", self.folder, *confined, program, "--config", CONFIG, "--name", name], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait(self):
        end, said = time.monotonic() + PATIENCE, ""
        while time.monotonic() < end:
            done = self.run("slicectl", "status", "--json", check=False)
            said = done.stdout + done.stderr
            if done.returncode in (0, 3):
                states = {each["name"]: each["state"] for each in json.loads(done.stdout)["servers"] if each["alive"]}
                if states.keys() == SERVERS.keys() and all(state.startswith("serving") for state in states.values()):
                    return
            time.sleep(0.2)
        logs = "".join(f"---- {name}\n{(self.folder / f'tmp/{name}.log').read_text()}" for name in SERVERS)
        sys.exit(f"not all serve after {PATIENCE} s: {said}\n{logs}")


def file_goes_and_comes():
    address = f"nfs://{VIRTUAL}//hello?version=3&nfsport=2049&mountport=20048"
    with tempfile.TemporaryDirectory() as folder:
        there, back = pathlib.Path(folder) / "hello", pathlib.Path(folder) / "back"
        there.write_bytes(random.Random(1).randbytes(300_000))  # beyond the threshold: at both kinds of data servers
        run("nfs-cp", there, address)
        run("nfs-cp", address, back)
        if there.read_bytes() != back.read_bytes():
            sys.exit("the file is another than was written")


def main():
    inside = Inside(sys.argv[1])
    inside.prepare()
    inside.start()
    inside.wait()
    file_goes_and_comes()
    where = json.loads(inside.run("slicectl", "where", "/hello", "--json").stdout)
    if where["size"] != 300_000:
        sys.exit(f"slicectl where: {where}")
    for server in (VIRTUAL, VIRTUAL6):
        inside.run("slice-load", "--server", server, "--mount-port", "20048", "--rate", "50", "--clients", "2", "--warm-up", "0.5", "--interval", "2",
                   "--bytes-per-op", "64KiB")
    inside.run("slicectl", "fsck", "--data")
    inside.run("/usr/lib/slice/proxy-network", "down")
    left = run("ip", "-o", "address").stdout
    if VIRTUAL6 in left or f" {VIRTUAL}/" in left:
        sys.exit(f"a virtual address is left: {left}")


if __name__ == "__main__":
    main()
