"""The suite `trees`: directories with exports and a quota of their own (docs/trees.md). A kernel client sees each export's options wherever it comes
from, and nothing goes from one tree to another; callers by hand get no further than their export; a tree's quota holds for everybody, and df(1)
shows it; all of it stays when the manager and the directory servers are killed, and when sites move."""

import contextlib
import json
import pathlib
import re
import struct
import time

from attacks import rpc
from reload import EACCES, EROFS, Steps, mounted

EDQUOT, EXDEV = "Disk quota exceeded", "Invalid cross-device link"
RMDIR = 13  # procedure
OTHERS = 200_000  # bytes of a file that a caller must not get at
WHOLE, READ_ONLY = 'clients = "10.77.0.0/16"\naccess = "rw"', 'access = "ro"'
LIMIT, BEYOND = 8 << 20, 2 << 20  # bytes
SETTLES = 3  # seconds
MANY = 300  # files
STRANGERS = "10.77.250.0/24"
TREE = slice(16, 18)  # of a file handle
EXPORTS = (("/data", "*", 'access = "ro"\nsquash = "none"'), ("/shut", STRANGERS, ""), ("/squashed", "*", 'squash = "all"\nanonymous_uid = 1234'))
# The rest of a big file is stored when it is closed: fsync tells what was refused.
FILL = "dd if=/dev/zero of={path} bs=64k count={count} conv=fsync"


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} trees {what}{'' if ok or got == '' else f': {got}'}", flush=True)
    return bool(ok)


class Scene(Steps):
    def __init__(self, target, guest, copies):
        super().__init__(guest)
        self.target, self.copies, self.ok = target, copies, True
        self.config = pathlib.Path(target.facts["config"])
        self.first = self.config.read_text()

    def say(self, ok, what, got=""):
        self.ok &= say(ok, what, got)

    def works(self, what, script):
        code, said = self.run(script)
        self.say(code == 0, what, said)
        return said

    def fails(self, what, script, why):
        code, said = self.run(script)
        self.say(code != 0 and why in said, what, f"exit code {code}: {said}")

    def tree(self, *words, check=True):
        return self.target.slicectl("tree", *words, check=check)

    def listed(self):
        return {tree["path"]: tree for tree in json.loads(self.target.slicectl("--json", "tree", "list").stdout)["trees"]}

    def used(self):
        """Bytes in the one tree that has a quota; None while not all is counted."""
        said = json.loads(self.target.slicectl("--json", "quota", "list").stdout)
        return said["quotas"][0]["space"]["used"] if said["counted"] else None

    def refused(self, what, words, why):
        done = self.target.slicectl(*words, check=False)
        self.say(done.returncode == 1 and why in done.stderr, what, done)

    def exports(self, *entries):
        """The file's own export of the whole volume, and these of trees."""
        sections = "".join(f'[[export]]\npath = "{path}"\nclients = "{clients}"\n{options}\n\n' for path, clients, options in entries)
        self.config.write_text(re.sub(r"(?=\[\[server\]\])", sections, self.first, count=1))

    def reload(self):
        return self.target.slicectl("reload", check=False)


def made(scene):
    scene.tree("make", "/home", "--mode", "0777")
    scene.tree("make", "/home/ann", "--owner", "1001:1001", "--mode", "0700")
    for path in ("/data", "/shut", "/squashed"):
        scene.tree("make", path, "--mode", "0777")
    trees = scene.listed()
    scene.say(len({tree["number"] for tree in trees.values()}) == 5 and trees["/home/ann"]["in"] == "/home", "five trees, one in another", trees)
    again = scene.tree("make", "/home")
    scene.say(str(trees["/home"]["number"]) in again.stdout, "made again it is the same", again.stdout)
    scene.works("a directory is there", "mkdir /mnt/plain && stat -c '%u %a' /mnt/home/ann | grep -q '^1001 700$'")
    scene.refused("a directory that is there becomes no tree", ("tree", "make", "/plain"), "a tree begins empty")
    scene.refused("nor one in a directory that is not there", ("tree", "make", "/none/x"), "no such file or directory")
    wrong = scene.target.slicectl("tree", "make", "/home/../x", check=False)
    scene.say(wrong.returncode == 2, "nor at a path with dots", wrong)


