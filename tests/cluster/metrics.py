"""The suite `metrics`: Prometheus scrapes an ensemble under load, while hostile clients hold the ports for metrics. Each server's text is
clean by promtool and is what slicectl shows; queries give what was done; the dashboard's expressions and the alerts work."""

import contextlib
import http.client
import json
import re
import shutil
import socket
import subprocess
import sys
import time
from urllib.parse import quote

import targets
import uml
from attacks import network
from beside import Beside

ENSEMBLE = targets.ROOT / "deploy/local/ensemble.toml"
MONITORING = targets.ROOT / "deploy/monitoring"
PORT = 10049
PROMETHEUS = ("127.0.0.1", 19090)  # in the namespace of the proxy's host
LOAD_SECONDS = 10
QUIET_SECONDS = 3  # two scrapes after the last operation
CLIENT = "10.77.1.2"  # whose calls are counted by its address
HELD = 200  # connections that an attacker holds at each server
# Families of which nothing need be there in a small, healthy ensemble: what no moves, mirrors or errors were to count, and zeros
# that a dashboard leaves out.
MAY_BE_EMPTY = re.compile(r"> 0$|== 0\)?$")


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} metrics {what}{'' if ok else f': {got}'}", flush=True)
    return bool(ok)


def promtool(*words, text=None):
    """Its exit code and all that it says."""
    done = subprocess.run(["promtool", *map(str, words)], input=text, capture_output=True, text=True, cwd=MONITORING)
    return done.returncode, (done.stdout + done.stderr).strip()


def rules_are_good():
    checks = [promtool("check", "rules", "slice-alerts.yml"), promtool("test", "rules", "slice-alerts-test.yml")]
    return say(all(code == 0 for code, _ in checks), "rules, and their tests", checks)


def get(netns, address, path="/metrics", timeout=10, method="GET", headers=None):
    """Status and body of a page, asked for from a namespace."""
    connection = http.client.HTTPConnection(*address, timeout=timeout)
    with network.inside(netns):
        connection.sock = socket.create_connection(address, timeout)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def heads(text):
    """HELP and TYPE of all families."""
    return [line for line in text.splitlines() if line.startswith("#")]


class Attack(Beside):
    """A context: as many connections as the attacker can hold at each server, half of them with half a request, some with ten thousand
    headers, or requests upon requests without a reader; and new ones all the time."""

    HEADERS = b"GET /metrics HTTP/1.1\r\nHost: a\r\n" + b"X-Some: header\r\n" * 10_000
    PIPELINED = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 200

    def __init__(self, target):
        super().__init__()
        self.netns, self.addresses = target.netns, [(address, PORT) for address in target.facts["addresses"].values()]
        self.sockets, self.opened = [], 0

    def __exit__(self, *_):
        super().__exit__()
        for each in self.sockets:
            each.close()

    def run(self):
        while not self.over.is_set():
            for address in self.addresses:
                self._open(address)
            while len(self.sockets) > HELD * len(self.addresses):
                self.sockets.pop(0).close()
            time.sleep(0.01)

    def _open(self, address):
        with network.inside(self.netns):
            one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.setblocking(False)
        one.connect_ex(address)
        self.sockets.append(one)
        self.opened += 1
        if self.opened > 3 * len(self.addresses):
            with contextlib.suppress(OSError):  # the server has ended it, or the connection is not there yet
                self.sockets[-3 * len(self.addresses)].send((b"GET /metr", self.HEADERS, self.PIPELINED, b"")[self.opened % 4])


