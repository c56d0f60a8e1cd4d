"""The suite `backup`: a backup is taken while clients work; then much changes, and the disks of a directory server, of the small-file server and of
the manager are lost, one after another, and made anew from the backup. Nobody is ever shown a wrong byte: what is as it was then has the bytes of
then, what was written since has those, and what is gone is empty, absent or an error."""

import contextlib
import json
import pathlib
import random
import shutil
import tempfile

import uml
from attacks import rpc
from load import Lasting

FOLDERS, FILES = 8, 24
SIZES = (0, 100, 5_000, 60_000, 200_000, 900_000)  # in turns
CREATED_AFTER = 200
WAITED_MS = 500  # at most, by clients, for the moment that is kept
IO, RMDIR = 5, 13  # NFS3ERR_IO; the procedure
ANOTHER_LEG = 29  # of a host that no server has
UNFIT = {"dangling", "orphan", "entries", "link-count", "part", "known-part", "parent", "nameless", "names", "no-directory"}  # what two times side by side may be


READS_ALL = """
import glob, json, pathlib
read = {}
for path in glob.glob("folder*/*"):
    try:
        read[path] = len(pathlib.Path(path).read_bytes())
    except OSError:
        pass
print(json.dumps(read))
"""  # in a client, on the mount


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} backup {what}{'' if ok else f': {got}'}", flush=True)
    return ok


class Files:
    """Files by path, with the bytes that they should have."""

    def __init__(self, caller, root):
        self.caller, self.root, self.folders, self.bytes = caller, root, {}, {}

    def make(self, path, data):
        folder, name = path.split("/")
        if folder not in self.folders:
            self.folders[folder] = self.caller.mkdir(self.root, folder.encode())
        handle = self.caller.create(self.folders[folder], name.encode())
        self.write(path, data, handle=handle)

    def write(self, path, data, offset=0, handle=None):
        handle = handle or self.handle(path)
        for at in range(0, len(data), 32768):
            self.caller.write(handle, offset + at, data[at:at + 32768])
        self.bytes[path] = self.bytes.get(path, b"")[:offset].ljust(offset, b"\0") + data

    def cut(self, path, size):
        self.caller.good(rpc.SETATTR, rpc.opaque(self.handle(path)) + rpc.u32(0, 0, 0, 1) + rpc.u64(size) + rpc.u32(0, 0) + rpc.u32(0))
        self.bytes[path] = self.bytes[path][:size]

    def remove(self, path):
        folder, name = path.split("/")
        self.caller.remove(self.folders[folder], name)
        del self.bytes[path]

    def remove_folder_if_gone(self, name):
        """Where its name is left of it alone; what stands against that."""
        try:
            self.caller.getattr(self.caller.lookup(self.root, name.encode()))
        except rpc.Refused as refused:
            if f"status {rpc.STALE} " in str(refused):
                status, _ = self.caller.nfs(RMDIR, rpc.opaque(self.root) + rpc.opaque(name.encode()))
                return [] if status == rpc.OK else [f"RMDIR {name}: {status}"]
        return []

    def handle(self, path):
        folder, name = path.split("/")
        return self.caller.lookup(self.folders[folder], name.encode())

    def shown(self, path):
        """What a client reads: bytes, or why there are none."""
        try:
            handle = self.handle(path)
            return self.caller.read(handle, self.caller.getattr(handle).size)
        except rpc.Refused as refused:
            return str(refused)


