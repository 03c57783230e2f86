// The timeline of a trace on a canvas: rows of host threads, streams and counters, with arrows between them.
"use strict";
(() => {
const data = JSON.parse(document.getElementById("trace-data").textContent);
const canvas = document.getElementById("timeline"), pen = canvas.getContext("2d");
const tip = document.getElementById("tip"), chosenPanel = document.getElementById("chosen");

const AXIS = 22, GROUP = 22, GAP = 4, LABEL = 15, FONT = "11px system-ui, 'DejaVu Sans', sans-serif";
const HEIGHT = {host: 15, stream: 26, overlap: 12, counter: 40};
const MOST_ARROWS = 400;  // more than that in view is a grey cloud: then only the chosen event's are drawn
const view = {begin: 0, end: data.length};
let width = 0, gutter = 0, colours = {}, laid = [], hovered = null, chosen = null, showArrows = true, waitingForFrame = false;

// ---- rows: an event is in a level in which none overlaps another, so that a search by time finds it

for (const row of data.rows) {
  row.levels = [];
  const ends = [], e = row.events;
  for (let i = 0; i < e.length; i += 5) {
    let level = 0;
    while (level < ends.length && ends[level] > e[i]) ++level;
    ends[level] = e[i] + e[i + 1];
    (row.levels[level] ??= []).push({t: e[i], d: e[i + 1], name: data.strings[e[i + 2]], kind: data.kinds[e[i + 3]],
                                     args: e[i + 4], row, level});
  }
}

// The first event that ends behind t.
function firstAfter(events, t) {
  let low = 0, high = events.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (events[middle].t + events[middle].d < t) low = middle + 1; else high = middle;
  }
  return low;
}

function eventAt(row, t) {
  for (const level of row.levels) {
    const event = level[firstAfter(level, t)];
    if (event && event.t <= t) return event;
  }
  return null;
}

function argsOf(event) {
  if (event.args < 0) return [];
  const flat = data.args[event.args], pairs = [];
  for (let i = 0; i < flat.length; i += 2)
    pairs.push([data.strings[flat[i]], Array.isArray(flat[i + 1]) ? data.strings[flat[i + 1][0]] : flat[i + 1]]);
  return pairs;
}

// ---- layout

function layOut() {
  gutter = width > 640 ? 180 : 0;
  const strip = gutter === 0 ? LABEL : 0;  // on a narrow screen names are above their rows
  laid = [];
  let y = AXIS, group = null;
  for (const row of [...data.rows, ...data.counters]) {
    if (row.group !== group) {
      laid.push({header: row.group, y, height: GROUP});
      y += GROUP;
      group = row.group;
    }
    const height = row.points ? HEIGHT.counter : HEIGHT[row.kind] * Math.max(1, row.levels.length);
    row.y = y + strip;
    row.height = height;
    laid.push({row, y: row.y, height, label: y});
    y += strip + height + GAP;
  }
  const ratio = Math.min(window.devicePixelRatio || 1, 30000 / y);
  canvas.style.height = y + "px";
  canvas.height = Math.ceil(y * ratio);
  canvas.width = Math.ceil(width * ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
}

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ink", "soft", "line", "panel", "paper", "accent", "bad", "computing", "communication", "copy", "waiting", "free", "call",
                      "blocking", "callback", "other", "on-bar", "on-call"])
    colours[name] = style.getPropertyValue("--" + name).trim();
}

const xOf = t => gutter + (t - view.begin) / (view.end - view.begin) * (width - gutter);
const tOf = x => view.begin + (x - gutter) / (width - gutter) * (view.end - view.begin);

// ---- words

function time(ns) {
  const size = Math.abs(ns);
  if (size >= 1e9) return +(ns / 1e9).toPrecision(4) + " s";
  if (size >= 1e6) return +(ns / 1e6).toPrecision(4) + " ms";
  if (size >= 1e3) return +(ns / 1e3).toPrecision(4) + " µs";
  return +ns.toPrecision(3) + " ns";
}