class Prometheus:
    """A context: a Prometheus of its own on the proxy's host, asked by query()."""

    def __init__(self, target, folder):
        self.target, self.folder = target, folder
        self.folder.mkdir()
        config = (MONITORING / "prometheus.yml").read_text().replace("15s", "1s")
        (folder / "prometheus.yml").write_text(config)
        shutil.copy(MONITORING / "slice-alerts.yml", folder)
        listed = subprocess.run([sys.executable, MONITORING / "targets.py", target.facts["config"]], capture_output=True, text=True, check=True)
        (folder / "slice.json").write_text(listed.stdout)

    def __enter__(self):
        command = ["prometheus", f"--config.file={self.folder / 'prometheus.yml'}", f"--storage.tsdb.path={self.folder / 'data'}",
                   f"--web.listen-address={PROMETHEUS[0]}:{PROMETHEUS[1]}", "--log.level=warn"]
        self.log = open(self.folder / "log", "w")
        self.process = subprocess.Popen(uml.in_netns(self.target.facts["proxy"], *command), stdout=self.log, stderr=self.log)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)
        self.log.close()

    def query(self, expression):
        """[({label: value}, number)]; an expression that it refuses raises."""
        status, body = get(self.target.facts["proxy"], PROMETHEUS, f"/api/v1/query?query={quote(expression)}")
        if status != 200:
            raise ValueError(f"{expression}: {body}")
        return [(each["metric"], float(each["value"][1])) for each in json.loads(body)["data"]["result"]]

    def number(self, expression):
        found = self.query(expression)
        return found[0][1] if len(found) == 1 else None

    def until(self, expression, wanted, patience=30):
        """Waits until the expression has that number; whether it has."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
                if self.number(expression) == wanted:
                    return True
            time.sleep(0.2)
        return False


class Load:
    """A context: slice-load, whose replies are checked, in the background; then `point` is its report's."""

    def __init__(self, target, options, folder):
        self.report = folder / "load.json"
        command = [options.programs.parent / "bin/slice-load", "--server", f"{target.server}:{target.port}", "--export", target.export,
                   "--mount-port", target.mount_port, "--seed", options.seed, "--json", self.report, "--mix", "specsfs", "--bytes-per-op", "20KiB",
                   "--rate", 150, "--warm-up", 1, "--interval", LOAD_SECONDS]
        self.command = uml.in_netns(target.netns, *map(str, command))

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        self.process.wait(LOAD_SECONDS + 60)
        self.point = json.loads(self.report.read_text())["points"][0]


def texts_are_clean(target):
    """Of every server: promtool has nothing to say, and slicectl shows the same families."""
    ok = True
    for name, address in target.facts["addresses"].items():
        status, text = get(target.netns, (address, PORT))
        code, said = promtool("check", "metrics", text=text)
        ok &= say(status == 200 and code == 0 and not said, f"promtool has nothing to say of {name}", f"{status} {code} {said}")
        told = target.slicectl("metrics", name).stdout
        ok &= say(heads(told) == heads(text), f"slicectl shows the same of {name}", set(heads(told)) ^ set(heads(text)))
        ready = get(target.netns, (address, PORT), "/-/ready")
        ok &= say(ready == (200, "ready\n"), f"{name} is ready", ready)
    return ok


def scraped_under_load(target, prometheus, options, folder):
    """The load and the scrapes go on beside the attack."""
    pids = target.pids()
    with Load(target, options, folder) as load, Attack(target) as attack:
        time.sleep(2)
        slowest = 0.0
        for _ in range(8):
            for address in target.facts["addresses"].values():
                began = time.monotonic()
                get(target.facts["proxy"], (address, PORT))
                slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.5)
    ok = say(load.point["violations"] == 0 and load.point["failed"] == 0 and load.point["achieved_per_second"] > 100, "clients noticed nothing", load.point)
    ok &= say(attack.opened > 2000, "there was an attack", attack.opened)
    ok &= say(slowest < 2, "other scrapers were answered meanwhile", f"{slowest:.1f} s")
    ok &= say(target.pids() == pids, "every process lives", target.pids())
    ended = prometheus.number('sum(increase(slice_http_connections_ended_total{why=~"crowded|slow_request"}[1m]))')
    ok &= say(ended and ended > 1000, "what was ended is counted", ended)
    lost = prometheus.query('min_over_time(up{job="slice"}[15s]) == 0')
    return ok & say(not lost, "Prometheus missed no scrape", lost)