def apart(scene):
    scene.works("files in each", "cd /mnt && echo one > plain/one && echo two > home/two && mkdir home/d && echo three > home/d/three")
    rename = "python3 -c 'import os, sys; os.{}(*sys.argv[1:])' {}"
    for what, words in (("a rename out of a tree", ("rename", "home/two plain/two")), ("into one", ("rename", "plain/one home/one")),
                        ("of a directory", ("rename", "home/d plain/d")), ("from one into one in it", ("rename", "home/two home/ann/two")),
                        ("a link out of one", ("link", "home/two plain/two")), ("into one", ("link", "plain/one home/one"))):
        scene.fails(f"{what}: EXDEV", f"cd /mnt && {rename.format(*words)}", EXDEV)
    scene.works("within one both do", "cd /mnt/home && mv two d/two && ln d/two again && mv d/two two && cmp two again")
    scene.works("mv(1) copies", "cd /mnt && mv home/d plain/d && grep -q three plain/d/three && mv plain/d home/d && test ! -e plain/d && grep -q three home/d/three")
    scene.fails("its directory stays where it is", "mv /mnt/data /mnt/other", EACCES)
    scene.fails("and is not taken away", "rmdir /mnt/data", EACCES)
    scene.works(".. of it is the directory above", "cd /mnt/home/ann && test $(stat -c %i ..) = $(stat -c %i /mnt/home) && test $(stat -c %i ../..) = $(stat -c %i /mnt)")


def exports_of_their_own(scene):
    scene.exports(*EXPORTS, ("/none", "*", ""))
    refused = scene.reload()
    scene.say(refused.returncode == 1 and "/none: no tree" in refused.stderr, "exports of what is no tree are refused", refused)
    scene.works("a file before", "echo before > /mnt/data/file && chmod 666 /mnt/data/file && echo before > /mnt/shut/file")
    scene.exports(*EXPORTS)
    done = scene.reload()
    scene.say(done.returncode == 0, "exports of three trees", done)
    trees = scene.listed()
    scene.say(trees["/data"]["exported_as"] == "/data" and trees["/home/ann"]["exported_as"] == "/", "and whose count where", trees)
    shown = scene.works("showmount -e", f"showmount -e {scene.target.server}")
    scene.say(all(re.search(rf"^{path} ", shown, re.M) for path in ("/", "/data", "/shut", "/squashed")), "it shows all four", shown)
    scene.works("reading in a tree that is read-only", "sync; echo 3 > /proc/sys/vm/drop_caches; grep -q before /mnt/data/file")
    scene.fails("making something there, from above", "touch /mnt/data/other", EROFS)
    scene.fails("writing there", "echo after > /mnt/data/file", EACCES)
    scene.fails("a tree for others, from above", "ls /mnt/shut/", EACCES)
    scene.works("beside them all is as before", "echo x > /mnt/plain/x && echo x > /mnt/home/x")
    mount = "mkdir -p /tmp/{name} && mount -t nfs -o vers=3,proto=tcp,nolock {server}:{path} /tmp/{name}"
    for name, path in (("data", "/data"), ("home", "/home"), ("squashed", "/squashed"), ("d", "/home/d")):
        scene.works(f"a mount of {path}", mount.format(name=name, server=scene.target.server, path=path))
    scene.fails("making something where it is read-only", "touch /tmp/data/other", EROFS)
    scene.works("writing where it is not", "echo x > /tmp/home/y && grep -q three /tmp/d/three")
    scene.works("whoever makes a file in /squashed is 1234", "touch /tmp/squashed/mine && stat -c %u /tmp/squashed/mine | grep -q '^1234$'")
    scene.fails("a mount of a tree for others", mount.format(name="shut", server=scene.target.server, path="/shut"), "access denied")
    scene.fails("or of what is not in it", mount.format(name="shut", server=scene.target.server, path="/shut/none"), "access denied")
    scene.works("unmounted", "umount /tmp/data /tmp/home /tmp/squashed /tmp/d")


def status_of(caller, procedure, arguments):
    return caller.nfs(procedure, arguments)[0]


