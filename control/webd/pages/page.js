// The page of slice-webd: asks for what slicectl shows, every two seconds, and draws it. What servers and files are called
// comes from elsewhere: it goes into text nodes alone.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const PERIOD = 2000, STALE = 20; // milliseconds, seconds
// Rows of the picture, from the clients' side.
const ROWS = [["proxy"], ["directory"], ["small-file"], ["storage"], ["coordinator", "manager"]];
const COLOURS = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#ff9da7", "#9c755f", "#8a8f94"];
const byId = (id) => document.getElementById(id);
let onWay = new Set();
let latest = null;

function draw(tag, attributes, parent, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function make(tag, parent, text, attributes = {}) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function number(value) {
  if (value >= 1e6) return (value / 1e6).toPrecision(3) + " M";
  if (value >= 1e4) return (value / 1e3).toPrecision(3) + " k";
  return value >= 100 || value === 0 ? value.toFixed(0) : value.toPrecision(2);
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  for (; value >= 1024 && unit + 1 < units.length; ++unit) value /= 1024;
  return (unit === 0 ? value : value.toFixed(1)) + " " + units[unit];
}

function duration(seconds) {
  if (seconds < 1e-3) return (seconds * 1e6).toFixed(0) + " µs";
  return seconds < 1 ? (seconds * 1e3).toPrecision(3) + " ms" : seconds.toFixed(1) + " s";
}

async function get(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

// --- health

const LEVELS = {HEALTH_OK: "ok", HEALTH_WARN: "warn", HEALTH_ERR: "err"};

function showHealth(now) {
  if (!now.status) return;
  const badge = byId("health");
  badge.dataset.health = LEVELS[now.status.health] || "unknown";
  badge.textContent = now.status.health;
  byId("troubles").replaceChildren();
  for (const each of now.status.findings) {
    const since = each.since_seconds === null ? "" : `, for ${age(each.since_seconds)}`;
    const line = make("li", byId("troubles"), undefined, {"data-health": each.level === "error" ? "err" : "warn", "data-finding": each.name});
    make("b", line, [each.name, each.server].filter(Boolean).join(" "));
    line.append(`: ${each.what}${since}. Cure: ${each.cure}`);
  }
  byId("name").textContent = document.title = now.status.ensemble;
  const alive = now.status.servers.filter((each) => each.alive).length;
  byId("summary").textContent = `generation ${now.status.generation}, ${alive} of ${now.status.servers.length} processes alive`;
  const old = (Date.now() - now.asked_ms) / 1000;
  byId("age").textContent = old > STALE ? `as of ${age(old)} ago` : "";
}

function age(seconds) {
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  return seconds < 7200 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(0)} h`;
}

// --- who is where

const BOX = {width: 190, height: 78, gapX: 16, gapY: 34};

function stateOf(server) {
  return !server.alive ? "down" : server.state === "serving" ? "serves" : "waits";
}

function drawServer(picture, server, x, y, now) {
  const rates = now.rates[server.name];
  const group = draw("g", {class: `server ${stateOf(server)}${onWay.has(server.name) ? " on-way" : ""}`, "data-server": server.name,
    "data-role": server.role, "data-state": stateOf(server), transform: `translate(${x},${y})`}, picture);
  draw("title", {}, group, [server.endpoint, server.state, server.detail].filter(Boolean).join("\n"));
  draw("rect", {class: "box", width: BOX.width, height: BOX.height, rx: 6}, group);
  draw("circle", {class: "dot", cx: 13, cy: 15, r: 5}, group);
  draw("text", {class: "name", x: 24, y: 19}, group, server.name);
  draw("text", {class: "faint", x: BOX.width - 8, y: 19, "text-anchor": "end"}, group, server.host || server.endpoint.split(":")[0]);
  const calls = rates ? rates.reads + rates.writes + rates.names + rates.by_xdp : 0;
  draw("text", {class: "calls", x: 10, y: 37, "data-calls": calls.toFixed(1)}, group, rates ? `${number(calls)}/s` : server.alive ? "–" : "down");
  if (rates && rates.latency > 0) draw("text", {class: "faint", x: BOX.width - 8, y: 37, "text-anchor": "end"}, group, duration(rates.latency));
  bar(group, 53, rates ? Math.min(rates.cpu, 1) : 0, "cpu", rates ? `cpu ${(rates.cpu * 100).toFixed(0)} %` : "cpu");
  if (server.total_bytes > 0) bar(group, 68, 1 - server.free_bytes / server.total_bytes, "", `${bytes(server.free_bytes)} free`);
}

function bar(group, y, part, kind, text) {
  draw("rect", {class: "track", x: 10, y: y - 6, width: 70, height: 6, rx: 3}, group);
  draw("rect", {class: `fill ${kind}`, x: 10, y: y - 6, width: Math.max(0, Math.min(1, part)) * 70, height: 6, rx: 3}, group);
  draw("text", {class: "faint", x: 88, y}, group, text);
}

function showPicture(now) {
  if (!now.status) return;
  const picture = byId("picture");
  picture.replaceChildren();
  const rows = ROWS.map((roles) => roles.flatMap((role) => now.status.servers.filter((each) => each.role === role))).filter((row) => row.length > 0);
  const across = Math.max(4, Math.min(6, Math.max(...rows.map((row) => row.length))));
  const width = across * (BOX.width + BOX.gapX) - BOX.gapX + 92, middle = 90 + (width - 92) / 2;
  const places = new Map();
  let y = 34;
  draw("text", {class: "faint", x: middle, y: 16, "text-anchor": "middle"}, picture, "clients");
  for (const row of rows) {
    [...new Set(row.map((each) => each.role))].forEach((role, i) => draw("text", {class: "faint", x: 0, y: y + 20 + 16 * i}, picture, role));
    const margin = 90 + ((across - Math.min(across, row.length)) * (BOX.width + BOX.gapX)) / 2;
    row.forEach((server, i) => {
      const x = margin + (i % across) * (BOX.width + BOX.gapX), at = y + Math.floor(i / across) * (BOX.height + 12);
      places.set(server.name, {x: x + BOX.width / 2, top: at, bottom: at + BOX.height, role: server.role});
    });
    y += Math.ceil(row.length / across) * (BOX.height + 12) - 12 + BOX.gapY;
  }
  picture.setAttribute("viewBox", `0 0 ${width} ${y - BOX.gapY + 8}`);
  picture.style.width = "100%";
  drawLinks(picture, places, now, middle);
  for (const server of rows.flat()) drawServer(picture, server, places.get(server.name).x - BOX.width / 2, places.get(server.name).top, now);
}

// As wide as there are calls: from clients to proxies, and from the proxies to those that serve.
function drawLinks(picture, places, now, clients) {
  const proxies = [...places.values()].filter((each) => each.role === "proxy");
  const weight = (name) => {
    const rates = now.rates[name];
    return rates ? Math.min(8, 1 + Math.log10(1 + rates.reads + rates.writes + rates.names + rates.by_xdp)) : 1;
  };
  for (const [name, place] of places) {
    if (place.role === "manager" || place.role === "coordinator") continue;
    const from = place.role === "proxy" ? {x: clients, bottom: 20} : proxies[0];
    if (!from) continue;
    const middle = (from.bottom + place.top) / 2;
    draw("path", {class: "link", "stroke-width": weight(name).toFixed(1), "stroke-opacity": 0.45,
      d: `M${from.x} ${from.bottom} C${from.x} ${middle} ${place.x} ${middle} ${place.x} ${place.top}`}, picture);
  }
  for (const move of movesGoingOn(now)) {
    const from = places.get(move.from), to = places.get(move.to);
    if (from && to) draw("path", {class: "going", "data-move": move.move, d: `M${from.x} ${from.top} C${from.x} ${from.top - 34} ${to.x} ${to.top - 34} ${to.x} ${to.top}`}, picture);
  }
}

// --- the last hour

// Stacked areas, or lines. `series`: [[class, colour or null, values]].
function showCurve(id, points, series, stacked, unit) {
  const svg = byId(id), width = 300, height = 110;
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height + 12}`);
  svg.setAttribute("preserveAspectRatio", "none");
  draw("line", {class: "axis", x1: 0, x2: width, y1: height, y2: height}, svg);
  if (points.length < 2) return;
  const last = points[points.length - 1].at, first = Math.min(points[0].at, last - 60);
  const x = (i) => ((points[i].at - first) / (last - first)) * width;
  const sums = points.map((_, i) => series.reduce((sum, [, , values]) => (stacked ? sum + values[i] : Math.max(sum, values[i])), 0));
  const most = Math.max(...sums) || 1;
  const y = (value) => height - (value / most) * (height - 16);
  const below = points.map(() => 0);
  for (const [kind, colour, values] of series) {
    const top = values.map((value, i) => (stacked ? below[i] + value : value));
    let d = top.map((value, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    if (stacked) d += below.map((value, i) => `L${x(i).toFixed(1)} ${y(value).toFixed(1)}`).reverse().join("") + "Z";
    const path = draw("path", {class: kind, d}, svg);
    if (colour) path.style.stroke = colour;
    if (stacked) top.forEach((value, i) => { below[i] = value; });
  }
  draw("text", {class: "faint", x: 2, y: 10}, svg, unit(most));
}

function showHistory(history) {
  const points = history.points;
  const of = (name) => points.map((each) => each[name]);
  showCurve("calls", points, ["names", "reads", "writes"].map((name) => [name, null, of(name)]), true, number);
  showCurve("latency", points, [["line", null, of("latency")]], false, duration);
  showCurve("proxies", points, ["by_xdp", "by_user"].map((name) => [name, null, of(name)]), true, number);
  const servers = [...new Set(points.flatMap((each) => Object.keys(each.servers)))].sort();
  showCurve("by-server", points, servers.map((name) => ["line", colourOf(name), points.map((each) => each.servers[name] || 0)]), false, number);
  byId("server-key").replaceChildren();
  for (const name of servers) keyItem(byId("server-key"), name, name);
  const now = points[points.length - 1];
  if (!now) return;
  const calls = now.reads + now.writes + now.names;
  byId("calls-now").textContent = number(calls);
  byId("calls-now").dataset.calls = calls.toFixed(1);
  byId("latency-now").textContent = now.latency > 0 ? duration(now.latency) : "";
  byId("proxies-now").textContent = number(now.by_xdp + now.by_user);
}

// --- sites and moves

const colours = new Map();
function colourOf(name) {
  if (!colours.has(name)) colours.set(name, COLOURS[colours.size % COLOURS.length]);
  return colours.get(name);
}

function keyItem(key, server, text, attributes = {}) {
  const item = make("span", key, undefined, attributes);
  make("i", item).style.background = colourOf(server);
  item.append(text);
}

function showSites(now) {
  const box = byId("sites");
  box.replaceChildren();
  if (!now.tables) return;
  for (const [site_class, owners] of Object.entries(now.tables.classes)) {
    const row = make("div", box, undefined, {class: "sites-row", "data-class": site_class});
    make("b", row, site_class);
    const svg = draw("svg", {viewBox: `0 0 ${owners.length} 10`, preserveAspectRatio: "none"}, row);
    const counts = new Map();
    for (let begin = 0; begin < owners.length;) {
      let end = begin + 1;
      while (end < owners.length && owners[end] === owners[begin]) ++end;
      draw("rect", {x: begin, y: 0, width: end - begin, height: 10, fill: colourOf(owners[begin])}, svg);
      counts.set(owners[begin], (counts.get(owners[begin]) || 0) + end - begin);
      begin = end;
    }
    const key = make("p", row, undefined, {class: "key"});
    for (const [name, count] of [...counts].sort()) keyItem(key, name, `${name} ${count}`, {"data-owner": name, "data-sites": count});
  }
}

const movesOf = (now) => (now.moves ? now.moves.moves : []);
const movesGoingOn = (now) => movesOf(now).filter((each) => each.ended_ns === null);

function showMoves(now) {
  const body = byId("moves").tBodies[0];
  body.replaceChildren();
  for (const move of movesOf(now).slice(0, 20)) {
    const row = make("tr", body, undefined, {"data-move": move.move});
    for (const text of [move.move, move.class, move.sites.length, move.from, move.to]) make("td", row, text);
    const far = make("td", row);
    if (move.ended_ns !== null) far.textContent = `${bytes(move.copied_bytes)} copied`;
    else make("meter", far, undefined, {max: move.expected_bytes || 1, value: move.copied_bytes});
    make("td", row, [move.phase, move.trouble].filter(Boolean).join(": "));
  }
  const spreads = (now.moves && now.moves.spreads) || [];
  for (const spread of spreads) {
    const row = make("tr", body, undefined, {"data-spread": spread.coordinator});
    for (const text of ["", "evening out", "", spread.coordinator, ""]) make("td", row, text);
    const far = make("td", row);
    if (spread.phase !== "moving") far.textContent = `${bytes(spread.moved_bytes)} moved`;
    else make("meter", far, undefined, {max: spread.moved_bytes + spread.left_bytes || 1, value: spread.moved_bytes});
    make("td", row, [spread.phase, spread.trouble].filter(Boolean).join(": "));
  }
  if (movesOf(now).length + spreads.length === 0) make("td", make("tr", body), "no sites are moved", {colspan: 7});
}

// --- a request's way

function hopsOf(where) {
  const hops = [
    [[], "the client sends each request to the virtual address"],
    [[], "the proxy looks into it: XDP on UDP, user space on TCP"],
    [[where.name.server], `LOOKUP of the name: directory site ${where.name.site}, at ${where.name.server}`],
    [[where.directory.server], `GETATTR, SETATTR, READDIR: directory site ${where.directory.site}, at ${where.directory.server}`],
  ];
  if (where.coordinator) hops.push([[where.coordinator.server], `changes that take several servers (truncation, copies, block maps): coordinator site ${where.coordinator.site}, at ${where.coordinator.server}`]);
  if (where.small_file) hops.push([[where.small_file.server], `READ and WRITE below ${bytes(where.threshold)}: ${where.small_file.server} has ${bytes(where.small_file.allocated || 0)}${where.small_file.error ? " (" + where.small_file.error + ")" : ""}`]);
  const holding = (where.storage || []).filter((each) => each.allocated > 0 || each.error);
  for (const part of holding) hops.push([[part.server], `READ and WRITE of stripes: ${part.server} has ${bytes(part.allocated || 0)}${part.error ? " (" + part.error + ")" : ""}`]);
  return hops;
}

async function showWay(path) {
  const list = byId("way");
  list.replaceChildren();
  let where = {pending: true};
  for (let tries = 0; where.pending && tries < 60; ++tries) {
    where = await get("/where" + path.split("/").map(encodeURIComponent).join("/"));
    if (where.pending) await new Promise((wake) => setTimeout(wake, 100));
  }
  onWay = new Set();
  if (where.error || where.pending) {
    make("li", list, where.error || "the servers do not answer", {"data-error": ""});
  } else {
    make("li", list, `${where.path}: ${where.type}, ${bytes(where.size)}, mode ${where.mode}`, {"data-type": where.type});
    for (const [servers, text] of hopsOf(where)) {
      make("li", list, text, {"data-servers": servers.join(" ")});
      for (const server of servers) onWay.add(server);
    }
  }
  if (latest) showPicture(latest);
}

function wayOfAddress() {
  const path = decodeURIComponent(location.hash.slice(1));
  if (!path.startsWith("/")) return;
  byId("path").value = path;
  showWay(path).catch((error) => make("li", byId("way"), error.message, {"data-error": ""}));
}

// --- all of it

async function look() {
  try {
    const [now, history] = await Promise.all([get("/now.json"), get("/history.json")]);
    if (!("rates" in now)) return;
    latest = now;
    showHealth(now);
    showPicture(now);
    showHistory(history);
    showSites(now);
    showMoves(now);
  } catch (error) {
    byId("health").dataset.health = "err";
    byId("health").textContent = "slice-webd does not answer";
    byId("age").textContent = error.message;
  }
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  location.hash = encodeURI(byId("path").value);
});
window.addEventListener("hashchange", wayOfAddress);
(async () => {
  for (;;) {
    await look();
    if (document.body.dataset.shown === undefined && latest) {
      document.body.dataset.shown = "";
      wayOfAddress();
    }
    await new Promise((wake) => setTimeout(wake, PERIOD));
  }
})();
