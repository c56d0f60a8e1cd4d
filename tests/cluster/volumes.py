"""The suite `volumes`: raw volumes (docs/raw-volumes.md). Block clients of others over slice-blockd: qemu's, libnbd's, fio with every byte checked, and
a kernel's with a file system on it; servers are killed meanwhile, what is not flushed included; another host opens the volume, and the first one
neither writes nor reads any more; NFS clients get nowhere near."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import aoe
import link
import uml
from blockd import PORT, Blockd, fio
from encryption import CLIENT, SERVICE, Certificates
from reload import Steps, mounted

LEGS = (105, 106)  # of the two hosts that serve volumes
MIB = 1 << 20
TOLD = 10  # seconds
FILE_SYSTEM = """
set -e
nbd-client {host} {port} -N {name} /dev/nbd0 {more}
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/nbd0
mkdir -p /tmp/v && mount /dev/nbd0 /tmp/v
cp -r /usr/share/zoneinfo /tmp/v/ && sync
(cd /tmp/v && find zoneinfo -type f | sort | xargs md5sum) > /tmp/before
dd if=/dev/urandom of=/tmp/v/gone bs=1M count=16 conv=fsync 2> /dev/null
echo READY
while ! test -e /run/slice/control/go; do sleep 0.2; done
rm /tmp/v/gone && sync && fstrim /tmp/v
dd if=/dev/urandom of=/tmp/v/big bs=1M count=8 conv=fsync 2> /dev/null
umount /tmp/v && e2fsck -fn /dev/nbd0 > /tmp/fsck 2>&1 || (cat /tmp/fsck; exit 1)
nbd-client -d /dev/nbd0 > /dev/null
nbd-client {host} {port} -N {name} /dev/nbd0 {more}
mount -o ro /dev/nbd0 /tmp/v && (cd /tmp/v && md5sum --quiet -c /tmp/before) && test $(stat -c %s /tmp/v/big) = 8388608
umount /tmp/v && nbd-client -d /dev/nbd0 > /dev/null
"""


# In the clients' namespace: what strangers send to a port of NBD. Prints what the port had to say to each.
STRANGERS = """
import socket, struct, sys, threading, time
address = (sys.argv[1], int(sys.argv[2]))
OPTION, MAGIC = 0x49484156454F5054, 0x25609513

def connect():
    one = socket.create_connection(address, 10)
    one.settimeout(40)
    return one

def flags(one):
    assert one.recv(18, socket.MSG_WAITALL)[:8] == b"NBDMAGIC"
    one.sendall(struct.pack(">I", 3))

def go(one, name):
    data = struct.pack(">I", len(name)) + name + struct.pack(">H", 0)
    one.sendall(struct.pack(">QII", OPTION, 7, len(data)) + data)

silent = [connect() for _ in range(200)]
floods = []
for what in ("options", "names", "lengths", "garbage", "requests"):
    one = connect()
    try:
        if what != "garbage":
            flags(one)
        if what == "options":
            for number in range(5000):
                one.sendall(struct.pack(">QII", OPTION, 0x7000 + number, 0))
        elif what == "names":
            for number in range(100):
                go(one, b"x" * 4000)
        elif what == "lengths":
            one.sendall(struct.pack(">QII", OPTION, 7, 0xfffffff0) + bytes(1 << 20))
        elif what == "garbage":
            one.sendall(bytes(range(256)) * 4096)
        else:
            go(one, b"disk1")
            one.sendall(b"".join(struct.pack(">IHHQQI", MAGIC, 0, 1, number, 0, 0xffffffff) for number in range(10)) + bytes(1 << 20))
            one.sendall(bytes(1 << 20))
        while one.recv(1 << 16):
            pass
        floods.append(what + " ended")
    except socket.timeout:
        floods.append(what + " idle")
    except OSError:
        floods.append(what + " ended")
# Who reads nothing of what he asks for.
greedy = connect()
flags(greedy)
go(greedy, b"disk1")
time.sleep(1)
greedy.setblocking(False)
try:
    for number in range(4000):
        greedy.sendall(struct.pack(">IHHQQI", MAGIC, 0, 0, number, 0, 32 << 20))
except OSError:
    pass