// Neighbours on the axis must differ, far from its beginning too.
function tick(t, step) {
  const [size, unit] = view.end >= 1e9 ? [1e9, "s"] : view.end >= 1e6 ? [1e6, "ms"] : view.end >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  return (t / size).toFixed(Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9))) + " " + unit;
}

function amount(value, unit) {
  if (unit !== "bytes") return +value.toPrecision(3) + (unit ? " " + unit : "");
  const step = value >= 2 ** 30 ? [2 ** 30, "GiB"] : value >= 2 ** 20 ? [2 ** 20, "MiB"] : value >= 2 ** 10 ? [2 ** 10, "KiB"] : [1, "B"];
  return +(value / step[0]).toPrecision(3) + " " + step[1];
}

// ---- drawing

function drawAxis() {
  const span = view.end - view.begin, room = Math.max(2, (width - gutter) / 110);
  const step = [1, 2, 5, 10].map(f => f * 10 ** Math.floor(Math.log10(span / room))).find(s => span / s <= room);
  pen.fillStyle = colours.soft;
  pen.strokeStyle = colours.line;
  pen.lineWidth = 1;
  for (let t = Math.ceil(view.begin / step) * step; t <= view.end; t += step) {
    const x = Math.round(xOf(t)) + .5;
    pen.beginPath();
    pen.moveTo(x, AXIS - 5);
    pen.lineTo(x, canvas.clientHeight);
    pen.stroke();
    pen.fillText(tick(t, step), x + 3, 13);
  }
}

function label(text, x, y, room) {
  const most = Math.floor(room / 6.1);
  if (most < 3) return;
  pen.fillText(text.length > most ? text.slice(0, most - 1) + "…" : text, x, y);
}

function drawBar(event, x, w, y, height) {
  pen.fillStyle = colours[event.kind] || colours.other;
  pen.fillRect(x, y, w, height);
  if (event.kind === "waiting" && w > 4) hatch(x, y, w, height);
  if (event.name && w > 26 && height > 11) {
    pen.fillStyle = ["call", "blocking", "free"].includes(event.kind) ? colours["on-call"] : colours["on-bar"];
    label(event.name, Math.max(x, gutter) + 4, y + height / 2 + 4, x + w - Math.max(x, gutter) - 6);
  }
  if (event === chosen || event === hovered) outline(x, y, w, height, colours.ink, 1.5);
}

function hatch(x, y, w, height) {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, w, height);
  pen.clip();
  pen.strokeStyle = colours.panel;
  pen.globalAlpha = .45;
  pen.lineWidth = 2;
  pen.beginPath();
  const from = Math.max(x, gutter), to = Math.min(x + w, width);
  for (let at = from - height - ((from - height) % 8); at < to; at += 8) {
    pen.moveTo(at, y + height);
    pen.lineTo(at + height, y);
  }
  pen.stroke();
  pen.restore();
}

function outline(x, y, w, height, colour, thick) {
  pen.strokeStyle = colour;
  pen.lineWidth = thick;
  pen.strokeRect(x - thick / 2, y - thick / 2, w + thick, height + thick);
}

function drawRow(row) {
  row.levels.forEach((events, level) => {
    const y = row.y + level * HEIGHT[row.kind], height = HEIGHT[row.kind] - (row.kind === "host" ? 1 : 0);
    for (let i = firstAfter(events, view.begin); i < events.length && events[i].t <= view.end;) {
      const event = events[i], x = xOf(event.t), w = Math.max(1, xOf(event.t + event.d) - x);
      drawBar(event, x, w, y, height);
      // what begins in the same pixel would be drawn over it
      if (w > 1) ++i; else i = Math.max(i + 1, firstAfter(events, tOf(x + 1)));
    }
  });
}

