#!/usr/bin/env python3
"""What run.py has a guest do, from the repository's folder: `inside.py BUILD STEP...`. Exit code 1 when a step failed."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cluster"))
import address  # noqa: E402  (its folder is known only now)
import encryption  # noqa: E402
import spread  # noqa: E402
import targets  # noqa: E402
import uml  # noqa: E402
import xdp_proof  # noqa: E402

PATIENCE = 300  # seconds until an ensemble serves
CLIENT_SECONDS = 500
# They say nothing more here, and take a minute each: full tables, a race that needs real processors, cut programs, interfaces
# that the steps `native` and `generic` have.
LEFT_OUT = "-ReplyTest.FullEvictionRingKeepsUnsavedChanges:Race.*:StagesTest.*:*VethTest.*"


def called(*command, **environment):
    return subprocess.run([str(word) for word in command], env={**os.environ, **environment}).returncode == 0


def load(build):
    """The loader's own tests: verified, attached natively and generically, refused, taken off."""
    return called(build / "tests/xdp_loader_test", "--gtest_brief=1")


def packets(build):
    """The packet tests by BPF_PROG_RUN, both policies and both hashes among them."""
    subprocess.run(["ip", "link", "add", "kernels-a", "type", "veth", "peer", "name", "kernels-b"], check=True)
    return called(build / "tests/packet_test", "--gtest_brief=1", f"--gtest_filter={LEFT_OUT}", SLICE_DIFFERENTIAL_PACKETS="500")


def protocol(build, target, transport):
    return protocol_at(build, target.netns, transport, target.server, target.export, target.port, target.mount_port)


def protocol_at(build, netns, transport, server, export="/", port=2049, mount_port=20048):
    command = [build / "cluster/protocol", "--server", server, "--export", export, "--port", port, "--mount-port", mount_port, "--transport",
               transport, "--slice"]
    return uml.run_in_netns(netns, command, CLIENT_SECONDS)[1] == 0


def ensemble(build, attachment, work, config=None, **shape):
    """An ensemble in namespaces, its program attached so; what `work` says of it."""
    shape = {"patience": PATIENCE, "xdp": attachment, **shape}
    with targets.Slice("kernel", "/dev/shm/kernel", build / "bin", own=True, config=config, shape=shape) as target:
        said = target.slicectl("status", check=False).stdout
        attached = f"xdp: {attachment} client" in said
        print(f"{'ok' if attached else 'not ok'} status: the program is attached, {attachment}" + ("" if attached else f"\n{said}"))
        return work(target) and attached


def over_udp(build, target, server=None):
    with xdp_proof.XdpProof(target) as proof:
        ok = protocol_at(build, target.netns, "udp", server or target.server)
    return proof.holds() and ok


def over_ipv6(build, attachment):
    """Every procedure over UDP and IPv6, to servers that have addresses of IPv6."""
    return ensemble(build, attachment, lambda target: over_udp(build, target, target.facts["virtual6"]), ipv6="all")


def generic(build):
    """Every procedure over UDP, routed by the program, and over TCP."""
    return ensemble(build, "generic", lambda target: all([over_udp(build, target), protocol(build, target, "tcp")]))


def native(build):
    """Every procedure over UDP with the program attached natively."""
    return ensemble(build, "native", lambda target: over_udp(build, target))


def shared(build):
    """Two proxies that share the clients: every procedure over TCP, by a client of each."""
    with tempfile.TemporaryDirectory(prefix="slice-spread-", dir="/dev/shm") as folder:
        names = dict(list(spread.PROXIES.items())[:2])
        with spread.Shared("kernel", pathlib.Path(folder), build / "bin", names, spread.SETTINGS) as pair:
            if not pair.wait(lambda: pair.shared_by(*names), PATIENCE, pause=1):
                print(f"not ok two proxies share the clients: {pair.details()}\n" + "".join(pair.log(name) for name in pair.processes))
                return False
            ok = True
            for name in names:
                pair.as_client_of(name)
                ok &= protocol_at(build, pair.client, "tcp", address.VIRTUAL)
            sent = {name: pair.sent_on(name) for name in names}
            print(f"{'ok' if sum(sent.values()) > 0 else 'not ok'} packets were sent on: {sent}")
            return ok and sum(sent.values()) > 0


# Mounts, copies a tree in, loses its connection, and reads all of it again from the servers.
MOUNTS = """
mkdir -p /tmp/mounted && mount.nfs {server}:/ /tmp/mounted -o vers=3,proto=tcp,nolock,xprtsec={policy} || exit 1
grep -q xprtsec={policy} /proc/mounts && mkdir /tmp/mounted/{policy} && cp -r docs /tmp/mounted/{policy}/ && sync || exit 2
touch {folder}/copied; while [ ! -e {folder}/killed ]; do sleep 0.2; done
echo 3 > /proc/sys/vm/drop_caches; diff -r docs /tmp/mounted/{policy}/docs || exit 3
umount /tmp/mounted
"""


