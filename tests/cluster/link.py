"""Steps of the suite `volumes`: a host without the ensemble's key uses a volume over the link (docs/raw-volumes.md), by UDP and by Ethernet frames:
slice-link and block clients of others, while frames are lost and either side is killed; and somebody on the same network, who records what goes by,
sends it again, and sends what he has made himself."""

import os
import pathlib
import signal
import subprocess
import time

from blockd import Blockd, fio

LEG = 107  # of the host that has slice-link
MIB = 1 << 20
PORT, ETHER_TYPE = 10810, "88b5"
LOST = """
table netdev lossy {{
  chain in {{
    type filter hook ingress device {device} priority 0;
    ether type 0x{ether} numgen random mod 50 == 0 drop
    udp dport {port} numgen random mod 50 == 0 drop
    udp sport {port} numgen random mod 50 == 0 drop
  }}
}}
"""

# On the client's host: `record DEVICE FILE`, until it is told to end, what frames of the link leave; `replay DEVICE FILE`: them, and them with a byte
# changed, and noise.
STRANGER = """
import random, select, signal, socket, struct, sys
what, device, path = sys.argv[1:]
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
port.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
port.bind((device, 0))

def payload(frame):
    if frame[12:14] == bytes.fromhex("%s"):
        return 14
    if frame[12:14] == bytes.fromhex("0800") and frame[23] == 17 and struct.unpack(">H", frame[36:38])[0] == %d:
        return 42
    return None

if what == "record":
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    with open(path, "wb") as out:
        print("records", flush=True)
        while True:
            if not select.select([port], [], [], 0.1)[0]:
                if ended:  # and what came before is written down
                    break
                continue
            frame, address = port.recvfrom(70000)
            if address[2] == socket.PACKET_OUTGOING and payload(frame):
                out.write(struct.pack(">I", len(frame)) + frame)
                out.flush()
else:
    everything, frames = open(path, "rb").read(), []
    while everything:
        size = struct.unpack(">I", everything[:4])[0]
        frames.append(everything[4:4 + size])
        everything = everything[4 + size:]
    random.seed(1)
    sent = 0
    for frame in frames:
        begin = payload(frame)
        if begin == 42:  # the sum was left to a card: none is as good
            frame = frame[:40] + bytes(2) + frame[42:]
        port.send(frame)
        changed = bytearray(frame)
        changed[random.randrange(begin, len(frame))] ^= 1 << random.randrange(8)
        port.send(changed)
        port.send(frame[:begin] + random.randbytes(len(frame) - begin))
        sent += 3
    print("sent", sent)
""" % (ETHER_TYPE, PORT)


class LinkHost(Blockd):
    """slice-link on a host of its own, which has the link's key, and nothing of the ensemble."""

    def __init__(self, target, blockd, leg=LEG):
        super().__init__(target, leg)
        self.blockd, self.key, self.way = blockd, self.folder / "key", "udp"
        # Between the two hosts: no router carries our Ethernet frames.
        self.cable, self.ends = (f"link{leg}a", f"link{leg}b"), (f"10.77.{leg + 140}.1", f"10.77.{leg + 140}.2")
        self.key.write_bytes(os.urandom(32))
        self.key.chmod(0o600)
        in_host(blockd, "ip", "link", "add", self.cable[0], "type", "veth", "peer", "name", self.cable[1], "netns", self.namespace)
        for host, device, address in zip((blockd, self), self.cable, self.ends):
            in_host(host, "ip", "address", "add", f"{address}/24", "dev", device)
            in_host(host, "ip", "link", "set", device, "up")
        self.target_address = in_host(blockd, "cat", f"/sys/class/net/{self.cable[0]}/address").strip()

    def command(self):
        to = ["--udp", self.ends[0]] if self.way == "udp" else ["--interface", self.cable[1], "--target", self.target_address]
        return [self.target.bin_dir / "slice-link", "--key", self.key, "--client", "elsewhere", *to]

    def words_of_target(self):
        return ("--link-udp", self.ends[0], "--link-interface", self.cable[0], "--link-key", str(self.key))