function drawCounter(counter) {
  const {points, y, height} = counter;
  let most = 0;
  for (let i = 1; i < points.length; i += 2) most = Math.max(most, points[i]);
  if (most === 0) return;
  const level = v => y + height - 1 - (v / most) * (height - 4);
  pen.beginPath();
  pen.moveTo(gutter, y + height);
  let value = 0, last = gutter;
  for (let i = 0; i < points.length; i += 2) {
    if (points[i] > view.end) break;
    const x = Math.max(gutter, xOf(points[i]));
    if (x > gutter) pen.lineTo(x, level(value));
    value = points[i + 1];
    pen.lineTo(x, level(value));
    last = x;
  }
  pen.lineTo(Math.max(last, xOf(Math.min(view.end, data.length))), level(value));
  pen.lineTo(Math.max(last, xOf(Math.min(view.end, data.length))), y + height);
  pen.globalAlpha = .35;
  pen.fillStyle = colours.accent;
  pen.fill();
  pen.globalAlpha = 1;
  pen.fillStyle = colours.soft;
  pen.fillText("most " + amount(most, counter.unit), gutter + 4, y + 11);
}

// ---- arrows

const MIDDLE = (row, level) => row.y + level * HEIGHT[row.kind] + HEIGHT[row.kind] / 2;

function drawArrow(x1, y1, x2, y2, colour, alpha) {
  const bend = Math.min(60, Math.max(12, Math.abs(x2 - x1) / 3));
  pen.globalAlpha = alpha;
  pen.strokeStyle = pen.fillStyle = colour;
  pen.lineWidth = 1.3;
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2 - 4, y2);
  pen.stroke();
  pen.beginPath();
  pen.moveTo(x2, y2);
  pen.lineTo(x2 - 6, y2 - 3.5);
  pen.lineTo(x2 - 6, y2 + 3.5);
  pen.fill();
  pen.globalAlpha = 1;
}

const touches = (event, row, t) => event && event.row === row && event.t <= t && t <= event.t + event.d;

function drawArrows() {
  const tones = {launch: "soft", record: "accent", sync: "waiting"};
  const inView = [];
  for (const [kind, flat] of Object.entries(data.arrows))
    for (let i = 0; i < flat.length; i += 4) {
      const from = data.rows[flat[i]], to = data.rows[flat[i + 2]], t1 = flat[i + 1], t2 = flat[i + 3];
      const own = touches(chosen, from, t1) || touches(chosen, to, t2) || touches(hovered, from, t1) || touches(hovered, to, t2);
      if (own || (Math.max(t1, t2) >= view.begin && Math.min(t1, t2) <= view.end)) inView.push([kind, from, t1, to, t2, own]);
    }
  const crowded = inView.length > MOST_ARROWS;
  for (const [kind, from, t1, to, t2, own] of inView) {
    if (!own && (crowded || !showArrows)) continue;
    const a = eventAt(from, t1), b = eventAt(to, t2);
    drawArrow(xOf(t1), MIDDLE(from, a ? a.level : 0), xOf(t2), MIDDLE(to, b ? b.level : 0), colours[tones[kind]],
              own ? 1 : kind === "launch" ? .4 : .85);
  }
}

// Two events that nothing orders: both framed, and a broken line where an arrow should be.
function drawFinding(finding) {
  const places = [];
  for (const [index, t] of finding.places) {
    const row = data.rows[index], event = eventAt(row, t);
    const x = xOf(event ? event.t : t), w = event ? Math.max(2, xOf(event.t + event.d) - x) : 2;
    const y = row.y + (event ? event.level * HEIGHT[row.kind] : 0);
    outline(x, y, w, HEIGHT[row.kind] - 1, colours.bad, 2.5);
    const inside = at => Math.min(Math.max(at, gutter + 4), width - 8);
    places.push({begin: inside(x), end: inside(x + w), y: y + HEIGHT[row.kind] / 2});
    pen.fillStyle = colours.bad;
    pen.beginPath();
    pen.moveTo(x - 5, y - 9);
    pen.lineTo(x + 5, y - 9);
    pen.lineTo(x, y - 1);
    pen.fill();
  }
  if (places.length !== 2) return;
  const [a, b] = places.sort((p, q) => p.begin - q.begin), apart = a.end <= b.begin;
  const from = apart ? a.end : b.begin + 10, to = apart ? b.begin : b.begin + 10;
  pen.setLineDash([6, 4]);
  pen.strokeStyle = colours.bad;
  pen.lineWidth = 2.5;
  pen.beginPath();
  pen.moveTo(from, a.y);
  pen.lineTo(to, b.y);
  pen.stroke();
  pen.setLineDash([]);
  const text = "✕ " + finding.id, w = pen.measureText(text).width + 10, y = (a.y + b.y) / 2;
  const left = Math.max(gutter + 2, Math.min(apart ? (from + to - w) / 2 : to + 6, width - w - 2));
  pen.fillStyle = colours.bad;
  pen.fillRect(left, y - 9, w, 18);
  pen.fillStyle = colours.panel;
  pen.fillText(text, left + 5, y + 4);
}

