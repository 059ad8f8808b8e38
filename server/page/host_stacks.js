// The stacks of the host as an icicle: callers above, what they call below, as wide as their share of the time of
// threads, or of the time for which a GPU waits for them. Runs of library frames are one box until it is clicked.

const ROW = 18;
const LEAST_LABEL = 26;
const TOP_LINES = 10;
const EVERY = "all";
const NO_BOX = -1;

function hostStacksView(stacks) {
  const frames = records(stacks.frames);
  const owners = ownersOf(stacks, frames);
  const shades = shadesOf(stacks, frames);
  const amount = (value) => (stacks.unit === "ns" ? duration(value) : `${figure(Math.round(value))} ${stacks.unit}`);
  const launching = stacks.idle_ns ? [...new Set(stacks.thread.filter((_, cell) => stacks.idle_ns[cell] > 0))] : [];
  const state = {
    measure: stacks.idle_ns?.some((ns) => ns > 0) ? "idle" : "time", thread: launching.length === 1 ? String(launching[0]) : EVERY, step: EVERY,
    words: "", fold: true, opened: new Set(), zoomed: null, chosen: null,
  };
  const canvas = el("canvas", { tabindex: "0", role: "application", "aria-label": "Stacks of the host. Up and down move to the caller and to what it calls, left and right to its neighbours, Enter enlarges a box or opens a library, Escape or 0 shows all." });
  const tip = el("div", { class: "tip", hidden: true });
  const chart = el("div", { class: "chart" }, canvas, tip);
  const status = el("p", { class: "told", role: "status" });
  const lines = el("div");
  const probe = el("span", { class: "probe" });
  let boxes = [];
  let drawn = [];
  let width = 0;
  let asked = false;

  const keyOf = (box) => (box < 0 ? null : boxes[box].key);
  const boxOf = (key) => (key === null ? NO_BOX : boxes.findIndex((box) => box.key === key));
  const matches = (box) => !state.words || box.lower.includes(state.words);

  function compute() {
    boxes = boxesOf(stacks, frames, owners, shades, state);
    if (boxOf(state.zoomed) < 0) state.zoomed = null;
    choose(boxOf(state.chosen));
    lines.replaceChildren(topLines(stacks, frames, owners, state));
  }

  // The boxes of the picture with their place: the callers of the enlarged box fill the whole width.
  function placed() {
    const made = [];
    const put = (box, row, left, wide) => {
      if (wide < 0.5) return;
      boxes[box].row = row;
      made.push({ box, row, left, wide });
      let at = left;
      for (const child of boxes[box].children) {
        const share = wide * (boxes[child].value / Math.max(boxes[box].value, 1));
        put(child, row + 1, at, share);
        at += share;
      }
    };
    const zoomed = boxOf(state.zoomed);
    const above = zoomed < 0 ? [] : callersOf(zoomed);
    above.forEach((box, row) => made.push({ box, row, left: 0, wide: width }));
    if (zoomed >= 0) put(zoomed, above.length, 0, width);
    else {
      const roots = boxes.map((_, box) => box).filter((box) => boxes[box].parent < 0).sort((a, b) => boxes[b].value - boxes[a].value);
      const total = roots.reduce((sum, box) => sum + boxes[box].value, 0);
      let at = 0;
      for (const box of roots) {
        const share = (width * boxes[box].value) / Math.max(total, 1);
        put(box, 0, at, share);
        at += share;
      }
    }
    return made;
  }

  // The callers of a box, the outermost first.
  function callersOf(box) {
    const made = [];
    for (let at = boxes[box].parent; at >= 0; at = boxes[at].parent) made.unshift(at);
    return made;
  }

  function render() {
    asked = false;
    width = Math.max(280, chart.clientWidth);
    drawn = placed();
    const height = ROW * (1 + drawn.reduce((most, place) => Math.max(most, place.row), 0)) + 1;
    const dense = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
    canvas.style.height = `${height}px`;
    const colors = {};
    for (const name of ["ink", "line", "paper"]) colors[name] = resolved(`var(--${name})`);
    const shade = [...Array(PALETTE + 1).keys()].map((i) => resolved(color(i)));
    const at = canvas.getContext("2d");
    at.scale(dense, dense);
    at.font = "11px system-ui, sans-serif";
    at.textBaseline = "middle";
    const chosen = boxOf(state.chosen);
    for (const { box, row, left, wide } of drawn) {
      const one = boxes[box];
      const plain = !matches(one);
      at.fillStyle = plain ? colors.line : shade[one.shade];
      at.fillRect(left, row * ROW, Math.max(wide - (wide > 3 ? 1 : 0), 0.5), ROW - 1);
      if (wide > LEAST_LABEL) {
        at.fillStyle = plain ? colors.ink : colors.paper;
        at.fillText(withoutMiddle(one.label, wide - 8, (text) => at.measureText(text).width), left + 4, row * ROW + ROW / 2);
      }
      if (box === chosen) {
        at.strokeStyle = colors.ink;
        at.lineWidth = 2;
        at.strokeRect(left + 1, row * ROW + 1, Math.max(wide - 3, 1), ROW - 3);
      }
    }
    Object.assign(canvas.dataset, { boxes: String(drawn.length), zoomed: keyOf(boxOf(state.zoomed)) ?? "", chosen: keyOf(chosen) ?? "", matching: String(drawn.filter(({ box }) => matches(boxes[box])).length) });
  }

  function resolved(value) {
    probe.style.color = value;
    return getComputedStyle(probe).color;
  }

  function soon() {
    if (!asked) requestAnimationFrame(render);
    asked = true;
  }

  function wordsOf(box) {
    const one = boxes[box];
    const total = boxes.reduce((sum, each) => sum + (each.parent < 0 ? each.value : 0), 0);
    const share = percent((100 * one.value) / Math.max(total, 1));
    const idle = stacks.idle_ns ? `, GPU idle ${duration(one.idle)}` : "";
    const what = one.folded ? `${one.label}: ${one.folded} functions of the library in one box` : one.label;
    const place = one.place ? `\n${one.place}` : "";
    return `${what}${place}\n${amount(one.time)}${idle}, ${share} of the ${state.measure === "idle" ? "idle time" : "time"} shown${one.text ? `\n${briefly(one.text, 160)}` : ""}`;
  }

  function choose(box) {
    state.chosen = keyOf(box);
    status.textContent = box < 0 ? "" : wordsOf(box);
    soon();
  }

  // Open a library, or enlarge a box.
  function enter(box) {
    if (box < 0) return;
    if (boxes[box].folded) {
      state.opened.add(boxes[box].region);
      state.chosen = boxes[box].region || null;
      compute();
      return;
    }
    state.zoomed = boxes[box].key;
    choose(box);
  }

  function all() {
    state.zoomed = null;
    if (state.opened.size) {
      state.opened.clear();
      compute();
    }
    choose(NO_BOX);
  }

  function at(event) {
    const area = canvas.getBoundingClientRect();
    const [px, row] = [event.clientX - area.left, Math.floor((event.clientY - area.top) / ROW)];
    return drawn.find((place) => place.row === row && px >= place.left && px < place.left + Math.max(place.wide, 1))?.box ?? NO_BOX;
  }

  function beside(by) {
    const chosen = boxOf(state.chosen);
    const { parent } = boxes[chosen];
    const row = drawn.filter(({ box }) => boxes[box].parent === parent).map(({ box }) => box);
    return row[Math.min(Math.max(row.indexOf(chosen) + by, 0), row.length - 1)] ?? chosen;
  }

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const chosen = boxOf(state.chosen);
    const visible = new Set(drawn.map(({ box }) => box));
    if (event.key === "Escape" || event.key === "0") all();
    else if (event.key === "Enter") enter(chosen);
    else if (!event.key.startsWith("Arrow")) return;
    else if (chosen < 0) choose(drawn[0]?.box ?? NO_BOX);
    else if (event.key === "ArrowUp") choose(boxes[chosen].parent < 0 ? chosen : boxes[chosen].parent);
    else if (event.key === "ArrowDown") choose(boxes[chosen].children.find((child) => visible.has(child)) ?? chosen);
    else choose(beside(event.key === "ArrowLeft" ? -1 : 1));
    event.preventDefault();
  });
  canvas.addEventListener("click", (event) => enter(at(event)));
  canvas.addEventListener("pointermove", (event) => {
    const box = at(event);
    tip.hidden = box < 0;
    if (box < 0) return;
    tip.textContent = wordsOf(box);
    const area = chart.getBoundingClientRect();
    tip.style.left = `${Math.max(0, Math.min(event.clientX - area.left + 12, area.width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${event.clientY - area.top + 16}px`;
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  document.addEventListener("themed", () => render());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", soon);
  new ResizeObserver(() => { if (Math.max(280, chart.clientWidth) !== width) soon(); }).observe(chart);

  const changed = (name) => (value) => {
    state[name] = value;
    compute();
  };
  const search = el("input", { type: "search", placeholder: "function or file", oninput: () => { state.words = search.value.toLowerCase(); soon(); } });
  const box = el("input", { type: "checkbox", checked: true, onchange: () => changed("fold")(box.checked) });
  const numbered = (every, names) => [[EVERY, every], ...names.map((name, n) => [String(n), name])];
  const controls = el("div", { class: "controls" },
    stacks.idle_ns ? select("Show", [["idle", "while a GPU is idle"], ["time", "all time"]], state.measure, changed("measure")) : "",
    stacks.threads.length > 1 ? select("Thread", numbered("all threads", stacks.threads), state.thread, changed("thread")) : "",
    stacks.steps.length > 1 ? select("Step", numbered("all time", stacks.steps), state.step, changed("step")) : "",
    labelled("Highlight", search), el("label", {}, box, "Fold libraries"), el("button", { type: "button", onclick: all }, "Show all"));
  compute();
  const meaning = stacks.idle_ns ? " Idle time is that of GPUs between their first and last work, charged to the code that they waited for; it belongs to the thread whose call ended it." : "";
  return el("div", {}, controls, probe, chart, status, el("p", { class: "note" }, `Coloured by file: the program's own code; grey: libraries.${meaning} `, el("span", { class: "noprint" }, "Click enlarges a box or opens a library; keyboard: arrows, Enter, Escape or 0.")), lines);
}

// A text that fits into a width, without its middle if it is too long.
function withoutMiddle(text, width, measure) {
  if (measure(text) <= width) return text;
  const part = (kept) => `${text.slice(0, Math.ceil((2 * kept) / 3))}…${text.slice(text.length - Math.floor(kept / 3))}`;
  let [low, high] = [1, Math.min(text.length, 400)];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (measure(part(middle)) <= width) low = middle;
    else high = middle;
  }
  return part(low);
}