print("done", *floods, sep="; ", flush=True)
time.sleep(10)
"""


class Scene:
    def __init__(self, target, guest, folder):
        self.target, self.guest, self.folder, self.ok = target, guest, folder, True

    def say(self, ok, what, got=""):
        print(f"{'ok' if ok else 'not ok'} volumes {what}{'' if ok or got == '' else f': {got}'}", flush=True)
        self.ok &= bool(ok)
        return bool(ok)

    def runs(self, what, *words, timeout=180):
        """A program of others, on this host."""
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout, cwd=self.folder)
        self.say(done.returncode == 0, what, f"exit code {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
        return done.stdout

    def fails(self, what, *words):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=180, cwd=self.folder)
        self.say(done.returncode != 0, what, done.stdout[-500:])
        return done.stdout + done.stderr

    def volume(self, *words, check=True):
        return self.target.slicectl("volume", *words, check=check)

    def listed(self):
        return {volume["name"]: volume for volume in json.loads(self.target.slicectl("--json", "volume", "list").stdout)["volumes"]}

    def qemu_io(self, what, blockd, name, *commands, good=True):
        words = ["qemu-io", "-f", "raw", "-d", "unmap", "-t", "writeback", blockd.at(name), *(word for command in commands for word in ("-c", command))]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        said = done.stdout + done.stderr
        works = done.returncode == 0 and "failed" not in said and "error" not in said.lower()
        self.say(works == good, what, said[-800:])


def made(scene, copies):
    scene.say(not scene.listed() and "no raw volumes" in scene.volume("list").stdout, "there are none")
    scene.volume("create", "disk1", "--size", "96MiB", "--copies", str(copies))
    scene.volume("create", "disk2", "--size", "32MiB", "--copies", "1", "--stripe-unit", "128KiB")
    volumes = scene.listed()
    scene.say(volumes["disk1"]["size"] == 96 * MIB and volumes["disk1"]["copies"] == copies and volumes["disk1"]["used"] < MIB, "one of 96 MiB, sparse", volumes)
    scene.say(volumes["disk2"]["stripe_unit"] == 128 << 10, "and one with another stripe unit", volumes)
    for what, words, code in (("the same name again", ("create", "disk1", "--size", "1MiB"), 1), ("no size", ("create", "x"), 2), ("an odd one", ("create", "x", "--size", "1000"), 2),
                              ("a name with a slash", ("create", "a/b", "--size", "1MiB"), 2), ("smaller, without a word", ("resize", "disk2", "--size", "1MiB"), 1),
                              ("one that there is not", ("status", "none"), 1)):
        done = scene.volume(*words, check=False)
        scene.say(done.returncode == code, f"refused: {what}", done)


def block_clients(scene, blockd):
    info = json.loads(scene.runs("nbdinfo lists them", "nbdinfo", "--json", "--list", f"nbd+unix://?socket={blockd.socket}"))
    sizes = {export["export-name"]: export["export-size"] for export in info["exports"]}
    scene.say(sizes == {"disk1": 96 * MIB, "disk2": 32 * MIB}, "with their sizes", sizes)
    scene.qemu_io("qemu-io reads zeros, writes, flushes and reads", blockd, "disk1", "read -P 0 0 8M", "write -P 0x11 1M 3M", "write -f -P 0x22 4096 512", "flush",
                  "read -P 0x11 1M 3M", "read -P 0x22 4096 512", "read -P 0 0 4096", "write -z 2M 1M", "read -P 0 2M 1M", "read -P 0x11 3M 1M")
    scene.qemu_io("and again, from a connection of its own", blockd, "disk1", "read -P 0x11 1M 1M", "read -P 0 2M 1M")
    scene.qemu_io("nothing behind the end", blockd, "disk2", "write -P 1 32M 512", good=False)
    image = scene.folder / "image"
    image.write_bytes(os.urandom(20 * MIB) + bytes(12 * MIB))
    scene.runs("nbdcopy copies an image in", "nbdcopy", "--flush", image, blockd.at("disk2"))
    scene.runs("qemu-img finds the same", "qemu-img", "compare", "-f", "raw", "-F", "raw", image, blockd.at("disk2"))
    scene.runs("nbdcopy copies it out", "nbdcopy", blockd.at("disk2"), scene.folder / "copy")
    scene.say((scene.folder / "copy").read_bytes() == image.read_bytes(), "the same bytes")
    told = extents(scene, blockd, "disk2")
    scene.say(20 * MIB <= sum(end - begin for begin, end, what in told if what != HOLE) <= 21 * MIB, "whose zeros are holes", told)
    scene.runs("qemu-img converts what is there", "qemu-img", "convert", "-f", "raw", "-O", "raw", blockd.at("disk2"), scene.folder / "sparse")
    scene.say((scene.folder / "sparse").read_bytes() == image.read_bytes(), "the same bytes again")
    status = scene.volume("status", "disk2").stdout
    scene.say("stored" in status and "store" in status, "slicectl volume status", status)
    end = time.monotonic() + TOLD
    while scene.listed()["disk2"]["used"] < 20 * MIB and time.monotonic() < end:
        time.sleep(0.5)
    scene.say(20 * MIB <= scene.listed()["disk2"]["used"] <= 34 * MIB, "what is stored of it", scene.listed()["disk2"])


def deaths(scene, blockd, scale):
    """fio writes, so slowly that it takes its time, and then checks what it wrote; every kind of server is killed meanwhile, one after the other."""
    seconds = max(20 * scale, 8)
    for what, mib, words in (("small writes", 24, ("--rw=randwrite", "--bs=4k", "--iodepth=16", "--fsync=64")),
                             ("large ones", 64, ("--rw=write", "--bs=1M", "--iodepth=4", "--fsync=16")),
                             ("of many sizes", 16, ("--rw=randwrite", "--bsrange=512-64k", "--blockalign=512", "--iodepth=8"))):
        load = subprocess.Popen(fio(blockd, "disk1", *words, f"--size={mib}M", f"--rate={int(mib * MIB / seconds)}", "--do_verify=1"), stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, cwd=scene.folder)
        killed = 0
        while load.poll() is None:
            for name in (*scene.target.servers("store"), "coord1", "dir1", "manager1"):
                if load.poll() is None:
                    scene.target.kill_and_start(name)
                    killed += 1
                    time.sleep(1)
        said = load.communicate()[0]
        scene.say(load.returncode == 0 and killed > 5, f"fio: {what}, while {killed} processes are killed", said[-1500:])
    scene.target.wait_serving()


def forgotten(scene, blockd, first, unflushed, then):
    """What one qemu-io says of these commands: all nodes are killed between them, when so much is not flushed."""
    client = subprocess.Popen(["qemu-io", "-f", "raw", "-d", "unmap", "-t", "writeback", blockd.at("disk1")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    client.stdin.write("\n".join(first) + "\n")
    client.stdin.flush()
    end = time.monotonic() + 20
    while blockd.metric("volume_unflushed_bytes") < unflushed and time.monotonic() < end:
        time.sleep(0.1)
    for name in scene.target.servers("store"):
        scene.target.kill_and_start(name)
    scene.target.wait_serving()
    return client.communicate("\n".join([*then, "quit"]) + "\n", timeout=120)[0]


def lost_with_memory(scene, blockd, copies):
    """A node that loses what was not flushed (as with its power): blockd reads it from what it kept, and writes it again at the flush."""
    repeated = blockd.metric("volume_repeated_bytes_total")
    said = forgotten(scene, blockd, ["write -P 0x77 16M 4M"], 4 * MIB, ["read -P 0x77 16M 4M", "flush", "read -P 0x77 16M 4M"])
    scene.say("failed" not in said and said.count("read 4194304/4194304") == 2, "what was not flushed is there after kill -9 of all nodes", said)
    again = blockd.metric("volume_repeated_bytes_total") - repeated
    scene.say(again >= 4 * MIB, f"and was written again: {again / MIB:.0f} MiB (copies: {copies})")


def another_host(scene, first, second):
    """The volume is opened on another host: from then on the first one has nothing of it."""
    holds = subprocess.Popen(["qemu-io", "-f", "raw", "-t", "writeback", first.at("disk1")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    holds.stdin.write("write -P 0x31 0 1M\nflush\n")
    holds.stdin.flush()
    end = time.monotonic() + 20
    while first.metric("volume_open") < 1 and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(1)
    epoch = scene.listed()["disk1"]["epoch"]
    scene.qemu_io("another host opens it, and reads what was written", second, "disk1", "read -P 0x31 0 1M", "write -P 0x32 0 1M", "flush")
    scene.say(scene.listed()["disk1"]["epoch"] == epoch + 1, "its epoch is the next", scene.listed()["disk1"])
    holds.stdin.write("write -P 0x33 0 1M\nread 0 512\nflush\nquit\n")
    said = holds.communicate(timeout=60)[0]
    scene.say(said.count("failed") >= 2, "the first one's write and read fail", said)
    scene.say(first.metric("volume_taken_away_total") == 1 and "opened elsewhere" in first.log.read_text(), "it says why")
    scene.qemu_io("nor does it take the volume back", first, "disk1", "read 0 512", good=False)
    scene.qemu_io("the other one's bytes are there", second, "disk1", "read -P 0x32 0 1M")
    first.hang_up()
    time.sleep(0.5)
    scene.qemu_io("told to (SIGHUP), it does", first, "disk1", "read -P 0x32 0 1M", "write -P 0x34 0 512")


def host_that_stood_still(scene, first, second):
    """What it had sent, or was about to, when it was stopped comes to nobody when it goes on: the next opener's bytes stay."""
    load = subprocess.Popen(fio(first, "disk1", "--rw=randwrite", "--bs=64k", "--iodepth=16", "--size=32M", "--time_based", "--runtime=120"), stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, cwd=scene.folder)
    time.sleep(3)
    os.kill(first.process.pid, signal.SIGSTOP)
    scene.qemu_io("a host stands still, and another opens its volume", second, "disk1", "write -P 0x51 0 32M", "flush")
    os.kill(first.process.pid, signal.SIGCONT)
    time.sleep(2)
    load.kill()
    load.wait()
    scene.qemu_io("it goes on, and has changed nothing", second, "disk1", "read -P 0x51 0 32M")
    scene.say("opened elsewhere" in first.log.read_text(), "it knows why")
    first.end()
    first.start()


