#!/usr/bin/env python3
"""On a client, in its mount: access control lists are what they are on a local file system.

    acls.py --seconds S [--seed N]     does the same, at random and as several users, in a folder here and on a tmpfs: every outcome, mode and
                                       list is the same; at last getfacl -R says the same of both, and of what cp -a made of them
    acls.py --without                  what a client makes that mounts with noacl begins with the folder's default list all the same

Prints a line of JSON at the end; exit code 1 where something differs."""

import argparse
import difflib
import errno
import itertools
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import time

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
OWNER, USER, GROUP_OWNER, GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32
NOBODY = 0xFFFFFFFF
USERS = ((0, 0, ()), (1001, 1001, ()), (1002, 50, ()), (1003, 1003, (50, 51)), (1004, 51, ()))
IDS, GROUPS = (1001, 1002, 1003, 1004), (50, 51, 1001)
TRUTH = pathlib.Path("/run/truth")
NAMING = ("rename ", "unlink ", "rmdir ")  # of which clients leave it to the server who may, and say first what else is wrong
FAR = 300_000  # behind the first bytes: other servers have those


def packed(entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in sorted(entries, key=lambda entry: (entry[0], entry[2])))


def some_list(dice):
    def some():
        return dice.choice((7, 7, 7, 6, 5, dice.randrange(8)))

    entries = [(tag, some(), NOBODY) for tag in (OWNER, GROUP_OWNER, OTHER)]
    entries += [(USER, some(), each) for each in dice.sample(IDS, dice.choice((0, 0, 1, 2)))]
    entries += [(GROUP, some(), each) for each in dice.sample(GROUPS, dice.choice((0, 0, 1, 2)))]
    if len(entries) > 3:  # else one that takes nothing away cannot be told from none, over NFS; and never an empty one (see chmod)
        entries.append((MASK, dice.choice((7, 7, 6, 5)), NOBODY))
    return packed(entries)


def create(path, mode, umask):
    os.umask(umask)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))


def mkdir(path, mode, umask):
    os.umask(umask)
    os.mkdir(path, mode)


def write(path, at, data):
    file = os.open(path, os.O_WRONLY)
    try:
        os.pwrite(file, data.encode(), at)
        os.fsync(file)
    finally:
        os.close(file)


def read(path, at):
    file = os.open(path, os.O_RDONLY)
    try:
        return os.pread(file, 100, at).decode()
    finally:
        os.close(file)


DEEDS = {
    "create": create, "mkdir": mkdir, "write": write, "read": read, "chmod": os.chmod, "chown": os.chown, "unlink": os.unlink, "rmdir": os.rmdir, "truncate": os.truncate,
    "listdir": lambda path: sorted(os.listdir(path)), "access": os.access, "setacl": lambda path, kind, acl: os.setxattr(path, kind, bytes.fromhex(acl)),
    "dropacl": os.removexattr, "rename": lambda path, other: os.rename(path, pathlib.Path(path).parent / other),
}


class User:
    """A process of a user, which does on either tree what it is told."""

    def __init__(self, uid, gid, groups):
        (their_in, self.out), (self.back, their_out) = os.pipe(), os.pipe()
        if os.fork() == 0:
            os.close(self.out)
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            with open(their_in) as orders, open(their_out, "w") as answers:
                for order in orders:
                    answers.write(json.dumps(self.obey(*json.loads(order))) + "\n")
                    answers.flush()
            os._exit(0)
        os.close(their_in)
        os.close(their_out)
        self.out, self.back = open(self.out, "w"), open(self.back)

    @staticmethod
    def obey(deed, *words):
        try:
            return DEEDS[deed](*words)
        except OSError as error:
            return errno.errorcode[error.errno]

    def do(self, tree, deed, path, *words):
        self.out.write(json.dumps([deed, str(tree / path), *words]) + "\n")
        self.out.flush()
        return json.loads(self.back.readline())


