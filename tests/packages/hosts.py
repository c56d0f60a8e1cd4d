#!/usr/bin/env python3
"""hosts.py ROOT FOLDER: carries out docs/install.md, "Three hosts in ten minutes": four hosts with systemd and a client, each in user-mode Linux, at a
bridge in namespaces of their own (run.py makes the outer ones and the folder, and all ends with them). What they run is taken from the document."""

import contextlib
import json
import pathlib
import re
import sys
import time

import machine
from root import run

import uml  # of tests/cluster, which machine.py finds

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/install.md"
BLOCK = re.compile(r"^ *```sh on (\w+)\n(.*?)^ *```", re.M | re.S)
NETNS, NETWORK, BITS = "slice-install", "10.77.0.{}", 16
HOSTS = {"alpha": 11, "beta": 12, "gamma": 13, "delta": 14}
CLIENT = 50
PATIENCE = 600  # seconds, of anything, on a busy machine
# Runs what is put beside it, one after another: N.sh, of which N.out and N.exit come.
AGENT = """export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
cd "$HOME"
mkfifo /run/never && exec 9<>/run/never  # to wait by, since a process is dear there
number=1
while :; do
  at=CONTROL/$number
  if [ ! -e $at.sh ]; then read -rt 0.5 -u 9; continue; fi
  bash -euo pipefail $at.sh >$at.out 2>&1 </dev/null
  echo $? >$at.part
  mv $at.part $at.exit
  number=$((number + 1))
done
"""
BEGUN = time.monotonic()


def say(text):
    print(f"{time.monotonic() - BEGUN:6.1f} s: {text}", flush=True)


class Told:
    """What a guest's agent is told, by files that both see."""

    def __init__(self, name, guest, control):
        self.name, self.guest, self.control, self.number = name, guest, pathlib.Path(control), 0

    def begin(self, commands):
        self.number += 1
        part = self.control / f"{self.number}.part"
        part.write_text(commands)
        part.rename(self.control / f"{self.number}.sh")

    def end(self, patience=PATIENCE, check=True):
        """What the commands said."""
        exit_code, until = self.control / f"{self.number}.exit", time.monotonic() + patience
        while not exit_code.exists() and time.monotonic() < until and self.guest.process.poll() is None:
            time.sleep(0.1)
        out = self.control / f"{self.number}.out"
        text = out.read_text(errors="replace") if out.exists() else ""
        if not exit_code.exists() or (check and int(exit_code.read_text()) != 0):
            commands = (self.control / f"{self.number}.sh").read_text()
            sys.exit(f"{self.name}: {'failed' if exit_code.exists() else 'did not end'}:\n{commands}\n{text}\n{self.guest.console[-4000:]}")
        return text

    def do(self, commands, **how):
        self.begin(commands)
        return self.end(**how)


class Client(uml.Guest):
    """A kernel client at the bridge."""

    def __init__(self):
        super().__init__(NETNS, None, ["bash", "-c", AGENT.replace("CONTROL", "/run/slice/control")], mount=False, locks=True, timeout=3600)
        self.tap, self.address, self.gateway = "client", NETWORK.format(CLIENT), NETWORK.format(254)

    def _connect(self):
        pass