def stored(scene, node=None):
    """Bytes that a storage node has of disk1; or all together."""
    nodes = json.loads(scene.target.slicectl("--json", "volume", "status", "disk1").stdout)["nodes"]
    return sum(part["stored"] for part in nodes if node in (None, part["name"]))


HOLE = 3  # type of an extent


def extents(scene, host, name):
    """What a client is told is there: [(begin, end, type)]."""
    told = json.loads(scene.runs(f"nbdinfo asks for the holes of {name}", "nbdinfo", "--map", "--json", host.at(name)))
    return [(extent["offset"], extent["offset"] + extent["length"], extent["type"]) for extent in told]


def given_back(scene, host, copies):
    """What a client trims reads as zeros and takes no room any more; also where nodes forget it before it is flushed."""
    scene.qemu_io("16 MiB are written", host, "disk1", "write -P 0x41 8M 16M", "flush")
    before = stored(scene)
    scene.qemu_io("8 MiB of them are trimmed", host, "disk1", "discard 12M 8M", "flush", "read -P 0 12M 8M", "read -P 0x41 8M 4M", "read -P 0x41 20M 4M")
    gave = before - stored(scene)
    scene.say(gave >= 8 * MIB * copies, f"all copies give the room back: {gave / MIB:.1f} MiB", before)
    told = extents(scene, host, "disk1")
    scene.say(any(begin <= 12 * MIB and end == 20 * MIB and what == HOLE for begin, end, what in told), "a client is told of the hole", told)
    scene.say(not any(begin < 12 * MIB and end > 8 * MIB and what == HOLE for begin, end, what in told), "and of no other one there", told)
    scene.qemu_io("what is no whole block is zero as well", host, "disk1", "discard 8388700 100000", "flush", "read -P 0 8388700 100000", "read -P 0x41 8M 92",
                  "read -P 0x41 8488700 4000")
    scene.qemu_io("zeros may give room back", host, "disk1", "write -z -u 20M 2M", "flush", "read -P 0 20M 2M", "read -P 0x41 22M 2M")
    scene.say(before - stored(scene) >= 10 * MIB * copies, "and do", (before, stored(scene)))
    scene.qemu_io("or keep it", host, "disk1", "write -z 12M 4M", "flush", "read -P 0 12M 4M")
    scene.say(before - stored(scene) <= 7 * MIB * copies, "and do", (before, stored(scene)))
    scene.qemu_io("written again", host, "disk1", "write -P 0x42 8M 16M", "flush")
    said = forgotten(scene, host, ["discard 8M 12M"], 12 * MIB, ["read -P 0 8M 12M", "flush", "read -P 0 8M 12M", "read -P 0x42 20M 4M"])
    scene.say("failed" not in said and said.count("read 12582912/12582912") == 2, "also where nodes are killed before it is flushed", said[-1200:])


