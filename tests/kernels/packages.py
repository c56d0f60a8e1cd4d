"""Debian's kernels as folders: the package is downloaded with apt-get and unpacked, never installed.

Where the machine's own sources have no such package, another suite of the same archive is asked, with lists of its own in
the cache; the machine's configuration of apt stays as it is.
"""

import os
import pathlib
import re
import shutil
import subprocess

CACHE = pathlib.Path(os.environ.get("SLICE_CACHE", pathlib.Path.home() / ".cache/slice")) / "kernels"
# What `--kernel 6.1` means: packages that lead to the kernel, and the suite that has it where the machine's do not.
SERIES = {
    "6.1": (["linux-image-6.1-amd64", "linux-image-amd64"], "bookworm"),
    "6.12": (["linux-image-6.12-amd64", "linux-image-amd64"], "bookworm-backports"),
    "5.10": (["linux-image-amd64"], "bullseye"),
}


# Makes the handshakes of a kernel's TLS; later than Debian 12.
KTLS_UTILS, KTLS_SUITE = "ktls-utils", "trixie"
DEPENDS = ["depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances"]


class NoKernel(Exception):
    """The kernel, or what belongs to it, cannot be had here; the text says why."""


class Kernel:
    """An unpacked kernel: a folder with boot/vmlinuz-* and lib/modules/*, and modules.dep made for it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        images = sorted(self.folder.glob("boot/vmlinuz-*"))
        if not images:
            raise NoKernel(f"{folder} has no boot/vmlinuz-*")
        self.image = images[-1]
        self.version = self.image.name.removeprefix("vmlinuz-")
        self.modules = self.folder / "lib/modules" / self.version
        if not (self.modules / "modules.dep").exists():
            run("depmod", "-b", self.folder, self.version)

    def has_tls(self):
        """Whether its NFS client knows xprtsec=."""
        return tuple(int(number) for number in re.match(r"(\d+)\.(\d+)", self.version).groups()) >= (6, 5)

    def module_files(self, names):
        """The files of these modules and of what they need, in the order in which they are loaded."""
        files = []
        for name in names:
            said = run("modprobe", "-d", self.folder, "-S", self.version, "--show-depends", name)
            for line in said.splitlines():
                words = line.split()
                if words[0] == "insmod" and words[1] not in files:
                    files.append(words[1])
        return [pathlib.Path(file) for file in files]


def run(*command, cwd=None):
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        raise NoKernel(f"{command[0]}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


class Apt:
    """apt-get with the machine's sources, or with one other suite of the archives that they name."""

    def __init__(self, suite=None):
        self.options = []
        if suite:
            folder = CACHE / "apt" / suite
            for part in ("lists/partial", "cache/archives/partial"):
                (folder / part).mkdir(parents=True, exist_ok=True)
            (folder / "sources.list").write_text(self._sources(suite))
            self.options = ["-o", f"Dir::Etc::sourcelist={folder}/sources.list", "-o", "Dir::Etc::sourceparts=-",
                            "-o", f"Dir::State::lists={folder}/lists", "-o", f"Dir::Cache={folder}/cache"]
            run("apt-get", *self.options, "update")

    @staticmethod
    def _sources(suite):
        """One line for the suite at each archive of the machine that is no security archive."""
        said = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages")
        archives = sorted({line.split()[0] for line in said.splitlines() if not line.split()[1].endswith("-security")})
        if not archives:
            raise NoKernel("apt knows no source of packages on this machine")
        keys = sorted(pathlib.Path("/usr/share/keyrings").glob("debian-archive-keyring.*"))
        signed = f"[signed-by={keys[0]}] " if keys else ""
        return "".join(f"deb {signed}{archive} {suite} main\n" for archive in archives)

    def image(self, names, series):
        """The newest concrete package of the series to which one of these leads, and its version; or None."""
        for name in names:
            said = subprocess.run(["apt-cache", *self.options, "depends", name], capture_output=True, text=True).stdout
            for package in re.findall(r"Depends: (linux-image-\S+)", said):
                if package.removeprefix("linux-image-").startswith(f"{series}."):
                    return self.version(package)
        return None

    def version(self, package):
        said = subprocess.run(["apt-cache", *self.options, "policy", package], capture_output=True, text=True).stdout
        found = re.search(r"Candidate: (\S+)", said)
        return (package, found[1]) if found and found[1] != "(none)" else None

    def needed_by(self, package):
        """Its own name, and those of all packages that it needs."""
        said = run("apt-cache", *self.options, *DEPENDS, package)
        return sorted({line for line in said.splitlines() if re.fullmatch(r"[a-z0-9][a-z0-9+.-]*", line)})

    def unpack(self, packages, folder, unpack_one):
        """Downloads the packages and unpacks each into that folder."""
        part = folder.with_name(folder.name + f".part{os.getpid()}")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            run("apt-get", *self.options, "-o", "APT::Sandbox::User=root", "download", *packages, cwd=part)
            for package_file in part.glob("*.deb"):
                unpack_one(package_file, part)
                package_file.unlink()
            if not folder.exists():
                part.rename(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def unpack_file(package_file, folder):
    """Only what a boot needs: the image and the modules."""
    run("sh", "-c", 'dpkg-deb --fsys-tarfile "$0" | tar -x -C "$1" ./boot ./lib/modules', package_file, folder)


def ktls_utils(folder):
    """The folder with ktls-utils and the libraries that it needs, made where it is not there. Not installed: its libraries are another suite's."""
    if not folder.exists():
        apt = Apt(KTLS_SUITE)
        apt.unpack(apt.needed_by(KTLS_UTILS), folder, unpack_whole)
    return folder


def unpack_whole(package_file, folder):
    run("dpkg-deb", "-x", package_file, folder)


def cached(series):
    """The newest kernel of the series that was unpacked before, or None."""
    found = [path for path in CACHE.glob(f"linux-image-{series}.*") if (path / "boot").is_dir()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def fetch(wanted):
    """The kernel of a series or of one package, by apt."""
    series = wanted if wanted in SERIES else None
    names, suite = SERIES[series] if series else ([], None)
    for other in [None, suite] if suite else [None]:
        apt = Apt(other)
        found = apt.image(names, series) if series else apt.version(f"linux-image-{wanted}")
        if found:
            folder = CACHE / f"{found[0]}_{found[1]}"
            if not folder.exists():
                apt.unpack(["=".join(found)], folder, unpack_file)
            return folder
    raise NoKernel(f"apt knows no package of the kernel {wanted}" + (f", in suite {suite} neither" if suite else ""))


def find(wanted):
    """A kernel by series ("6.1"), by version ("6.1.0-56-amd64"), or from a package file or an unpacked folder."""
    path = pathlib.Path(wanted)
    if path.is_dir():
        return Kernel(path)
    if path.is_file():
        folder = CACHE / f"{path.stem}.file"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        unpack_file(path, folder)
        return Kernel(folder)
    CACHE.mkdir(parents=True, exist_ok=True)
    try:
        return Kernel(fetch(wanted))
    except NoKernel as why:
        before = cached(wanted) if wanted in SERIES else None
        if before is None:
            raise
        print(f"kernel {wanted}: {why}; the one of before is taken: {before.name}", flush=True)
        return Kernel(before)