def by_hand(scene):
    """A caller whom only a tree's exports let in gets nowhere else; nobody makes handles."""
    target = scene.target
    with rpc.Caller(target.netns, target.server, target.port) as caller:
        # Bytes at a small-file server and at storage nodes.
        others = [caller.create(rpc.mount_root(target.netns, target.server, path=path), "others", 0o666) for path in ("/", "/home")]
        for file in others:
            caller.write(file, 0, b"o" * OTHERS)
    scene.exports(*EXPORTS)
    scene.config.write_text(scene.config.read_text().replace(WHOLE, WHOLE.replace("10.77.0.0/16", STRANGERS), 1).replace(READ_ONLY, READ_ONLY.replace("ro", "rw"), 1))
    done = scene.reload()
    scene.say(done.returncode == 0, "the whole volume for others alone", done)
    try:
        for path in ("/", "/home", "/shut", "/none", "/data/.."):
            try:
                rpc.mount_root(target.netns, target.server, path=path)
                scene.say(False, f"MNT {path}")
            except rpc.Refused as refused:
                scene.say("MNT answers 13" in str(refused), f"MNT {path} is refused", refused)
        for transport in ("tcp", "udp"):
            with rpc.Caller(target.netns, target.server, target.port, transport) as caller:
                let_in(scene, caller, transport, others)
    finally:
        scene.exports(*EXPORTS)
        scene.say(scene.reload().returncode == 0, "exports as before")


def let_in(scene, caller, transport, others):
    data, home = rpc.mount_root(scene.target.netns, scene.target.server, path="/data"), scene.listed()["/home"]["number"]
    scene.say(caller.lookup(data, "..") == data, f"{transport}: LOOKUP of .. in a tree's directory is that itself")
    below = caller.mkdir(data, f"below-{transport}")
    scene.say(caller.lookup(below, "..") == data, f"{transport}: and below it as everywhere")
    statuses = {(rpc.GETATTR, 0): [], (rpc.READ, 0): [], (rpc.READ, OTHERS - 100): [], (rpc.WRITE, 0): [], (rpc.WRITE, OTHERS - 100): []}
    for (procedure, offset), got in statuses.items():
        arguments = {rpc.GETATTR: rpc.opaque, rpc.READ: lambda file: rpc.opaque(file) + rpc.u64(offset) + rpc.u32(100),
                     rpc.WRITE: lambda file: rpc.write_arguments(file, offset, b"x" * 100)}[procedure]
        got += [status_of(caller, procedure, arguments(file)) for file in others]
    scene.say(all(set(got) == {rpc.ACCES} for got in statuses.values()), f"{transport}: files elsewhere are refused by every server", statuses)
    file, forged = caller.create(below, "file", 0o666), []
    for tree in (0, home):
        made_up = file[:TREE.start] + struct.pack("!H", tree) + file[TREE.stop:]
        forged += [status_of(caller, rpc.GETATTR, rpc.opaque(made_up)), status_of(caller, rpc.WRITE, rpc.write_arguments(made_up, 0, b"x" * 100))]
    scene.say(set(forged) <= {rpc.BADHANDLE, rpc.ACCES}, f"{transport}: handles of another tree are nobody's", forged)
    # What a tree's directory is made by, were it the ensemble's: of a client it is nothing.
    size = rpc.u32(1, 0o777, 0, 0, 1) + rpc.u64(home) + rpc.u32(0, 0)
    mine = rpc.take_opaque(caller.good(rpc.MKDIR, rpc.opaque(below) + rpc.opaque("mine") + size)[4:])
    scene.say(mine[TREE] == data[TREE], f"{transport}: no client makes a tree", mine.hex())
    scene.say(status_of(caller, RMDIR, rpc.opaque(below) + rpc.opaque("mine")) == rpc.OK, f"{transport}: an ordinary directory goes")


