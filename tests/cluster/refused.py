"""A proxy whose kernel refuses the XDP program says so once and in `slicectl status`, and user space serves UDP whole."""

import os
import pathlib
import re
import tempfile

import targets
import uml

# Without these rights the verifier lets no program subtract packet pointers, as ours does.
WRAPPER = """#!/bin/sh
exec setpriv --bounding-set=-perfmon,-sys_admin --inh-caps=-perfmon,-sys_admin {program} "$@"
"""
UDP_SECONDS = 240
LONGEST_LINE = 400


def wrapped_programs(programs, folder):
    """A folder with the programs, of which the proxy runs with fewer rights."""
    for program in programs.iterdir():
        (folder / program.name).symlink_to(program)
    wrapper = folder / "slice-proxyd"
    wrapper.unlink()
    wrapper.write_text(WRAPPER.format(program=programs / "slice-proxyd"))
    wrapper.chmod(0o755)
    return folder


def told_once(log, words):
    """One warning of a log has these words, and no line is the verifier's own: those have no time before them."""
    lines = log.splitlines()
    warnings = [line for line in lines if " warning " in line and "XDP" in line]
    foreign = [line for line in lines if not re.match(r"\d{4}-\d\d-\d\dT", line) or len(line) > LONGEST_LINE]
    return len(warnings) == 1 and words in warnings[0] and not foreign, warnings + foreign[:5]


def expect(what, ok, got=""):
    print(f"{'ok' if ok else 'not ok'} refused {what}{'' if ok else f': {got}'}", flush=True)
    return ok


def refused(ensembles, options):
    with tempfile.TemporaryDirectory(prefix="slice-refused-", dir="/dev/shm") as name:
        programs = pathlib.Path(ensembles.bin_dir or uml.ROOT / "build/release/bin").resolve()
        folder = wrapped_programs(programs, pathlib.Path(name))
        with targets.Slice(f"{ensembles.instance}-refused", ensembles.folder, folder, own=True) as target:
            words = f"the kernel {os.uname().release} refuses the XDP program: "
            status = target.slicectl("status", check=False).stdout
            log = (pathlib.Path(target.facts["config"]).parent / f"log/{target.proxy}.log").read_text()
            once, about = told_once(log, words)
            command = [options.programs / "protocol", "--server", target.server, "--export", target.export, "--port", target.port,
                       "--mount-port", target.mount_port, "--slice", "--transport", "udp"]
            return all([expect("in the status", f"xdp: none: {words}" in status, status),
                        expect("told once", once, "\n".join(about)),
                        expect("udp by user space", uml.run_in_netns(target.netns, command, UDP_SECONDS)[1] == 0)])
