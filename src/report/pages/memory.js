// The picture of a plan: which buffers live where and when (memory.html is the page's part of it).
"use strict";
const $ = id => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");
const hues = {
  "base weights": 215, "weight scales": 200, "weight maps": 190, "adapters": 275, "frozen adapters": 255, "fp32 master bits": 300, "fp32 master copies": 300,
  "gradients": 340, "optimizer states": 20, "state scales": 10, "state maps": 5, "kept activations": 145, "recomputed activations": 95,
  "activations": 60, "workspace": 40, "batch": 175, "staging": 165, "kv-cache": 120, "driver context": 0 };
const state = { plan: 0, phase: 0, view: "place", colour: "role", hidden: false, from: 0, to: 0, op: -1, drag: null };
let plans = [], phase, plan, live, peak, shapes = [];

function bytes(n) {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (n >= size) return (n / size).toFixed(unit === "GiB" ? 2 : 1) + " " + unit;
  }
  return n + " B";
}
const exact = n => n.toLocaleString("en-US") + " bytes";
function role_colour(role) {
  if (role === "driver context") return dark.matches ? "#5b6472" : "#aab2bf";
  return `hsl(${hues[role] ?? 0} ${dark.matches ? "45% 52%" : "55% 62%"})`;
}
function layer_of(name) {
  const found = /layers\.(\d+)|\.(\d+)\./.exec(name);
  return found ? Number(found[1] ?? found[2]) : -1;
}
function colour_of(buffer) {
  if (state.colour === "role" || buffer.role === "driver context") return role_colour(buffer.role);
  const layer = layer_of(buffer.name);
  return layer < 0 ? (dark.matches ? "#6b7483" : "#b6bdc9") : `hsl(${(layer * 47) % 360} 50% ${dark.matches ? 50 : 64}%)`;
}

// What lies on the device in a phase, with the driver's context below all of it.
function choose(plan_index, phase_index) {
  state.plan = plan_index;
  plan = plans[plan_index];
  state.phase = Math.min(phase_index, plan.layout.phases.length - 1);
  const source = plan.layout.phases[state.phase];
  const ops = source.ops.length ? source.ops : ["(no ops)"];
  const context = plan.layout.context_bytes;
  // What persists lies in its place in phases that do not touch it, too.
  const known = new Set(source.buffers.map(one => one.name)), others = [];
  for (const one of plan.layout.phases.flatMap(other => other.buffers)) {
    if (one.persists && !known.has(one.name)) {
      known.add(one.name);
      others.push({ ...one, first_op: 0, last_op: ops.length - 1 });
    }
  }
  const buffers = source.buffers.concat(others).filter(one => one.home === "device")
    .map(one => ({ ...one, offset: one.offset + context }));
  if (context > 0) {
    buffers.unshift({ name: "the driver's context", role: "driver context", persists: true, offset: 0, bytes: context,
      first_op: 0, last_op: ops.length - 1 });
  }
  phase = { name: source.name, ops, buffers };
  live = plan.live_bytes[state.phase];
  peak = live.indexOf(Math.max(...live));
  state.from = 0;
  state.to = ops.length;
  state.op = -1;
  show();
}

function live_at(op) { return phase.buffers.filter(one => one.first_op <= op && op <= one.last_op); }
function sums_at(op) {
  const sums = new Map();
  for (const one of live_at(op)) sums.set(one.role, (sums.get(one.role) ?? 0) + one.bytes);
  return [...sums].sort((a, b) => b[1] - a[1]);
}
const persistent_bytes = () => phase.buffers.reduce((sum, one) => one.persists ? Math.max(sum, one.offset + one.bytes) : sum, 0);

// A limit far above would leave little room for what is below it.
const limit_shows = () => plan.limit_bytes && !state.hidden && plan.limit_bytes < 1.5 * (plan.layout.arena_bytes.device + plan.layout.context_bytes);