class Hosts:
    def __init__(self, root, folder, ends):
        self.root, self.folder, self.ends, self.told = pathlib.Path(root), pathlib.Path(folder), ends, {}

    def make_network(self):
        run("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
        run("ip", "netns", "add", NETNS)
        run("ip", "-n", NETNS, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", NETNS, "link", "set", "br0", "up")
        for name in [*HOSTS, "client"]:
            run("ip", "-n", NETNS, "tuntap", "add", name, "mode", "tap")
            run("ip", "-n", NETNS, "link", "set", name, "master", "br0", "up")

    def prepare_root(self):
        """What all hosts have: names of one another, and a way in for root."""
        names = "".join(f"{NETWORK.format(number)} {name}\n" for name, number in HOSTS.items())
        (self.root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{names}")
        ssh = self.root / "root/.ssh"
        ssh.mkdir(mode=0o700, exist_ok=True)
        (ssh / "id_ed25519").unlink(missing_ok=True)
        run("chroot", self.root, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/root/.ssh/id_ed25519")
        (ssh / "authorized_keys").write_text((ssh / "id_ed25519.pub").read_text())
        host_key = (self.root / "etc/ssh/ssh_host_ed25519_key.pub").read_text()
        (ssh / "known_hosts").write_text("".join(f"{name} {host_key}" for name in HOSTS))
        (self.root / "etc/ssh/sshd_config.d/test.conf").write_text("UsePAM no\n")
        patient = self.root / "usr/local/bin/slicectl"
        patient.write_text(f'#!/bin/sh\nexec /usr/bin/slicectl --timeout {PATIENCE} "$@"\n')
        patient.chmod(0o755)

    def boot(self, name):
        upper, work, merged = (self.folder / name / part for part in ("upper", "work", "root"))
        for path in (upper, work, merged):
            path.mkdir(parents=True)
        run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={self.root},upperdir={upper},workdir={work}", merged)
        (merged / "etc/hostname").write_text(f"{name}\n")
        for path in [*merged.glob("etc/slice/ensemble.*"), *merged.glob("etc/systemd/system/slice.target.wants/*")]:  # of tests before
            path.unlink()
        host = machine.Machine(merged, AGENT.replace("CONTROL", f"/{machine.CONTROL}"), timeout=3600, netns=NETNS, tap=name,
                               address=f"{NETWORK.format(HOSTS[name])}/{BITS}")
        self.told[name] = Told(name, self.ends.enter_context(host), host.control)

    def boot_client(self):
        client = self.ends.enter_context(Client())
        self.told["client"] = Told("client", client, client.folder)

    def all_serve(self, names):
        until, said = time.monotonic() + PATIENCE, ""
        while time.monotonic() < until:
            said = self.told["alpha"].do("slicectl status --json", check=False)
            with contextlib.suppress(json.JSONDecodeError):
                states = {each["name"]: each["state"] for each in json.loads(said)["servers"] if each["alive"]}
                if sorted(states) == sorted(names) and all(state.startswith("serving") for state in states.values()):
                    return
            time.sleep(0.5)
        sys.exit(f"not all of {names} serve: {said}")


def main():
    steps = BLOCK.findall(DOCUMENT.read_text())
    order = [name for name, _ in steps]
    if order != ["alpha", "alpha", "client", "delta", "alpha"]:
        sys.exit(f"docs/install.md has other steps than this test knows: {order}")
    steps = ["\n".join(line.strip() for line in text.splitlines()) for _, text in steps]
    with contextlib.ExitStack() as ends:
        hosts = Hosts(sys.argv[1], sys.argv[2], ends)
        hosts.make_network()
        hosts.prepare_root()
        for name in HOSTS:
            hosts.boot(name)
        hosts.boot_client()
        told = hosts.told
        for each in told.values():
            each.begin("until [ -z \"$(systemctl is-active ssh | grep -v ^active)\" ]; do sleep 0.5; done" if each.name != "client" else "true")
        for each in told.values():
            each.end()
        say("hosts and client are up")

        said = told["alpha"].do(steps[0])
        for line in steps[0].splitlines()[1:]:
            if f"\n  {line}\n" not in said:
                sys.exit(f"slicectl init did not say '{line}':\n{said}")
        say("docs/install.md: three hosts are begun")
        servers = ["manager1", "dir1", "small1", "coord1", "store1", "proxy1", "store2", "store3"]
        hosts.all_serve(servers)
        print(told["alpha"].do(steps[1]))
        say("they serve")
        told["client"].do(steps[2])
        told["client"].do("head -c 3M /dev/urandom > /mnt/big; sha256sum /mnt/big > /tmp/sum; sync /mnt/big")
        say("a client has copied files in and out")

        print(told["delta"].do(steps[3]))
        hosts.all_serve([*servers, "store4"])
        sites = next(each["sites"] for each in json.loads(told["alpha"].do("slicectl servers --json"))["servers"] if each["name"] == "store4")
        if sites < 200:
            sys.exit(f"the host that joined has {sites} of 1024 sites")
        say(f"a fourth host has joined, and has {sites} sites")

        told["gamma"].guest.stop()
        told["client"].do("echo 3 > /proc/sys/vm/drop_caches; sha256sum -c /tmp/sum; cmp /bin/bash /mnt/bash\n"
                          "cp /bin/bash /mnt/without; cmp /bin/bash /mnt/without")
        say("with a host stopped hard, files are read and written")
        print(told["alpha"].do(steps[4]))
        told["client"].do("echo 3 > /proc/sys/vm/drop_caches; sha256sum -c /tmp/sum; cmp /bin/bash /mnt/without; umount /mnt")
        print(told["alpha"].do("slicectl fsck --data"))
        say("it is given up, and all is whole")


if __name__ == "__main__":
    main()