// For each node, the node of the program's own code that it belongs to: itself or its nearest caller; -1 without one.
function ownersOf(stacks, frames) {
  const made = [];
  stacks.parent.forEach((parent, node) => made.push(frames[stacks.frame[node]].own ? node : parent < 0 ? -1 : made[parent]));
  return made;
}

// The files of the program's own code with most time have individual colours.
function shadesOf(stacks, frames) {
  const spent = new Map();
  stacks.node.forEach((node, cell) => {
    const frame = frames[stacks.frame[node]];
    if (frame.own) spent.set(frame.file, (spent.get(frame.file) || 0) + stacks.time[cell] + (stacks.idle_ns?.[cell] || 0));
  });
  for (const frame of frames) if (frame.own && !spent.has(frame.file)) spent.set(frame.file, 0);
  return new Map([...spent].sort((a, b) => b[1] - a[1]).map(([file], rank) => [file, rank % PALETTE]));
}

function placeOf(frame) {
  return frame.file === null ? "" : `${frame.file}${frame.line === null ? "" : `:${frame.line}${frame.until === null ? "" : `-${frame.until}`}`}`;
}

// The own values of each node within the chosen thread and step, as [time, idle].
function ownValues(stacks, state) {
  const made = [stacks.parent.map(() => 0), stacks.parent.map(() => 0)];
  stacks.node.forEach((node, cell) => {
    if (state.thread !== EVERY && stacks.thread[cell] !== Number(state.thread)) return;
    if (state.step !== EVERY && stacks.step[cell] !== Number(state.step)) return;
    made[0][node] += stacks.time[cell];
    made[1][node] += stacks.idle_ns?.[cell] || 0;
  });
  return made;
}