def quota(scene):
    target = scene.target
    target.slicectl("quota", "set", "tree", "/home", "--space", f"0:{LIMIT}", "--files", f"0:{MANY}")
    end = time.monotonic() + 20
    while scene.used() is None and time.monotonic() < end:
        time.sleep(0.2)
    said = scene.works("df of it", "df -k --output=size,avail /mnt/home | tail -1; df --output=itotal,iavail /mnt/home | tail -1; df -k --output=size /mnt | tail -1")
    size, free, files, free_files, whole = map(int, said.split())
    scene.say(size == LIMIT // 1024 and 0 < free <= size and files == MANY and 0 < free_files < MANY and whole > 10 * size, "df(1) shows the tree's", said)
    scene.fails("root writes more than there is room for", FILL.format(path="/mnt/home/big", count=2 * LIMIT >> 16), EDQUOT)
    time.sleep(SETTLES)  # what a file takes is exact after a second
    stored = scene.used()
    # A file with holes counts with all its copies, and several servers promise at the same moment (docs/quotas.md).
    most = (LIMIT + BEYOND) * scene.copies
    scene.say(LIMIT * 3 // 4 <= stored <= most, f"as much as there was room for: {stored} of {LIMIT}, at most {most}")
    scene.works("beside it there is room", FILL.format(path="/mnt/plain/big", count=2 * LIMIT >> 16))
    scene.works("in a tree within it, too", FILL.format(path="/mnt/home/ann/big", count=2 * LIMIT >> 16))
    scene.works("removed", "rm /mnt/home/big /mnt/plain/big")
    scene.fails("files", f"(cd /mnt/home && for i in $(seq {MANY}); do touch f$i || exit 1; done)", EDQUOT)
    count = int(scene.works("are as many as there may be", "find /mnt/home -not -path '/mnt/home/ann*' -not -name again | wc -l"))
    scene.say(MANY <= count <= MANY + 10, f"{count} of them")
    scene.works("they go", "(cd /mnt/home && rm f*; for i in 1 2 3 4 5; do sleep 1; touch new && exit 0; done; exit 1)")
    scene.refused("a tree that there is not has no quota", ("quota", "set", "tree", "/none", "--files", "0:5"), "no tree")
    shown = target.slicectl("quota", "show", "tree", "/home").stdout
    scene.say("tree /home" in shown, "slicectl quota show", shown)


def kept(scene):
    """All of it is durable; and sites take it along."""
    before = scene.listed()
    for name in ("manager1", *scene.target.servers("dir"), "proxy1"):
        scene.target.kill_and_start(name)
    scene.target.wait_serving()
    scene.say(scene.listed() == before, "trees are kept over kills", scene.listed())
    scene.target.slicectl("server", "drain", "dir2")
    end = time.monotonic() + 90
    while json.loads(scene.target.slicectl("--json", "moves").stdout)["moves"] and time.monotonic() < end:
        time.sleep(0.5)
    scene.works("after a move of sites", "sync; echo 3 > /proc/sys/vm/drop_caches; cd /mnt && grep -q three home/d/three && grep -q before data/file && stat home/ann/big > /dev/null")
    scene.fails("its exports count still", "touch /mnt/data/other", EROFS)


def gone(scene):
    scene.refused("one with something in it is not removed", ("tree", "remove", "/home/ann"), "not empty")
    scene.refused("one that is exported is not", ("tree", "remove", "/squashed"), "an [[export]] names /squashed")
    scene.exports(*EXPORTS[:2])
    scene.reload()
    scene.works("emptied", "rm -r /mnt/home/* 2> /dev/null; rm -f /mnt/squashed/*; ls /mnt/home")
    for path in ("/home/ann", "/home", "/squashed"):
        done = scene.tree("remove", path, check=False)
        scene.say(done.returncode == 0, f"{path} is removed", done)
    scene.works("their directories are gone", "echo 3 > /proc/sys/vm/drop_caches; test ! -e /mnt/home && test ! -e /mnt/squashed && mkdir /mnt/home && rmdir /mnt/home")
    left = json.loads(scene.target.slicectl("--json", "quota", "list").stdout)["quotas"]
    scene.say(not left, "and the quota", left)
    scene.refused("one that there is not", ("tree", "remove", "/home", "--gone"), "is no tree")


def looked_at(scene):
    checked = scene.target.slicectl("fsck", "--data", check=False)
    scene.say(checked.returncode == 0, "fsck --data", checked.stdout[-800:])


@contextlib.contextmanager
def ensemble(ensembles, name, copies=1, **shape):
    with ensembles.make(name, directories=2, copies=copies, **shape) as target, mounted(target) as guest:
        scene = Scene(target, guest, copies)
        yield scene
        (guest.folder / "end").touch()
        scene.say(guest.wait() == 0, "the kernel client ends well", guest.text[-500:])


def trees(ensembles, _options):
    with ensemble(ensembles, "trees") as scene:
        for step in (made, apart, exports_of_their_own, by_hand, quota, kept, looked_at, gone):
            step(scene)
        ok = scene.ok
    with ensemble(ensembles, "trees-hashed", policy="name-hashing", copies=2) as scene:
        for step in (made, apart, quota, looked_at):  # what goes by names, and data by copies
            step(scene)
        return ok & scene.ok