def dead_node(scene, first, second):
    """With another copy nobody waits for a node that stays away."""
    scene.qemu_io("a volume with two copies", first, "disk1", "write -P 0x71 0 16M", "flush")
    scene.target.kill("store1")
    begun = time.monotonic()
    scene.qemu_io("a storage node is dead: another host opens it, reads and writes", second, "disk1", "read -P 0x71 0 16M", "write -P 0x72 0 4M", "flush", "read -P 0x72 0 4M",
                  "read -P 0x71 4M 12M")
    scene.say(time.monotonic() - begun < 20, f"within {time.monotonic() - begun:.1f} s")
    scene.target.start("store1")
    scene.target.wait_serving()
    scene.qemu_io("it is back", first, "disk1", "read -P 0x72 0 4M", "read -P 0x71 4M 12M")


def moves(scene, blockd):
    """A storage node is drained under the load, and comes back."""
    last = scene.target.servers("store")[-1]
    load = subprocess.Popen(fio(blockd, "disk1", "--rw=randwrite", "--bs=16k", "--iodepth=8", "--size=32M", "--rate=2m", "--do_verify=1"), stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, cwd=scene.folder)
    scene.target.slicectl("server", "drain", last)
    end = time.monotonic() + 120
    while time.monotonic() < end and stored(scene, last) > MIB:
        time.sleep(0.5)
    said = load.communicate()[0]
    scene.say(load.returncode == 0, "fio, while a storage node is drained", said[-1500:])
    scene.say(stored(scene, last) < MIB, "which has nothing of the volume then but its epoch", stored(scene, last))


