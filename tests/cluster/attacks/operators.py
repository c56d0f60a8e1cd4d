"""What an operator may get wrong, and disks may lose: refused or said, never silence."""

import pathlib
import re
import shutil
import time

from attacks import rpc
from attacks.attack import attack, must


def check_says(scene, change, what):
    """`slicectl check` of the configuration with that change names it."""
    text = pathlib.Path(scene.target.facts["config"]).read_text()
    path = pathlib.Path(scene.target.facts["config"]).parent / "careless.toml"
    changed = change(text)
    must(changed != text, f"the test changed nothing: {what}")
    path.write_text(changed)
    done = scene.target.slicectl("check", str(path), check=False)
    must(done.returncode in (0, 2), f"slicectl check ends with {done.returncode}: {what}")
    must(done.returncode != 0 or re.search(r"warning", done.stdout + done.stderr, re.IGNORECASE), f"no warning: {what}")


@attack("careless-exports", "exports that hand everything to everybody, and keys that all may read", refused=False)
def careless_exports(scene):
    first = 'clients = "10.77.1.0/24"\nsquash = "none"'
    check_says(scene, lambda text: text.replace(first, 'clients = "10.77.1.0/24"\nsquash = "all"\nanonymous_uid = 0'), "anonymous_uid = 0")
    check_says(scene, lambda text: text.replace(first, 'clients = "0.0.0.0/0"\nsquash = "none"'), "0.0.0.0/0 with squash = none")
    check_says(scene, lambda text: text.replace('export = "/"', 'export = "/../.."'), ".. in the export")
    folder = scene.target.slicectl("check", str(pathlib.Path(scene.target.facts["config"]).parent), check=False)
    must(folder.returncode == 2 and "directory" in folder.stderr, f"slicectl check of a folder ends with {folder.returncode}: {folder.stderr}")
    key = pathlib.Path(scene.target.facts["config"]).parent / "ensemble.key"
    loose = key.with_name("loose.key")
    loose.write_text(key.read_text())
    loose.chmod(0o644)
    check_says(scene, lambda text: text.replace("ensemble.key", "loose.key"), "a key that everybody may read")


@attack("cut-log", "the log of a stopped directory server's store loses its end", refused=False, disturbs=True)
def cut_log(scene):
    folder = pathlib.Path(scene.target.facts["config"]).parent / "data/dir1"
    kept = folder.with_name("dir1.kept")
    with scene.victim() as root:
        for number in range(10):
            root.mkdir(scene.root, f"kept-{rpc.next_xid()}-{number}")
    scene.target.stop("dir1")
    shutil.copytree(folder, kept)
    try:
        log = max(folder.rglob("*.log"), key=lambda path: path.stat().st_size)
        size = log.stat().st_size
        must(size > 0, "the test found no log to cut")
        with open(log, "r+b") as file:
            file.truncate(size // 2)
        words = folder.parents[1] / "log/dir1.log"
        before = len(words.read_text(errors="replace"))
        scene.target.start("dir1")
        time.sleep(2)
        alive = scene.target.pids()["dir1"] is not None
        said = re.findall(r"^\S+ (?:WARNING|ERROR|warning|error) .*", words.read_text(errors="replace")[before:], re.MULTILINE)
        must(not alive or any(re.search(r"log|store|lost|missing|short", line) for line in said),
             f"the server starts on a cut log without a word of it: {said}")
    finally:
        scene.target.kill("dir1")
        shutil.rmtree(folder)
        kept.rename(folder)
        scene.target.start("dir1")
        scene.target.wait_serving()
    scene.check_victim()
