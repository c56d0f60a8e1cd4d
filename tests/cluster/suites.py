"""The suites of run.py: each is a function (target, options) -> bool that prints what it does."""

import re
import subprocess
import sys

import uml


def find_programs(given):
    """The folder with the test programs: the one given, else the one built last."""
    built = [given] if given else sorted(uml.ROOT.glob("build/*/cluster"), key=lambda path: path.stat().st_mtime)
    if not built or not (built[-1] / "conformance").exists():
        raise SystemExit("the test programs are not built: cmake --build --preset dev")
    return built[-1].resolve()


def in_client(target, command, **settings):
    """Runs a command in one kernel client; true when it exits with 0."""
    with target.client([str(word) for word in command], output=sys.stdout, **settings) as guest:
        code = guest.wait()
    if code == uml.EXIT_TIMEOUT:
        print("not ok: the time ran out")
    if code in (uml.EXIT_TIMEOUT, uml.EXIT_NO_BOOT):
        print(guest.console[-4000:])
    return code == 0


def conformance(target, options):
    topics = options.only.split(",") if options.only else []
    with target.client([str(options.programs / "conformance"), ".", *topics], output=sys.stdout) as guest:
        code = guest.wait()
    if code in (uml.EXIT_TIMEOUT, uml.EXIT_NO_BOOT):
        print(guest.console[-4000:])
        return False
    failed = set(re.findall(r"^not ok (\S+ \S+):", guest.text, re.MULTILINE))
    known = getattr(target, "known_failures", set())
    if failed & known:
        print(f"known of {target.name}: {', '.join(sorted(failed & known))}")
    return code == 0 or (code == 1 and bool(failed) and failed <= known)


def everyday_command(options):
    command = ["python3", uml.ROOT / "tests/cluster/guest/everyday.py", ".", "--programs", options.programs,
               "--scale", options.scale, "--seed", options.seed]
    return command + (["--only", options.only] if options.only else [])


def everyday(target, options):
    return in_client(target, everyday_command(options), timeout=420 * max(1, options.scale))


def everyday_udp(target, options):
    """The same through a kernel built for UDP; it must have been built (build_udp_kernel.py)."""
    built = subprocess.run([sys.executable, uml.ROOT / "tests/cluster/build_udp_kernel.py", "--check"],
                           capture_output=True, text=True)
    if built.returncode != 0:
        print("not ok: the UDP kernel is not built: run tests/cluster/build_udp_kernel.py first")
        return False
    return in_client(target, everyday_command(options), timeout=1800 * max(1, options.scale), proto="udp",
                     kernel=built.stdout.strip(), options="rsize=32768,wsize=32768")


def close_to_open(target, options):
    """Two clients at once, a writer and a reader."""
    program, rounds = options.programs / "close_to_open", ["--rounds", str(int(60 * options.scale))]
    with target.client([str(program), "writer", ".", *rounds], output=sys.stdout) as writer, \
            target.client([str(program), "reader", ".", *rounds], output=sys.stdout) as reader:
        codes = [reader.wait(), writer.wait()]
    if codes != [0, 0]:
        print(writer.console[-2000:], reader.console[-2000:])
    return codes == [0, 0]


SUITES = {
    "conformance": (conformance, "Connectathon-style and pjdfstest-style tests by one kernel client"),
    "everyday": (everyday, "untar, compile, cp -a, git, sqlite, fsx, renames, links, users by one kernel client"),
    "everyday-udp": (everyday_udp, "the same over UDP, by a kernel built for it (build_udp_kernel.py)"),
    "close-to-open": (close_to_open, "two kernel clients at once see each other's work"),
}
