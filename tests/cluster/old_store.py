#!/usr/bin/env python3
"""The suite `old-store`: stores that programs of before have left, data directories of every server, are opened by those of today: every name,
attribute and byte is as it was, also after more was written, and after a start upon that.

They are in tests/stores, as they were recorded when a version was made, or a format got a new version:

    sudo tests/cluster/old_store.py NAME [--bin FOLDER]       # makes tests/stores/NAME.tar.xz with the programs there, and xz

An archive has the data directories without the stores' own logs of words, the configuration as a template, the key, and what clients saw."""

import argparse
import hashlib
import json
import pathlib
import shutil
import subprocess
import tarfile
import time

import damage
import targets
from attacks import rpc

STORES = targets.ROOT / "tests/stores"
MOST_BYTES = 200_000  # of an archive
UNIT = 64 << 10
LARGE = 140_001
SETTLES_SECONDS = 30  # in which moves end, copies are whole, and what is told by and by is there
TOLD_SECONDS = 3  # in which data servers have told what they tell by and by: mtime, where the size is as it was
LEFT_OUT = ("LOG", "LOG.old.*", "LOCK")  # of RocksDB; it makes them anew


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} old-store {what}{'' if ok else f': {got}'}", flush=True)
    return ok


def content(name, size):
    """Bytes that say where they belong, and can be packed."""
    line = f"{hashlib.sha256(name.encode()).hexdigest()[:6]} {{:08x}}\n"
    return "".join(line.format(at) for at in range(size // 16 + 1)).encode()[:size]


def until(good, seconds=SETTLES_SECONDS):
    end = time.monotonic() + seconds
    while not (ok := good()) and time.monotonic() < end:
        time.sleep(0.3)
    return ok


def told(seen):
    """What an Observer has seen, for JSON: of bytes their digest."""
    def value_of(value):
        if isinstance(value, bytes):
            return hashlib.sha256(value).hexdigest()
        return list(value) if isinstance(value, (tuple, list)) else repr(value)

    return {f"{path} {what}": value_of(value) for (path, what), value in seen.items()}


class Volume:
    """A running one, as a client sees it."""

    def __init__(self, target):
        self.target = target
        self.root = rpc.mount_root(target.netns, target.server, patience=20)

    def caller(self):
        return rpc.Caller(self.target.netns, self.target.server, patience=20)

    def seen(self):
        with self.caller() as caller:
            return told(damage.observe(caller, self.root))

    def missing(self):
        return self.target.metrics("coord1")["coordinator_copies_missing_something"]

    def everywhere(self, verb):
        for name in self.target.process_names:
            getattr(self.target, verb)(name)

    def restart(self):
        self.everywhere("stop")
        self.everywhere("start")
        self.target.wait_serving()


# ---- recording ----

def fill(volume):
    """Leaves a volume in which everything that has a format is there, killed; what clients saw of it."""
    target = volume.target
    maker = damage.Maker(target, volume.root, content)
    with volume.caller() as caller:
        maker.first(caller)
        for kind, name in ((7, "fifo"), (6, "socket")):  # a type of RFC 1813
            caller.good(11, rpc.opaque(maker.names) + rpc.opaque(name) + rpc.u32(kind) + rpc.with_mode(0o640))
        maker.file(caller, maker.names, "\u00e4 name of many bytes " * 7, 300)
        caller.chown(maker.file(caller, maker.names, "of another user", 400), 1234)
    volume.restart()  # so that stores have files of their own, and logs on top
    target.add_storage_node(4)
    target.wait_serving()
    target.slicectl("rebalance")
    if not until(lambda: all(each["ended_ns"] for each in json.loads(target.slicectl("moves", "--json").stdout)["moves"])):
        raise SystemExit("sites do not move")
    with volume.caller() as caller:
        maker.second(caller)
        missed = maker.file(caller, maker.folders["mirrored"], "missed", 4 * UNIT)
    for stripe, path in ((1, "/mapped/first-large"), (2, "/mirrored/first-large")):
        target.slicectl("move", path, "--stripe", str(stripe), "--to", "store4")
    time.sleep(TOLD_SECONDS)
    seen = volume.seen()
    target.kill("store1")
    with volume.caller() as caller:
        for at in range(0, 4 * UNIT, UNIT):
            caller.write(missed, at, content("written without store1", 4 * UNIT)[at:at + UNIT])
        time.sleep(TOLD_SECONDS)
        observer = damage.Observer(caller)
        observer.entry("/mirrored/missed", observer.ask(rpc.LOOKUP, rpc.opaque(maker.folders["mirrored"]) + rpc.opaque("missed")))
    if volume.missing() == 0:
        raise SystemExit("no copy misses anything")
    volume.everywhere("kill")
    return seen | told(observer.seen)


def pack(folder, instance, seen, archive):
    """The ensemble's folder."""
    (folder / "seen.json").write_text(json.dumps(seen, indent=0, sort_keys=True) + "\n")
    template = (folder / "ensemble.toml").read_text().replace(str(folder), "@RUN@").replace(f"slice-{instance}", "slice-@INSTANCE@")
    (folder / "template.toml").write_text(template)
    subprocess.run(["tar", "--create", "--sparse", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", *(f"--exclude={name}" for name in LEFT_OUT),
                    "--use-compress-program=xz -9e", "--file", archive, "--directory", folder, "data", "ensemble.key", "seen.json", "template.toml"], check=True)


def record(name, programs):
    with targets.Ensembles("record", bin_dir=programs) as ensembles, ensembles.make("store", directories=2, storage=3) as target:
        seen = fill(Volume(target))
        archive = STORES / f"{name}.tar.xz"
        pack(pathlib.Path(target.facts["config"]).parent, target.instance, seen, archive)
    size = archive.stat().st_size
    print(f"{archive}: {size} bytes, {len(seen)} things seen")
    if size > MOST_BYTES:
        raise SystemExit(f"that is more than {MOST_BYTES}")


# ---- the suite ----

def same(what, before, now):
    """`now` may have more, of files that came since."""
    wrong = [key for key, value in before.items() if now.get(key) != value]
    return say(not wrong, f"{what}: {len(before)} names, attributes and pieces of files are as they were",
               f"{len(wrong)} are not, among them {[(key, before[key], now.get(key)) for key in wrong[:4]]}")


def without_new(seen):
    """What was there before new_files()."""
    old = {key: value for key, value in seen.items() if "/new" not in key}
    for key, value in old.items():
        if key.endswith(" names"):
            old[key] = [name for name in value if name != "new"]
    # Whose folders have a name more.
    return {key: value for key, value in old.items() if not (key.endswith(" attributes") and value[0] == 2)}


def new_files(volume):
    """One in each folder that has a policy of its own; whether they can be read."""
    ok = True
    with volume.caller() as caller:
        for folder in ("striped", "mirrored", "mapped"):
            handle = caller.create(caller.lookup(volume.root, folder), "new")
            data = content(folder, LARGE)
            for at in range(0, LARGE, UNIT):
                caller.write(handle, at, data[at:at + UNIT])
            ok &= caller.read(handle, LARGE) == data
    return say(ok, "new files can be written and read")


def clean(volume, what, *words):
    said = []

    def good():
        done = volume.target.slicectl(*words, check=False)
        said.append(done.stdout + done.stderr)
        return done.returncode == 0
    return say(until(good), f"{what}: {' '.join(words)} finds nothing", said[-1])


def opened(target, before):
    volume = Volume(target)
    ok = same("opened", before, volume.seen())
    ok &= say(until(lambda: volume.missing() == 0), "what a copy missed is made whole", volume.missing())
    ok &= clean(volume, "opened", "tables", "--check") & clean(volume, "opened", "fsck", "--data")
    ok &= new_files(volume)
    before = without_new(before)
    ok &= same("written on", before, without_new(volume.seen()))
    volume.restart()
    ok &= same("started again", before, without_new(volume.seen())) & clean(volume, "started again", "fsck", "--data")
    volume.everywhere("stop")
    return ok & clean(volume, "stopped", "fsck", "--offline", "--data")


def open_store(ensembles, archive):
    print(f"{archive.name}: {archive.stat().st_size} bytes", flush=True)
    instance = f"{ensembles.instance}-old"
    folder = ensembles.folder / instance
    folder.mkdir()
    try:
        with tarfile.open(archive) as packed:
            packed.extractall(folder)
        before = json.loads((folder / "seen.json").read_text())
        with targets.Slice(instance, ensembles.folder, ensembles.bin_dir, own=True, config=folder / "template.toml") as target:
            return opened(target, before)
    except SystemExit as error:  # a server that refuses to start, with its last words
        return say(False, "every server starts", error)
    except (rpc.NoAnswer, rpc.Refused) as error:
        return say(False, "every call is answered", error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def old_store(ensembles, options):
    archives = sorted(STORES.glob("*.tar.xz"))
    wanted = options.only.split(",") if options.only else [archive.name.removesuffix(".tar.xz") for archive in archives]
    chosen = [archive for archive in archives if archive.name.removesuffix(".tar.xz") in wanted]
    return say(bool(chosen), "there are stores of before", STORES) and all([open_store(ensembles, archive) for archive in chosen])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the version whose formats it has")
    parser.add_argument("--bin", help="folder of the programs (default: build/release/bin)")
    given = parser.parse_args()
    record(given.name, given.bin)


if __name__ == "__main__":
    main()
