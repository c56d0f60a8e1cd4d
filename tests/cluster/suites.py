"""The suites of run.py: each is a function (target, options) -> bool that prints what it does."""

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
    return in_client(target, [options.programs / "conformance", ".", *topics], timeout=300)


SUITES = {
    "conformance": (conformance, "Connectathon-style and pjdfstest-style tests by one kernel client"),
}
