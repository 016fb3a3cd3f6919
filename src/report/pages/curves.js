// Curves: a small chart for each measure with all runs in it, all over the same steps. A run is { rows, colour, label }.
"use strict";
const curves = (() => {
  const view = { smooth: 0.6, log: false, x: "step", from: null, to: null, at: null };
  const kinds = [
    { title: "Training loss", keys: /^loss$/, smooth: true, log: true, wide: true },
    { title: "Evaluation loss", keys: /^eval_(.+_)?loss$/, log: true },
    { title: "Token accuracy", keys: /^eval_(.+_)?token_accuracy$/, share: true },
    { title: "Exact match", keys: /^eval_(.+_)?exact_match$/, share: true },
    { title: "Gradient norm", keys: /^grad_norm$/, smooth: true, log: true },
    { title: "Learning rate", keys: /^learning_rate$/ },
    { title: "Tokens a second", keys: /^tokens_per_second$/, smooth: true, zero: true },
  ];
  // Not worth a curve: places on the axis, counts, and what follows from another.
  const passed_over = /^(step|epoch|time|tokens|sample|skipped_updates|eval_(.+_)?(targets|answers|perplexity))$/;
  const dashes = [[], [6, 3], [2, 3], [9, 3, 2, 3]], borders = ["solid", "dashed", "dotted", "double"];
  let runs = [], charts = [], drag = null;

  // [x, y] of each row that has the measure. Evaluations count no tokens: they stand where the step before them does.
  function points(run, key) {
    const found = [], began = run.rows.find(row => row.time)?.time ?? 0;
    let tokens = 0;
    for (const row of run.rows) {
      tokens = row.tokens ?? tokens;
      if (typeof row[key] !== "number") continue;
      found.push([view.x === "step" ? row.step : view.x === "tokens" ? tokens : (row.time - began) / 3600, row[key]]);
    }
    return found;
  }
  // From the first row of all runs to the last.
  function whole_range() {
    const ends = runs.flatMap(run => { const all = points(run, view.x === "time" ? "time" : "step"); return all.length ? [all[0][0], all.at(-1)[0]] : []; });
    const [from, to] = [Math.min(...ends), Math.max(...ends)];
    return to > from ? [from, to] : [from - 1, from + 1];
  }
  // The mean of what came before, recent ones counting most; the first ones as if nothing had been before them.
  function smoothed(list) {
    let sum = 0, weight = 0;
    return list.map(([x, y]) => {
      sum = sum * view.smooth + y * (1 - view.smooth);
      weight = weight * view.smooth + 1 - view.smooth;
      return [x, sum / weight];
    });
  }
  // The lowest and the highest of each pixel.
  function thinned(list, x_of) {
    if (list.length < 3000) return list;
    const found = [];
    let pixel = null, low, high;
    const end = () => { if (pixel !== null) found.push(...(low[0] <= high[0] ? [low, high] : [high, low])); };
    for (const one of list) {
      const here = Math.round(x_of(one[0]));
      if (here !== pixel) { end(); pixel = here; low = high = one; }
      if (one[1] < low[1]) low = one;
      if (one[1] > high[1]) high = one;
    }
    end();
    return found;
  }

  function number(value, share) {
    if (share) return (value * 100).toFixed(1) + "%";
    const size = Math.abs(value);
    if (size >= 1000) return Math.round(value).toLocaleString("en-US");
    if (size > 0 && size < 0.001) return value.toExponential(2).replace("e-", "e−");
    return String(Number(value.toPrecision(4)));
  }
  function axis_number(value) {
    const size = Math.abs(value), round = n => Number(n.toPrecision(3));
    if (size > 0 && size < 0.001) return round(value).toExponential().replace("e-", "e−");
    return size >= 1e6 ? round(value / 1e6) + "M" : size >= 1e4 ? round(value / 1e3) + "k" : String(round(value));
  }
  function ticks(low, high, most) {
    const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough * 0.999), found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) found.push(i * step);
    return found;
  }
  function log_ticks(low, high) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); ++power) {
      for (const n of [1, 2, 3, 5]) if (n * 10 ** power >= low && n * 10 ** power <= high) found.push(n * 10 ** power);
    }
    return found.length > 1 ? found : ticks(low, high, 4);
  }

  function set_name(key) { return /^eval_(.+)_(loss|token_accuracy|exact_match)$/.exec(key)?.[1].replace(/_token$/, "") ?? "all sets"; }
  function keys_of(kind) {
    const keys = new Set();
    for (const run of runs) for (const key of run.keys) if (kind.keys.test(key)) keys.add(key);
    return [...keys].sort((a, b) => a.length - b.length || (a < b ? -1 : 1));
  }
  function all_kinds() {
    const rest = new Set();
    for (const run of runs) {
      for (const key of run.keys) if (!passed_over.test(key) && !kinds.some(kind => kind.keys.test(key))) rest.add(key);
    }
    return kinds.concat([...rest].sort().map(key => ({ title: key.replaceAll("_", " "), keys: { test: one => one === key }, smooth: true })));
  }

  function make_chart(kind) {
    const section = document.createElement("section"), title = document.createElement("h2"), legend = document.createElement("span");
    const picture = document.createElement("div"), canvas = document.createElement("canvas"), tip = document.createElement("div");
    section.className = kind.wide ? "chart wide" : "chart";
    title.textContent = kind.title;
    legend.className = "sets";
    title.append(legend);
    picture.className = "picture";
    tip.className = "tip";
    canvas.setAttribute("role", "img");
    picture.append(canvas, tip);
    section.append(title, picture);
    const chart = { kind, section, canvas, tip, legend, lines: [] };
    canvas.onpointermove = event => {
      const x = event.offsetX;
      if (drag) drag.now = x;
      view.at = chart.box ? chart.box.value(x) : null;
      charts.forEach(draw);
      tell(chart, x);
    };
    canvas.onpointerdown = event => { if (event.pointerType === "mouse") drag = { chart, from: event.offsetX, now: event.offsetX }; };
    canvas.onpointerup = () => {
      if (drag && Math.abs(drag.now - drag.from) > 8) {
        [view.from, view.to] = [drag.from, drag.now].sort((a, b) => a - b).map(chart.box.value);
        view.changed?.();
      }
      drag = null;
      charts.forEach(draw);
    };
    canvas.onpointerleave = () => { drag = view.at = null; tip.style.visibility = "hidden"; charts.forEach(draw); };
    canvas.ondblclick = () => { view.from = view.to = null; view.changed?.(); charts.forEach(draw); };
    return chart;
  }

  // The lines of a chart and the box that they are drawn in; nothing where there is no point to see.
  function measure(chart) {
    const keys = keys_of(chart.kind), canvas = chart.canvas;
    chart.legend.replaceChildren(...(keys.length > 1 ? keys.map((key, i) => {
      const name = document.createElement("span"), stroke = document.createElement("i");
      stroke.style.borderTopStyle = borders[i % borders.length];
      name.append(stroke, set_name(key));
      return name;
    }) : []));
    chart.lines = [];
    for (const run of runs) {
      keys.forEach((key, i) => {
        const raw = points(run, key);
        if (!raw.length) return;
        const is_smooth = chart.kind.smooth && view.smooth > 0 && raw.length > 2;
        chart.lines.push({ run, key, raw, shown: is_smooth ? smoothed(raw) : raw, faint: is_smooth, dash: dashes[i % dashes.length] });
      });
    }
    const [from, to] = view.from === null ? whole_range() : [view.from, view.to];
    let low = Infinity, high = -Infinity;
    for (const line of chart.lines) {
      const seen = line.shown.filter(one => one[0] >= from && one[0] <= to);
      for (const [, y] of seen.length ? seen : []) { low = Math.min(low, y); high = Math.max(high, y); }
    }
    if (low > high) return null;
    if (chart.kind.zero) low = 0;
    const log = view.log && chart.kind.log && low > 0;
    const room = high > low ? (high - low) * 0.08 : Math.abs(high) * 0.1 || 1;
    [low, high] = log ? [low / (high / low) ** 0.06, high * (high / low) ** 0.06 * 1.001] : [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
    const scale = log ? Math.log : y => y;
    const box = { left: 54, right: canvas.clientWidth - 12, top: 10, bottom: canvas.clientHeight - 24, from, to, low, high, log };
    box.x = x => box.left + (x - from) / (to - from) * (box.right - box.left);
    box.y = y => box.bottom - (scale(y) - scale(low)) / (scale(high) - scale(low)) * (box.bottom - box.top);
    box.value = x => from + (x - box.left) / (box.right - box.left) * (to - from);
    return box;
  }

  function trace(pen, list, box) {
    pen.beginPath();
    thinned(list, box.x).forEach(([x, y], i) => i ? pen.lineTo(box.x(x), box.y(y)) : pen.moveTo(box.x(x), box.y(y)));
    pen.stroke();
    if (list.length < 30 && list.length > 0) {
      for (const [x, y] of list) { pen.beginPath(); pen.arc(box.x(x), box.y(y), 2.4, 0, 7); pen.fill(); }
    }
  }

  function draw(chart) {
    const canvas = chart.canvas, ratio = devicePixelRatio || 1, pen = canvas.getContext("2d");
    canvas.width = canvas.clientWidth * ratio;
    canvas.height = canvas.clientHeight * ratio;
    pen.scale(ratio, ratio);
    const box = chart.box, style = getComputedStyle(document.body), of = name => style.getPropertyValue(name);
    if (!box) return;
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.lineWidth = 1;
    pen.strokeStyle = of("--line");
    pen.fillStyle = of("--soft");
    pen.textAlign = "right";
    for (const y of box.log ? log_ticks(box.low, box.high) : ticks(box.low, box.high, 5)) {
      const at = Math.round(box.y(y)) + 0.5;
      pen.beginPath(); pen.moveTo(box.left, at); pen.lineTo(box.right, at); pen.stroke();
      pen.fillText(chart.kind.share ? Math.round(y * 1000) / 10 + "%" : axis_number(y), box.left - 7, at);
    }
    pen.textAlign = "center";
    for (const x of ticks(box.from, box.to, Math.max(2, (box.right - box.left) / 90))) {
      pen.fillText(axis_number(x) + (view.x === "time" ? " h" : ""), Math.min(box.x(x), box.right - 8), box.bottom + 13);
    }
    pen.save();
    pen.beginPath(); pen.rect(box.left - 3, box.top - 4, box.right - box.left + 7, box.bottom - box.top + 8); pen.clip();
    pen.lineJoin = "round";
    for (const faint of [true, false]) {
      for (const line of chart.lines) {
        if (faint && !line.faint) continue;
        pen.strokeStyle = pen.fillStyle = line.run.colour();
        pen.globalAlpha = faint ? (dark.matches ? 0.4 : 0.25) : 1;
        pen.lineWidth = faint ? 1 : 1.8;
        pen.setLineDash(faint ? [] : line.dash);
        trace(pen, faint ? line.raw : line.shown, box);
      }
    }
    pen.restore();
    if (view.at !== null && view.at >= box.from && view.at <= box.to) {
      pen.strokeStyle = of("--soft");
      pen.beginPath(); pen.moveTo(box.x(view.at), box.top); pen.lineTo(box.x(view.at), box.bottom); pen.stroke();
      for (const line of chart.lines) {
        const [x, y] = nearest(line.shown, view.at);
        pen.fillStyle = line.run.colour();
        pen.beginPath(); pen.arc(box.x(x), box.y(y), 3.5, 0, 7); pen.fill();
      }
    }
    if (drag?.chart === chart && Math.abs(drag.now - drag.from) > 3) {
      pen.fillStyle = of("--mark"); pen.globalAlpha = 0.15;
      pen.fillRect(drag.from, box.top, drag.now - drag.from, box.bottom - box.top);
      pen.globalAlpha = 1;
    }
  }

  function nearest(list, x) {
    let low = 0, high = list.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (list[middle][0] < x) low = middle; else high = middle;
    }
    return Math.abs(list[low][0] - x) <= Math.abs(list[high][0] - x) ? list[low] : list[high];
  }
  function tell(chart, x) {
    const tip = chart.tip;
    tip.style.visibility = chart.box && chart.lines.length ? "visible" : "hidden";
    if (!chart.box) return;
    const head = document.createElement("b"), at = nearest(chart.lines[0].raw, view.at)[0];
    head.textContent = view.x === "time" ? number(at) + " hours" : view.x + " " + Math.round(at).toLocaleString("en-US");
    const several = keys_of(chart.kind).length > 1;
    tip.replaceChildren(head, ...chart.lines.map(line => {
      const row = document.createElement("div"), chip = document.createElement("span"), value = document.createElement("b");
      chip.className = "chip";
      chip.style.background = line.run.colour();
      value.textContent = number(nearest(line.raw, view.at)[1], chart.kind.share);
      row.className = "value";
      row.append(chip, line.run.label() + (several ? ", " + set_name(line.key) : ""), value);
      return row;
    }));
    const left = x + 16 + tip.offsetWidth < chart.canvas.clientWidth ? x + 16 : x - 16 - tip.offsetWidth;
    tip.style.left = Math.max(2, left) + "px";
    tip.style.top = "8px";
  }

  function redraw() {
    for (const chart of charts) {
      chart.box = measure(chart);
      chart.section.hidden = chart.lines.length === 0;
      chart.canvas.setAttribute("aria-label", chart.kind.title + ": " +
        chart.lines.map(line => line.run.label() + " " + number(line.raw.at(-1)[1], chart.kind.share)).join(", "));
      draw(chart);
    }
  }
  // Draws these runs below `place`.
  function show(place, shown) {
    runs = shown;
    const wanted = all_kinds();
    if (wanted.map(kind => kind.title).join() !== charts.map(chart => chart.kind.title).join()) {
      charts = wanted.map(make_chart);
      place.replaceChildren(...charts.map(chart => chart.section));
    }
    for (const chart of charts) chart.section.hidden = keys_of(chart.kind).length === 0;
    redraw();
  }
  addEventListener("resize", redraw);
  dark.addEventListener("change", redraw);
  return { view, show, redraw, number, charts: () => charts };
})();