def in_host(host, *words, **more):
    # A mount namespace of its own, with the host's /sys.
    line = ["nsenter", f"--net=/run/netns/{host.namespace}", "unshare", "-m", "sh", "-c", 'mount -t sysfs sysfs /sys && exec "$@"', "sh", *(str(word) for word in words)]
    return subprocess.run(line, capture_output=True, text=True, check=True, **more).stdout


def keys(scene, host):
    host.key.chmod(0o644)
    said = scene.fails("a key that others can read is refused", "nsenter", f"--net=/run/netns/{host.namespace}", *host.command(), "--unix", host.socket)
    scene.say("chmod 600" in said, "and it says so", said[-300:])
    host.key.chmod(0o600)
    right = host.key
    host.key = host.folder / "wrong"
    host.key.write_bytes(os.urandom(32))
    host.key.chmod(0o600)
    host.words = ("--patience", "1")
    host.start()
    scene.fails("with another key there is nothing", "nbdinfo", "--size", host.at("disk1"))
    scene.say(host.blockd.metric('link_frames_refused_total') > 0 and "why=forged" in host.blockd.log.read_text(), "and the other side counts it")
    host.end()
    host.key, host.words = right, ()


def clients(scene, host):
    scene.qemu_io(f"{host.way}: qemu-io writes, flushes and reads", host, "disk1", "write -P 0x11 1M 3M", "write -f -P 0x22 4096 512", "flush", "read -P 0x11 1M 3M",
                  "read -P 0x22 4096 512", "write -z 2M 1M", "read -P 0 2M 1M", "read -P 0x11 3M 1M")
    scene.qemu_io(f"{host.way}: slicectl's host finds the same", host.blockd, "disk1", "read -P 0x22 4096 512", "read -P 0 2M 1M", "read -P 0x11 3M 1M")
    scene.qemu_io(f"{host.way}: no such volume", host, "none", "read 0 512", good=False)
    scene.qemu_io(f"{host.way}: trimmed", host, "disk1", "discard 1M 2M", "flush", "read -P 0 1M 2M", "read -P 0x11 3M 1M")
    image = scene.folder / "image"
    image.write_bytes(os.urandom(8 * MIB))
    scene.runs(f"{host.way}: nbdcopy copies an image in", "nbdcopy", "--flush", image, host.at("disk1"))
    scene.runs(f"{host.way}: and out", "nbdcopy", host.at("disk1"), scene.folder / "copy")
    scene.say((scene.folder / "copy").read_bytes()[:8 * MIB] == image.read_bytes(), f"{host.way}: the same bytes")


