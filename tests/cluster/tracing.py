"""The suite `trace`: one storage node's disk is slow (a preload makes its syncs take longer). `slicectl trace` names it, and its sync, for a WRITE over TCP and
over UDP and for a COMMIT, hop by hop; MOUNT calls are shown, a slow one with the server that it waited for, and refused ones with why; filters leave out
what they should; the log has the slow ones; `slicectl top` names the client and the file. When nobody watches, nothing is kept."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import shutil
import signal
import struct
import tempfile
import threading
import time

import disks
import targets
from attacks import rpc

SLOW, SLOW_MS = "store2", 150
SLOWER = "100ms"
UNIT = 65536
STRIPES = range(1, 17)
MNT, UMNT, EXPORT = 1, 3, 5  # of MOUNT
STANDSTILL = 0.4  # seconds, of a directory server that a mount waits for
WATCH_SECONDS = 4  # of one trace; what is traced begins when every server has been asked, and ends long before


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} trace {what}{'' if ok else f': {got}'}", flush=True)
    return bool(ok)


class Scene:
    def __init__(self, target):
        self.target = target
        self.data = f"{pathlib.Path(target.facts['config']).parent}/data/{SLOW}"
        self.root = rpc.mount_root(target.netns, target.server)

    def caller(self, transport="tcp"):
        return rpc.Caller(self.target.netns, self.target.server, transport=transport, patience=20)

    def make_file(self):
        """A file with bytes on every storage node; stripes of it by their node."""
        with self.caller() as caller:
            self.handle = caller.create(self.root, "slow")
            caller.write(self.handle, STRIPES[0] * UNIT, bytes(len(STRIPES) * UNIT), rpc.UNSTABLE)
            caller.good(rpc.COMMIT, rpc.opaque(self.handle) + rpc.u64(0) + rpc.u32(0))
            self.fileid = caller.getattr(self.handle).fileid
        where = json.loads(self.target.slicectl("--json", "where", "/slow").stdout)
        self.stripes = {part["server"]: part["stripes"] for part in where["storage"]}

    def traced(self, work, *all_words, text=False):
        """What `slicectl trace` with each of these words says of what `work` does meanwhile."""
        with concurrent.futures.ThreadPoolExecutor(len(all_words)) as pool:
            asked = [pool.submit(self.trace, words, text) for words in all_words]
            self.until_watched(len(all_words))
            work()
            return [each.result() for each in asked]

    def trace(self, words, text):
        words = ["trace", "--for", f"{WATCH_SECONDS}s", *words, *([] if text else ["--json"])]
        done = self.target.slicectl(*words, check=False)
        if done.returncode != 0:
            raise SystemExit(f"slicectl {' '.join(words)}: exit code {done.returncode}: {done.stderr}")
        return done.stdout if text else json.loads(done.stdout)["operations"]

    def watched(self):
        """How many watch each server."""
        said = json.loads(self.target.slicectl("--json", "metrics", "--match", "trace_watches").stdout)
        return [process["metrics"]["slice_trace_watches"] for process in said["processes"]]

    def until_watched(self, by):
        end = time.monotonic() + WATCH_SECONDS / 2
        while min(self.watched()) < by and time.monotonic() < end:
            time.sleep(0.05)

    def write(self, server, size=8192, transport="tcp", stable=rpc.FILE_SYNC):
        with self.caller(transport) as caller:
            caller.write(self.handle, self.stripes[server][0] * UNIT, b"x" * size, stable)
            self.client = caller.address

    def write_and_commit(self):
        with self.caller() as caller:
            caller.write(self.handle, self.stripes[SLOW][0] * UNIT, b"y" * 8192, rpc.UNSTABLE)
            caller.good(rpc.COMMIT, rpc.opaque(self.handle) + rpc.u64(0) + rpc.u32(0))

    def mount_call(self, procedure, path=None, reserved=True):
        """The first word of its results, if it has any."""
        with rpc.Caller(self.target.netns, self.target.server, 20048, reserved=reserved, patience=20) as mount:
            data = mount.call(rpc.MOUNT, 3, procedure, b"" if path is None else rpc.opaque(path))
            self.client = mount.address
        return struct.unpack_from("!I", data)[0] if data else None

    def mount_and_be_refused(self):
        self.mount_call(MNT, "/below")
        self.mount_call(MNT, "/nothing")
        self.mount_call(MNT, "/below", reserved=False)
        self.mount_call(UMNT, "/below")
        self.mount_call(EXPORT)

    def mount_at_a_standstill(self):
        """One mount while the directory server does nothing, and one after."""
        pid = self.target.pids()["dir1"]
        os.kill(pid, signal.SIGSTOP)
        try:
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                mounted = pool.submit(self.mount_call, MNT, "/below")
                time.sleep(STANDSTILL)
                os.kill(pid, signal.SIGCONT)
                mounted.result()
        finally:
            os.kill(pid, signal.SIGCONT)
        self.mount_call(MNT, "/")

    def write_all(self, transport="tcp"):
        for server in self.stripes:
            self.write(server, transport=transport)


def hops(hop):
    """Names of the servers, each behind who asked it; and what they waited for themselves."""
    yield hop["server"], hop["operation"], [(step["kind"], step.get("data")) for step in hop["steps"] if step["kind"] != "call"]
    for step in hop["steps"]:
        if "there" in step:
            yield from hops(step["there"])


def names_the_disk(scene, operation, what):
    most = operation["most"]
    ok = most["server"] == SLOW and most.get("step") == "sync" and most.get("data") == scene.data and most["milliseconds"] > SLOW_MS * 0.9
    return say(ok, f"{what}: the disk of {SLOW} is named, and its sync", operation)


def one_slow_write(scene, transport, first):
    """Beside fast ones, which are left out."""
    what = f"WRITE over {transport}"
    operations, = scene.traced(lambda: scene.write_all(transport), ["--op", "write", "--slower", SLOWER])
    if not say(len(operations) == 1, f"{what}: the slow one alone is shown", operations):
        return False
    operation = operations[0]
    ok = names_the_disk(scene, operation, what)
    ok &= say(operation["client"].startswith(f"{scene.client[0]}:") and int(operation["fileid"], 16) == scene.fileid and operation["stable"] == "FILE_SYNC" and
              operation["outcome"] == "NFS3_OK", f"{what}: who asked, and for what", operation)
    way = [name for name, *_ in hops(operation["hop"])]
    return ok & say(way[:len(first)] == first, f"{what}: the hops are {' '.join(first)}", way)


def slow_commit(scene):
    operations, = scene.traced(scene.write_and_commit, ["--op", "COMMIT", "--slower", SLOWER])
    if not say(len(operations) == 1, "COMMIT: it is shown", operations):
        return False
    way = list(hops(operations[0]["hop"]))
    ok = names_the_disk(scene, operations[0], "COMMIT")
    ok &= say([name for name, *_ in way][:2] == [scene.target.proxy, "coord1"], "COMMIT: the proxy asks the coordinator", way)
    return ok & say((SLOW, "object COMMIT") in [(name, operation) for name, operation, _ in way], f"COMMIT: that asks {SLOW}", way)


def mounts(scene):
    """Those of MOUNT that ask for nothing that a server has are the proxy's alone."""
    with scene.caller() as caller:
        caller.mkdir(scene.root, "below")
    mnt, every, reads = scene.traced(scene.mount_and_be_refused, ["--op", "mnt"], ["--client", "10.77.1.2"], ["--op", "READ"])
    shown = [(each["operation"], each["outcome"], each.get("path")) for each in mnt]
    expected = [("MNT", "MNT3_OK", "/below"), ("MNT", "MNT3ERR_NOENT", "/nothing"), ("MNT", "MNT3ERR_ACCES", "/below")]
    ok = say(shown == expected, "--op MNT: mounts are shown, refused ones with why", mnt)
    ways = [list(hops(each["hop"])) for each in mnt]
    asked = [[(name, operation) for name, operation, _ in way] for way in ways]
    lookup = [(scene.target.proxy, "MNT"), ("dir1", "LOOKUP")]
    ok &= say(asked == [lookup, lookup, lookup[:1]], "MNT: the proxy asks the directory server for the path", asked)
    ok &= say([each["operation"] for each in every] == ["MNT", "MNT", "MNT", "UMNT", "EXPORT"], "all of MOUNT is shown, and each operation once", every)
    return ok & say(not reads, "--op READ: mounts are left out", reads)