function scale() {
  const canvas = $("canvas");
  const low = state.hidden ? persistent_bytes() : 0;
  const context = plan.layout.context_bytes;
  const filled = plan.layout.arena_bytes.device + context;
  const top = limit_shows() ? Math.max(filled, plan.limit_bytes) : filled;
  const box = { left: 68, right: canvas.clientWidth - 10, top: 14, bottom: canvas.clientHeight - 26, low, top_bytes: Math.max(top, low + 1) };
  box.x = op => box.left + (op - state.from) / (state.to - state.from) * (box.right - box.left);
  box.y = b => box.bottom - (b - low) / (box.top_bytes - low) * (box.bottom - box.top);
  box.op = x => Math.floor(state.from + (x - box.left) / (box.right - box.left) * (state.to - state.from));
  return box;
}

function rectangles() {
  if (state.view === "place") return phase.buffers.map(one => ({ buffer: one, first: one.first_op, last: one.last_op, low: one.offset, high: one.offset + one.bytes }));
  // Stacked by role, op by op; neighbours that are equal are one.
  const order = Object.keys(hues).filter(role => role !== "driver context");
  order.unshift("driver context");
  const found = [], open = new Map();
  for (let op = 0; op < phase.ops.length; ++op) {
    let low = 0;
    const sums = new Map(sums_at(op));
    for (const role of order) {
      const size = sums.get(role) ?? 0;
      const last = open.get(role);
      if (last && last.low === low && last.high === low + size) last.last = op;
      else if (size > 0) {
        const one = { buffer: { name: role, role, bytes: size, is_sum: true }, first: op, last: op, low, high: low + size };
        found.push(one);
        open.set(role, one);
      } else open.delete(role);
      low += size;
    }
  }
  return found;
}

function draw() {
  const canvas = $("canvas"), ratio = devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * ratio;
  canvas.height = canvas.clientHeight * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const box = scale(), style = getComputedStyle(document.body);
  const ink = style.getPropertyValue("--ink"), soft = style.getPropertyValue("--soft"), line = style.getPropertyValue("--line"), mark = style.getPropertyValue("--mark");
  pen.font = "12px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const step = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].map(n => n * 2 ** 30 / 8).concat([1, 4, 16, 64].map(n => n * 2 ** 20))
    .sort((a, b) => a - b).find(n => (box.top_bytes - box.low) / n <= 7) ?? 2 ** 38;
  pen.textAlign = "right";
  for (let at = Math.ceil(box.low / step) * step; at <= box.top_bytes; at += step) {
    pen.strokeStyle = line;
    pen.beginPath(); pen.moveTo(box.left, box.y(at)); pen.lineTo(box.right, box.y(at)); pen.stroke();
    pen.fillStyle = soft;
    pen.fillText(bytes(at), box.left - 6, box.y(at));
  }
  pen.save();
  pen.beginPath(); pen.rect(box.left, box.top - 8, box.right - box.left, box.bottom - box.top + 8); pen.clip();
  shapes = [];
  for (const one of state.rectangles) {
    if (one.last < state.from || one.first >= state.to || one.high <= box.low) continue;
    const x = box.x(one.first), y = box.y(one.high), width = box.x(one.last + 1) - x, height = box.y(Math.max(one.low, box.low)) - y;
    pen.fillStyle = colour_of(one.buffer);
    pen.fillRect(x, y, Math.max(width, 0.7), Math.max(height, 0.3));
    if (!one.buffer.is_sum && width > 3 && height > 3) {
      pen.strokeStyle = style.getPropertyValue("--card");
      pen.lineWidth = 0.5;
      pen.strokeRect(x, y, width, height);
    }
    shapes.push({ x, y, width: Math.max(width, 1), height: Math.max(height, 1), one });
  }
  pen.restore();
  pen.lineWidth = 1.2;
  if (peak >= state.from && peak < state.to) {
    const x = box.x(peak + 0.5);
    pen.strokeStyle = mark; pen.setLineDash([4, 3]);
    pen.beginPath(); pen.moveTo(x, box.top); pen.lineTo(x, box.bottom); pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = mark;
    pen.textAlign = x > (box.left + box.right) / 2 ? "right" : "left";
    pen.fillText(" most is live here: " + phase.ops[peak] + " ", x, box.bottom + 13);
  }
  if (limit_shows()) {
    const y = box.y(plan.limit_bytes);
    pen.strokeStyle = mark;
    pen.beginPath(); pen.moveTo(box.left, y); pen.lineTo(box.right, y); pen.stroke();
    pen.fillStyle = mark; pen.textAlign = "right";
    pen.fillText("limit " + bytes(plan.limit_bytes), box.right - 4, y + 9);
  }
  if (state.op >= state.from && state.op < state.to) {
    const x = box.x(state.op + 0.5);
    pen.strokeStyle = ink;
    pen.beginPath(); pen.moveTo(x, box.top); pen.lineTo(x, box.bottom); pen.stroke();
  }
  if (state.drag && Math.abs(state.drag.now - state.drag.from) > 3) {
    pen.fillStyle = mark; pen.globalAlpha = 0.15;
    pen.fillRect(state.drag.from, box.top, state.drag.now - state.drag.from, box.bottom - box.top);
    pen.globalAlpha = 1;
  }
  pen.strokeStyle = ink; pen.lineWidth = 1;
  pen.beginPath(); pen.moveTo(box.left, box.bottom); pen.lineTo(box.right, box.bottom); pen.stroke();
}

