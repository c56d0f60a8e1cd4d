#!/usr/bin/env python3
"""On a client, in its mount, as several users: what quotas keep them from, and what not.

    quotas.py fill USER LIMIT            writes until there is no room for more than LIMIT bytes: what was acknowledged is there, it is about
                                         as much as it may be, it can be written again, read and removed, and then there is room
    quotas.py dd USER                    dd(1) says "Disk quota exceeded"
    quotas.py objects USER LIMIT         files, directories, links and nodes, up to so many
    quotas.py chgrp USER GROUP           to a group that has no room: refused; to one's own: done
    quotas.py chown USER OTHER BYTES     root gives a file of so many bytes away, and may go beyond every limit
    quotas.py soft USER SOFT GRACE       beyond a soft limit for so many seconds
    quotas.py ask USER                   quota(1), of oneself, of others, and as root
    quotas.py churn SECONDS SEED         users make, write, cut and remove files at random
    quotas.py sums                       what users, groups and the tree of the folder for everybody have, by lstat(2)

Prints a line of JSON at the end; exit code 1 where something is otherwise."""

import errno
import json
import os
import pathlib
import random
import subprocess
import sys
import time

HOME = pathlib.Path("/mnt/quotas")
BLOCK = 65536
SLACK = 1 << 20  # bytes: what may be missing of a limit when it is reached (docs/quotas.md)
USERS = ((1001, 1001), (1002, 1002), (1003, 1001))  # uid, gid


class Wrong(Exception):
    pass


def check(ok, what):
    if not ok:
        raise Wrong(what)


def become(uid, gid=None):
    os.setgroups([])
    os.setresgid(*[gid if gid is not None else uid] * 3)
    os.setresuid(uid, uid, uid)