def state(path):
    """Of one object, as root sees it."""
    try:
        found = os.lstat(path)
    except OSError as error:
        return errno.errorcode[error.errno]
    lists = []
    for kind in (ACCESS, DEFAULT):
        try:
            lists.append(os.getxattr(path, kind).hex())
        except OSError as error:
            lists.append(errno.errorcode[error.errno])
    return [oct(found.st_mode), found.st_uid, found.st_gid, *lists]


class Differ(Exception):
    pass


class Run:
    def __init__(self, seed, here):
        self.dice, self.trees, self.users = random.Random(seed), (TRUTH / "tree", here), [User(*each) for each in USERS]
        self.paths, self.names, self.refused = [""], itertools.count(), 0
        for tree in self.trees:
            tree.mkdir()
            tree.chmod(0o777)

    def same(self, what, both):
        if both[0] != both[1] and not (what.startswith(NAMING) and all(str(each).startswith("E") for each in both)):
            raise Differ(f"{what}: {both[0]} on tmpfs, {both[1]} here")
        return both[0]

    def step(self):
        dice = self.dice
        number = dice.randrange(len(self.users))
        path = dice.choice(self.paths[-40:])
        new = os.path.join(path, f"n{next(self.names)}")
        deed, words = dice.choice((
            ("create", (new, dice.choice((0o666, 0o640, 0o600)), dice.choice((0, 0o22, 0o77)))), ("mkdir", (new, dice.choice((0o777, 0o750)), dice.choice((0, 0o22)))),
            ("setacl", (path, ACCESS, some_list(dice).hex())), ("setacl", (path, ACCESS, some_list(dice).hex())), ("setacl", (path, DEFAULT, some_list(dice).hex())),
            ("dropacl", (path, dice.choice((ACCESS, DEFAULT)))), ("chmod", (path, dice.choice((0o777, 0o755, 0o770, dice.randrange(0o1000))))), ("chown", (path, dice.choice((-1, *IDS)), dice.choice((-1, *GROUPS)))),
            ("read", (path, dice.choice((0, FAR)))), ("read", (path, 0)), ("write", (path, dice.choice((0, FAR)), new)), ("write", (path, 0, new)), ("truncate", (path, dice.choice((0, 10, FAR)))),
            ("access", (path, dice.choice((1, 2, 4)))), ("access", (path, dice.choice((1, 2, 4)))), ("listdir", (path,)), ("rename", (path, os.path.basename(new))), ("unlink", (path,)), ("rmdir", (path,))))
        if not path and deed in ("rename", "unlink", "rmdir", "chown"):
            return
        if deed == "access" and words[1] & os.W_OK and os.path.isdir(self.trees[0] / path):
            words = (path, words[1] | os.X_OK)  # NFS' ACCESS knows no writing to a folder that one may not enter
        if deed == "chmod" and words[1] & 0o70 == 0:
            words = (path, words[1] & ~7)  # Linux looks at no list whose mask is empty, and takes whom it names for others
        if deed == "dropacl" and words[1] == ACCESS and state(self.trees[0] / path)[3] == "ENODATA":
            return  # a list that says what the mode says is one here and none there, which nothing else shows
        what = f"{deed} {words} as {USERS[number][0]}"
        before = state(self.trees[0] / path)
        outcome = self.same(f"{what} ({path or '.'}: {before})", [self.users[number].do(tree, deed, *words) for tree in self.trees])
        self.refused += outcome in ("EACCES", "EPERM")
        self.follow(deed, words, outcome)
        for each in {path, words[0]}:
            self.same(f"{each or '.'} after {what}", [state(tree / each) for tree in self.trees])

    def follow(self, deed, words, outcome):
        if outcome is not None:
            return
        path = words[0]
        if deed in ("create", "mkdir"):
            self.paths.append(path)
        if deed in ("unlink", "rmdir", "rename"):
            below = [each for each in self.paths if each == path or each.startswith(path + "/")]
            self.paths = [each for each in self.paths if each not in below]
            if deed == "rename":
                moved = os.path.join(os.path.dirname(path), words[1])
                self.paths += [moved + each[len(path):] for each in below]

    def listed(self, tree):
        said = subprocess.run(["getfacl", "-R", "-n", "-p", "."], cwd=tree, capture_output=True, text=True, check=True).stdout
        return "".join(f"{each}\n\n" for each in sorted(said.strip().split("\n\n")))

    def finish(self):
        whole, found = [self.listed(tree) for tree in self.trees]
        if whole != found:
            raise Differ("getfacl -R: " + "\n".join(list(difflib.unified_diff(whole.splitlines(), found.splitlines(), "tmpfs", "here", lineterm=""))[:40]))
        copies = [tree.parent / "copy" for tree in self.trees]
        for tree, copy in zip(self.trees, copies):
            subprocess.run(["cp", "-a", tree, copy], check=True)
        if [self.listed(copy) for copy in copies] != [whole, whole]:
            raise Differ("cp -a: the copy has other lists")
        stripped = copies[1]
        subprocess.run(["setfacl", "-R", "-b", stripped], check=True)
        if any(line.startswith(("default:", "mask:")) for line in self.listed(stripped).splitlines()):
            raise Differ("setfacl -R -b leaves lists")
        subprocess.run(["setfacl", "--restore=-"], cwd=stripped, input=whole, text=True, check=True)
        self.same("setfacl --restore", [whole, self.listed(stripped)])
        return len(whole.splitlines())