def slow_mount(scene):
    operations, = scene.traced(scene.mount_at_a_standstill, ["--op", "MNT", "--slower", "200ms"])
    if not say(len(operations) == 1, "MNT: the slow one alone is shown", operations):
        return False
    operation = operations[0]
    most = operation["most"]
    ok = say(operation["outcome"] == "MNT3_OK" and operation["path"] == "/below" and operation["client"].startswith(f"{scene.client[0]}:"),
             "MNT: who asked, and for what", operation)
    return ok & say("dir1" in most["text"] and most["milliseconds"] > STANDSTILL * 1000 * 0.8, "MNT: the server that stood still is named", most)


def as_text(scene):
    text, = scene.traced(lambda: scene.write(SLOW), ["--slower", SLOWER, "--file", "/slow"], text=True)
    print(text, flush=True)
    ok = say(f" in {scene.data}: " in text and "file=/slow" in text, "as text: the file by its path, and the data directory", text)
    return ok & say(f"most of it: {SLOW}, sync of" in text, "as text: what took most of it", text)


def filters_leave_out(scene):
    filters = [["--client", "10.77.1.99"], ["--op", "READ"], ["--server", "store1"], ["--file", "/"], ["--slower", "10s"]]
    ok = True
    for words, operations in zip(filters, scene.traced(lambda: scene.write(SLOW), *filters)):
        ok &= say(not operations, f"{' '.join(words)}: the slow WRITE is left out", operations)
    return ok


