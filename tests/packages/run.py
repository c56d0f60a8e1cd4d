#!/usr/bin/env python3
"""Debian packages as an operator gets them: run.py makes them of the release build (deploy/package.sh), asks lintian, installs them into a
minimal Debian of their own (root.py), and uses what is there: programs, units, completion, an ensemble that serves. Needs root.
Exit code 1 when something is not as it should be."""

import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

import inside
import machine
import root

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "build/packages"
PROGRAMS = {"slicectl": 1, "slice-load": 1, "slice-coordd": 8, "slice-dird": 8, "slice-backup": 8, "slice-fsck": 8, "slice-hostd": 8, "slice-managerd": 8, "slice-proxyd": 8, "slice-clientd": 8, "slice-blockd": 8, "slice-link": 8,
            "slice-smallfiled": 8, "slice-stored": 8}
LEFT_EMPTY = ("bin", "lib", "lib/systemd/system", "lib/sysusers.d", "share/doc", "share")  # of Slice by purging
PODMAN = re.compile(r"^ *(systemctl start podman\S*)\n *DOCKER_HOST=unix://(\S+) docker-compose", re.M)
PODMAN_UNITS = ("podman.socket", "podman.service", "podman-restart.service", "podman-auto-update.service", "podman-auto-update.timer")
PODMAN_STORAGE = '[storage]\ndriver = "vfs"\ngraphroot = "/var/lib/containers/storage"\nrunroot = "/run/containers/storage"\n'
MOST_EXPOSED = 25  # tenths, of `systemd-analyze security`
COMPLETIONS = {"slicectl serv": "server servers", "slicectl server re": "remove", "slicectl metrics s": "small1 store1", "slicectl --ti": "--timeout",
               "slicectl jo": "join", "slicectl init --cl": "--clients",
               "slicectl policy set / --co": "--copies"}


class Wrong(Exception):
    """What is not as it should be."""


def expect(condition, text):
    if not condition:
        raise Wrong(text)


def made():
    """The packages; the build is there already."""
    root.said(ROOT / "deploy/package.sh", "--built")
    found = sorted(PACKAGES.glob("*.deb"))
    expect({file.name.split("_")[0] for file in found} == {"slice-common", "slice-server", "slice-proxy", "slice-client", "slice-block", "slice-ctl", "slice-load"}, found)
    return found


def judged(packages):
    """By lintian: neither errors nor warnings."""
    said = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", *packages], capture_output=True, text=True)
    expect(said.returncode == 0, said.stdout + said.stderr)


def version():
    return re.search(r"^project\(slice VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]


def programs(there):
    expect(root.said(ROOT / "build/release/bin/slice-sim", "--version") == f"slice {version()}\n", "slice-sim --version")  # in no package
    for program, section in PROGRAMS.items():
        said = there.run(program, "--version")
        expect(said == f"slice {version()}\n", f"{program} --version: {said}")
        expect("Usage: " in there.run(program, "--help"), f"{program} --help")
        page = there.folder / f"usr/share/man/man{section}/{program}.{section}.gz"
        text = subprocess.run(["zcat", page], capture_output=True, text=True).stdout
        expect(f'.TH {program.upper()} "{section}"' in text.replace("\\-", "-"), f"no manual page {page}: {text[:200]}")


def serves(there):
    """An ensemble, in namespaces of its own."""
    root.said("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", sys.executable,
              pathlib.Path(__file__).with_name("inside.py"), there.folder)


def units(there):
    """Good for systemd, and confined."""
    names = sorted(path.name.replace("@.", "@x.") for path in there.folder.glob("lib/systemd/system/slice*.service"))
    expect(len(names) == 12, names)
    (there.folder / "etc/slice/hostd-x").write_text("SERVERS=x\n")
    said = there.run("systemd-analyze", "verify", "--man=no", "slice.target", *names)
    expect("slice" not in said, said)
    for name in names:
        text = there.run("systemd-analyze", "security", "--offline=yes", "--no-pager", f"--threshold={MOST_EXPOSED}", name)
        print(text.splitlines()[-1].strip(), flush=True)


def install_podman(there):
    """As on a host where nobody has started it yet. A guest's root takes no overlays, so that images would be kept as folders."""
    there.install("podman", "crun")
    there.run("systemctl", "--quiet", "disable", *PODMAN_UNITS)
    (there.folder / "etc/containers/storage.conf").write_text(PODMAN_STORAGE)


def host_script():
    """With the lines that docs/install.md has for podman."""
    text = pathlib.Path(__file__).with_name("host.sh").read_text()
    found = PODMAN.search((ROOT / "docs/install.md").read_text())
    expect(found, "docs/install.md does not start podman's socket")
    return text.replace("START_PODMAN", found[1]).replace("PODMAN_SOCKET", found[2])


def runs(there):
    """As the units have them, on a host of their own."""
    there.run("systemctl", "--quiet", "enable", *[f"{program}@{name}" for name, program in inside.SERVERS.items()])
    install_podman(there)
    with machine.Machine(there.folder, host_script(), timeout=900) as host:
        code = host.wait()
    print(host.text, flush=True)
    expect(code == 0, f"exit code {code}\n{host.console[-6000:]}")


def apart(program, argument):
    """One that makes namespaces and mounts, which end with it, and says what goes on; it gets a folder that is gone at the end."""
    with tempfile.TemporaryDirectory(prefix="slice-packages-", dir="/dev/shm") as folder:
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", sys.executable,
                               pathlib.Path(__file__).with_name(program), argument, folder])
    expect(done.returncode == 0, f"exit code {done.returncode}")