function row(cells, chip) {
  const line = document.createElement("tr");
  cells.forEach((text, i) => {
    const cell = document.createElement("td");
    if (i === 0 && chip) {
      const dot = document.createElement("span");
      dot.className = "chip";
      dot.style.background = chip;
      cell.append(dot);
    }
    cell.append(text);
    line.append(cell);
  });
  return line;
}

function show_lists() {
  const op = state.op < 0 ? peak : state.op;
  const where = (state.op < 0 ? "At the peak, op " : "At op ") + (op + 1) + " of " + phase.ops.length + ": " + phase.ops[op];
  $("now").textContent = where + ", " + bytes(live[op]) + " live";
  $("roles-title").textContent = "By role";
  $("roles").replaceChildren(...sums_at(op).map(([role, size]) => row([role, bytes(size), Math.round(size / live[op] * 100) + "%"], role_colour(role))));
  $("largest-title").textContent = "The largest of it";
  $("largest").replaceChildren(...live_at(op).sort((a, b) => b.bytes - a.bytes).slice(0, 12).map(one => row([one.name, bytes(one.bytes)], colour_of(one))));
}

function pressed(id, on) { $(id).setAttribute("aria-pressed", on); }
function button(text, on, action) {
  const made = document.createElement("button");
  made.textContent = text;
  made.setAttribute("aria-pressed", on);
  made.onclick = action;
  return made;
}
function show() {
  const figure = (value, label) => { const div = document.createElement("div"), b = document.createElement("b"), span = document.createElement("span");
    b.textContent = value; span.textContent = label; div.append(b, span); return div; };
  const total = plan.layout.arena_bytes.device + plan.layout.context_bytes;
  const figures = [figure(bytes(total), "peak, " + exact(total))];
  if (plan.limit_bytes) figures.push(figure(total <= plan.limit_bytes ? "fits" : "does not fit", "in " + bytes(plan.limit_bytes) + ": " +
    bytes(Math.abs(plan.limit_bytes - total)) + (total <= plan.limit_bytes ? " to spare" : " too much")));
  figures.push(figure(String(phase.buffers.length), "buffers in " + phase.name), figure(String(phase.ops.length), "ops"));
  $("figures").replaceChildren(...figures);
  $("plans").replaceChildren(...(plans.length > 1 ? plans.map((one, i) => button(one.name, i === state.plan, () => choose(i, state.phase))) : []));
  $("run").textContent = plan.about || "";
  $("phases").replaceChildren(...plan.layout.phases.map((one, i) => button(one.name, i === state.phase, () => choose(state.plan, i))));
  pressed("by-place", state.view === "place");
  pressed("by-role", state.view === "role");
  pressed("colour", state.colour === "layer");
  pressed("weights", state.hidden);
  pressed("whole", state.from === 0 && state.to === phase.ops.length);
  state.rectangles = rectangles();
  draw();
  show_lists();
}

