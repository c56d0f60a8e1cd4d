#!/usr/bin/env python3
"""container.py BASE FOLDER: the image of deploy/container/, of the packages that are there and the minimal Debian in the archive BASE; and an ensemble
of containers, those of compose.yaml, at a bridge in namespaces of their own (run.py makes the outer ones and the folder, and all ends with them). A client
writes a file, reads it back, and does so again with a container gone."""

import json
import os
import pathlib
import random
import re
import sys
import time

from root import run

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTAINER = ROOT / "deploy/container"
IMAGE, BRIDGE = "localhost/slice", "slice-containers"
PATIENCE = 300  # seconds


def compose():
    """{name: (address, words, capabilities)} and the command that makes the folder, as compose.yaml has them."""
    text = (CONTAINER / "compose.yaml").read_text()
    services = {}
    for name, body in re.findall(r"^  (\w+):\n((?:    .*\n)+)", text.partition("\nservices:\n")[2].partition("\nvolumes:")[0] + "\n", re.M):
        words = re.search(r"command: \[(.*)\]", body)[1].split(", ")
        capabilities = re.search(r"cap_add: \[(.*)\]", body)
        services[name] = (re.search(r"ipv4_address: ([\d.]+)", body)[1], words, capabilities[1].split(", ") if capabilities else [])
    return services, re.search(r"^#\s+(slicectl init .*)$", text, re.M)[1].split()


def use_one_hierarchy():
    """Where control groups are of both versions, which the runtime refuses: in this namespace, of the second alone."""
    if not pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists():
        run("umount", "-l", "/sys/fs/cgroup")
        run("mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")


class Podman:
    """With images and containers of its own."""

    def __init__(self, folder):
        self.folder = folder
        conf = folder / "storage.conf"
        conf.write_text(f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/images"\nrunroot = "{folder}/run"\n')
        os.environ["CONTAINERS_STORAGE_CONF"] = str(conf)

    @staticmethod
    def start(*words, name=None, network="none", capabilities=(), folder):
        """With fewer files and processes than any machine allows: podman's defaults may be more than this one does."""
        limits = [f"--ulimit={limit}=1024" for limit in ("nofile", "nproc")]
        named = [f"--name={name}", "--detach"] if name else ["--rm"]
        rights = [f"--cap-add={each}" for each in capabilities]
        return run("podman", "run", *named, "--pull=never", "--cgroups=disabled", f"--network={network}", *limits, *rights,
                   f"--volume={folder}:/ensemble", IMAGE, *words)


def make_network(services):
    run("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
    run("ip", "netns", "add", BRIDGE)
    run("ip", "-n", BRIDGE, "link", "add", "br0", "type", "bridge")
    run("ip", "-n", BRIDGE, "address", "add", "10.77.0.254/24", "dev", "br0")
    run("ip", "-n", BRIDGE, "link", "set", "br0", "up")
    for name, (address, _, _) in services.items():
        run("ip", "netns", "add", name)
        run("ip", "-n", BRIDGE, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "-n", BRIDGE, "link", "set", name, "master", "br0", "up")
        run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            run("ip", "-n", name, "link", "set", device, "up")


def wait_serving(count):
    until, said = time.monotonic() + PATIENCE, ""
    while time.monotonic() < until:
        said = run("podman", "exec", "alpha", "slicectl", "--json", "status", check=False)
        if said.startswith("{"):
            states = [each["state"] for each in json.loads(said)["servers"] if each["alive"]]
            if len(states) == count and all(state.startswith("serving") for state in states):
                return
        time.sleep(0.5)
    logs = "".join(f"---- {name}\n{run('podman', 'logs', name, check=False)[-3000:]}" for name in ("alpha", "beta", "gamma"))
    sys.exit(f"not all serve: {said}\n{logs}")


def file_goes_and_comes(name, folder):
    there, back = folder / name, folder / f"{name}.back"
    there.write_bytes(random.Random(name).randbytes(300_000))
    address = f"nfs://10.77.0.1//{name}?version=3&nfsport=2049&mountport=20048"
    for source, target in ((there, address), (address, back)):
        run("nsenter", f"--net=/run/netns/{BRIDGE}", "nfs-cp", source, target)
    if there.read_bytes() != back.read_bytes():
        sys.exit("the file is another than was written")


def main():
    services, init = compose()
    folder = pathlib.Path(sys.argv[2])
    use_one_hierarchy()
    podman = Podman(folder)
    run("podman", "import", sys.argv[1], "localhost/slice-base")
    run(CONTAINER / "build.sh", IMAGE)
    print(f"the image is made: {run('podman', 'images', '--format', '{{.Size}}', IMAGE).strip()}", flush=True)
    (folder / "made").mkdir()
    try:
        podman.start(*[word.replace("ensemble", "/ensemble/ensemble") for word in init], folder=folder / "made")
        make_network(services)
        for name, (_, words, capabilities) in services.items():
            podman.start(*words, name=name, network=f"ns:/run/netns/{name}", capabilities=capabilities, folder=f"{folder}/made/ensemble")
        wait_serving(sum(len(words) - words.count("--proxy") for _, words, _ in services.values()))
        file_goes_and_comes("hello", folder)
        run("podman", "kill", "gamma")
        file_goes_and_comes("again", folder)
        print("with a container gone a file goes and comes, too", flush=True)
    finally:
        run("podman", "rm", "--all", "--force", "--time=1", check=False)


if __name__ == "__main__":
    main()