def trouble(scene, host):
    """Frames are lost both ways, and slice-blockd is killed, under fio."""
    lossy = {side: LOST.format(device=device, ether=ETHER_TYPE, port=PORT) for side, device in zip((host.blockd, host), host.cable)}
    for side, rules in lossy.items():
        in_host(side, "nft", "-f", "-", input=rules)
    before, again = host.blockd.process.pid, host.metric("link_timeouts_total")
    load = subprocess.Popen(fio(host, "disk1", "--rw=randwrite", "--bsrange=512-64k", "--blockalign=512", "--iodepth=8", "--size=12M", "--rate=4m", "--fsync=64",
                                        "--do_verify=1"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=scene.folder)
    killed = 0
    while load.poll() is None and killed < 2:
        time.sleep(0.8)
        host.blockd.end(signal.SIGKILL)
        host.blockd.start()
        killed += 1
    said = load.communicate(timeout=120)[0]
    scene.say(load.returncode == 0 and host.blockd.process.pid != before, f"{host.way}: fio, while frames are lost and slice-blockd is killed {killed} times", said[-1500:])
    again = host.metric("link_timeouts_total") - again
    scene.say(again > 5, f"{host.way}: {again:.0f} requests were sent again, {host.metric('link_handshakes_total'):.0f} sessions")
    for side in lossy:
        in_host(side, "nft", "delete", "table", "netdev", "lossy")


def not_flushed(scene, host):
    """What slice-blockd loses with its memory comes from the other host; and who is killed himself has what he flushed."""
    client = subprocess.Popen(["qemu-io", "-f", "raw", "-t", "writeback", host.at("disk1")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    client.stdin.write("write -P 0x77 16M 4M\n")
    client.stdin.flush()
    end = time.monotonic() + 20
    while host.metric("link_unflushed_bytes") < 4 * MIB and time.monotonic() < end:
        time.sleep(0.1)
    host.blockd.end(signal.SIGKILL)
    host.blockd.start()
    client.stdin.write("read -P 0x77 16M 4M\nflush\nread -P 0x77 16M 4M\nquit\n")
    client.stdin.flush()
    said = client.communicate(timeout=60)[0]
    repeated = host.metric("link_repeated_bytes_total")
    scene.say("failed" not in said and said.count("read 4194304/4194304") == 2 and repeated >= 4 * MIB,
              f"{host.way}: what was not flushed is there after kill -9 of slice-blockd: {repeated / MIB:.0f} MiB are written again", said)
    host.end(signal.SIGKILL)
    host.start()
    scene.qemu_io(f"{host.way}: and what was flushed after kill -9 of slice-link", host, "disk1", "read -P 0x77 16M 4M")


def stranger(scene, host):
    path = scene.folder / "frames"
    there = ["nsenter", f"--net=/run/netns/{host.namespace}", "python3", "-c", STRANGER]
    recorder = subprocess.Popen([*there, "record", host.cable[1], path], stdout=subprocess.PIPE, text=True)
    recorder.stdout.readline()
    # qemu-io closes the volume at its end, which slice-link keeps: the session stays.
    scene.qemu_io(f"{host.way}: written, while a stranger records", host, "disk1", "write -P 0x31 0 512k", "flush")
    recorder.terminate()
    recorder.wait(10)
    scene.qemu_io(f"{host.way}: and written anew", host, "disk1", "write -P 0x32 0 512k")
    blockd = host.blockd
    before, sessions, memory = blockd.metric("link_frames_refused_total"), blockd.metric("link_sessions_opened_total"), blockd.memory()
    sent = int(scene.runs(f"{host.way}: he sends all of it again, and what he has made of it", *there, "replay", host.cable[1], path).split()[1])
    time.sleep(0.5)
    refused = blockd.metric("link_frames_refused_total") - before
    scene.qemu_io(f"{host.way}: what was written anew is there", host, "disk1", "read -P 0x32 0 512k", "flush", "read -P 0x32 0 512k")
    # A frame again whose tag was not used since is no refusal: it has the answer that it had.
    scene.say(sent > 300 and refused >= sent / 2, f"{host.way}: of {sent:.0f} frames {refused:.0f} are refused")
    scene.say(blockd.metric("link_sessions_opened_total") == sessions, f"{host.way}: the session is the same")
    scene.say(blockd.memory() < memory + 32 * MIB and blockd.metric("link_held_bytes") == 0, f"{host.way}: it took no memory")
    host.end()
    host.start()
    scene.runs(f"{host.way}: the next session", "nbdinfo", "--size", host.at("disk1"))
    scene.runs(f"{host.way}: again", *there, "replay", host.cable[1], path)
    scene.qemu_io(f"{host.way}: that does nothing either", host, "disk1", "read -P 0x32 0 512k")


def over_the_link(scene, blockd):
    begun = time.monotonic()
    host = LinkHost(scene.target, blockd)
    before = blockd.words
    try:
        blockd.end()
        blockd.words = (*before, *host.words_of_target())
        blockd.start()
        keys(scene, host)
        for host.way in ("udp", "ethernet"):
            host.start()
            clients(scene, host)
            trouble(scene, host)
            not_flushed(scene, host)
            stranger(scene, host)
            host.end()
            scene.say(not pathlib.Path(host.socket).exists(), f"{host.way}: it ends")
    finally:
        host.end(signal.SIGKILL)
    blockd.end()
    blockd.words = before
    blockd.start()
    scene.say(True, f"over the link: {time.monotonic() - begun:.0f} s")
