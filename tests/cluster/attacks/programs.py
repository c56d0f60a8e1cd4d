"""Attacks that are programs of their own, in C++ (tests/cluster/client/attack_*.cc): they are run in the attacker's namespace."""

import re

import uml
from attacks.attack import attack, must
from attacks.scene import STRANGER


def run(scene, name, *words, seconds=120):
    """The program's attacks must all fail; it ends with 2 where it could not carry them out."""
    command = [scene.options.programs / name, "--server", scene.virtual, "--export", "/attacker", *words]
    text, code = uml.run_in_netns(scene.attacker_netns, command, seconds, output=None)
    wrong = re.findall(r"^not ok (.*)", text, re.MULTILINE)
    must(code == 0, "; ".join(wrong) or f"{name} ends with {code}: {text.strip()[-300:]}")


@attack("attack-attributes", "attack_attributes: one xid twice, forged answers, forged sources", scenes=("generic", "native"))
def attack_attributes(scene):
    servers = [f"{address}:2049" for name, address in scene.addresses.items() if not name.startswith("proxy")]
    run(scene, "attack_attributes", "--servers", ",".join(servers), "--sources", f"{STRANGER},127.0.0.1,10.77.1.2")
