#!/usr/bin/env python3
"""Everyday work on a mounted volume: everyday.py FOLDER --programs FOLDER [--only STEP,...] [--scale X] [--seed N]

Runs inside a client, in an empty folder that it makes and removes. Each step uses ordinary programs, and compares what
they did with what they should have done. Prints a line a step; exit code 1 when one failed.
"""

import argparse
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import time
import traceback

SOURCES = pathlib.Path("/usr/include/linux")  # a source tree that every machine with a compiler has


class Wrong(Exception):
    """A step's result is not what it should be."""


def run(*command, cwd=None, text_input=None):
    """Runs a program that must succeed; returns its output."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, input=text_input, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-6000:]
        raise Wrong(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{said}")
    return done.stdout


def expect(condition, text):
    if not condition:
        raise Wrong(text)


def forget_caches():
    """What follows asks the server, not this client's memory."""
    os.sync()
    try:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        pass


class Everyday:
    def __init__(self, base, options):
        self.base, self.options = base, options
        self.programs = options.programs

    def program(self, name, *arguments):
        print(run(self.programs / name, *arguments), end="", flush=True)

    def untar(self):
        """A source tree is packed elsewhere, unpacked on the volume and compared."""
        archive = self.base / "sources.tar.gz"
        run("tar", "-C", SOURCES.parent, "-czf", archive, SOURCES.name)
        run("tar", "-xzf", archive, cwd=self.base)
        forget_caches()
        run("diff", "-r", SOURCES, self.base / SOURCES.name)
        again = self.base / "again.tar"
        run("tar", "-C", self.base, "-cf", again, SOURCES.name)
        expect(run("tar", "-tf", again).count("\n") == run("tar", "-tzf", archive).count("\n"), "the archives differ")
        archive.unlink()
        again.unlink()

    def compile(self):
        """A C program of several files is compiled, linked through an archive, run, changed and compiled again."""
        compiler = next((c for c in ("cc", "gcc", "clang-19", "clang") if shutil.which(c)), None)
        expect(compiler, "no C compiler here")
        folder = self.base / "compile"
        folder.mkdir()
        for number in range(8):
            (folder / f"part{number}.c").write_text(
                f"#include \"parts.h\"\n#include <stdio.h>\nint part{number}(int x) {{ return x * {number} + {number}; }}\n")
        (folder / "parts.h").write_text("".join(f"int part{number}(int);\n" for number in range(8)))
        total = " + ".join(f"part{number}(3)" for number in range(8))
        (folder / "main.c").write_text(
            f"#include \"parts.h\"\n#include <stdio.h>\nint main(void) {{ printf(\"%d\\n\", {total}); return 0; }}\n")
        sources = sorted(path.name for path in folder.glob("*.c"))
        run(compiler, "-O1", "-g", "-c", *sources, cwd=folder)
        run("ar", "rcs", "libparts.a", *[f"part{number}.o" for number in range(8)], cwd=folder)
        run(compiler, "-o", "program", "main.o", "-L.", "-lparts", cwd=folder)
        forget_caches()
        expect(run("./program", cwd=folder).strip() == str(4 * sum(range(8))), "the program computes something else")
        (folder / "part0.c").write_text("#include \"parts.h\"\nint part0(int x) { return x + 1000; }\n")
        run(compiler, "-o", "program", *sources, cwd=folder)
        expect(run("./program", cwd=folder).strip() == str(4 * sum(range(8)) + 1003), "the new program is not the one run")

    def tree(self):
        """2,000 files from 0 bytes to 40 MB: made, copied with cp -a, compared with diff -r, verified, removed."""
        numbers = ["--files", int(2000 * self.options.scale), "--largest", 40_000_000, "--seed", self.options.seed]
        made, copied = self.base / "tree", self.base / "tree-copy"
        self.program("tree", "make", made, *numbers)
        run("cp", "-a", made, copied)
        forget_caches()
        run("diff", "-r", made, copied)
        forget_caches()
        self.program("tree", "verify", copied, *numbers)
        self.program("tree", "verify", made, *numbers)
        run("rm", "-r", made)
        run("rm", "-r", copied)
        expect(not made.exists() and not copied.exists(), "rm -r left something")

    def git(self):
        """A repository is made, committed to, cloned, changed, collected and checked."""
        origin, clone = self.base / "origin", self.base / "clone"
        who = ["-c", "user.name=Everyday", "-c", "user.email=everyday@example.org", "-c", "safe.directory=*"]
        shutil.copytree(SOURCES, origin, symlinks=True)
        run("git", "init", "-q", cwd=origin)
        run("git", *who, "add", "-A", cwd=origin)
        run("git", *who, "commit", "-q", "-m", "first", cwd=origin)
        run("git", *who, "clone", "-q", "--no-hardlinks", origin, clone)
        for number in range(5):
            (clone / f"new-{number}.txt").write_text(f"number {number}\n" * 1000)
            run("git", *who, "add", "-A", cwd=clone)
            run("git", *who, "commit", "-q", "-m", f"change {number}", cwd=clone)
        run("git", *who, "gc", "-q", "--prune=now", cwd=clone)
        run("git", *who, "fsck", "--full", "--strict", cwd=clone)
        forget_caches()
        expect(run("git", *who, "status", "--porcelain", cwd=clone) == "", "the clone's work tree is not clean")
        run("git", *who, "pull", "-q", clone, "HEAD", cwd=origin)
        run("diff", "-r", "--exclude=.git", origin, clone)
        expect(run("git", *who, "log", "--oneline", cwd=origin).count("\n") == 6, "commits are missing")

    def sqlite(self):
        """A database: one large transaction, many small ones, an index, deletions, vacuum, integrity."""
        path = self.base / "data.sqlite"
        database = sqlite3.connect(path)
        database.execute("create table facts (id integer primary key, name text, value blob)")
        with database:
            database.executemany("insert into facts values (?, ?, ?)",
                                 ((i, f"name {i % 97}", bytes([i % 256]) * (i % 700)) for i in range(8000)))
        for i in range(int(100 * self.options.scale)):
            with database:
                database.execute("update facts set name = ? where id = ?", (f"changed {i}", i * 7 % 8000))
        database.execute("create index by_name on facts (name)")
        database.execute("delete from facts where id % 3 = 0")
        database.commit()
        database.execute("vacuum")
        database.close()
        forget_caches()
        database = sqlite3.connect(path)
        expect(database.execute("pragma integrity_check").fetchone() == ("ok",), "the database is damaged")
        count, size = database.execute("select count(*), sum(length(value)) from facts").fetchone()
        wanted = [i for i in range(8000) if i % 3 != 0]
        expect(count == len(wanted) and size == sum(i % 700 for i in wanted), "rows are missing")
        database.close()

    def fsx(self):
        """Random operations against a model: around the threshold, in one stripe unit, over many."""
        ops = int(20000 * self.options.scale)
        for number, (share, size, unit) in enumerate(((0.5, 1 << 20, 65536), (0.3, 200_000, 65536), (0.2, 4 << 20, 65536))):
            self.program("fsx", self.base / f"fsx.{number}", "--ops", int(ops * share), "--seed",
                         self.options.seed + number, "--size", size, "--unit", unit)

    def storm(self):
        """Several processes rename, replace, link and remove among shared names."""
        self.program("storm", self.base / "storm", "--movers", 4, "--rounds", int(200 * self.options.scale), "--seed",
                     self.options.seed)

    def sparse(self):
        """Holes survive copying and cost nothing to read; a file is cut and grows again."""
        path = self.base / "sparse"
        with open(path, "wb") as file:
            for place in (0, 65530, 65536, 1_000_000, 50_000_000):
                file.seek(place)
                file.write(b"island")
        run("cp", "--sparse=always", path, self.base / "sparse-copy")
        forget_caches()
        run("cmp", path, self.base / "sparse-copy")
        data = path.read_bytes()
        expect(len(data) == 50_000_006 and data.count(b"\0") == 50_000_006 - 5 * 6, "the holes are not zeros")
        run("truncate", "-s", "70000", path)
        run("truncate", "-s", "2000000", path)
        forget_caches()
        data = path.read_bytes()
        expect(data[70000:] == bytes(1_930_000) and data[65536:65542] == b"island", "old bytes came back")

    def links(self):
        """Hard-linked and symbolic-linked copies of a tree."""
        source = self.base / "links"
        source.mkdir()
        for number in range(100):
            (source / f"file-{number}").write_text(f"{number}\n" * number)
        run("cp", "-al", source, self.base / "links-hard")
        run("cp", "-as", source, self.base / "links-symbolic")
        forget_caches()
        run("diff", "-r", source, self.base / "links-hard")
        run("diff", "-r", source, self.base / "links-symbolic")
        expect(all((source / f"file-{n}").stat().st_nlink == 2 for n in range(100)), "link counts are wrong")
        run("rm", "-r", source)
        forget_caches()
        hard = self.base / "links-hard"
        expect(all((hard / f"file-{n}").read_text() == f"{n}\n" * n for n in range(100)), "content is gone with a link")
        expect(all((hard / f"file-{n}").stat().st_nlink == 1 for n in range(100)), "link counts did not fall")

    def users(self):
        """Three users share a folder by group; none reads what is private."""
        def as_user(user, groups, script):
            return subprocess.run(["setpriv", f"--reuid={user}", f"--regid={user}", f"--groups={groups}", "sh", "-c", script],
                                  cwd=self.base, capture_output=True, text=True)
        shared = self.base / "shared"
        shared.mkdir()
        os.chown(shared, 0, 65100)
        shared.chmod(0o2770)
        self.base.chmod(0o755)
        member = as_user(65001, "65100", "umask 007; echo hello > shared/note; mkdir shared/folder; echo x > shared/folder/y")
        expect(member.returncode == 0, f"a member cannot write: {member.stderr}")
        second = as_user(65002, "65100", "cat shared/note; echo more >> shared/note; echo z > shared/folder/z; rm shared/folder/y")
        expect(second.returncode == 0 and second.stdout == "hello\n", f"another member cannot: {second.stderr}")
        stranger = as_user(65003, "65003", "cat shared/note || ls shared || touch shared/file")
        expect(stranger.returncode != 0 and stranger.stdout == "", "a stranger can")
        private = as_user(65001, "65100", "umask 077; head -c 200000 /dev/zero > shared/private && cat shared/private | wc -c")
        expect(private.stdout.strip() == "200000", f"its owner cannot read a private file: {private.stderr}")
        forget_caches()
        expect(as_user(65002, "65100", "cat shared/private").returncode != 0, "another member reads a private file")
        expect((shared / "note").read_text() == "hello\nmore\n", "the note differs")

    STEPS = ("untar", "compile", "tree", "git", "sqlite", "fsx", "storm", "sparse", "links", "users")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--only", help=f"of: {', '.join(Everyday.STEPS)}")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    base = options.folder.resolve() / "everyday"
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir()
    everyday = Everyday(base, options)
    failed = []
    for step in options.only.split(",") if options.only else Everyday.STEPS:
        start = time.monotonic()
        try:
            getattr(everyday, step)()
            print(f"ok everyday {step} ({time.monotonic() - start:.1f} s)", flush=True)
        except Exception as error:
            why = error if isinstance(error, Wrong) else traceback.format_exc()
            print(f"not ok everyday {step}: {why}", flush=True)
            failed.append(step)
    shutil.rmtree(base, ignore_errors=True)
    if base.exists() and not failed:
        print("not ok everyday: the folder cannot be removed")
        failed.append("removal")
    print(f"everyday: {len(failed)} steps failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
