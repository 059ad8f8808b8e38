// The timeline: every event and range in its lane, on a canvas of page width, with arrows from calls to the work that
// they started, totals of a range, zoom and search.

const LANE = 20;
const LABELS = 130;
const ARROWS = 60; // With at most this many launches in view, all have their arrow.
const LISTED = 6;
const AXIS = 24;
const KIND_COLORS = { copy: 1, fill: 6, api: 8, sync: 4, alloc: 7 };

function timelineView(events, gaps) {
  const data = decoded(events, gaps);
  if (!data.lanes.length) return el("p", { class: "soft" }, "The profile contains no events with usable times.");
  const [from, to] = events.window || [0, data.span];
  const state = { from, to: Math.max(to, from + 10), words: "", chosen: -1, mark: null };
  const canvas = el("canvas", { tabindex: "0", role: "application", "aria-label": "Timeline. Left and right or A and D pan, plus and minus or W and S zoom, 0 shows all, 1 the analysed part, comma and full stop move between events, Escape removes the selection." });
  const tip = el("div", { class: "tip", hidden: true });
  const chart = el("div", { class: "chart" }, canvas, tip);
  const told = el("p", { class: "told", role: "status" });
  const sums = el("div", { class: "sums", role: "status" });
  const probe = el("span", { class: "probe" });
  const height = AXIS + data.lanes.length * LANE + 6;
  let width = 0;
  let colors = null;
  let drag = null;
  let asked = false;

  function resolved(value) {
    probe.style.color = value;
    return getComputedStyle(probe).color;
  }

  function palette() {
    return { ink: resolved("var(--ink)"), soft: resolved("var(--soft)"), line: resolved("var(--line)"), paper: resolved("var(--paper)"), c: [...Array(PALETTE + 1).keys()].map((i) => resolved(color(i))) };
  }

  const room = () => width - labels() - 6;
  const labels = () => (width < 600 ? 90 : LABELS);
  const x = (ns) => labels() + ((ns - state.from) / (state.to - state.from)) * room();

  function render() {
    asked = false;
    width = Math.max(280, chart.clientWidth);
    colors = palette();
    const dense = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
    canvas.style.height = `${height}px`;
    const at = canvas.getContext("2d");
    at.scale(dense, dense);
    at.font = "11px system-ui, sans-serif";
    at.textBaseline = "middle";
    axis(at);
    data.lanes.forEach((lane, number) => laneOf(at, lane, AXIS + number * LANE));
    arrows(at);
    if (state.mark) {
      const [left, right] = state.mark.map((moment) => Math.min(Math.max(x(moment), labels()), width));
      at.strokeStyle = colors.c[0];
      at.strokeRect(left, AXIS - 2, right - left, height - AXIS);
      at.globalAlpha = 0.12;
      at.fillStyle = colors.c[0];
      at.fillRect(left, AXIS - 2, right - left, height - AXIS);
    }
    totals();
  }

  // Arrows from calls to the work that they started: that of the chosen event, and all if there are few.
  function arrows(at) {
    const inView = data.launches.filter(([call, work]) => data.start[work] < state.to && data.start[work] + data.duration[work] > state.from && data.start[call] + data.duration[call] > state.from && data.start[call] < state.to);
    const shown = inView.length <= ARROWS ? inView : inView.filter((pair) => pair.includes(state.chosen));
    canvas.dataset.arrows = String(shown.length);
    at.save();
    at.beginPath();
    at.rect(labels(), AXIS, room(), height - AXIS);
    at.clip();
    for (const pair of shown) {
      const [[ax, ay], [bx, by]] = pair.map((i) => [x(data.start[i]), AXIS + (data.lane[i] + 0.5) * LANE]);
      at.strokeStyle = at.fillStyle = pair.includes(state.chosen) ? colors.ink : colors.soft;
      at.lineWidth = pair.includes(state.chosen) ? 2 : 1;
      at.beginPath();
      at.moveTo(ax, ay);
      at.bezierCurveTo(ax + 14, ay, bx - 22, by, bx - 5, by);
      at.stroke();
      at.beginPath();
      at.moveTo(bx, by);
      at.lineTo(bx - 6, by - 3.5);
      at.lineTo(bx - 6, by + 3.5);
      at.fill();
    }
    at.restore();
  }

  // The sums over the selected range, or else over what is visible: by kind, and the names with most time.
  function totals() {
    const [first, last] = state.mark || [state.from, state.to];
    const kinds = new Map();
    const names = new Map();
    const add = (to, key, ns) => to.set(key, [(to.get(key)?.[0] || 0) + ns, (to.get(key)?.[1] || 0) + 1]);
    for (const lane of data.lanes) for (let i = firstEnding(lane, first); i < lane.last && data.start[i] < last; i++) {
      const ns = Math.min(data.start[i] + data.duration[i], last) - Math.max(data.start[i], first);
      const kind = data.kinds[data.name[i]];
      // Ranges are nested, and of many gaps only the longest are here: their sums would mislead.
      if (kind === "range" || kind === "idle" || ns < 0 || (ns === 0 && data.duration[i] > 0)) continue;
      add(kinds, kind, ns);
      add(names, data.name[i], ns);
    }
    const most = (of) => [...of].sort((a, b) => b[1][0] - a[1][0]).slice(0, LISTED);
    const words = (name, [ns, n]) => `${name} ${duration(ns)} (${figure(n)})`;
    const shown = [
      `${state.mark ? "Selected" : "Visible"}: ${duration(last - first)} from ${duration(first)}.`,
      `Sums by kind (events): ${most(kinds).map(([kind, sum]) => words(kind, sum)).join(", ") || "none"}.`,
      `Longest: ${most(names).map(([name, sum]) => words(briefly(shortName(data.names[name]), 40), sum)).join(", ") || "none"}.`,
    ];
    if (shown.join("\n") !== sums.dataset.shown) sums.replaceChildren(...shown.map((line) => el("p", { class: "note" }, line)));
    sums.dataset.shown = shown.join("\n");
  }

  function soon() {
    if (!asked) requestAnimationFrame(render);
    asked = true;
  }

  function axis(at) {
    const span = state.to - state.from;
    const step = nice(span / Math.max(2, room() / 110));
    const [unit, size] = unitOf(state.to);
    const digits = Math.max(0, Math.min(9, -Math.floor(Math.log10(step / size))));
    for (let tick = Math.ceil(state.from / step) * step; tick <= state.to; tick += step) {
      at.fillStyle = colors.line;
      at.fillRect(x(tick), AXIS - 4, 1, height - AXIS);
      at.fillStyle = colors.soft;
      at.textAlign = x(tick) > width - 50 ? "right" : x(tick) < labels() + 30 ? "left" : "center";
      at.fillText(`${(tick / size).toLocaleString("en-US", { maximumFractionDigits: digits })} ${unit}`, x(tick), 11);
    }
    at.textAlign = "left";
  }

  function laneOf(at, lane, top) {
    at.fillStyle = colors.soft;
    at.save();
    at.beginPath();
    at.rect(0, top, labels() - 6, LANE);
    at.clip();
    at.fillText(lane.name, 2, top + LANE / 2);
    at.restore();
    at.save();
    at.beginPath();
    at.rect(labels(), top, room(), LANE);
    at.clip();
    const first = firstEnding(lane, state.from);
    let end = first;
    while (end < lane.last && data.start[end] < state.to) end++;
    // A few events are drawn at least one pixel wide; with many, opacity shows the share of the pixel's time.
    const least = Math.min(1, room() / 4 / Math.max(1, end - first));
    for (let i = first; i < end; i++) {
      const left = Math.max(x(data.start[i]), labels() - 1);
      const right = Math.min(x(data.start[i] + data.duration[i]), width);
      const wide = Math.max(right - left, least);
      at.fillStyle = shade(i);
      at.fillRect(left, top + 2, wide, LANE - 4);
      if (wide > 34) {
        at.save();
        at.beginPath();
        at.rect(left, top, wide - 2, LANE);
        at.clip();
        at.fillStyle = colors.paper;
        at.fillText(briefly(shortName(data.names[data.name[i]]), 60), left + 3, top + LANE / 2);
        at.restore();
      }
      if (i === state.chosen) {
        at.strokeStyle = colors.ink;
        at.lineWidth = 2;
        at.strokeRect(left, top + 2, wide, LANE - 4);
      }
    }
    at.restore();
  }

  function shade(i) {
    const name = data.name[i];
    if (state.words && !data.lower[name].includes(state.words)) return colors.line;
    return colors.c[data.shade[name]];
  }

  // The first event of a lane that ends after a given time; found with the running maximum of end times.
  function firstEnding(lane, moment) {
    let [low, high] = [lane.first, lane.last];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (data.reached[middle] < moment) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  function at(event) {
    const box = canvas.getBoundingClientRect();
    const lane = data.lanes[Math.floor((event.clientY - box.top - AXIS) / LANE)];
    const px = event.clientX - box.left;
    if (!lane || px < labels()) return -1;
    const slack = ((state.to - state.from) / room()) * 2;
    const moment = state.from + ((px - labels()) / room()) * (state.to - state.from);
    let found = -1;
    for (let i = firstEnding(lane, moment - slack); i < lane.last && data.start[i] <= moment + slack; i++) {
      if (data.start[i] + data.duration[i] >= moment - slack && (found < 0 || data.duration[i] <= data.duration[found])) found = i;
    }
    return found;
  }

  function wordsOf(i) {
    const lane = data.lanes[data.lane[i]];
    const full = data.names[data.name[i]];
    return `${briefly(SHOWN.get(full) || full, 200)}\n${data.kinds[data.name[i]]}, ${duration(data.duration[i])} at ${duration(data.start[i])}\n${lane.name}`;
  }

  function choose(i) {
    state.chosen = i;
    told.textContent = i < 0 ? "" : wordsOf(i);
    if (i >= 0 && (data.start[i] > state.to || data.start[i] + data.duration[i] < state.from)) show(data.start[i] + data.duration[i] / 2, state.to - state.from);
    soon();
  }

  function show(middle, span) {
    const kept = Math.min(Math.max(span, 10), data.span);
    const from = Math.min(Math.max(middle - kept / 2, 0), data.span - kept);
    Object.assign(state, { from, to: from + kept });
    canvas.dataset.span = String(kept);
    soon();
  }
  canvas.dataset.span = String(state.to - state.from);

  const zoom = (factor, share = 0.5) => {
    const span = Math.min(Math.max((state.to - state.from) * factor, 10), data.span);
    show(state.from + (state.to - state.from) * share - span * (share - 0.5), span);
  };
  const move = (share) => show((state.from + state.to) / 2 + (state.to - state.from) * share, state.to - state.from);
  const all = () => show(data.span / 2, data.span);
  const analysed = () => show((from + to) / 2, to - from);

  function step(by) {
    if (state.chosen < 0) return choose(firstEnding(data.lanes[0], state.from));
    const lane = data.lanes[data.lane[state.chosen]];
    choose(Math.min(Math.max(state.chosen + by, lane.first), lane.last - 1));
  }

  canvas.addEventListener("keydown", (event) => {
    const lane = state.chosen < 0 ? 0 : data.lane[state.chosen];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if ("+=w".includes(event.key)) zoom(0.6);
    else if ("-s".includes(event.key)) zoom(1 / 0.6);
    else if (event.key === "0") all();
    else if (event.key === "1") analysed();
    else if (event.key === "Escape") { state.mark = null; choose(-1); }
    else if (event.key === "ArrowLeft" || event.key === "a") move(-0.2);
    else if (event.key === "ArrowRight" || event.key === "d") move(0.2);
    else if (event.key === "ArrowDown" && data.lanes[lane + 1]) choose(Math.min(firstEnding(data.lanes[lane + 1], state.from), data.lanes[lane + 1].last - 1));
    else if (event.key === "ArrowUp" && lane > 0) choose(Math.min(firstEnding(data.lanes[lane - 1], state.from), data.lanes[lane - 1].last - 1));
    else if (event.key === ".") step(1);
    else if (event.key === ",") step(-1);
    else return;
    event.preventDefault();
  });
  const shareAt = (event) => (event.clientX - canvas.getBoundingClientRect().left - labels()) / room();
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 0.75 : 1 / 0.75, Math.min(Math.max(shareAt(event), 0), 1));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => { if (!event.button) drag = { share: shareAt(event), x: event.clientX, marks: event.shiftKey }; });
  canvas.addEventListener("pointermove", (event) => {
    const found = at(event);
    tip.hidden = found < 0;
    if (found < 0) return;
    tip.textContent = wordsOf(found);
    const box = chart.getBoundingClientRect();
    tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left + 12, box.width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${event.clientY - box.top + 16}px`;
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  window.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const [began, ended, far, marks] = [drag.share, shareAt(event), Math.abs(event.clientX - drag.x), drag.marks];
    drag = null;
    if (far < 5) return choose(at(event));
    const span = state.to - state.from;
    if (!marks) return show(state.from + (span * (began + ended)) / 2, span * Math.abs(ended - began));
    state.mark = [Math.min(began, ended), Math.max(began, ended)].map((share) => state.from + span * Math.min(Math.max(share, 0), 1));
    soon();
  });
  canvas.addEventListener("dblclick", all);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", soon);
  document.addEventListener("themed", () => render());
  new ResizeObserver(() => { if (Math.max(280, chart.clientWidth) !== width) soon(); }).observe(chart);

  const search = el("input", { type: "search", placeholder: "part of a name", oninput: () => { state.words = search.value.toLowerCase(); soon(); } });
  const controls = el("div", { class: "controls" }, labelled("Highlight", search),
    el("button", { type: "button", "aria-label": "Zoom in", onclick: () => zoom(0.6) }, "+"),
    el("button", { type: "button", "aria-label": "Zoom out", onclick: () => zoom(1 / 0.6) }, "−"),
    el("button", { type: "button", onclick: all }, "Show all"),
    events.window ? el("button", { type: "button", onclick: analysed }, "Show the analysed part") : "");
  const count = events.lane.length;
  const less = [
    count < events.total ? `the ${figure(count)} longest of ${figure(events.total)} events are drawn` : `${figure(count)} events`,
    events.lanes_left_out ? `${events.lanes_left_out} lanes with less time are omitted` : "",
    gaps && gaps.rows.length < gaps.total_rows ? `the ${gaps.rows.length} longest of ${figure(gaps.total_rows)} gaps` : "",
  ].filter(Boolean).join("; ");
  soon();
  return el("div", {}, controls, probe, chart, sums, told, el("p", { class: "note" }, `${less[0].toUpperCase()}${less.slice(1)}. `, el("span", { class: "noprint" }, "Drag to zoom, Shift and drag to select, double-click to show all; keyboard: arrows or WASD, +, −, 0, 1, comma and full stop.")));
}

// The smallest of 1, 2, 5 times a power of ten that is at least the given number.
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= value);
}

// Events in typed arrays, by lane in order of start; gaps become lanes below those of devices.
function decoded(events, gaps) {
  const idle = gaps ? records(gaps).filter((gap) => gap.ms > 0).sort((a, b) => (a.device > b.device) - (a.device < b.device) || a.at_ms - b.at_ms) : [];
  const count = events.lane.length + idle.length;
  const data = {
    span: Math.max(events.span_ns, 1), lanes: [], names: [...events.names], kinds: [...events.kinds],
    lane: new Uint16Array(count), name: new Uint32Array(count), start: new Float64Array(count), duration: new Float64Array(count), reached: new Float64Array(count),
  };
  let at = 0;
  const put = (name, start, length) => {
    const lane = data.lanes.at(-1);
    data.lane[at] = data.lanes.length - 1;
    data.name[at] = name;
    data.start[at] = start;
    data.duration[at] = length;
    data.reached[at] = Math.max(start + length, at > lane.first ? data.reached[at - 1] : -Infinity);
    lane.last = ++at;
  };
  const open = (name) => data.lanes.push({ name, first: at, last: at });
  const causes = new Map();
  const addIdle = () => {
    for (const gap of idle.splice(0)) {
      if (data.lanes.at(-1)?.name !== `idle ${gap.device}`) open(`idle ${gap.device}`);
      if (!causes.has(gap.cause)) {
        causes.set(gap.cause, data.names.length);
        data.names.push(`idle: ${gap.cause.replaceAll("_", " ")}`);
        data.kinds.push("idle");
      }
      put(causes.get(gap.cause), gap.at_ms * 1e6, gap.ms * 1e6);
    }
  };
  const placed = new Int32Array(events.lane.length);
  let [before, moment] = [-1, 0];
  for (let i = 0; i < events.lane.length; i++) {
    if (events.lane[i] !== before) {
      before = events.lane[i];
      moment = 0;
      if (events.lanes[before].kind !== "device") addIdle();
      open(events.lanes[before].name);
    }
    moment += events.start[i];
    placed[i] = at;
    put(events.name[i], moment, events.duration[i]);
  }
  addIdle();
  data.launches = events.calls.map((call, n) => [placed[call], placed[events.called[n]]]);
  data.lower = data.names.map((name) => name.toLowerCase());
  const spent = new Float64Array(data.names.length);
  for (let i = 0; i < count; i++) spent[data.name[i]] += data.duration[i];
  // The kernels and ranges that take most time get individual colours.
  data.shade = new Uint8Array(data.names.length).fill(PALETTE);
  for (const kind of ["kernel", "range", "idle"]) {
    const order = data.names.map((_, n) => n).filter((n) => data.kinds[n] === kind).sort((a, b) => spent[b] - spent[a]);
    order.slice(0, PALETTE).forEach((n, rank) => { data.shade[n] = rank; });
  }
  data.kinds.forEach((kind, n) => { if (kind in KIND_COLORS) data.shade[n] = KIND_COLORS[kind]; });
  return data;
}
