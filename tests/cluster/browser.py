"""What a browser makes of a page: Chromium without a screen, in a namespace. Its DOM after the page's scripts ran, and its picture."""

import html.parser
import pathlib
import struct
import subprocess
import tempfile
import zlib

import uml

# As root in a container of its own. Time is virtual: the page gets this much of it, however slow the machine is.
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--hide-scrollbars", "--virtual-time-budget=6000"]
PATIENCE = 120
LIGHT, DARK = 1, 0  # blink's preferredColorScheme


class Element:
    def __init__(self, tag, attributes):
        self.tag, self.attributes, self.text = tag, dict(attributes), ""

    def __getitem__(self, name):
        return self.attributes.get(name)

    def __repr__(self):
        return f"<{self.tag} {self.attributes}>{self.text}"


class Dom(html.parser.HTMLParser):
    """Elements in their order, each with all text inside it."""

    VOID = {"meta", "link", "input", "br", "hr", "img"}

    def __init__(self, text):
        super().__init__()
        self.elements, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append(Element(tag, attrs))
        if tag not in self.VOID:
            self.open.append(self.elements[-1])

    def handle_endtag(self, tag):
        while self.open and self.open.pop().tag != tag:
            pass

    def handle_data(self, data):
        for element in self.open:
            element.text += data

    def all(self, **attributes):
        """Those that have these attributes; data_x stands for data-x, None for any value."""
        wanted = {name.replace("_", "-"): value for name, value in attributes.items()}
        return [each for each in self.elements if all(name in each.attributes and value in (None, each[name]) for name, value in wanted.items())]

    def one(self, **attributes):
        found = self.all(**attributes)
        return found[0] if found else Element("nothing", {})


def run(netns, url, *options):
    with tempfile.TemporaryDirectory(prefix="slice-browser-") as profile:
        command = ["chromium", *OPTIONS, f"--user-data-dir={profile}", *options, url]
        return subprocess.run(uml.in_netns(netns, *command), capture_output=True, text=True, timeout=PATIENCE, check=True).stdout


def dom(netns, url):
    return Dom(run(netns, url, "--dump-dom"))


def take(netns, url, scheme, file: pathlib.Path, size):
    """A picture, as a PNG."""
    run(netns, url, f"--screenshot={file}", f"--window-size={size[0]},{size[1]}", f"--blink-settings=preferredColorScheme={scheme}")


def picture(netns, url, scheme, file: pathlib.Path, size=(900, 700)):
    """Rows of pixels, each (red, green, blue)."""
    take(netns, url, scheme, file, size)
    return pixels(file.read_bytes())


def pixels(png):
    """Of a PNG of 8 bits a channel, not interlaced, which is what Chromium writes."""
    at, packed = 8, b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            if depth != 8 or colour not in (2, 6) or interlaced:
                raise ValueError(f"a PNG of depth {depth}, colour type {colour}")
        elif kind == b"IDAT":
            packed += body
        at += length + 12
    channels = 3 if colour == 2 else 4
    raw, stride, before, rows = zlib.decompress(packed), width * channels, bytes(width * channels), []
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        unfilter(kind, line, before, channels)
        rows.append([tuple(line[x:x + 3]) for x in range(0, stride, channels)])
        before = line
    return rows


def unfilter(kind, line, before, channels):
    """RFC 2083, section 6."""
    for i in range(len(line) if kind else 0):
        left = line[i - channels] if i >= channels else 0
        up, corner = before[i], before[i - channels] if i >= channels else 0
        if kind == 4:
            guess = left + up - corner
            nearest = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
        else:
            nearest = (left, up, (left + up) // 2)[kind - 1]
        line[i] = (line[i] + nearest) & 255


def brightness(rows):
    """Of all pixels, from 0 to 255."""
    return sum(sum(pixel) for row in rows for pixel in row) / sum(len(row) for row in rows) / 3