class Handshakes:
    """ktls-utils' daemon in the client's namespace, with the client's certificate."""

    def __init__(self, build, netns, certificates):
        root, config = (build / "ktls-utils").resolve(), certificates.folder / "tlshd.conf"
        certificate, key = certificates.files(encryption.CLIENT)
        config.write_text(f"[authenticate.client]\nx509.truststore= {certificates.authority()}\nx509.certificate= {certificate}\nx509.private_key= {key}\n")
        self.log = certificates.folder / "tlshd.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(uml.in_netns(netns, root / "usr/lib64/ld-linux-x86-64.so.2", "--library-path", root / "usr/lib/x86_64-linux-gnu",
                                                         root / "usr/sbin/tlshd", "-s", "-c", config), stdout=log, stderr=log)

    def __enter__(self):
        """It says a line, and is the kernel's to ask a moment later."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and not self.log.read_text():
            time.sleep(0.2)
        time.sleep(2)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def mounts_with(target, policy, folder):
    """The exit code of a client that does; the proxy is killed in between."""
    for mark in ("copied", "killed"):
        (folder / mark).unlink(missing_ok=True)
    script = MOUNTS.format(server=target.server, policy=policy, folder=folder)
    with subprocess.Popen(uml.in_netns(target.netns, "timeout", str(CLIENT_SECONDS), "unshare", "-m", "sh", "-c", script)) as client:
        while client.poll() is None and not (folder / "copied").exists():
            time.sleep(0.2)
        if client.poll() is None:
            target.kill_and_start(target.proxy)
            (folder / "killed").touch()
        return client.wait()


def takes_tls_alone(target):
    """From now on the ensemble's exports do."""
    config = pathlib.Path(target.facts["config"])
    config.write_text(targets.with_lines(config.read_text(), "[[export]]", 'xprtsec = ["tls", "mtls"]'))
    said = target.slicectl("reload", "--timeout", str(PATIENCE), check=False)
    print(f"{'ok' if said.returncode == 0 else 'not ok'} exports that take encrypted mounts alone are in force: {(said.stderr or said.stdout).strip()}")
    return said.returncode == 0


def encrypted_mounts(build, target, certificates):
    with Handshakes(build, target.netns, certificates) as handshakes:
        codes = {policy: mounts_with(target, policy, certificates.folder) for policy in ("tls", "mtls", "none")}
    metrics = target.metrics(target.proxy, "--timeout", str(PATIENCE))
    counts = {how: metrics.get(f'proxy_tls_connections_total{{certificate="{how}"}}', 0) for how in ("yes", "no")}
    good = codes["tls"] == codes["mtls"] == 0 and codes["none"] == 1 and counts["yes"] > 0
    print(f"{'ok' if good else 'not ok'} mounts by xprtsec=: {codes}, connections of the last proxy by certificate: {counts}"
          + ("" if good else f"\n{handshakes.log.read_text()[-3000:]}"))
    return good


def tls(build):
    """Every procedure over UDP, routed by the program; then this kernel's client mounts with xprtsec=tls and mtls, and comes back by itself
    when its connection is gone; in clear it may not. In one ensemble, since to bring one up takes an emulated machine minutes."""
    with tempfile.TemporaryDirectory(prefix="slice-tls-", dir="/dev/shm") as name:
        certificates = encryption.Certificates(pathlib.Path(name), "10.77.0.1")
        config = certificates.folder / "ensemble.toml"
        config.write_text(certificates.into((ROOT / "deploy/local/ensemble.toml").read_text()))
        return ensemble(build, "generic", lambda target: over_udp(build, target) and takes_tls_alone(target) and encrypted_mounts(build, target, certificates),
                        config=config)


STEPS = {"tls": tls, "shared": shared, "load": load, "packets": packets, "generic": generic, "native": native,
         "ipv6": lambda build: over_ipv6(build, "native"), "ipv6-generic": lambda build: over_ipv6(build, "generic")}


def main():
    build, failed = ROOT / sys.argv[1], []
    for name in sys.argv[2:]:
        began = time.monotonic()
        ok = STEPS[name](build)
        print(f"{'ok' if ok else 'not ok'} {name} on Linux {os.uname().release} in {time.monotonic() - began:.0f} s", flush=True)
        failed += [] if ok else [name]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