def as_user(uid, deed, *words, gid=None):
    """The deed's result, in a process of the user."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            become(uid, gid)
            answer = deed(*words)
        except Wrong as wrong:
            answer = {"wrong": str(wrong)}
        except OSError as error:
            answer = {"error": errno.errorcode[error.errno], "path": str(error.filename)}
        os.write(into, json.dumps(answer).encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as text:
        answer = json.loads(text.read() or "null")
    os.waitpid(child, 0)
    if isinstance(answer, dict) and "wrong" in answer:
        raise Wrong(answer["wrong"])
    return answer


def block(number):
    return number.to_bytes(8, "big") * (BLOCK // 8)


def write_until_full(path, most):
    """How many blocks were acknowledged as durable before there was no room; the rest was refused with EDQUOT."""
    file, done = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644), 0
    try:
        while done * BLOCK < most:
            os.pwrite(file, block(done), done * BLOCK)
            os.fsync(file)
            done += 1
    except OSError as error:
        check(error.errno == errno.EDQUOT, f"refused by {errno.errorcode[error.errno]}")
    finally:
        try:
            os.close(file)
        except OSError as error:
            check(error.errno == errno.EDQUOT, f"close is refused by {errno.errorcode[error.errno]}")
    return done


def verify(path, blocks):
    subprocess.run(["sync"], check=True)
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    for number in range(blocks):
        check(os.pread(file, BLOCK, number * BLOCK) == block(number), f"block {number} of {blocks} that was acknowledged is not there")
    os.close(file)


def fill(user, limit):
    path, user, limit = HOME / f"full-{user}", int(user), int(limit)

    def filling():
        blocks = write_until_full(path, 2 * limit)
        check(limit - SLACK <= blocks * BLOCK <= limit, f"{blocks * BLOCK} bytes were taken, of {limit}")
        verify(path, blocks)
        file = os.open(path, os.O_WRONLY)  # what is stored already needs no room
        for number in range(0, blocks, 3):
            os.pwrite(file, block(number), number * BLOCK)
        os.fsync(file)
        os.close(file)
        verify(path, blocks)
        os.truncate(path, BLOCK)
        verify(path, 1)
        time.sleep(0.5)
        again = write_until_full(HOME / f"again-{user}", limit // 2)
        check(again * BLOCK >= limit // 2, f"after a truncation there is room for {again} blocks alone")
        os.unlink(path)
        os.unlink(HOME / f"again-{user}")
        return {"blocks": blocks}

    return as_user(user, filling)


def dd(user):
    def run():
        words = ["dd", "if=/dev/zero", f"of={HOME}/dd-{user}", "bs=1M", "count=64"]
        for more in ("conv=fsync", "oflag=sync"):
            done = subprocess.run([*words, more], capture_output=True, text=True)
            check(done.returncode != 0 and "Disk quota exceeded" in done.stderr, f"{more}: {done.returncode} {done.stderr}")
        os.unlink(HOME / f"dd-{user}")
        return {"dd": "refused"}

    return as_user(int(user), run)


def objects(user, limit):
    kinds = (lambda path: os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o644)), os.mkdir, lambda path: os.symlink("somewhere", path), os.mkfifo)

    def run():
        made = []
        refused = None
        while len(made) < 2 * int(limit) and refused is None:
            path = HOME / f"object-{user}-{len(made)}"
            if len(made) > int(limit) - 8:
                time.sleep(0.5)  # servers tell one another what they have
            try:
                kinds[len(made) % len(kinds)](path)
                made.append(path)
            except OSError as error:
                refused = errno.errorcode[error.errno]
        check(refused == "EDQUOT" and len(made) == int(limit), f"{len(made)} were made, of {limit}: {refused}")
        for kind in kinds:
            try:
                kind(HOME / f"object-{user}-more")
                raise Wrong("one more than there may be")
            except OSError as error:
                check(error.errno == errno.EDQUOT, f"one more is refused by {errno.errorcode[error.errno]}")
        os.link(made[0], HOME / f"link-{user}")  # one more name is no more files
        os.unlink(HOME / f"link-{user}")
        for path in made:
            (os.rmdir if path.is_dir() and not path.is_symlink() else os.unlink)(path)
        kinds[0](made[0])
        os.unlink(made[0])
        return {"objects": len(made)}

    return as_user(int(user), run)


def chgrp(user, group):
    path = HOME / f"chgrp-{user}"

    def run():
        path.write_bytes(b"x" * BLOCK)
        for gid, wanted in ((int(group), "EDQUOT"), (int(user), None)):
            try:
                os.chown(path, -1, gid)
                got = None
            except OSError as error:
                got = errno.errorcode[error.errno]
            check(got == wanted, f"chgrp to {gid}: {got}, wanted {wanted}")
        return {"chgrp": "ok"}

    def with_groups():
        os.setgroups([int(group)])
        os.setresgid(*[int(user)] * 3)
        os.setresuid(*[int(user)] * 3)
        return run()

    child = os.fork()
    if child == 0:
        try:
            with_groups()
            os._exit(0)
        except (Wrong, OSError) as wrong:
            print(f"otherwise: {wrong}", flush=True)
            os._exit(1)
    check(os.waitpid(child, 0)[1] == 0, "chgrp")
    path.unlink()
    return {"chgrp": "ok"}


def chown(user, other, size):
    path = HOME / f"chown-{user}"
    as_user(int(user), lambda: path.write_bytes(os.urandom(int(size))))
    os.sync()
    os.chown(path, int(other), -1)
    before = os.lstat(path)
    file = os.open(path, os.O_WRONLY | os.O_APPEND)  # the superuser's own writes know no limit
    os.write(file, b"r" * BLOCK)
    os.fsync(file)
    os.close(file)
    check(before.st_uid == int(other), "the owner")
    return {"chown": "ok"}


def soft(user, limit, grace):
    path = HOME / f"soft-{user}"

    def run():
        blocks = 2 * int(limit) // BLOCK
        file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
        for number in range(blocks):
            os.pwrite(file, block(number), number * BLOCK)
        os.fsync(file)
        begin, over = time.monotonic(), 0.0
        while time.monotonic() - begin < float(grace) + 20:
            try:
                os.pwrite(file, block(blocks), blocks * BLOCK)
                os.fsync(file)
                blocks += 1
            except OSError as error:
                check(error.errno == errno.EDQUOT, f"refused by {errno.errorcode[error.errno]}")
                over = time.monotonic() - begin
                break
            time.sleep(0.2)
        check(float(grace) - 1.5 <= over, f"beyond the soft limit for {over} s, of {grace}")
        try:
            os.close(file)
        except OSError as error:
            check(error.errno == errno.EDQUOT, f"close is refused by {errno.errorcode[error.errno]}")
        verify(path, blocks)
        try:
            os.close(os.open(HOME / f"soft-{user}-new", os.O_CREAT, 0o644))  # files have no limit
        except OSError as error:
            raise Wrong(f"a new file: {errno.errorcode[error.errno]}") from error
        os.unlink(HOME / f"soft-{user}-new")
        os.unlink(path)
        time.sleep(3)
        check(write_until_full(path, int(limit) // 2) * BLOCK >= int(limit) // 2, "below the soft limit there is no room")
        os.unlink(path)
        return {"seconds": over}

    return as_user(int(user), run)


def ask(user):
    def said(*words):
        done = subprocess.run(["quota", "-v", "-p", *words], capture_output=True, text=True)
        return done.stdout + done.stderr

    own = as_user(int(user), said)
    check("10.77.0.1:/" in own and "blocks" in own, f"of oneself: {own}")
    root = said("-u", user)
    check("10.77.0.1:/" in root, f"as root: {root}")
    nobody = said("-u", "1999")
    check("10.77.0.1:/" not in nobody, f"of somebody without a quota: {nobody}")
    return {"own": own.splitlines()[-1].split(), "root": root.splitlines()[-1].split()}


def churn(seconds, seed):
    end = time.monotonic() + float(seconds)

    def run(number):
        dice, outcomes = random.Random(f"{seed}-{number}"), {}
        folder = HOME / f"churn-{number}"
        # However slow servers are, somebody meets a limit: what the first does in the end is write.
        while (in_time := time.monotonic() < end) or (number == 0 and "EDQUOT" not in outcomes):
            name = folder / f"f{dice.randrange(40)}"
            deed = dice.choice(("write", "write", "write", "cut", "remove", "mkdir", "rename")) if in_time else "write"
            try:
                if deed == "write":
                    with open(name, "ab") as file:
                        file.write(os.urandom(dice.choice((100, 5000, 70_000, 400_000))))
                elif deed == "cut":
                    os.truncate(name, dice.choice((0, 3000, 100_000)))
                elif deed == "remove":
                    name.unlink()
                elif deed == "mkdir":
                    (folder / f"d{dice.randrange(8)}").mkdir()
                else:
                    name.rename(folder / f"f{dice.randrange(40)}")
                outcome = "done"
            except OSError as error:
                outcome = errno.errorcode[error.errno]
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
        return outcomes

    total, children = {}, []
    for number, (uid, gid) in enumerate(USERS):
        folder = HOME / f"churn-{number}"
        folder.mkdir(exist_ok=True)
        os.chown(folder, uid, gid)
    print(json.dumps("ready"), flush=True)
    for number, (uid, gid) in enumerate(USERS):
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            become(uid, gid)
            os.write(into, json.dumps(run(number)).encode())
            os._exit(0)
        os.close(into)
        children.append((child, out))
    for child, out in children:
        with os.fdopen(out) as text:
            for outcome, count in json.loads(text.read()).items():
                total[outcome] = total.get(outcome, 0) + count
        os.waitpid(child, 0)
    os.sync()
    check(set(total) <= {"done", "EDQUOT", "ENOENT", "EEXIST", "EISDIR"}, f"outcomes: {total}")
    return total


def sums():
    found = {}
    for folder, folders, files in os.walk("/mnt"):
        for name in [".", *files, *(each for each in folders if os.path.islink(os.path.join(folder, each)))]:
            this = os.lstat(os.path.join(folder, name))
            within = [f"tree /{HOME.name}"] if pathlib.Path(folder).is_relative_to(HOME) else []
            for whose in (f"user {this.st_uid}", f"group {this.st_gid}", *within):
                space, number = found.get(whose, (0, 0))
                found[whose] = (space + this.st_blocks * 512, number + 1)
    return found


def main():
    deeds = {"fill": fill, "dd": dd, "objects": objects, "chgrp": chgrp, "chown": chown, "soft": soft, "ask": ask, "churn": churn, "sums": sums}
    try:
        print(json.dumps(deeds[sys.argv[1]](*sys.argv[2:])))
    except Wrong as wrong:
        sys.exit(f"otherwise: {wrong}")


if __name__ == "__main__":
    main()