function drawNames() {
  if (gutter > 0) {
    pen.fillStyle = colours.panel;
    pen.fillRect(0, 0, gutter, canvas.clientHeight);
    pen.fillStyle = colours.line;
    pen.fillRect(gutter - 1, 0, 1, canvas.clientHeight);
  }
  for (const item of laid) {
    if (item.header) {
      pen.font = "600 " + FONT;
      pen.fillStyle = colours.ink;
      pen.fillText(item.header, 8, item.y + 15);
      pen.font = FONT;
      continue;
    }
    pen.fillStyle = colours.soft;
    const y = gutter > 0 ? item.y + Math.min(item.height, 26) / 2 + 4 : item.label + 11;
    label(item.row.name, 14, y, gutter > 0 ? gutter - 18 : width - 20);
  }
}

function draw() {
  waitingForFrame = false;
  pen.font = FONT;
  pen.clearRect(0, 0, width, canvas.clientHeight);
  drawAxis();
  for (const row of data.rows) drawRow(row);
  for (const counter of data.counters) drawCounter(counter);
  drawArrows();
  for (const finding of data.findings) drawFinding(finding);
  drawNames();
}

function redraw() {
  if (!waitingForFrame) requestAnimationFrame(draw);
  waitingForFrame = true;
}

function resize() {
  width = canvas.parentElement.clientWidth;
  readColours();
  layOut();
  redraw();
}

// ---- moving about

function show(begin, end) {
  const span = Math.min(Math.max(end - begin, 50), data.length * 1.02);
  begin = Math.min(Math.max(begin, -.01 * data.length), 1.01 * data.length - span);
  view.begin = begin;
  view.end = begin + span;
  redraw();
}
function zoom(factor, x = gutter + (width - gutter) / 2) {
  const t = tOf(x);
  show(t - (t - view.begin) * factor, t + (view.end - t) * factor);
}
function pan(pixels) {
  const by = pixels / (width - gutter) * (view.end - view.begin);
  show(view.begin + by, view.end + by);
}
// Where streams are at work; before and behind it programs often do nothing but fill memory.
function showWork() {
  let begin = Infinity, end = -Infinity;
  for (const row of data.rows)
    if (row.kind === "stream")
      for (const level of row.levels) {
        const last = level[level.length - 1];
        begin = Math.min(begin, level[0].t);
        end = Math.max(end, last.t + last.d);
      }
  if (end > begin) show(begin - (end - begin) * .04, end + (end - begin) * .04); else fit();
}
function fit() { show(-.01 * data.length, 1.01 * data.length); }

// ---- what is under the pointer

function eventUnder(x, y) {
  for (const row of data.rows) {
    if (y < row.y || y >= row.y + row.height || x < gutter) continue;
    const level = row.levels[Math.floor((y - row.y) / HEIGHT[row.kind])];
    if (!level) return null;
    const near = 3 / (width - gutter) * (view.end - view.begin);  // three pixels, or nobody hits a short one
    const event = level[firstAfter(level, tOf(x) - near)];
    return event && event.t <= tOf(x) + near ? event : null;
  }
  return null;
}

function describe(event, into) {
  into.textContent = "";
  const title = document.createElement("strong"), list = document.createElement("dl");
  title.textContent = event.name;
  const place = event.row.kind === "overlap" ? event.row.group : event.row.group + ", " + event.row.name;
  for (const [key, value] of [["took", time(event.d)], ["begins at", time(event.t)], ["row", place], ...argsOf(event)]) {
    const term = document.createElement("dt"), text = document.createElement("dd");
    term.textContent = key;
    text.textContent = value;
    list.append(term, text);
  }
  into.append(title, list);
}

