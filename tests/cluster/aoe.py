"""Steps of the suite `volumes`: a kernel's own driver `aoe` has a volume by ATA over Ethernet (docs/raw-volumes.md), with a file system on it, while
slice-blockd and storage nodes are killed; and strangers on a network where it is served."""

import re
import signal
import subprocess
import time

import uml
from link import in_host

MIB = 1 << 20
SHELF = 7
FOUND = 40  # seconds: the driver asks for what there is only now and then, and is told when slice-blockd begins
FILE_SYSTEM = """
set -e
echo "MAC $(cat /sys/class/net/vec0/address)"
while ! test -e /run/slice/control/served; do sleep 0.1; done
disk=/dev/etherd/e7.1
n=0; until test -b $disk && test $(blockdev --getsize64 $disk) -gt 0; do n=$((n + 1)); test $n -lt {tries}; sleep 0.1; done
echo "SIZE $(blockdev --getsize64 $disk)"
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 $disk
mkdir -p /tmp/v && mount $disk /tmp/v
cp -r /usr/share/zoneinfo/Europe /tmp/v/ && sync
echo READY
n=0
while ! test -e /run/slice/control/killed; do
    n=$((n + 1))
    dd if=/dev/urandom of=/tmp/v/file$((n % 8)) bs=64k count=8 conv=fsync 2> /dev/null
done
(cd /tmp/v && find . -type f | sort | xargs md5sum) > /tmp/before
umount /tmp/v && e2fsck -fn $disk > /tmp/fsck 2>&1 || (cat /tmp/fsck; exit 1)
echo 3 > /proc/sys/vm/drop_caches
mount -o ro $disk /tmp/v && (cd /tmp/v && md5sum --quiet -c /tmp/before)
umount /tmp/v
echo "WROTE $n"
""".format(tries=FOUND * 10)

# On a host of the same network: as itself, or with a client's address, `count` frames of each kind. Prints how many it sent, and had answered.
STRANGER = """
import random, socket, struct, sys
device, source, target, count = sys.argv[1], bytes.fromhex(sys.argv[2]), bytes.fromhex(sys.argv[3]), int(sys.argv[4])
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88a2))
port.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
port.bind((device, 0))
random.seed(1)

def frame(to, command, rest, tag, shelf=7, slot=1, version=0x10):
    return to + source + b"\\x88\\xa2" + struct.pack(">BBHBBI", version, 0, shelf, slot, command, tag) + rest

def ata(flags, sectors, command, sector, data=b""):
    return struct.pack("<BBBBQ", flags, 0, sectors, command, sector) + data

sent = 0
for number in range(count):
    beyond = random.randrange(1 << 40, 1 << 47)
    for one in (frame(b"\\xff" * 6, 1, bytes(8), number, 0xffff, 0xff), frame(target, 0, ata(0x40, 2, 0x24, number), number),
                frame(target, 0, ata(0x41, 2, 0x34, beyond, bytes(1024)), number), frame(target, 0, ata(0x41, 2, 0x34, number), number),
                frame(target, 0, ata(0x40, 0, 0x24, number), number), frame(target, 0, ata(0x40, 255, 0x24, number), number),
                frame(target, 1, struct.pack(">HHBBH", 0, 0, 0, 0x14, 1024) + b"x" * 1024, number), frame(target, 2, bytes(20), number),
                frame(target, 0, ata(0x40, 1, random.randrange(256) & 0xbf | 0x80, number), number), target + source + b"\\x88\\xa2" + random.randbytes(random.randrange(64)),
                *([frame(target, 0, ata(0x41, 2, 0x34, 0, b"stranger" * 128), number)] if sys.argv[5] == "writes" else [])):
        port.send(one)
        sent += 1
port.settimeout(0.5)
got = 0
try:
    while True:
        got += port.recv(2000)[:6] == source
except TimeoutError:
    pass
print("sent", sent, "answered", got)
"""


def mac(text):
    return text.replace(":", "")


