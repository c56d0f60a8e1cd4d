"""A kernel client that writes and asks without an end, while its servers suffer: tests/cluster/guest/stalls.py in a guest, and what it says."""

import contextlib
import json
import pathlib
import sys

import uml

END = "/run/slice/control/over"  # in a guest: a file that the host makes


class Client:
    """What is in guest, a uml.Guest, runs until end()."""

    def __init__(self, guest):
        self.guest = guest

    def mark(self):
        """For longest_told(): from now on."""
        return len(self.guest.text)

    def longest_told(self, since):
        """Of the operations that were told since then (--tell): {what: seconds of the longest}."""
        longest = {}
        for line in self.guest.text[since:].splitlines():
            if line.startswith("stall "):
                _, what, seconds = line.split()
                longest[what] = max(longest.get(what, 0), float(seconds))
        return longest

    def end(self):
        """{what: {"operations": how many, "longest": their seconds, the longest first}}; None where the client saw an error."""
        (self.guest.folder / pathlib.Path(END).name).touch()
        return json.loads(self.guest.text.splitlines()[-1]) if self.guest.wait() == 0 else None

    def well(self, say, longest_seconds):
        """Ends it; whether it saw no error, and no operation took longer."""
        seen = self.end()
        ok = say(seen is not None, "nor did the kernel client", self.guest.text[-1000:])
        for what, times in (seen or {}).items():
            ok &= say(times["longest"][0] < longest_seconds, f"{what}: the longest of {times['operations']} took {times['longest'][:6]} s", times["longest"])
        return ok


@contextlib.contextmanager
def client(target, at_most, tell=None):
    """A Client of target for at_most seconds. tell: operations that take longer, in seconds, are told at once."""
    command = ["python3", str(uml.ROOT / "tests/cluster/guest/stalls.py"), ".", "--seconds", str(at_most), "--until", END]
    if tell is not None:
        command += ["--tell", str(tell)]
    with target.client(command, output=None if tell else sys.stdout, options="actimeo=0", timeout=at_most + 300) as guest:
        if not guest.says("ready"):
            raise uml.UmlError(f"the client does not get ready: {guest.wait()}, {guest.text[-1000:]}")
        yield Client(guest)