def nothing_is_kept(scene):
    time.sleep(0.3)
    ok = say(not any(scene.watched()), "when nobody watches, nobody keeps anything", scene.watched())
    wrong = [scene.target.slicectl("trace", *words, check=False) for words in (["--slower", "50"], ["--op", "WRIET"], ["--client", "x"], ["--server", "y"])]
    return ok & say(all(each.returncode == 1 and each.stderr for each in wrong), "what makes no sense is refused", wrong)


def log_has_it(scene):
    """From the slow ones of before: slow_operation_ms is as long as they take, here."""
    log = (pathlib.Path(scene.target.facts["config"]).parent / "log" / f"{SLOW}.log").read_text()
    lines = [line for line in log.splitlines() if "slow WRITE took_ms=" in line]
    ok = say(any(f"file={scene.fileid:#x} " in line and f"name={SLOW}: sync of " in line for line in lines), "the log has a slow WRITE, and where it went", lines)
    log = (pathlib.Path(scene.target.facts["config"]).parent / "log" / f"{scene.target.proxy}.log").read_text()
    ok &= say("slow MNT took_ms=" in log and " path='/below' status=MNT3_OK " in log, "the log has the slow MNT", log)
    return ok & say(scene.target.metrics(SLOW)["slow_operations_total"] >= 4, "slow ones are counted", scene.target.metrics(SLOW))


def top(scene):
    """Of a client that writes to one file all the time, and another file that is looked at now and then."""
    over = threading.Event()

    def load():
        with scene.caller() as caller:
            scene.client = caller.address
            while not over.is_set():
                caller.write(scene.handle, scene.stripes[SLOW][0] * UNIT, bytes(8192), rpc.UNSTABLE)
                caller.getattr(scene.root)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        said = json.loads(scene.target.slicectl("--json", "top").stdout)
        print(scene.target.slicectl("top", "--clients", "--files").stdout, flush=True)
    finally:
        over.set()
        thread.join()
    client, writes = said["clients"][0], [each for each in said["operations"] if each["operation"] == "WRITE"]
    ok = say(client["client"] == scene.client[0] and client["calls_per_second"] > 20, "top: the client", said["clients"])
    ok &= say(f"{scene.fileid:#x}" in [each["fileid"] for each in said["files"][:2]], "top: the file", said["files"])
    ok &= say(bool(writes) and writes[0]["received_per_second"] > 8192 * writes[0]["calls_per_second"], "top: bytes of WRITE", writes)
    return ok & say(said["servers"][0]["server"] in (SLOW, "dir1") and not said["silent"], "top: the servers", said["servers"])


@contextlib.contextmanager
def slow_disk(target):
    """The syncs of one server's data take longer, from its next start on."""
    spoil = disks.slow_syncs(target.programs, f"*/data/{SLOW}/*", SLOW_MS)
    target.stop(SLOW)
    os.environ.update(spoil)
    try:
        target.start(SLOW)
    finally:
        for name in spoil:
            del os.environ[name]
    target.wait_serving()
    yield


def trace(target, options):
    # On a disk: in memory a sync is done where it is asked for, and holds up all that the server does.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="slice-trace-", dir=options.run_dir or "/var/tmp"))
    try:
        config = folder / "ensemble.toml"
        config.write_text(f"slow_operation_ms = {SLOW_MS}\n" + (targets.ROOT / "deploy/local/ensemble.toml").read_text())
        with targets.Slice(f"{options.instance}-trace", folder, options.bin, own=True, config=config) as ensemble:
            ensemble.programs = options.programs
            with slow_disk(ensemble):
                return checks(Scene(ensemble))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def checks(scene):
    scene.make_file()
    proxy = [scene.target.proxy] if scene.target.has_xdp else []
    ok = one_slow_write(scene, "tcp", [scene.target.proxy, SLOW])
    ok &= one_slow_write(scene, "udp", [SLOW] if proxy else [scene.target.proxy, SLOW])
    ok &= slow_commit(scene)
    ok &= mounts(scene)
    ok &= slow_mount(scene)
    ok &= as_text(scene)
    ok &= filters_leave_out(scene)
    ok &= nothing_is_kept(scene)
    ok &= log_has_it(scene)
    return ok & top(scene)
