"""The suite `options`: what docs/options.md says becomes of each option of nfs(5) and each word of exports(5), tried: by a kernel client that mounts
with it, and by slicectl check."""

import json
import pathlib
import re
import subprocess
import tempfile

import targets
import uml

DOCUMENT = uml.ROOT / "docs/options.md"
SCRIPT = uml.ROOT / "tests/cluster/guest/options.py"
ROW = re.compile(r"^\| (`.*?`) \| (\w+(?:'s)?) \|", re.M)
EXPORT = re.compile(r"^\[\[export\]\].*?(?=^\[|\Z)", re.M | re.S)
WORD = re.compile(r"`([^`]+)`")
NEWER_KERNELS = {f"xprtsec={policy}": "Invalid|Unknown|incorrect" for policy in ("none", "tls", "mtls")}  # what an older one says of them
SHOWN = {"nconnect=4", "rsize=8192", "wsize=8192", "noacl", "nordirplus", "nolock", "lookupcache=none", "softerr", "nocto", "ro"}  # in /proc/mounts, as given
OF_DOCUMENT = {"mounthost=10.77.0.1"}  # with the address of docs' ensembles, for which the target's stands


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} options {what}{'' if ok or got == '' else f': {got}'}", flush=True)
    return bool(ok)


def table(title):
    """(option, what becomes of it) of a section's rows."""
    section = DOCUMENT.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    return [(option, becomes) for options, becomes in ROW.findall(section) for option in WORD.findall(options)]


def judged(option, becomes, said):
    if option in NEWER_KERNELS and not said["mounted"] and re.search(NEWER_KERNELS[option], said["said"]):
        return say(True, f"{option}: this client's kernel does not know it")
    if becomes == "refused":
        return say(not said["mounted"], f"{option}: refused", said)
    good = said["mounted"] and said["said"] == "ok" and (option not in SHOWN or option in said["shown"].split(","))
    return say(good, f"{option}: {becomes}", said)


def mounts(target):
    rows = table("nfs(5)")
    options = {option: f"mounthost={target.server}" if option in OF_DOCUMENT else option for option, _ in rows}
    with target.client(["python3", str(SCRIPT), target.server, target.export, *options.values()], mount=False, locks=True, timeout=900) as guest:
        code = guest.wait()
    lines = [json.loads(line) for line in guest.text.splitlines() if line.startswith("{")]
    if not say(code == 0 and len(lines) == len(rows), f"a client has tried {len(rows)} options of nfs(5)", f"{code}, {len(lines)}: {guest.text[-1500:]}"):
        return False
    return all([judged(option, becomes, said) for (option, becomes), said in zip(rows, lines)])


def exports(target):
    """As slicectl check has it of a configuration with the word."""
    text, rows, ok = EXPORT.sub("", pathlib.Path(target.facts["config"]).read_text()), table("exports(5)"), True
    text = targets.with_lines(text, "[proxy]", 'tls_certificate = "c"', 'tls_key = "k"', 'tls_authority = "a"', 'kerberos_keytab = "k"')  # of which only the names count
    with tempfile.TemporaryDirectory() as folder:
        for word, becomes in rows:
            path = f"{folder}/ensemble.toml"
            with open(path, "w") as file:
                file.write(f'{text}\n[[export]]\nclients = "*"\noptions = "{word}"\n')
            said = subprocess.run([target.bin_dir / "slicectl", "check", path], capture_output=True, text=True)
            cure = f"'{word}': " in said.stdout + said.stderr
            ok &= say((said.returncode == 0) == (becomes != "refused") and (becomes != "refused" or cure), f"{word}: {becomes}", said.stdout + said.stderr)
    return ok & say(len(rows) > 30, f"{len(rows)} words of exports(5)")


def options(target, _):
    return mounts(target) & exports(target)