class Scene:
    def __init__(self, target, folder, caller):
        self.target, self.backup = target, pathlib.Path(folder) / "monday"
        self.data = pathlib.Path(target.facts["config"]).parent / "data"
        self.caller = caller
        self.files = Files(caller, rpc.mount_root(target.netns, target.server))
        self.then = {}  # what the backup has
        self.random = random.Random(1)

    def slicectl(self, *words):
        return self.target.slicectl("backup", *words, check=False)

    def fill(self):
        for number in range(FOLDERS * FILES):
            self.files.make(f"folder{number % FOLDERS}/file{number}", self.random.randbytes(SIZES[number // FOLDERS % len(SIZES)]))

    def lose(self, name):
        """Its process and its data directory."""
        self.target.kill(name)
        shutil.rmtree(self.data / name)

    def restore(self, name):
        done = self.slicectl("--json", "restore", name, str(self.backup))
        ok = say(done.returncode in (0, 3), f"{name} is brought back", f"{done.returncode} {done.stderr}")
        if not ok:
            return False, {}
        self.target.start(name)
        self.target.wait_serving()
        return True, json.loads(done.stdout)

    def findings(self):
        done = self.target.slicectl("fsck", "--data", "--json", check=False)
        return json.loads(done.stdout)["counts"] if done.stdout else {"no answer": done.stderr}


def taken_while_clients_work(scene, options, folder):
    with Lasting(scene.target, options, folder) as load:
        done = scene.slicectl("--json", "take", str(scene.backup))
        again = [scene.slicectl("--json", "take", f"{scene.backup}{number}") for number in range(4)]
    ok = say(done.returncode == 0, "a backup is taken", done.stderr)
    said = [json.loads(each.stdout) for each in (done, *again) if each.returncode == 0]
    waited = [round(each["clients_waited_ms"], 1) for each in said]
    ok &= say(len(said) == 5 and max(waited) < WAITED_MS, f"clients waited {waited} ms", [each.stderr for each in again])
    ok &= say(not load.faults, f"and saw nothing wrong, in {load.runs} runs", load.faults)
    shown = scene.slicectl("show", str(scene.backup))
    ok &= say(shown.returncode == 0 and shown.stdout.count("\n") == 5, "it has two directory servers, two small-file servers and the manager", shown.stdout + shown.stderr)
    ok &= say(scene.slicectl("take", str(scene.backup)).returncode == 2, "a second one does not take its place")
    running = scene.slicectl("restore", "dir1", str(scene.backup))
    ok &= say(running.returncode == 1 and "stop it first" in running.stderr, "nothing is brought back over a server that runs", running.stderr)
    scene.then = dict(scene.files.bytes)
    return ok


def much_changes(scene):
    """Of every folder and size some files; the rest stays."""
    files, draw = scene.files, scene.random
    for path in sorted(scene.then)[::3]:
        change = draw.choice(("remove", "append", "cut", "rewrite"))
        size = len(files.bytes[path])
        if change == "remove":
            files.remove(path)
        elif change == "append":
            files.write(path, draw.randbytes(150_000), offset=size)
        elif change == "cut" and size > 0:
            files.cut(path, size // 3)
        elif change == "rewrite":
            files.cut(path, 0)
            files.write(path, draw.randbytes(2_000))
    for number in range(CREATED_AFTER // 2):
        files.make(f"folder{number % FOLDERS}/since{number}", draw.randbytes(draw.choice(SIZES)))
    files.make("made-since/file", b"in a new folder")
    return True


def right(scene, path, shown):
    """Whether a client may be shown that, of a file that was changed since: never a byte that it has not had at its place."""
    now, then = scene.files.bytes.get(path), scene.then.get(path)
    if isinstance(shown, str):
        return path not in scene.then or now != then  # an error only where something happened since
    if shown in (now, then, b""):
        return True
    # Its size is that of the backup, or where its bytes end; the bytes are those that are there by now.
    reach = min(len(shown), len(now or b""))
    return now is not None and shown[:reach] == now[:reach] and not any(shown[reach:])


def all_right(scene, what):
    shown = {path: scene.files.shown(path) for path in sorted(set(scene.then) | set(scene.files.bytes))}
    same = [path for path in scene.then if scene.files.bytes.get(path) == scene.then[path]]
    lost = [path for path in same if shown[path] != scene.then[path]]
    wrong = [f"{path}: {len(each) if isinstance(each, bytes) else each}" for path, each in shown.items() if not right(scene, path, each)]
    ok = say(len(same) > 80 and not lost, f"{what}: {len(same)} files that did not change are as they were", lost[:5])
    ok &= say(not wrong, f"{what}: no wrong byte of {len(shown) - len(same)} others", wrong[:5])
    return ok, shown


def moves_to_another_host(target, name):
    """That server, which is down: where it is started from now on, and what the manager knows."""
    address = f"10.77.{ANOTHER_LEG}.2"
    target.add_leg(f"host{ANOTHER_LEG}", f"{target.facts['proxy'].removesuffix('-proxy')}-host{ANOTHER_LEG}", ANOTHER_LEG)
    config = pathlib.Path(target.facts["config"])
    config.write_text(config.read_text().replace(f'"{target.facts["addresses"][name]}"', f'"{address}"'))
    target.slicectl("server", "set", name, "--address", address)
    target.facts["addresses"][name] = address


def another_name_is_refused(scene):
    """Whose server would have nothing of what was lost."""
    target = scene.target
    target.slicectl("server", "add", "dir3", "--role", "directory", "--address", f"10.77.{ANOTHER_LEG + 1}.2")
    done = scene.slicectl("restore", "dir3", str(scene.backup))
    target.slicectl("server", "remove", "dir3")
    return say(done.returncode == 1 and "server set NAME --address" in done.stderr and not (scene.data / "dir3").exists(),
               "what is lost does not come back by another name", f"{done.returncode} {done.stderr}")


def directory_server_is_lost(scene):
    """Its host, too."""
    scene.lose("dir2")
    ok = another_name_is_refused(scene)
    moves_to_another_host(scene.target, "dir2")
    back, said = scene.restore("dir2")
    if not back:
        return False
    good, shown = all_right(scene, "a directory server was lost with its host")
    ok &= good & say(said["cut_since"] > 0 and said["removed_since"] > 0, "what happened since is told", {**said, "notes": len(said["notes"])})
    found = scene.findings()
    ok &= say(not set(found) - UNFIT, f"fsck names what does not fit together: {found}", found)
    return ok & nothing_is_given_twice(scene) & names_can_be_cleared(scene, shown)


def nothing_is_given_twice(scene):
    """Files that are made now have fileIDs of their own, though those of before are forgotten."""
    made = {f"folder{number % FOLDERS}/new{number}": scene.random.randbytes(500) for number in range(CREATED_AFTER)}
    for path, data in made.items():
        scene.files.make(path, data)
        scene.then[path] = data
    wrong = [path for path, data in made.items() if scene.files.shown(path) != data]
    found = scene.findings()
    return say(not wrong and not {"duplicate", "sequence", "wrong-target"} & set(found), f"{len(made)} files are made, each with its own bytes", f"{wrong[:5]} {found}")


def names_can_be_cleared(scene, shown):
    """What is left of files that the backup does not have can be removed by clients."""
    left = []
    for path in [path for path, each in shown.items() if isinstance(each, str) and path in scene.files.bytes]:
        try:
            scene.files.remove(path)
        except rpc.Refused as refused:
            if "status 2 " not in str(refused):
                left.append(f"{path}: {refused}")
            scene.files.bytes.pop(path, None)
    left += scene.files.remove_folder_if_gone("made-since")
    found = scene.findings()
    text = scene.target.slicectl("fsck", "--data", check=False).stdout
    return say(not left and "dangling" not in found, f"names without files can be removed: {found}", f"{left[:5]}\n{text}")


def small_file_server_is_lost(scene):
    """By now the names are of two times; of each file that can be read the bytes are known."""
    before = {path: scene.files.shown(path) for path in sorted(set(scene.then) | set(scene.files.bytes))}
    scene.lose("small1")
    ok, said = scene.restore("small1")
    if not ok:
        return False
    errors, wrong = 0, []
    for path, was in before.items():
        is_now = scene.files.shown(path)
        if is_now == f"NFS status {IO} from procedure {rpc.READ}":
            errors += 1
        elif is_now not in (was, scene.then.get(path)) and not right(scene, path, is_now):
            wrong.append(f"{path}: {is_now if isinstance(is_now, str) else len(is_now)}")
    ok &= say(not wrong, "the small-file server's disk was lost: no wrong byte", wrong[:5])
    ok &= say(said["lost"] > 0 and errors > 0, f"bytes of {said['lost']} files are lost, and reading {errors} is an error", said.get("files"))
    path = next(path for path in before if "new" in path)
    data = scene.random.randbytes(9_000)
    scene.files.write(path, data)
    return ok & say(scene.files.shown(path) == data, "a file that is written anew is whole")


def manager_is_lost(scene):
    scene.lose("manager1")
    ok, _ = scene.restore("manager1")
    done = scene.target.slicectl("tables", "--check", check=False)
    return ok & say(done.returncode == 0, "the manager's disk was lost: the tables are as they were", done.stdout)


def seen_by_a_kernel_client(scene):
    """It reads what the suite's own client does."""
    shown = {path: scene.files.shown(path) for path in scene.then}
    good = {path: len(each) for path, each in shown.items() if isinstance(each, bytes)}
    with scene.target.client(["python3", "-c", READS_ALL], timeout=240) as client:
        code = client.wait()
    seen = json.loads(client.text.splitlines()[-1]) if code == 0 else {}
    seen = {path: size for path, size in seen.items() if path in good}
    return say(seen == good, f"a kernel client reads {len(seen)} files",
               f"missing {sorted(set(good.items()) - set(seen.items()))[:6]}, too many {sorted(set(seen.items()) - set(good.items()))[:6]}")


def backup(ensembles, options):
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="slice-backup-", dir="/dev/shm"))
        target = stack.enter_context(ensembles.make("backup", directories=2, storage=2, policy="name-hashing"))
        scene = Scene(target, folder, stack.enter_context(rpc.Caller(target.netns, target.server, patience=30)))
        scene.fill()
        ok = taken_while_clients_work(scene, options, folder) and much_changes(scene)
        return ok and all([step(scene) for step in (directory_server_is_lost, small_file_server_is_lost, manager_is_lost, seen_by_a_kernel_client)])
