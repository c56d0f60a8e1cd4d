"""The suite `page`: slice-webd over an ensemble, as Chromium shows it: servers, figures, a file's way, what is down, light and dark; and what
others than browsers of this host get of it."""

import http.client
import json
import subprocess
import threading
import time
from urllib.parse import quote

import browser
import load
import targets
import uml
from metrics import get
from resident import resident

LOCAL, WIDE = ("127.0.0.1", 2080), 2081  # on the proxy's host: for itself, and for a network
RATE, SECONDS = 100, 30
ODD_NAME = 'a <b>&"\' ü%2F#?.bin'
FILE_BYTES = 300_000
FOR_OTHERS = ["handle"]  # what the page knows and does not tell


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} page {what}{'' if ok else f': {got}'}", flush=True)
    return bool(ok)


class Webd:
    """A context: the program on the proxy's host."""

    def __init__(self, target, log, *words):
        self.command = uml.in_netns(target.facts["proxy"], str(target.bin_dir / "slice-webd"), "--config", target.facts["config"], *map(str, words))
        self.log = log

    def __enter__(self):
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)

    def lives(self):
        return self.process.poll() is None


def until(condition, seconds=20):
    """What the condition said last, which is true or the time is over."""
    end = time.monotonic() + seconds
    while not (got := condition()) and time.monotonic() < end:
        time.sleep(0.3)
    return got


class Page:
    def __init__(self, target):
        self.target, self.netns = target, target.facts["proxy"]
        self.url = f"http://{LOCAL[0]}:{LOCAL[1]}/"

    def now(self):
        return json.loads(get(self.netns, LOCAL, "/now.json")[1])

    def dom(self, fragment=""):
        return browser.dom(self.netns, self.url + fragment)

    def alive(self, name):
        status = self.now()["status"]
        return next((each["alive"] for each in status["servers"] if each["name"] == name), None) if status else None


def everybody_is_shown(page):
    until(lambda: page.now().get("tables") and page.now()["rates"])
    dom = page.dom()
    told = json.loads(page.target.slicectl("--json", "tables").stdout)
    shown = {each["data-server"]: each["data-state"] for each in dom.all(data_server=None, data_state=None)}
    ok = say(set(shown) == set(page.target.facts["processes"]) and set(shown.values()) == {"serves"}, "every server is there, and serves", shown)
    ok &= say(dom.one(id="health")["data-health"] == "ok" and dom.one(id="name").text == "local", "the ensemble and its health", dom.one(id="health"))
    counted = {(row, each["data-owner"]): int(each["data-sites"]) for row in told["classes"] for each in row_of(dom, row)}
    wanted = {(row, name): names.count(name) for row, names in told["classes"].items() for name in set(names)}
    return ok & say(counted == wanted, "sites are counted as slicectl does", f"{counted}, {wanted}")


def row_of(dom, site_class):
    """The key of the row of a class of sites: what follows its head, until the next."""
    begin = next(i for i, each in enumerate(dom.elements) if each["data-class"] == site_class)
    for each in dom.elements[begin + 1:]:
        if each["data-class"]:
            return
        if each["data-owner"]:
            yield each


def figures_are_right(page, options, folder):
    """While slice-load runs at a rate that is known."""
    report = folder / "load.json"
    command = load.small_specsfs(page.target, options, "tcp", RATE, SECONDS, 1, report)
    said = []
    thread = threading.Thread(target=lambda: said.append(uml.run_in_netns(page.target.netns, command, 4 * SECONDS, output=None)))
    thread.start()
    time.sleep(SECONDS / 2)
    calls = until(lambda: [each for each in [total(page.now())] if 0.4 * RATE < each < 3 * RATE], 10)
    dom = page.dom()
    shown = float(dom.one(id="calls-now")["data-calls"] or 0)
    drawn = [each["class"] for each in dom.elements if each.tag == "path" and each["class"] in ("reads", "writes", "names", "by_user") and "L" in (each["d"] or "")]
    thread.join()
    ok = say(said and said[0][1] == 0, "the load is right", said)
    ok &= say(calls, "about as many calls as there were", total(page.now()))
    ok &= say(0.3 * RATE < shown < 4 * RATE, "and so many are shown", shown)
    return ok & say(set(drawn) == {"reads", "writes", "names", "by_user"}, "curves are drawn", drawn)