def compare(options):
    TRUTH.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", TRUTH], check=True)
    here = pathlib.Path.cwd() / f"acls-{options.seed}"
    here.mkdir()
    run, steps = Run(options.seed, here / "tree"), 0
    print(json.dumps("ready"), flush=True)
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        run.step()
        steps += 1
    lines = run.finish()
    print(json.dumps({"steps": steps, "refused": run.refused, "objects": len(run.paths), "lines": lines}))


def without(_):
    """A second mount, of a client that knows no lists."""
    here, elsewhere = pathlib.Path.cwd(), pathlib.Path("/run/noacl")
    source, _, kind, words, *_ = [line.split() for line in open("/proc/mounts") if line.split()[1] == str(here)][-1]
    elsewhere.mkdir()
    subprocess.run(["mount", "-i", "-t", kind, "-o", f"{words},noacl,nosharecache", source, elsewhere], check=True)
    (here / "without").mkdir()
    defaults = packed([(OWNER, 7, NOBODY), (USER, 6, 1001), (GROUP_OWNER, 5, NOBODY), (MASK, 7, NOBODY), (OTHER, 1, NOBODY)])
    os.setxattr(here / "without", DEFAULT, defaults)
    os.umask(0o22)
    (elsewhere / "without/file").touch()
    (elsewhere / "without/folder").mkdir()
    wanted = {"file": [(OWNER, 6, NOBODY), (USER, 6, 1001), (GROUP_OWNER, 5, NOBODY), (MASK, 4, NOBODY), (OTHER, 0, NOBODY)],
              "folder": [(OWNER, 7, NOBODY), (USER, 6, 1001), (GROUP_OWNER, 5, NOBODY), (MASK, 5, NOBODY), (OTHER, 1, NOBODY)]}
    for name, entries in wanted.items():
        found = os.getxattr(here / "without" / name, ACCESS)
        if found != packed(entries):
            raise Differ(f"{name}: {found.hex()}, wanted {packed(entries).hex()}")
    if os.getxattr(here / "without/folder", DEFAULT) != defaults:
        raise Differ("the folder's default list")
    # 1001 may read by the list, and not write: the mask is what the mode left.
    reader = User(1001, 1001, ())
    outcomes = [reader.do(elsewhere, "read", "without/file", 0), reader.do(elsewhere, "write", "without/file", 0, "x")]
    if outcomes != ["", "EACCES"]:
        raise Differ(f"a named user reads and writes: {outcomes}")
    print(json.dumps({"without": "ok"}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", action="store_true")
    options = parser.parse_args()
    try:
        (without if options.without else compare)(options)
    except Differ as difference:
        sys.exit(f"not the same: {difference}")


if __name__ == "__main__":
    main()
