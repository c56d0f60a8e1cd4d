"""Servers confined as their systemd units say (deploy/systemd): a user without a name, next to no capabilities, a system call filter. They serve whole,
XDP is attached, a proxy that was killed takes its program over, and nobody keeps a right that it does not need."""

import pathlib

import targets
import uml

PROTOCOL_SECONDS = 240
SECCOMP_FILTER = "2"
KEPT = {"proxy": "0000000000001400"}  # CAP_NET_ADMIN and CAP_NET_BIND_SERVICE, of the thread that stops cleanly
NONE = "0000000000000000"


def expect(what, ok, got=""):
    print(f"{'ok' if ok else 'not ok'} unprivileged {what}{'' if ok else f': {got}'}", flush=True)
    return ok


def fields(path):
    return dict(line.split(":\t", 1) for line in path.read_text().splitlines() if ":\t" in line)


def rights_of(name, pid):
    """Of each thread of a process: what it has and should not have."""
    wrong = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        has = fields(task / "status")
        kept = KEPT.get(name.rstrip("0123456789"), NONE) if task.name == str(pid) else NONE
        if (has["CapEff"], has["CapPrm"], has["NoNewPrivs"], has["Seccomp"]) != (kept, kept, "1", SECCOMP_FILTER) or has["Uid"].startswith("0\t"):
            wrong.append({key: has[key] for key in ("Name", "Uid", "CapPrm", "CapEff", "NoNewPrivs", "Seccomp")})
    return wrong


def confined(target):
    return all([expect(f"rights of {name}", not (wrong := rights_of(name, pid)), wrong) for name, pid in target.pids().items()])


def serves(target, options, transport):
    command = [options.programs / "protocol", "--server", target.server, "--export", target.export, "--port", target.port,
               "--mount-port", target.mount_port, "--slice", "--transport", transport]
    return expect(f"{transport} served whole", uml.run_in_netns(target.netns, command, PROTOCOL_SECONDS)[1] == 0)


def unprivileged(ensembles, options):
    ensembles.folder.chmod(0o711)
    shape = {"directories": 2, "unprivileged": True}
    with targets.Slice(f"{ensembles.instance}-unprivileged", ensembles.folder, ensembles.bin_dir, own=True, shape=shape) as target:
        ok = confined(target) & serves(target, options, "udp")
        attached = "xdp: generic client"
        ok &= expect("XDP is attached", attached in (said := target.slicectl("status", check=False).stdout), said)
        target.kill_and_start(target.proxy)
        target.wait_serving()
        ok &= expect("XDP is attached by the next proxy", attached in (said := target.slicectl("status", check=False).stdout), said)
        return ok & confined(target) & serves(target, options, "tcp")