function point(x, y) {
  const event = eventUnder(x, y);
  if (event !== hovered) {
    hovered = event;
    redraw();
  }
  tip.style.display = event ? "block" : "none";
  if (!event) return;
  describe(event, tip);
  tip.style.left = Math.max(4, Math.min(x + 14, width - tip.offsetWidth - 4)) + "px";
  tip.style.top = (y + 18 + tip.offsetHeight > canvas.clientHeight ? Math.max(2, y - tip.offsetHeight - 10) : y + 18) + "px";
}

function choose(event) {
  chosen = event;
  if (event) describe(event, chosenPanel); else chosenPanel.textContent = "";
  redraw();
}

const fingers = new Map();
let moved = 0;
canvas.addEventListener("pointerdown", e => {
  fingers.set(e.pointerId, e.offsetX);
  moved = 0;
  canvas.setPointerCapture(e.pointerId);
});
canvas.addEventListener("pointermove", e => {
  if (!fingers.has(e.pointerId)) return point(e.offsetX, e.offsetY);
  const before = fingers.get(e.pointerId);
  if (fingers.size === 2) {
    const other = [...fingers].find(([id]) => id !== e.pointerId)[1];
    const was = Math.abs(before - other), is = Math.abs(e.offsetX - other);
    if (was > 8 && is > 8) zoom(was / is, (e.offsetX + other) / 2);
  } else {
    pan(before - e.offsetX);
  }
  moved += Math.abs(before - e.offsetX);
  fingers.set(e.pointerId, e.offsetX);
  tip.style.display = "none";
});
for (const end of ["pointerup", "pointercancel"])
  canvas.addEventListener(end, e => {
    if (end === "pointerup" && fingers.size === 1 && moved < 4) choose(eventUnder(e.offsetX, e.offsetY));
    fingers.delete(e.pointerId);
  });
canvas.addEventListener("pointerleave", () => { hovered = null; tip.style.display = "none"; redraw(); });
canvas.addEventListener("dblclick", e => zoom(.4, e.offsetX));
canvas.addEventListener("wheel", e => {
  if (e.ctrlKey || e.metaKey) {
    e.preventDefault();
    zoom(Math.exp(e.deltaY * .004), e.offsetX);
  } else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
    e.preventDefault();
    pan(e.deltaX || e.deltaY);
  }
}, {passive: false});
canvas.addEventListener("keydown", e => {
  const act = {ArrowLeft: () => pan(-80), a: () => pan(-80), ArrowRight: () => pan(80), d: () => pan(80), "+": () => zoom(.6),
               "=": () => zoom(.6), w: () => zoom(.6), "-": () => zoom(1 / .6), s: () => zoom(1 / .6), Home: fit, "0": fit,
               Escape: () => choose(null)}[e.key];
  if (!act || e.ctrlKey || e.metaKey) return;
  e.preventDefault();
  act();
});
for (const [id, act] of [["closer", () => zoom(.5)], ["wider", () => zoom(2)], ["left", () => pan(-120)], ["right", () => pan(120)],
                         ["fit", fit], ["work", showWork]])
  document.getElementById(id).addEventListener("click", act);
document.getElementById("arrows").addEventListener("click", e => {
  showArrows = !showArrows;
  e.currentTarget.setAttribute("aria-pressed", showArrows);
  redraw();
});
for (const link of document.querySelectorAll("[data-finding]"))
  link.addEventListener("click", () => {
    const finding = data.findings[Number(link.dataset.finding)];
    const events = finding.places.map(([row, t]) => eventAt(data.rows[row], t)).filter(e => e);
    if (events.length === 0) return;
    const begin = Math.min(...events.map(e => e.t)), end = Math.max(...events.map(e => e.t + e.d)), room = (end - begin) * .5 + 1000;
    choose(events[events.length - 1]);
    show(begin - room, end + room);
    canvas.scrollIntoView({block: "nearest"});
  });

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", resize);
new ResizeObserver(() => { if (canvas.parentElement.clientWidth !== width) resize(); }).observe(canvas.parentElement);
showWork();
resize();
})();