def queries_tell_what_was_done(target, prometheus):
    time.sleep(QUIET_SECONDS)
    ok = True
    for name in target.servers("dir") + target.servers("store"):
        told = {sample: value for sample, value in target.metrics(name).items() if sample.startswith("nfs_calls_total{")}
        calls = prometheus.number(f'sum(slice_nfs_calls_total{{server="{name}"}})')
        ok &= say(calls == sum(told.values()) and calls > 0, f"calls of {name} are what slicectl says", f"{calls}, {told}")
        timed = prometheus.number(f'sum(slice_nfs_latency_seconds_count{{server="{name}"}})')
        ok &= say(timed == calls - told['nfs_calls_total{procedure="NULL"}'], f"each call of {name} but NULL is in its histogram", f"{timed} of {calls}")
    slowest = prometheus.number('histogram_quantile(0.99, sum by (le) (rate(slice_proxy_latency_seconds_bucket[30s])))')
    ok &= say(slowest is not None and 0 < slowest < 10, "the proxy's 99th percentile", slowest)
    within = prometheus.number("sum(slice_proxy_server_latency_seconds_sum) > bool 0.1 * sum(slice_proxy_latency_seconds_sum)")
    ok &= say(within == 1, "calls take the time that servers take", within)
    seen = {labels["backend"] for labels, count in prometheus.query("slice_proxy_server_latency_seconds_count > 0")}
    ok &= say(seen >= set(target.servers("dir") + target.servers("store") + target.servers("small")), "the proxy times each server", seen)
    counted = prometheus.number(f'sum(slice_nfs_client_calls_total{{client="{CLIENT}"}}) > bool 1000')
    ok &= say(counted == 1, "the client has counters of its own", prometheus.query("sum by (client) (slice_nfs_client_calls_total)"))
    version = {labels["version"] for labels, _ in prometheus.query("slice_build_info")}
    said = target.slicectl("--version").stdout.split()[-1]
    ok &= say(version == {said}, "the version", f"{version}, {said}")
    ages = prometheus.query("time() - process_start_time_seconds{job='slice'}")
    return ok & say(len(ages) == len(target.process_names) and all(0 <= age < 300 for _, age in ages), "every process tells when it started", ages)


def the_dashboard_shows_something(prometheus):
    board = json.loads((MONITORING / "slice-dashboard.json").read_text())
    empty, asked = [], 0
    for panel in board["panels"]:
        for each in panel.get("targets", []):
            expression = each["expr"].replace("$__rate_interval", "30s").replace("$ensemble", ".*").replace("$server", ".*")
            asked += 1
            if not prometheus.query(expression) and not MAY_BE_EMPTY.search(expression):
                empty.append(expression)
    return say(not empty and asked > 20, "every expression of the dashboard is answered", empty)


def a_dead_server_is_told_of(target, prometheus):
    name = target.servers("store")[0]
    target.kill(name)
    ok = say(prometheus.until(f'ALERTS{{alertname="SliceServerDown", server="{name}"}}', 1), "a dead server is told of", prometheus.query("ALERTS"))
    target.start(name)
    target.wait_serving()
    ok &= say(prometheus.until(f'absent(ALERTS{{alertname="SliceServerDown", server="{name}"}})', 1), "and that it is back", prometheus.query("ALERTS"))
    firing = [labels for labels, _ in prometheus.query('ALERTS{alertstate="firing"}') if labels["alertname"] != "SliceManagerSilent"]
    return ok & say(not firing, "nothing else is", firing)


def one_process_shows_all(ensembles, config):
    with targets.Slice(f"{ensembles.instance}-one", ensembles.folder, ensembles.bin_dir, own=True, config=config, shape={"one_process": True}) as target:
        texts = {name: get(target.facts["proxy"], (address, PORT))[1] for name, address in target.facts["addresses"].items()}
    wrong = [name for name, text in texts.items() if f'slice_server_info{{name="{name}"}} 1\n' not in text]
    of_process = [name for name, text in texts.items() if "\nprocess_open_fds " in text]
    ok = say(not wrong, "each server of a slice-hostd shows its metrics", wrong)
    return ok & say(len(of_process) == 1, "one of them those of the process", of_process)


def metrics(ensembles, options):
    folder = ensembles.folder / "metrics"
    folder.mkdir(exist_ok=True)
    config = folder / "metrics.toml"
    config.write_text(ENSEMBLE.read_text().replace("[metrics]\n", "[metrics]\nclients = 4\n"))
    ok = rules_are_good()
    with targets.Slice(f"{ensembles.instance}-metrics", ensembles.folder, ensembles.bin_dir, own=True, config=config) as target, \
            Prometheus(target, folder / "prometheus") as prometheus:
        ok &= texts_are_clean(target)
        ok &= say(prometheus.until('count(up{job="slice"} == 1)', len(target.facts["addresses"])), "Prometheus finds every server",
                  (folder / "prometheus/log").read_text()[-2000:])
        ok &= scraped_under_load(target, prometheus, options, folder)
        ok &= queries_tell_what_was_done(target, prometheus)
        ok &= the_dashboard_shows_something(prometheus)
        ok &= a_dead_server_is_told_of(target, prometheus)
    return ok & one_process_shows_all(ensembles, config)