class Cable:
    """A network of two hosts: of slice-blockd, and where strangers are."""

    def __init__(self, blockd, there):
        self.blockd, self.there, self.ends = blockd, there, ("aoe0a", "aoe0b")
        in_host(blockd, "ip", "link", "add", self.ends[0], "type", "veth", "peer", "name", self.ends[1], "netns", there.namespace)
        for host, device in zip((blockd, there), self.ends):
            in_host(host, "ip", "link", "set", device, "up")
        self.target, self.own = (in_host(host, "cat", f"/sys/class/net/{device}/address").strip() for host, device in zip((blockd, there), self.ends))

    def stranger(self, scene, what, source, count, more="reads"):
        """(sent, answered) of frames with that address."""
        said = scene.runs(what, "nsenter", f"--net=/run/netns/{self.there.namespace}", "python3", "-c", STRANGER, self.ends[1], mac(source), mac(self.target), count, more)
        sent, answered = re.search(r"sent (\d+) answered (\d+)", said).groups() if "answered" in said else (0, 0)
        return int(sent), int(answered)


def strangers(scene, blockd, cable, client):
    scene.qemu_io("AoE: the disk's first bytes", blockd, "disk2", "write -P 0x21 0 1M", "flush")
    before = blockd.metric("aoe_frames_refused_total")
    sent, answered = cable.stranger(scene, "AoE: who is no client reads, writes and asks", cable.own, 200, "writes")
    refused = blockd.metric("aoe_frames_refused_total") - before
    scene.say(sent > 2000 and answered == 0 and sent * 0.9 <= refused <= sent, f"he is not answered: of {sent} frames {answered}, {refused:.0f} are refused")
    memory = blockd.memory()
    sent, answered = cable.stranger(scene, "AoE: frames of all kinds from a client's address", client, 2000)
    scene.say(answered > 0 and blockd.memory() < memory + 32 * MIB, f"of {sent} frames {answered} are answered; memory {memory / MIB:.0f}, then {blockd.memory() / MIB:.0f} MiB")
    scene.qemu_io("AoE: nothing is changed", blockd, "disk2", "read -P 0x21 0 1M")
    scene.say("why=stranger" in blockd.log.read_text(), "AoE: and the log says who")


def killed(scene, blockd, guest):
    """slice-blockd, and storage nodes, while the guest writes."""
    for name in scene.target.servers("store"):
        time.sleep(1)
        blockd.end(signal.SIGKILL)
        scene.target.kill_and_start(name)
        blockd.start()
    time.sleep(1)
    (guest.folder / "killed").touch()


def by_aoe(scene, blockd, other):
    """disk2 is e7.1 of a guest on slice-blockd's host, whose tap is the network."""
    begun = time.monotonic()
    before = blockd.words
    size = scene.listed()["disk2"]["size"]
    guest = uml.Guest(blockd.namespace, scene.target.server, ["sh", "-c", FILE_SYSTEM], mount=False, modules=("aoe",), timeout=240)
    with guest:
        scene.say(guest.says("MAC "), "AoE: a guest with the kernel's driver", guest.text[-500:])
        client = re.search(r"MAC (\S+)", guest.text).group(1)
        cable = Cable(blockd, other)
        blockd.end()
        blockd.words = (*before, "--aoe", f"{SHELF}.1=disk2", "--aoe-interface", guest.tap, "--aoe-interface", cable.ends[0], "--aoe-client", client)
        blockd.start()
        strangers(scene, blockd, cable, client)
        (guest.folder / "served").touch()
        scene.say(guest.says("SIZE "), "AoE: it finds the disk", guest.text[-500:])
        scene.say(f"SIZE {size}" in guest.text, "AoE: of the volume's size", guest.text)
        scene.say(guest.says("READY"), "AoE: mkfs, and files", guest.text[-800:])
        killed(scene, blockd, guest)
        scene.say(guest.wait() == 0, "AoE: all files are whole, and so is the file system, after slice-blockd and storage nodes were killed", guest.text[-1200:])
        requests, operations = blockd.metric("aoe_requests_total"), blockd.metric("aoe_operations_total")
        scene.say(requests > 2 * operations > 0, f"AoE: {requests:.0f} requests were {operations:.0f} operations")
    blockd.end()
    blockd.words = before
    blockd.start()
    in_host(blockd, "ip", "link", "del", cable.ends[0])
    scene.say(True, f"by AoE: {time.monotonic() - begun:.0f} s")