def strangers(scene, blockd):
    """200 connections that say nothing, floods and garbage, and one who reads nothing: others are served, and memory is bounded."""
    attack = subprocess.Popen(["nsenter", f"--net=/run/netns/{scene.target.netns}", "python3", "-c", STRANGERS, blockd.host, str(PORT)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    slowest, most, served, tries, end = 0, 0, 0, 0, time.monotonic() + 120
    while attack.poll() is None and time.monotonic() < end:
        begun = time.monotonic()
        done = subprocess.run(["qemu-io", "-f", "raw", "-t", "writeback", "-c", "write -P 0x61 4M 1M", "-c", "flush", "-c", "read -P 0x61 4M 1M", blockd.at("disk1")],
                              capture_output=True, text=True, timeout=120)
        served += done.returncode == 0
        tries += 1
        slowest, most = max(slowest, time.monotonic() - begun), max(most, blockd.memory())
        time.sleep(0.2)
    said = attack.communicate()[0]
    # Who has opened a volume may take his time.
    scene.say("done" in said and re.findall(r"(\w+) idle", said) in ([], ["requests"]), "each of them is ended", said)
    scene.say(served == tries > 5, f"beside them a client writes, flushes and reads: {served} of {tries} times")
    scene.say(slowest < 10, f"within {slowest:.1f} s")
    scene.say(most < 700 * MIB, f"with {most / MIB:.0f} MiB at most")
    scene.say(blockd.metric("nbd_handshakes_refused_total") > 5, "and counted")


def through_tls(scene, blockd):
    """A host without the ensemble's key uses a volume of one that has it: through TLS, with a certificate of its own."""
    certificates = Certificates(scene.folder, blockd.host)
    certificate, key = certificates.files(SERVICE)
    blockd.end()
    before = blockd.words
    blockd.words = ("--tls-certificate", certificate, "--tls-key", key, "--tls-authority", certificates.authority())
    blockd.start()
    own = scene.folder / "own"
    own.mkdir()
    for source, name in zip((*certificates.files(CLIENT), certificates.authority()), ("client-cert.pem", "client-key.pem", "ca-cert.pem")):
        (own / name).write_bytes(pathlib.Path(source).read_bytes())
    there = ["nsenter", f"--net=/run/netns/{scene.target.netns}"]
    info = scene.runs("nbdinfo through TLS", *there, "nbdinfo", "--json", f"nbds://{blockd.host}/disk1?tls-certificates={own}")
    scene.say('"TLS": true' in info and f'"export-size": {96 * MIB}' in info, "and it is TLS", info[-500:])
    scene.fails("in clear there is nothing", *there, "nbdinfo", f"nbd://{blockd.host}/disk1")
    for name in ("client-cert.pem", "client-key.pem"):
        (own / name).unlink()
    scene.fails("nor without a certificate", *there, "nbdinfo", f"nbds://{blockd.host}/disk1?tls-certificates={own}")
    blockd.end()
    blockd.words = before
    blockd.start()


def nfs_clients(scene):
    code, said = scene.guest_steps.run("ls /mnt/.volumes")
    scene.say(code != 0 and "ermission denied" in said, "an NFS client gets nowhere in /.volumes", said)
    code, said = scene.guest_steps.run("mv /mnt/.volumes /mnt/mine || rmdir /mnt/.volumes")
    scene.say(code != 0, "nor does it move it", said)
    made_tree = scene.target.slicectl("tree", "make", "/.volumes", check=False)
    scene.say(made_tree.returncode == 1, "and no exports are made for it", made_tree)


def file_system(scene, blockd):
    """ext4 by a kernel's own client, while storage nodes die."""
    script = FILE_SYSTEM.format(host=blockd.host, port=PORT, name="disk1", more="-p -t 60")
    guest = uml.Guest(scene.target.netns, scene.target.server, ["sh", "-c", script], mount=False, modules=("nbd",), timeout=240)
    with guest:
        ready = guest.says("READY")
        scene.say(ready, "mkfs and files in a guest", guest.text[-800:])
        before = stored(scene)
        for name in scene.target.servers("store"):
            scene.target.kill_and_start(name)
        (guest.folder / "go").touch()
        scene.say(guest.wait() == 0, "all files are whole, and so is the file system, after storage nodes were killed", guest.text[-1200:])
    gave = before - stored(scene)
    scene.say(gave >= 7 * MIB, f"what was removed there of 16 MiB, less 8 that were made, is given back by fstrim: {gave / MIB:.1f} MiB")


def changed(scene, blockd):
    scene.volume("resize", "disk2", "--size", "48MiB")
    scene.qemu_io("larger, with zeros behind", blockd, "disk2", "read -P 0 32M 16M", "write -P 5 47M 1M", "read -P 5 47M 1M")
    scene.volume("resize", "disk2", "--size", "16MiB", "--shrink")
    scene.qemu_io("smaller", blockd, "disk2", "read 15M 1M")
    scene.qemu_io("what was behind is gone", blockd, "disk2", "read 16M 512", good=False)


def removed(scene):
    checked = scene.target.slicectl("fsck", "--data", check=False)
    scene.say(checked.returncode == 0, "fsck --data", checked.stdout[-800:])
    for name in ("disk1", "disk2"):
        scene.volume("remove", name)
    scene.say(not scene.listed(), "removed", scene.listed())
    checked = scene.target.slicectl("fsck", "--data", check=False)
    scene.say(checked.returncode == 0, "fsck --data again", checked.stdout[-800:])


@contextlib.contextmanager
def ensemble(ensembles, name, **shape):
    with tempfile.TemporaryDirectory(prefix="slice-volumes-", dir="/dev/shm") as folder, ensembles.make(name, **shape) as target, mounted(target) as guest:
        scene = Scene(target, guest, pathlib.Path(folder))
        scene.guest_steps = Steps(guest)
        hosts = [Blockd(target, leg) for leg in LEGS]
        try:
            yield scene, *hosts
        finally:
            for host in hosts:
                host.end(signal.SIGKILL)
        (guest.folder / "end").touch()
        scene.say(guest.wait() == 0, "the kernel client ends well", guest.text[-500:])


def with_one_copy(scene, first, second, scale):
    made(scene, 1)
    first.start()
    second.start()
    block_clients(scene, first)
    given_back(scene, first, 1)
    deaths(scene, first, scale)
    lost_with_memory(scene, first, 1)
    another_host(scene, first, second)
    host_that_stood_still(scene, first, second)
    moves(scene, second)
    strangers(scene, second)
    through_tls(scene, second)
    link.over_the_link(scene, second)
    aoe.by_aoe(scene, second, first)
    nfs_clients(scene)
    file_system(scene, second)
    changed(scene, second)
    second.end()
    scene.say(second.process is None and not second.socket.exists(), "it ends, and its socket is gone")
    removed(scene)


def with_two_copies(scene, first, second, scale):
    """What is another matter there."""
    made(scene, 2)
    first.start()
    second.start()
    given_back(scene, first, 2)
    deaths(scene, first, scale)
    lost_with_memory(scene, first, 2)
    another_host(scene, first, second)
    dead_node(scene, second, first)
    host_that_stood_still(scene, first, second)
    moves(scene, second)
    removed(scene)


def volumes(ensembles, options):
    ok = True
    for name, steps, shape in (("volumes", with_one_copy, {"directories": 2, "storage": 3}),
                               ("volumes-two", with_two_copies, {"directories": 2, "storage": 3, "policy": "name-hashing"})):
        with ensemble(ensembles, name, **shape) as (scene, first, second):
            steps(scene, first, second, options.scale)
            ok &= scene.ok
    return ok