function point(event) {
  const area = $("canvas").getBoundingClientRect();
  return { x: event.clientX - area.left, y: event.clientY - area.top };
}
function tell(at) {
  const box = scale(), tip = $("tip"), op = Math.min(Math.max(box.op(at.x), 0), phase.ops.length - 1);
  state.op = op;
  const hit = shapes.findLast(s => at.x >= s.x && at.x <= s.x + s.width && at.y >= s.y && at.y <= s.y + s.height);
  tip.style.visibility = hit ? "visible" : "hidden";
  if (hit) {
    const one = hit.one, name = document.createElement("b");
    name.textContent = one.buffer.name;
    const lives = one.buffer.persists ? "lives through all phases" :
      "lives from op " + (one.first + 1) + " (" + phase.ops[one.first] + ") to op " + (one.last + 1) + " (" + phase.ops[one.last] + ")";
    tip.replaceChildren(name, (one.buffer.is_sum ? "" : one.buffer.role + ", ") + bytes(one.high - one.low) + ", " + exact(one.high - one.low) +
      (one.buffer.is_sum ? "" : "; " + lives));
    const area = $("canvas").clientWidth;
    tip.style.left = Math.max(4, Math.min(at.x + 14, area - tip.offsetWidth - 6)) + "px";
    tip.style.top = Math.max(4, at.y - tip.offsetHeight - 12) + "px";
  }
  draw();
  show_lists();
}
const canvas = $("canvas");
canvas.onpointermove = event => {
  if (state.drag) state.drag.now = point(event).x;
  tell(point(event));
};
canvas.onpointerdown = event => { state.drag = { from: point(event).x, now: point(event).x }; tell(point(event)); };
canvas.onpointerup = event => {
  const box = scale(), drag = state.drag;
  state.drag = null;
  if (drag && Math.abs(drag.now - drag.from) > 8 && event.pointerType === "mouse") {
    const [a, b] = [drag.from, drag.now].sort((x, y) => x - y).map(box.op);
    state.from = Math.max(0, a);
    state.to = Math.min(phase.ops.length, Math.max(b + 1, a + 4));
    show();
  }
};
canvas.onpointerleave = () => { state.op = -1; state.drag = null; $("tip").style.visibility = "hidden"; draw(); show_lists(); };
canvas.onkeydown = event => {
  const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!move) return;
  state.op = Math.min(Math.max((state.op < 0 ? peak : state.op) + move, 0), phase.ops.length - 1);
  draw();
  show_lists();
  event.preventDefault();
};
$("by-place").onclick = () => { state.view = "place"; show(); };
$("by-role").onclick = () => { state.view = "role"; show(); };
$("colour").onclick = () => { state.colour = state.colour === "role" ? "layer" : "role"; show(); };
$("weights").onclick = () => { state.hidden = !state.hidden; show(); };
$("whole").onclick = () => { state.from = 0; state.to = phase.ops.length; show(); };
addEventListener("resize", () => { if (plan) draw(); });
dark.addEventListener("change", () => { if (plan) show(); });

// Plans of one run, a stage each: { name, limit_bytes, peak_phase, live_bytes, layout }.
function show_plans(shown) {
  plans = shown;
  choose(0, Math.max(0, plans[0].layout.phases.findIndex(one => one.name === plans[0].peak_phase)));
}
