"""The suite `away`: a storage node is away for a while, with data of which there is one copy. A kernel client that writes to it waits; what the same client asks
meanwhile, and other clients, do not (docs/proxy.md, "Limits")."""

import json
import tempfile
import time

import load
import targets
import uml

SIZE = 8 << 20  # over all nodes; as much as a client may have under way beside others, and more
BEFORE_SECONDS, AWAY_SECONDS = 3, 12
LONGEST_SECONDS = 4.0  # of a question, on a machine that is busy; one that waits for the node has AWAY_SECONDS
CONTROL = "/run/slice/control"  # of a guest


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} away {what}{'' if ok or got == '' else f': {got}'}", flush=True)
    return bool(ok)


def away(ensembles, options):
    script = uml.ROOT / "tests/cluster/guest/away.py"
    command = ["python3", str(script), ".", "--size", str(SIZE), "--begin", f"{CONTROL}/begin", "--end", f"{CONTROL}/end"]
    config = ensembles.folder / "away.toml"
    # One thread, so that both clients are beside each other: who is alone at one may have more under way.
    config.write_text(targets.with_lines((uml.ROOT / "deploy/local/ensemble.toml").read_text(), "[proxy]", "threads = 1"))
    with tempfile.TemporaryDirectory(prefix="slice-away-") as folder, ensembles.make("away", config=config) as target:
        with load.Lasting(target, options, folder) as other, target.client(command, options="actimeo=0", timeout=180) as guest:
            if not guest.says("ready"):
                return say(False, "a client begins", guest.text + guest.console[-500:])
            (guest.folder / "begin").touch()
            time.sleep(BEFORE_SECONDS)
            node = target.servers("store")[0]
            target.kill(node)
            time.sleep(AWAY_SECONDS)
            target.start(node)
            target.wait_serving()
            (guest.folder / "end").touch()
            ok = say(guest.wait(60) == 0, "a client writes, and asks", guest.text[-800:])
        if not ok:
            return False
        said = json.loads(guest.text.strip().splitlines()[-1])
        ok &= say(said["right"], "what it has written is there")
        ok &= say(said["write"] > AWAY_SECONDS / 2, f"a write has waited for {node}: {said['write']:.1f} s", said)
        ok &= say(said["question"] < LONGEST_SECONDS, f"none of {said['questions']} questions has: the longest took {said['question']:.2f} s", said)
        return ok & say(not other.faults, f"another client sees no error in {other.runs} runs", other.faults)
