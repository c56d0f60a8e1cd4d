"""Sockets and frames of a network namespace, made from this process: a thread steps into the namespace while it opens them."""

import contextlib
import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def inside(netns):
    """Sockets that this thread opens meanwhile belong to that namespace, for as long as they live."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    other = os.open(f"/run/netns/{netns}", os.O_RDONLY)
    try:
        _enter(other)
        try:
            yield
        finally:
            _enter(own)
    finally:
        os.close(own)
        os.close(other)


def _enter(namespace):
    if _libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def open_socket(netns, kind, protocol=0, family=socket.AF_INET):
    with inside(netns):
        return socket.socket(family, kind, protocol)


class Wire:
    """The attacker's own link: any frame goes out by it."""

    def __init__(self, netns, proxy_netns, link):
        """link: the proxy's end, whose hardware address an attacker learns by ARP."""
        facts = json.loads(subprocess.run(["ip", "-n", proxy_netns, "-j", "link", "show", link], capture_output=True, check=True).stdout)
        self.gateway = bytes.fromhex(facts[0]["address"].replace(":", ""))
        with inside(netns):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self.socket.bind(("eth0", 0))
            self.own = fcntl.ioctl(self.socket, 0x8927, struct.pack("256s", b"eth0"))[18:24]  # SIOCGIFHWADDR

    def close(self):
        self.socket.close()

    def send(self, packet, tags=(), source=None):
        """An IPv4 packet as a frame, behind 802.1Q tags of those network numbers; source: another hardware address than its own."""
        head = self.gateway + (source or self.own)
        for tag in tags:
            head += struct.pack("!HH", 0x8100, tag)
        self.socket.send(head + b"\x08\x00" + packet)

    def send_arp(self, kind, hardware, address, asked):
        """To everybody: `address` is at that hardware address (kind 1: a request, 2: an answer), as one who asks for `asked`."""
        body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, kind) + hardware + socket.inet_aton(address) + bytes(6) + socket.inet_aton(asked)
        self.socket.send(b"\xff" * 6 + self.own + b"\x08\x06" + body)


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def ipv4(source, destination, payload, *, protocol=17, ident=0, fragment=0, options=b"", length=None):
    """fragment: the field of flags and offset, as it stands in the header. length: another total length than the true one."""
    words = 5 + len(options) // 4
    total = words * 4 + len(payload) if length is None else length
    head = struct.pack("!BBHHHBBH4s4s", 0x40 | words, 0, total, ident, fragment, 64, protocol, 0,
                       socket.inet_aton(source), socket.inet_aton(destination)) + options
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def udp(source_port, destination_port, payload, *, length=None):
    """Without a checksum, which IPv4 allows."""
    return struct.pack("!HHHH", source_port, destination_port, 8 + len(payload) if length is None else length, 0) + payload


def datagram(source, source_port, destination, destination_port, payload, **settings):
    return ipv4(source, destination, udp(source_port, destination_port, payload), **settings)


def fragments(source, destination, payload, ident, size):
    """An IPv4 payload cut into packets of `size` bytes of it, a multiple of 8."""
    pieces = [payload[at:at + size] for at in range(0, len(payload), size)]
    return [ipv4(source, destination, piece, ident=ident, fragment=(number * size // 8) | (0x2000 if number + 1 < len(pieces) else 0))
            for number, piece in enumerate(pieces)]