def total(now):
    return sum(each["reads"] + each["writes"] + each["names"] for name, each in now["rates"].items() if not name.startswith("proxy"))


def a_file_has_a_way(page, folder):
    source = folder / "source.bin"
    source.write_bytes(bytes(range(256)) * (FILE_BYTES // 256))
    copied = subprocess.run(uml.in_netns(page.target.netns, "nfs-cp", str(source), address_of(page, quote(ODD_NAME, safe=""))), capture_output=True, text=True)
    ok = say(copied.returncode == 0, "a file with an odd name is written", copied.stderr + copied.stdout)
    names = json.loads(page.target.slicectl("--json", "where", "/").stdout)
    ok &= say(names["type"] == "directory", "the root is found", names)
    written = known_names(page)
    if not say(written, "and is there under its name", listed(page)):
        return False
    written = written[0]
    told = json.loads(page.target.slicectl("--json", "where", f"/{written}").stdout)
    holding = {part["server"] for part in told["storage"] if part["allocated"]} | {told["name"]["server"], told["coordinator"]["server"]}
    dom = page.dom("#" + quote(f"/{written}"))
    lines = [each for each in dom.elements if each.tag == "li" and each["data-servers"] is not None]
    shown = {name for each in lines for name in each["data-servers"].split()}
    ok &= say(holding <= shown and len(lines) > 4, "its way has who has its name, its layout and its bytes", f"{shown}, {holding}")
    lit = {each["data-server"] for each in dom.all(data_server=None) if "on-way" in (each["class"] or "")}
    ok &= say(lit == shown, "and they are lit", f"{lit}, {shown}")
    ok &= say(any(each.text.startswith(f"/{written}: regular") for each in dom.elements if each.tag == "li"), "its name is shown as it is", lines)
    answer = until(lambda: [each for each in [get(page.netns, LOCAL, "/where" + quote(f"/{written}"))[1]] if '"pending"' not in each])
    ok &= say(answer and not any(f'"{word}"' in answer[0] for word in FOR_OTHERS), "its handle is for clients alone", answer)
    missing = page.dom("#/there/is/none")
    return ok & say(len(missing.all(data_error=None)) == 1, "a file that there is not is told of", missing.all(data_error=None))


def address_of(page, name):
    target = page.target
    return f"nfs://{target.server}{target.export}/{name}?version=3&nfsport={target.port}&mountport={target.mount_port}"


def listed(page):
    return subprocess.run(uml.in_netns(page.target.netns, "nfs-ls", address_of(page, "")), capture_output=True, text=True).stdout


def known_names(page):
    """libnfs may have decoded the name: as it is in the volume."""
    return [name for name in (ODD_NAME, quote(ODD_NAME, safe="")) if any(line.endswith(" " + name) for line in listed(page).splitlines())]


def what_is_down_is_told(page):
    store, manager = page.target.servers("store")[0], page.target.servers("manager")[0]
    page.target.kill(store)
    until(lambda: page.alive(store) is False and finding(page, "SERVER_DOWN"))
    dom = page.dom()
    ok = say(dom.one(data_server=store)["data-state"] == "down" and dom.one(id="health")["data-health"] == "err", "a dead server", dom.one(id="health"))
    ok &= say(store in dom.one(data_finding="SERVER_DOWN").text, "and which it is", dom.one(id="troubles"))
    page.target.start(store)
    page.target.wait_serving()
    page.target.kill(manager)
    until(lambda: finding(page, "MANAGER_SILENT"))
    dom = page.dom()
    ok &= say(manager in dom.one(data_finding="MANAGER_SILENT").text, "a dead manager", dom.one(id="troubles"))
    ok &= say(len(dom.all(data_server=None, data_state=None)) == len(page.target.facts["processes"]), "and all servers still", dom.one(id="picture"))
    page.target.start(manager)
    page.target.wait_serving()
    back = until(lambda: page.now()["status"]["health"] == "HEALTH_OK")
    return ok & say(back, "and that they are back", page.now()["status"]["findings"])


def finding(page, name):
    status = page.now()["status"]
    return status and any(each["name"] == name for each in status["findings"])


def it_is_light_and_dark(page, folder):
    ok = True
    for name, scheme, good in (("light", browser.LIGHT, lambda mean: mean > 215), ("dark", browser.DARK, lambda mean: mean < 70)):
        rows = browser.picture(page.netns, page.url, scheme, folder / f"{name}.png")
        colours = {pixel for row in rows for pixel in row}
        ok &= say(good(browser.brightness(rows)) and len(colours) > 100, f"the picture in {name}", f"{browser.brightness(rows):.0f}, {len(colours)} colours")
    return ok


def others_get_nothing(page, webd, wide):
    """Other hosts, other sites' pages, odd requests, very many of them."""
    host = page.target.facts["addresses"][page.target.proxy]
    client = page.target.netns
    ok = say(refused(client, (host, LOCAL[1])), "other hosts do not reach it")
    ok &= say(get(page.netns, (host, WIDE), "/")[0] == 200 and refused(client, (host, WIDE)), "where it is for a network, hosts of others are refused")
    ok &= say(get(page.netns, LOCAL, "/now.json", headers={"Host": "evil.example"})[0] == 421, "it has no name that others give it")
    ok &= say(get(page.netns, LOCAL, "/now.json", method="POST")[0] == 405, "it takes no orders")
    odd = {path: get(page.netns, LOCAL, path)[0] for path in ("/where/%", "/where/%zz", "/where/%2", "/../etc/passwd", "/page.css/..", "/where", "/nothing")}
    ok &= say(set(odd.values()) <= {400, 404}, "odd paths", odd)
    before = resident(webd.process.pid)
    answers = {get(page.netns, LOCAL, f"/where/{quote('x' * 200)}{i}")[0] for i in range(1500)}
    ok &= say(answers == {200} and webd.lives() and wide.lives(), "many files at once", answers)
    grown = resident(webd.process.pid) - before
    ok &= say(grown < 16 << 20, "in little memory", grown)
    return ok & say(until(lambda: page.now()["status"]["manager_answers"]), "and it goes on", page.now()["status"])


def refused(netns, address):
    try:
        return get(netns, address, "/", timeout=3) is None
    except (OSError, http.client.HTTPException):
        return True


def page(ensembles, options):
    folder = ensembles.folder / "page"
    folder.mkdir(exist_ok=True)
    with targets.Slice(f"{ensembles.instance}-page", ensembles.folder, ensembles.bin_dir, own=True) as target:
        host = target.facts["addresses"][target.proxy]
        network_of_host = host.rsplit(".", 1)[0] + ".0/24"
        with Webd(target, folder / "webd.log") as webd, Webd(target, folder / "wide.log", "--address", host, "--port", WIDE, "--clients", network_of_host) as wide:
            shown = Page(target)
            if not until(lambda: not refused(shown.netns, LOCAL)):
                return say(False, "it listens", (folder / "webd.log").read_text())
            ok = everybody_is_shown(shown)
            ok &= figures_are_right(shown, options, folder)
            ok &= a_file_has_a_way(shown, folder)
            ok &= it_is_light_and_dark(shown, folder)
            ok &= others_get_nothing(shown, webd, wide)
            return ok & what_is_down_is_told(shown)
