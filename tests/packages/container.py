#!/usr/bin/env python3
"""container.py BASE FOLDER: the image of deploy/container/, of the packages that are there and the minimal Debian in the archive BASE; and the ensemble
of its compose.yaml, brought up by docker-compose over podman on a machine of its own, a namespace (run.py makes the outer ones and the folder, and all
ends with them). A client on that machine writes a file, reads it back, and does so again with a container gone."""

import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

from root import run

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTAINER = ROOT / "deploy/container"
IMAGE, MACHINE, PROJECT = "localhost/slice", "slice-containers", "slice"
SERVERS = 8  # of slicectl init on three hosts
PATIENCE = 300  # seconds
# No control groups, and fewer files and processes than any machine allows: podman's defaults may be more than this one does.
LIMITS = """[containers]
cgroups = "disabled"
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
"""


def use_one_hierarchy():
    """Where control groups are of both versions, which the runtime refuses: in this namespace, of the second alone."""
    if not pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists():
        run("umount", "-l", "/sys/fs/cgroup")
        run("mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")


def use_own_podman(folder):
    """With images, containers and volumes of its own."""
    for variable, name, text in (("CONTAINERS_STORAGE_CONF", "storage.conf",
                                  f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/images"\nrunroot = "{folder}/run"\n'),
                                 ("CONTAINERS_CONF", "containers.conf", LIMITS)):
        (folder / name).write_text(text)
        os.environ[variable] = str(folder / name)


def make_machine():
    run("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
    run("ip", "netns", "add", MACHINE)
    run("ip", "-n", MACHINE, "link", "set", "lo", "up")


def on_machine(*command):
    return ["nsenter", f"--net=/run/netns/{MACHINE}", *map(str, command)]


class Service:
    """podman's, as a compose program asks for it; for as long as it is open."""

    def __init__(self, folder):
        self.socket = folder / "podman.sock"
        os.environ["DOCKER_HOST"] = f"unix://{self.socket}"

    def __enter__(self):
        self.process = subprocess.Popen(on_machine("podman", "system", "service", "--time=0", os.environ["DOCKER_HOST"]), stderr=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE
        while not self.socket.exists():
            if self.process.poll() is not None or time.monotonic() > until:
                sys.exit("podman's service does not start")
            time.sleep(0.1)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def begin_ensemble(here):
    """What compose.yaml says is to be done before, in its folder."""
    text = (CONTAINER / "compose.yaml").read_text()
    words = re.search(r"^#\s+(slicectl init .*)$", text, re.M)[1].split()
    run("podman", "run", "--rm", "--pull=never", "--network=none", f"--volume={here}:/here", "--workdir=/here", IMAGE, *words)
    shutil.copy(CONTAINER / "compose.yaml", here)


def compose(here, *words):
    return run(*on_machine("docker-compose", "--project-name", PROJECT, "--project-directory", here, "--file", here / "compose.yaml", *words))


def container(name):
    return f"{PROJECT}_{name}_1"


def wait_serving():
    until, said = time.monotonic() + PATIENCE, ""
    while time.monotonic() < until:
        said = run("podman", "exec", container("alpha"), "slicectl", "--json", "status", check=False)
        if said.startswith("{"):
            states = [each["state"] for each in json.loads(said)["servers"] if each["alive"]]
            if len(states) == SERVERS and all(state.startswith("serving") for state in states):
                return
        time.sleep(0.5)
    logs = "".join(f"---- {name}\n{run('podman', 'logs', container(name), check=False)[-3000:]}" for name in ("alpha", "beta", "gamma"))
    sys.exit(f"not all serve: {said}\n{logs}")


def file_goes_and_comes(name, folder):
    there, back = folder / name, folder / f"{name}.back"
    there.write_bytes(random.Random(name).randbytes(300_000))
    address = f"nfs://10.77.0.1//{name}?version=3&nfsport=2049&mountport=20048"
    for source, target in ((there, address), (address, back)):
        run(*on_machine("nfs-cp", source, target))
    if there.read_bytes() != back.read_bytes():
        sys.exit("the file is another than was written")


def main():
    folder = pathlib.Path(sys.argv[2])
    here = folder / "here"
    here.mkdir()
    use_one_hierarchy()
    use_own_podman(folder)
    run("podman", "import", sys.argv[1], "localhost/slice-base")
    run(CONTAINER / "build.sh", IMAGE)
    print(f"the image is made: {run('podman', 'images', '--format', '{{.Size}}', IMAGE).strip()}", flush=True)
    make_machine()
    begin_ensemble(here)
    with Service(folder):
        try:
            begun = time.monotonic()
            compose(here, "up", "--detach")
            wait_serving()
            print(f"docker-compose has brought the ensemble up, which serves after {time.monotonic() - begun:.0f} s", flush=True)
            file_goes_and_comes("hello", folder)
            compose(here, "stop", "--timeout", "0", "gamma")
            file_goes_and_comes("again", folder)
            if (state := run("podman", "inspect", "--format", "{{.State.Status}}", container("gamma")).strip()) != "exited":
                sys.exit(f"the container that was stopped is {state}")
            print("with a container gone a file goes and comes, too", flush=True)
            compose(here, "down")
            if left := run("podman", "ps", "--all", "--quiet"):
                sys.exit(f"containers stay: {left}")
        finally:
            run("podman", "rm", "--all", "--force", "--time=1", check=False)


if __name__ == "__main__":
    main()
