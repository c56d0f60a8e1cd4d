"""That XDP routed what it has to route: counters of the proxy before and after a load over UDP.

A request may pass to user space only for a reason that the design gives to user space: NULL, READDIRPLUS (whose many
attributes are patched there), other programs and ports, and calls that are wrong in a way that user space answers.
"""

import re

PROCEDURES = ("GETATTR SETATTR LOOKUP ACCESS READLINK READ WRITE CREATE MKDIR SYMLINK MKNOD REMOVE RMDIR RENAME LINK READDIR "
              "FSSTAT FSINFO PATHCONF COMMIT").split()
# NO_NEXT_HOP: the first packets to a server before its hardware address is known; re-addressed by XDP all the same.
MAY_PASS = {"ROUTED_NULL", "NOT_OURS", "NOT_IPV4", "NOT_UDP", "OTHER_PORT", "OTHER_PROGRAM", "OTHER_VERSION", "BAD_PROCEDURE",
            "BAD_HANDLE", "NAME_TOO_LONG", "NAME_EMPTY", "TO_USER_SPACE", "NO_NEXT_HOP"}
PASSED = {"FRAGMENT_PASSED", "BLOCK_MAPPED", "MIRRORED", "SITE_UNBOUND", "NOT_LINEAR", "NO_CONFIG", "REPLY_UNMATCHED", "TRAILER", "IP_OPTIONS",
          "RPC_VERSION", "SOURCE_ASTRAY", "OTHER_FAMILY", "IP_EXTENSIONS", "NO_CHECKSUM", "NOT_SUMMED"} | MAY_PASS
IN_USER_SPACE = {"NULL", "READDIRPLUS"}


class XdpProof:
    """Use around the load: `with XdpProof(target) as proof: ...`, then `proof.holds()`."""

    def __init__(self, target):
        self.target = target

    def __enter__(self):
        self.before = self.target.metrics(self.target.proxy)
        return self

    def __exit__(self, *_):
        after = self.target.metrics(self.target.proxy)
        self.xdp, self.user = {}, {}
        for name, value in after.items():
            found = re.fullmatch(r'(xdp|proxy_user)_outcomes_total\{outcome="(\w+)"\}', name)
            if found and value > self.before.get(name, 0):
                counts = self.xdp if found[1] == "xdp" else self.user
                counts[found[2]] = value - self.before.get(name, 0)

    def holds(self, procedures=PROCEDURES):
        """Prints what was counted; true when XDP routed each of the procedures, and user space nothing but what XDP
        passes up by design (a call with a name that cannot be is sent to a server from there, for its error)."""
        routed = {name: self.xdp.get(f"ROUTED_{name}", 0) for name in procedures}
        if "READ" in routed:
            routed["READ"] += self.xdp.get("READ_CLAMPED", 0)
        print("routed by XDP:", ", ".join(f"{name} {count:.0f}" for name, count in routed.items()))
        passed = {name: count for name, count in self.xdp.items() if name in PASSED}
        print("passed by XDP:", ", ".join(f"{name} {count:.0f}" for name, count in passed.items()) or "nothing")
        print("in user space:", ", ".join(f"{name} {count:.0f}" for name, count in self.user.items()) or "nothing")
        wrong = [f"XDP routed no {name}" for name, count in routed.items() if count == 0]
        wrong += [f"XDP passed {count:.0f} packets up: {name}" for name, count in passed.items() if name not in MAY_PASS]
        own = {name: count for name, count in self.user.items()
               if name.startswith("ROUTED_") and name.removeprefix("ROUTED_") not in IN_USER_SPACE}
        if sum(own.values()) > sum(passed.get(name, 0) for name in ("NAME_EMPTY", "NAME_TOO_LONG")):
            wrong.append(f"user space routed {own}")
        for text in wrong:
            print(f"not ok xdp: {text}")
        if not wrong:
            print("ok xdp: it routed all that the design gives to it")
        return not wrong
