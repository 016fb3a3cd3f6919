// Runs as they go: what the server tells of them, or, without one, what stands in the page. Whatever comes from a run is
// text and never becomes markup.
"use strict";
{
  const data = JSON.parse($("data").textContent);
  const token = new URLSearchParams(location.search).get("token");
  const runs = new Map();  // by id, in the order of their colours
  const hues = [215, 18, 150, 280, 335, 185, 45, 0];
  const shown_at_first = 6;
  let stages = [], memory_of = null, sample_at = null;

  function element(kind, name, ...children) {
    const made = document.createElement(kind);
    if (name) made.className = name;
    made.append(...children);
    return made;
  }
  const count = n => Math.round(n).toLocaleString("en-US");
  function short_count(n) {
    for (const [unit, size] of [["B", 1e9], ["M", 1e6], ["k", 1e3]]) if (n >= size) return (n / size).toFixed(1) + " " + unit;
    return String(n);
  }
  const loss = value => typeof value === "number" ? value.toFixed(4) : "·";
  function duration(seconds) {
    const minutes = Math.round(seconds / 60), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
    if (days >= 2) return days + " days " + hours % 24 + " h";
    return hours ? hours + " h " + minutes % 60 + " min" : minutes ? minutes + " min" : Math.round(seconds) + " s";
  }

  function new_run(info) {
    const place = runs.size;
    return {
      info, rows: [], keys: new Set(), offset: 0, mark: "", shown: place < shown_at_first,
      colour: () => `hsl(${hues[place % hues.length]} ${dark.matches ? "70% 64%" : "68% 46%"})`,
      label() { return this.info.name; },
    };
  }
  function take_runs(list) {
    const known = new Set();
    for (const info of list.runs) {
      known.add(info.id);
      if (!runs.has(info.id)) runs.set(info.id, new_run(info));
      runs.get(info.id).info = info;
    }
    for (const id of [...runs.keys()]) if (!known.has(id)) runs.delete(id);
    stages = list.stages;
    show_settings(list);
  }
  function take_rows(run, rows) {
    for (const row of rows) {
      const is_sample = row.sample !== undefined;
      if (typeof row.step !== "number" || (is_sample && (typeof row.text !== "string" || typeof row.prompt !== "string"))) continue;
      run.rows.push(row);
      if (!is_sample) for (const key in row) if (typeof row[key] === "number") run.keys.add(key);
    }
  }
  const shown = () => [...runs.values()].filter(run => run.shown);

  // By the time that the last steps took.
  function seconds_left(run) {
    const steps = run.rows.filter(row => row.loss !== undefined && row.time).slice(-40), total = run.info.total_steps;
    if (run.info.state !== "running" || steps.length < 2 || !total) return null;
    const [first, last] = [steps[0], steps.at(-1)];
    return last.step > first.step ? (last.time - first.time) / (last.step - first.step) * (total - last.step) : null;
  }
  function card(run) {
    const info = run.info, left = seconds_left(run), total = info.total_steps;
    const made = run.card ??= element("button", "card");  // it stays, for who has it under a finger or the focus
    made.style.setProperty("--run", run.colour());
    made.setAttribute("aria-pressed", run.shown);
    made.onclick = () => { run.shown = !run.shown; show_all(); };
    const state = element("span", "state " + info.state, info.state);
    const done = element("div");
    done.style.width = (total ? Math.min(100, info.steps / total * 100) : info.state === "finished" ? 100 : 0) + "%";
    const figures = [["loss", loss(info.last_loss)], ["best eval", loss(info.best_eval_loss)],
      ["tokens/s", info.tokens_per_second ? count(info.tokens_per_second) : "·"], ["at first", loss(info.first_loss)],
      ["trained", short_count(info.trainable_parameters)], ["peak", bytes(info.peak_bytes)]];
    made.replaceChildren(element("div", "head", element("span", "name", info.name), state), element("div", "bar", done),
      element("div", "steps", count(info.steps) + (total ? " of " + count(total) : "") + " steps" + (left === null ? "" : ", " + duration(left) + " left")));
    if (info.failure) made.append(element("div", "why", info.failure));
    else if (info.can_be_resumed) made.append(element("div", "why", "can be resumed (--resume)"));
    made.append(element("dl", "", ...figures.map(([name, value]) => element("div", "", element("dt", "", name), element("dd", "", value)))));
    return made;
  }

  function table(head, rows) {
    const cells = (kind, list) => element("tr", "", ...list.map(text => element(kind, "", text)));
    return [cells("th", head), ...rows.map(list => cells("td", list))];
  }
  // Makes what is below an element anew if it is not what it was made of: who has selected text there keeps it.
  function renew(place, made_of, make) {
    const now = JSON.stringify([made_of, dark.matches]);
    if (place.made_of === now) return;
    place.made_of = now;
    place.replaceChildren(...make());
  }
  function show_settings(list) {
    $("settings-part").hidden = list.settings.length === 0;
    const text = value => value === null ? "·" : typeof value === "string" ? value : JSON.stringify(value);
    const names = list.runs.map(info => info.name);
    renew($("settings"), [names, list.settings], () => table(["setting", ...names], list.settings.map(one => [one.key, ...one.values.map(text)])));
  }
  function show_stages() {
    $("stages-part").hidden = stages.length === 0;
    renew($("stages"), stages, () => stages.map(run => element("div", "scroll", element("table", "", ...table(
      [run.name, "before", ...run.stages.map(stage => "after " + stage), "learned", "forgotten"],
      run.sets.map(set => [set.set, loss(set.loss_before), ...run.stages.map(stage => loss(set.loss_after[stage])), loss(set.learned), loss(set.forgotten)]))))));
  }

  // Words of `now` that are not in `before`, by the longest common sequence; texts are samples, so they are short.
  function changed_words(before, now) {
    const a = before.split(/(\s+)/).slice(0, 600), b = now.split(/(\s+)/), n = Math.min(b.length, 600);
    const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(n + 1));
    for (let i = a.length - 1; i >= 0; --i) {
      for (let k = n - 1; k >= 0; --k) common[i][k] = a[i] === b[k] ? common[i + 1][k + 1] + 1 : Math.max(common[i + 1][k], common[i][k + 1]);
    }
    const found = b.map(word => ({ word, is_new: false }));
    for (let i = 0, k = 0; k < n;) {
      if (i < a.length && a[i] === b[k]) { ++i; ++k; }
      else if (i < a.length && common[i + 1][k] > common[i][k + 1]) ++i;
      else found[k++].is_new = true;
    }
    return found;
  }
  function answer(run, rows) {
    const now = rows.at(-1), before = rows.at(-2), text = element("p");
    if (before) for (const { word, is_new } of changed_words(before.text, now.text)) text.append(is_new && word.trim() ? element("mark", "", word) : word);
    else text.append(now.text);
    const chip = element("span", "chip"), made = element("div", "answer", element("div", "who", chip, run.info.name + ", step " + count(now.step)), text);
    chip.style.background = run.colour();
    made.style.setProperty("--run", run.colour());
    return made;
  }
  function show_samples() {
    const all = shown().map(run => ({ run, rows: run.rows.filter(row => row.sample !== undefined) })).filter(one => one.rows.length);
    $("samples-part").hidden = all.length === 0;
    const steps = [...new Set(all.flatMap(one => one.rows.map(row => row.step)))].sort((a, b) => a - b);
    const slider = $("sample-step"), until = sample_at ?? steps.at(-1);
    slider.max = Math.max(0, steps.length - 1);
    slider.value = sample_at === null ? slider.max : steps.findLastIndex(step => step <= until);
    slider.oninput = () => { sample_at = Number(slider.value) === steps.length - 1 ? null : steps[slider.value]; show_samples(); };
    $("sample-at").textContent = steps.length ? count(until) : "";
    const prompts = new Map();
    for (const { run, rows } of all) {
      for (const row of rows.filter(one => one.step <= until)) {
        if (!prompts.has(row.prompt)) prompts.set(row.prompt, { reference: row.reference, answers: new Map() });
        const answers = prompts.get(row.prompt).answers;
        answers.set(run, [...(answers.get(run) ?? []), row]);
      }
    }
    renew($("samples"), [until, all.map(one => [one.run.info.name, one.rows.length])], () => [...prompts].map(([prompt, { reference, answers }]) => {
      const list = [...answers].map(([run, rows]) => answer(run, rows));
      if (reference !== undefined) list.push(element("div", "answer", element("div", "who", "wished for"), element("p", "", reference)));
      return element("div", "sample", element("div", "prompt", prompt), element("div", "answers", ...list));
    }));
  }

  async function show_plan(run) {
    memory_of = run.info.id;
    const shown = data.plans ? data.plans[memory_of] : await ask("plan?run=" + memory_of);
    $("memory-part").hidden = false;
    show_plans([shown]);
    show_memory();
  }
  function show_memory() {
    const list = [...runs.values()].filter(run => run.info.has_layout);
    if (!list.length) $("memory-part").hidden = true;
    else if (!list.some(run => run.info.id === memory_of)) return show_plan(list[0]);
    renew($("memory-runs"), [memory_of, list.map(run => run.info.name)], () => list.length < 2 ? [] : list.map(run => button(run.info.name, run.info.id === memory_of, () => show_plan(run))));
  }

  function show_all() {
    $("nothing").hidden = runs.size > 0;
    $("controls").hidden = runs.size === 0;
    const cards = [...runs.values()].map(card), place = $("cards");
    if (cards.length !== place.children.length || cards.some((one, i) => one !== place.children[i])) place.replaceChildren(...cards);
    curves.show($("charts"), shown());
    show_stages();
    show_samples();
    show_memory();
    const going = [...runs.values()].filter(run => run.info.state === "running").length;
    document.title = (going ? "▶ " : "") + "snug watch";
  }

  // The controls.
  const view = curves.view;
  function choose_part(share) {
    const ends = shown().flatMap(run => run.rows.length ? [run.rows.at(-1)] : []);
    if (share === 1 || view.x !== "step" || !ends.length) view.from = view.to = null;
    else [view.from, view.to] = [Math.max(...ends.map(row => row.step)) * (1 - share), Math.max(...ends.map(row => row.step))];
    view.changed();
  }
  view.changed = () => {
    $("whole-run").hidden = view.from === null;
    if (view.from === null) $("part").value = "1";
    else if ($("part").value === "1") $("part").value = "";
    curves.redraw();
  };
  $("part").querySelector("option[value='']").hidden = true;
  $("smooth").oninput = event => { view.smooth = Number(event.target.value); curves.redraw(); };
  $("log").onclick = () => { view.log = !view.log; pressed("log", view.log); curves.redraw(); };
  $("x").onchange = event => { view.x = event.target.value; choose_part(1); };
  $("part").onchange = event => choose_part(Number(event.target.value));
  $("whole-run").onclick = () => choose_part(1);
  pressed("log", false);

  // The server.
  async function ask(what) {
    const answer = await fetch("api/" + what, { headers: token ? { "X-Snug-Token": token } : {}, cache: "no-store" });
    if (!answer.ok) throw new Error("the server says " + answer.status);
    return answer.json();
  }
  // Rows from where we are on; from the beginning if a run that went on has written them anew.
  async function ask_rows(run) {
    for (let more = true; more;) {
      const news = await ask(`rows?run=${run.info.id}&offset=${run.offset}&mark=${run.mark}`);
      if (news.from === 0) { run.rows = []; run.keys = new Set(); }
      take_rows(run, news.rows);
      more = news.offset > run.offset && news.more;
      [run.offset, run.mark] = [news.offset, news.mark];
    }
    run.asked = run.info.last_time;
  }
  function tell_pulse(text, kind) { $("pulse").textContent = text; $("pulse").className = kind; }
  async function follow() {
    try {
      take_runs(await ask("runs"));
      for (const run of runs.values()) if (run.info.state === "running" || run.asked !== run.info.last_time || !run.offset) await ask_rows(run);
      const part = $("part").value;
      if (Number(part) && part !== "1") choose_part(Number(part));
      show_all();
      tell_pulse("live, " + new Date().toLocaleTimeString(), "live");
    } catch (problem) {
      tell_pulse("no answer from snug watch (" + problem.message + "); trying again", "lost");
    }
    setTimeout(follow, document.hidden ? 10 * data.interval_ms : data.interval_ms);
  }

  dark.addEventListener("change", show_all);
  if (data.interval_ms) {
    tell_pulse("asking", "");
    follow();
  } else {
    take_runs(data);
    for (const run of runs.values()) take_rows(run, data.rows[run.info.id]);
    tell_pulse("as of " + data.written, "");
    show_all();
  }
}
