"""A minimal Debian, as a folder, into which packages are installed: made by mmdebstrap once and kept in the cache, with what apt
downloaded since. The archives are those of the machine's own apt."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

CACHE = pathlib.Path(os.environ.get("SLICE_CACHE", pathlib.Path.home() / ".cache/slice")) / "roots"
SUITE = "bookworm"
# The first process in a root: what programs there expect to see, and no services at installation.
ENTER = 'mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && exec chroot "$@"'


class NoRoot(Exception):
    """It cannot be had here; the text says why."""


def said(*command, **more):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != 0:
        raise NoRoot(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def run(*command, check=True):
    """What it says on standard output; ends this program where that fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if check and done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def sources():
    """Lines of sources.list: the suite, its updates and its security updates, where the machine has them."""
    lines = known_sources()
    if not lines:  # apt tells of those alone whose lists it has
        said("apt-get", "update")
        lines = known_sources()
    if not lines:
        raise NoRoot(f"apt on this machine knows no archive of {SUITE}")
    return lines


def known_sources():
    rows = said("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages").splitlines()
    rows = sorted({tuple(row.split()) for row in rows})
    return [f"deb {archive} {suite} {component}" for archive, suite, component in rows if suite.split("-")[0] == SUITE and component == "main"]


def options_of_apt():
    """How the machine's apt reaches archives."""
    lines = said("apt-config", "dump", "Acquire").splitlines()
    return [line for line in lines if '""' not in line and line.split()[0].split("::")[1] in ("http", "https", "Check-Valid-Until", "Check-Date", "Retries")]


def packed():
    """The archive of a minimal root, from the cache or made."""
    lines = sources()
    needed = "ca-certificates,debian-archive-keyring" if any("https:" in line for line in lines) else "debian-archive-keyring"
    kept = CACHE / f"{SUITE}-{hashlib.sha256(' '.join(lines).encode()).hexdigest()[:16]}.tar"
    if kept.exists():
        return kept
    CACHE.mkdir(parents=True, exist_ok=True)
    part = kept.with_suffix(f".part{os.getpid()}.tar")
    try:
        said("mmdebstrap", "--variant=apt", f"--include={needed}", "--skip=cleanup/apt/lists", '--aptopt=Acquire::Languages "none"',
             *[f"--aptopt={line}" for line in options_of_apt()], SUITE, part, *lines, env={**os.environ, "TMPDIR": "/dev/shm"})
        part.rename(kept)
    finally:
        part.unlink(missing_ok=True)
    return kept


class Root:
    """A fresh one, gone at the end."""

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slice-root-", dir="/dev/shm"))
        try:
            self.folder.chmod(0o755)
            said("tar", "-x", "--numeric-owner", "-C", self.folder, "-f", packed())
            shutil.copy("/etc/resolv.conf", self.folder / "etc/resolv.conf")
            policy = self.folder / "usr/sbin/policy-rc.d"
            policy.write_text("#!/bin/sh\nexit 101\n")
            policy.chmod(0o755)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, *words):
        """The words that run a command in it, with processes and mounts of its own, which end with it."""
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "sh", "-c", ENTER, str(self.folder), str(self.folder), *map(str, words)]

    def run(self, *words):
        """What it prints; NoRoot where it fails."""
        return said(*self.command(*words), env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"})

    def install(self, *packages):
        """Package files of the host with all that they depend on, and packages by name."""
        archives = self.folder / "var/cache/apt/archives"
        kept = CACHE / "archives"
        kept.mkdir(parents=True, exist_ok=True)
        for file in kept.glob("*.deb"):
            shutil.copy(file, archives)
        names = []
        for package in packages:
            if isinstance(package, pathlib.Path):
                shutil.copy(package, self.folder / "var/tmp")
                package = f"/var/tmp/{package.name}"
            names.append(package)
        install = ["apt-get", "-y", "-q", "--no-install-recommends", "-o", "APT::Sandbox::User=root", "install", *names]
        try:
            text = self.run(*install)
        except NoRoot:  # the kept lists may be older than the archives
            self.run("apt-get", "-q", "update")
            text = self.run(*install)
        for file in archives.glob("*.deb"):
            if not (kept / file.name).exists():
                shutil.copy(file, kept)
        return text