// The boxes of the tree, callers first: one for each function under its caller, and one for each run of library frames,
// named after the innermost package, unless its region (what one function of the program calls) is opened.
function boxesOf(stacks, frames, owners, shades, state) {
  const [time, idle] = ownValues(stacks, state);
  const numbers = new Map();
  const made = [];
  const boxOfNode = [];
  stacks.parent.forEach((parent, node) => {
    const frame = frames[stacks.frame[node]];
    const above = frame.own || owners[node] < 0 ? -1 : boxOfNode[owners[node]];
    const region = above < 0 ? "" : made[above].key;
    const folded = state.fold && !frame.own && !state.opened.has(region);
    const caller = folded ? above : parent < 0 ? -1 : boxOfNode[parent];
    const library = frame.module || "library";
    const key = `${caller < 0 ? "" : made[caller].key}/${folded ? library : stacks.frame[node]}`;
    if (!numbers.has(key)) {
      numbers.set(key, made.length);
      const label = folded ? library : `${frame.function}${frame.line === null ? "" : `:${frame.line}`}`;
      const place = folded ? "" : placeOf(frame);
      made.push({ key, parent: caller, region, label, place, text: folded ? "" : frame.text, lower: "", folded: 0, names: new Set(), time: 0, idle: 0, children: [], shade: frame.own ? shades.get(frame.file) : PALETTE });
    }
    const box = made[numbers.get(key)];
    box.names.add(frame.function);
    if (folded) box.folded = box.names.size;
    box.lower += `${frame.function} ${placeOf(frame)} ${frame.module || ""}\n`.toLowerCase();
    box.time += time[node];
    box.idle += idle[node];
    boxOfNode.push(numbers.get(key));
  });
  for (let at = made.length - 1; at >= 0; at--) {
    const box = made[at];
    box.value = state.measure === "idle" ? box.idle : box.time;
    if (box.parent >= 0) {
      made[box.parent].time += box.time;
      made[box.parent].idle += box.idle;
      made[box.parent].children.push(at);
    }
  }
  for (const box of made) box.children.sort((a, b) => made[b].value - made[a].value);
  return made;
}

// The lines of the program with most idle time, or time, with the libraries that they call.
function topLines(stacks, frames, owners, state) {
  const [time, idle] = ownValues(stacks, state);
  const sums = new Map();
  stacks.parent.forEach((_, node) => {
    const frame = stacks.frame[owners[node] < 0 ? node : owners[node]];
    const sum = sums.get(frame) || [0, 0];
    sums.set(frame, [sum[0] + time[node], sum[1] + idle[node]]);
  });
  const by = state.measure === "idle" ? 1 : 0;
  const most = [...sums].filter(([, sum]) => sum[by] > 0).sort((a, b) => b[1][by] - a[1][by]).slice(0, TOP_LINES);
  const columns = ["function", ...(stacks.idle_ns ? ["gpu_idle"] : []), "time", "place", "text"];
  const units = columns.map((name) => ({ gpu_idle: "ns", time: stacks.unit })[name] || null);
  const rows = most.map(([number, sum]) => {
    const frame = frames[number];
    return [frame.function, ...(stacks.idle_ns ? [sum[1]] : []), sum[0], placeOf(frame), frame.text];
  });
  return tableView({ columns, units, rows, truncated: false }, { caption: `Lines with most ${by ? "idle time" : "time"}, with the libraries that they call` });
}