def documented(there):
    """docs/install.md, on hosts at a network of their own."""
    there.install("openssh-server", "openssh-client")
    apart("hosts.py", there.folder)


def contained(there):
    """The image of deploy/container/, and its compose file's ensemble."""
    apart("container.py", root.packed())


def completion(there):
    script = """. /usr/share/bash-completion/completions/slicectl
        COMP_WORDS=($0) COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _slicectl; echo "${COMPREPLY[@]}" """
    for line, expected in COMPLETIONS.items():
        said = there.run("bash", "-c", script, line)
        expect(sorted(said.split()) == expected.split(), f"completion of '{line}': {said}")


def removed(there):
    """The packages are purged without a word; data and key stay."""
    there.run("apt-get", "-y", "-q", "purge", "slice-server", "slice-proxy", "slice-client", "slice-block", "slice-ctl", "slice-load", "slice-common")
    left = [path for folder in LEFT_EMPTY for path in (there.folder / "usr" / folder).glob("slice*") if path.name != "slices.target"]  # systemd's own
    expect(not left, f"files stay: {left}")
    expect((there.folder / "etc/slice/ensemble.key").exists(), "the key is gone")
    expect((there.folder / "var/lib/slice/store1").exists(), "data is gone")


def step(name, what, *arguments):
    """Whether it went well; its result."""
    try:
        result = what(*arguments)
        print(f"ok packages: {name}", flush=True)
        return True, result
    except (Wrong, root.NoRoot) as error:
        print(f"not ok packages: {name}: {error}", flush=True)
        return False, None


def installed(packages):
    with root.Root() as there:
        if not step("are installed with what they depend on", there.install, *packages)[0]:
            return False
        ok = step("programs, and their manual pages", programs, there)[0]
        ok &= step("an ensemble of the example's serves a file", serves, there)[0]
        ok &= step("units", units, there)[0]
        ok &= step("a host that systemd runs them on", runs, there)[0]
        ok &= step("three hosts and a fourth, as docs/install.md has them", documented, there)[0]
        ok &= step("containers", contained, there)[0]
        ok &= step("completion", completion, there)[0]
        return ok & step("are removed, and data stays", removed, there)[0]


def main():
    good, packages = step("are made", made)
    if not good:
        return 1
    with concurrent.futures.ThreadPoolExecutor() as beside:
        verdict = beside.submit(step, "lintian", judged, packages)
        ok = step("a minimal Debian", root.packed)[0] and installed(packages)
        return 0 if verdict.result()[0] and ok else 1


if __name__ == "__main__":
    sys.exit(main())
