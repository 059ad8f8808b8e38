// The roofline plot: points of kernels below ceilings on logarithmic axes, with zoom, hover and controls.

const LEVEL_NAMES = { hbm: "HBM", l2: "L2", gl1: "GL1", vl1d: "L1", lds: "LDS" };
const LEVELS = Object.keys(LEVEL_NAMES);
const INSTRUCTIONS = "instructions";
const MARGIN = { left: 62, right: 12, top: 12, bottom: 40 };
const WORK_NAMES = { flop: "floating point", iop: "integer" };

function rooflineView(workloads, focus) {
  const answers = workloads.flatMap((workload, at) => workload.rooflines.filter((one) => one.answer).map((one) => ({ at, key: one.key, ...one.answer })));
  if (!answers.length) return null;
  const points = answers.flatMap((answer) => records(answer.points).map((point) => {
    point.at = answer.at;
    point.source = answer.ceiling_source;
    point.work = answer.key === INSTRUCTIONS ? INSTRUCTIONS : point.datatype;
    return point;
  }));
  const drawable = (p) => p.intensity > 0 && p.performance > 0 && !UNKNOWN.has(p.status);
  if (!points.some(drawable)) return null;
  const works = [...new Set(points.map((p) => p.work))].sort((a, b) => (a === INSTRUCTIONS) - (b === INSTRUCTIONS) || (b in WORK_NAMES) - (a in WORK_NAMES) || a.localeCompare(b));
  const sources = [...new Set(answers.map((answer) => answer.ceiling_source))];
  const levels = LEVELS.filter((level) => points.some((p) => p.level === level));
  const state = {
    work: works.find((work) => points.some((p) => p.work === work && drawable(p))) || works[0],
    source: sources[0],
    levels: new Set(levels),
    shown: new Set(workloads.map((_, at) => String(at))),
    kernels: "10",
    chosen: null,
    window: null,
  };
  if (focus && works.includes(focus)) state.work = focus;

  const svg = draw("svg", { role: "application", tabindex: "0", "aria-label": "Roofline. Arrow keys move between points, plus and minus zoom, Shift with arrows pans, 0 shows all." });
  const tip = el("div", { class: "tip", hidden: true });
  const chart = el("div", { class: "chart" }, svg, tip);
  const told = el("p", { class: "told", role: "status" });
  const left = el("p", { class: "note" });
  const key = el("ul", { class: "key" });
  let view = null; // current drawing: sizes, domain, marks
  let drag = null;

  function wanted() {
    const most = state.kernels === "all" ? Infinity : Number(state.kernels);
    return points.filter((p) => p.work === state.work && p.source === (sources.length > 1 ? state.source : p.source) && state.levels.has(p.level) && state.shown.has(String(p.at)) && p.rank <= most);
  }

  function ceilings() {
    const found = [];
    for (const answer of answers) {
      const kind = state.work === INSTRUCTIONS ? INSTRUCTIONS : "operations";
      if (answer.key !== kind || !state.shown.has(String(answer.at)) || (sources.length > 1 && answer.ceiling_source !== state.source)) continue;
      const unit = points.find((p) => p.work === state.work && p.at === answer.at)?.unit;
      const all = records(answer.ceilings);
      const own = all.filter((c) => c.ceiling === state.work);
      const slopes = all.filter((c) => c.ceiling.endsWith(".bw") && state.levels.has(c.ceiling.slice(0, -3)));
      const roofs = own.length ? own : all.filter((c) => c.unit === unit && c.unit !== "GB/s");
      const device = answer.device;
      if (found.some((other) => other.device === device)) continue;
      found.push({ device, slopes, roofs, sweep: answer.sweep ? records(answer.sweep).filter((p) => p.unit === unit) : [], source: answer.ceiling_source });
    }
    return found;
  }

  // The range that contains everything, in powers of ten.
  function everything(marks, devices) {
    const xs = marks.map((p) => p.intensity);
    const ys = marks.map((p) => p.performance);
    for (const device of devices) {
      const top = Math.max(...device.roofs.map((c) => c.value), 0);
      if (top) ys.push(top * 1.5);
      for (const slope of device.slopes) if (top) xs.push(top / slope.value);
    }
    if (!marks.length) {
      xs.push(0.01, 1000);
      ys.push(Math.max(...ys, 1000) / 1e4, Math.max(...ys, 1000));
    }
    const span = (values, room) => [Math.log10(Math.min(...values)) - room, Math.log10(Math.max(...values)) + room];
    return { x: span(xs, 0.4), y: span(ys, 0.3) };
  }

  function render() {
    const marks = wanted();
    const drawn = marks.filter(drawable);
    const devices = ceilings();
    const width = Math.max(280, chart.clientWidth || 900);
    const height = Math.round(Math.min(560, Math.max(320, width * 0.55)));
    const domain = state.window || everything(drawn, devices);
    const [w, h] = [width - MARGIN.left - MARGIN.right, height - MARGIN.top - MARGIN.bottom];
    const x = (value) => MARGIN.left + (w * (Math.log10(value) - domain.x[0])) / (domain.x[1] - domain.x[0]);
    const y = (value) => MARGIN.top + h - (h * (Math.log10(value) - domain.y[0])) / (domain.y[1] - domain.y[0]);
    view = { width, height, w, h, domain, x, y, drawn };
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    const clip = draw("clipPath", { id: "plot-area" }, draw("rect", { x: MARGIN.left, y: MARGIN.top, width: w, height: h }));
    const inside = draw("g", { "clip-path": "url(#plot-area)" });
    svg.replaceChildren(draw("defs", {}, clip), axes(), inside);
    devices.forEach((device, at) => roofsOf(device, at, inside));
    moves(drawn, inside);
    for (const point of [...drawn].reverse()) inside.append(markOf(point));
    legend(drawn);
    const lost = new Map();
    for (const p of marks) if (!drawable(p)) {
      const why = UNKNOWN.has(p.status) ? p.status.replaceAll("_", " ") : p.performance > 0 ? "without bytes at this level" : "without such work";
      lost.set(why, (lost.get(why) || 0) + 1);
    }
    const why = [...lost].map(([reason, n]) => `${n} ${reason}`).join(", ");
    const reason = drawn.length ? "" : marks.find((p) => p.reason)?.reason || "";
    left.textContent = `${devices.map((d) => `${d.device}, ${d.source === "empirical" ? "measured" : "theoretical"} ceilings`).join("; ")}. ` + (why ? `Not drawn: ${why}. ${reason}` : "");
  }

  function axes() {
    const group = draw("g");
    const unit = points.find((p) => p.work === state.work)?.unit || "";
    for (const [axis, room] of [["x", 70], ["y", 40]]) {
      const [from, to] = view.domain[axis];
      const length = axis === "x" ? view.w : view.h;
      const decades = to - from;
      const step = Math.max(1, Math.ceil((decades * room) / length));
      const ticks = [];
      for (let power = Math.ceil(from); power <= to; power += step) ticks.push(10 ** power);
      if (ticks.length < 3) for (let power = Math.floor(from); power <= to; power++) for (const m of [2, 5]) {
        const at = m * 10 ** power;
        if (Math.log10(at) >= from && Math.log10(at) <= to) ticks.push(at);
      }
      for (const tick of ticks) {
        const text = tick < 1e4 ? figure(tick) : tick.toLocaleString("en-US", { notation: "compact" });
        if (axis === "x") {
          const at = view.x(tick);
          group.append(draw("line", { class: "grid", x1: at, x2: at, y1: MARGIN.top, y2: MARGIN.top + view.h }));
          group.append(draw("text", { class: "soft", x: at, y: view.height - 24, "text-anchor": at > view.width - 40 ? "end" : "middle" }, text));
        } else {
          const at = view.y(tick);
          group.append(draw("line", { class: "grid", x1: MARGIN.left, x2: MARGIN.left + view.w, y1: at, y2: at }));
          group.append(draw("text", { class: "soft", x: MARGIN.left - 6, y: at + 4, "text-anchor": "end" }, text));
        }
      }
    }
    const per = state.work === INSTRUCTIONS ? "instructions per byte" : "operations per byte";
    group.append(draw("text", { x: MARGIN.left + view.w / 2, y: view.height - 6, "text-anchor": "middle" }, per));
    group.append(draw("text", { x: MARGIN.left + 4, y: MARGIN.top + 12 }, unit));
    return group;
  }

  // The ceilings of one device; those of a second device are dashed.
  function roofsOf(device, at, inside) {
    const top = Math.max(...device.roofs.map((c) => c.value), 0);
    const dash = at ? "6 4" : null;
    const [low, high] = view.domain.x.map((power) => 10 ** power);
    const taken = [];
    const say = (px, py, text, anchor, turn = null) => {
      if (taken.some(([qx, qy]) => Math.abs(qx - px) < 90 && Math.abs(qy - py) < 13)) return;
      taken.push([px, py]);
      inside.append(draw("text", { class: "soft", x: px, y: py, "text-anchor": anchor, transform: turn }, text));
    };
    for (const slope of device.slopes) {
      const level = slope.ceiling.slice(0, -3);
      const ridge = top ? top / slope.value : high;
      const end = Math.min(ridge, high);
      if (end <= low) continue;
      const line = draw("line", { class: "slope", x1: view.x(low), y1: view.y(low * slope.value), x2: view.x(end), y2: view.y(end * slope.value), "stroke-dasharray": dash });
      line.style.stroke = color(LEVELS.indexOf(level));
      line.append(draw("title", {}, `${LEVEL_NAMES[level]} ${figure(slope.value)} ${slope.unit}`));
      inside.append(line);
      const [px, py] = [view.x(end), view.y(end * slope.value)];
      const [fx, fy] = [view.x(low), view.y(low * slope.value)];
      const bottom = MARGIN.top + view.h - 8;
      const share = fy > bottom ? (fy - bottom) / (fy - py) : 0;
      const [tx, ty] = [fx + share * (px - fx) + 16, fy + share * (py - fy) - 12];
      say(tx, ty, `${LEVEL_NAMES[level]} ${figure(slope.value)} ${slope.unit}`, "start", `rotate(${(Math.atan2(py - fy, px - fx) * 180) / Math.PI} ${tx} ${ty})`);
    }
    const byValue = new Map();
    for (const roof of device.roofs) byValue.set(roof.value, [...(byValue.get(roof.value) || []), roof]);
    for (const [value, roofs] of [...byValue].sort((a, b) => b[0] - a[0])) {
      const start = Math.max(low, Math.min(...device.slopes.map((slope) => value / slope.value), high));
      const name = `${roofs.map((roof) => roof.ceiling).join(", ")} ${figure(value)} ${roofs[0].unit}`;
      const line = draw("line", { class: "roof", x1: view.x(start), x2: view.x(high), y1: view.y(value), y2: view.y(value), "stroke-dasharray": dash });
      line.append(draw("title", {}, name));
      inside.append(line);
      say(MARGIN.left + view.w - 6, view.y(value) - 5, briefly(name, view.w < 500 ? 30 : 60), "end");
    }
    for (const ceiling of new Set(device.sweep.map((p) => p.ceiling))) {
      const path = device.sweep.filter((p) => p.ceiling === ceiling && p.intensity > 0 && p.value > 0);
      const line = draw("polyline", { class: "swept", points: path.map((p) => `${view.x(p.intensity)},${view.y(p.value)}`).join(" ") });
      line.append(draw("title", {}, `${ceiling}, measured at each intensity`));
      inside.append(line);
    }
  }

  // An arrow from the baseline to the candidate, for kernels in both.
  function moves(drawn, inside) {
    const first = new Map();
    for (const p of drawn) {
      const same = `${p.kernel}\n${p.level}`;
      const from = first.get(same);
      if (from && from.at !== p.at) {
        inside.append(draw("line", { class: "moved", x1: view.x(from.intensity), y1: view.y(from.performance), x2: view.x(p.intensity), y2: view.y(p.performance) }));
      } else if (!from) first.set(same, p);
    }
  }

  function markOf(point) {
    const [px, py, size] = [view.x(point.intensity), view.y(point.performance), point.rank <= 3 ? 7 : 5];
    const corners = { l2: [[-1, -1], [1, -1], [1, 1], [-1, 1]], vl1d: [[0, -1.2], [1.1, 0.9], [-1.1, 0.9]], lds: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]], gl1: [[0, 1.2], [1.1, -0.9], [-1.1, -0.9]] }[point.level];
    const mark = corners
      ? draw("polygon", { points: corners.map(([dx, dy]) => `${px + dx * size},${py + dy * size}`).join(" ") })
      : draw("circle", { cx: px, cy: py, r: size });
    const before = workloads.length > 1 && point.at === 0;
    mark.setAttribute("class", `point${before ? " before" : ""}${point.status !== "ok" ? " doubted" : ""}${state.chosen === point ? " chosen" : ""}`);
    const own = color(point.rank - 1);
    if (!before) mark.style.fill = own;
    if (state.chosen !== point) mark.style.stroke = own;
    mark.addEventListener("pointerenter", (event) => hover(point, event));
    mark.addEventListener("pointerleave", () => { tip.hidden = true; });
    mark.addEventListener("click", () => choose(point));
    return mark;
  }

  function wordsOf(point) {
    const unit = state.work === INSTRUCTIONS ? "inst/B" : "op/B";
    const whose = workloads.length > 1 ? `${workloads[point.at].name}: ` : "";
    return [
      `${whose}#${point.rank} ${briefly(shortName(point.kernel), 120)}`,
      `${LEVEL_NAMES[point.level]}, ${WORK_NAMES[point.work] || point.work}: ${figure(point.performance)} ${point.unit} at ${figure(point.intensity)} ${unit}`,
      `${percent(point.pct_of_attainable)} of ${figure(point.attainable)} attainable; ${figure(point.bytes)} B in ${duration(point.time_ns)}`,
      `${point.bound || "unknown"}${point.limiter ? `, limited by ${point.limiter}` : ""}${point.status !== "ok" ? `; ${point.status}${point.reason ? `: ${point.reason}` : ""}` : ""}`,
    ].join("\n");
  }

  function hover(point, event) {
    tip.textContent = wordsOf(point);
    tip.hidden = false;
    const box = chart.getBoundingClientRect();
    tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left + 12, box.width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${Math.max(0, event.clientY - box.top - tip.offsetHeight - 10)}px`;
  }

  function choose(point) {
    state.chosen = point;
    told.textContent = point ? wordsOf(point) : "";
    render();
  }

  function legend(drawn) {
    const ranks = new Map();
    for (const p of drawn) if (!ranks.has(p.kernel)) ranks.set(p.kernel, p.rank);
    const few = [...ranks].sort((a, b) => a[1] - b[1]).slice(0, PALETTE);
    key.replaceChildren(
      ...few.map(([kernel, rank]) => el("li", { dir: "auto" }, swatch(rank - 1), `#${rank} ${briefly(shortName(kernel))}`)),
      ranks.size > few.length ? el("li", {}, swatch(PALETTE), `${ranks.size - few.length} more`) : "",
      el("li", { class: "soft" }, "● HBM  ■ L2  ▲ L1  ◆ LDS" + (levels.includes("gl1") ? "  ▼ GL1" : "") + (workloads.length > 1 ? `; hollow: ${workloads[0].name}` : "")),
    );
  }

  function zoom(factor, px = 0.5, py = 0.5) {
    const scaled = ([from, to], at) => {
      const middle = from + (to - from) * at;
      return [middle - (middle - from) * factor, middle + (to - middle) * factor];
    };
    const next = { x: scaled(view.domain.x, px), y: scaled(view.domain.y, py) };
    const decades = next.x[1] - next.x[0];
    if (decades > 0.02 && decades < 60) state.window = next;
    render();
  }

  function move(dx, dy) {
    const by = ([from, to], share) => [from + (to - from) * share, to + (to - from) * share];
    state.window = { x: by(view.domain.x, dx), y: by(view.domain.y, dy) };
    render();
  }

  function all() {
    state.window = null;
    render();
  }

  function step(by) {
    const order = [...view.drawn].sort((a, b) => a.rank - b.rank || LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level) || a.at - b.at);
    if (!order.length) return;
    const at = order.indexOf(state.chosen);
    choose(order[at < 0 ? (by > 0 ? 0 : order.length - 1) : (at + by + order.length) % order.length]);
  }

  svg.addEventListener("keydown", (event) => {
    const arrows = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[event.key];
    if (event.key === "+" || event.key === "=") zoom(0.7);
    else if (event.key === "-") zoom(1 / 0.7);
    else if (event.key === "0") all();
    else if (event.key === "Escape") choose(null);
    else if (arrows && event.shiftKey) move(...arrows);
    else if (arrows) step(event.key === "ArrowLeft" || event.key === "ArrowUp" ? -1 : 1);
    else return;
    event.preventDefault();
  });
  const inPlot = (event) => {
    const box = svg.getBoundingClientRect();
    const scale = view.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  };
  const share = ([px, py]) => [(px - MARGIN.left) / view.w, 1 - (py - MARGIN.top) / view.h];
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== svg) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 0.8 : 1.25, ...share(inPlot(event)));
  }, { passive: false });
  svg.addEventListener("pointerdown", (event) => {
    if (event.button || event.pointerType === "touch") return;
    drag = { from: inPlot(event), box: draw("rect", { class: "select" }) };
  });
  svg.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [[ax, ay], [bx, by]] = [drag.from, inPlot(event)];
    if (Math.hypot(bx - ax, by - ay) < 5) return;
    const box = { x: Math.min(ax, bx), y: Math.min(ay, by), width: Math.abs(bx - ax), height: Math.abs(by - ay) };
    for (const [name, value] of Object.entries(box)) drag.box.setAttribute(name, value);
    svg.append(drag.box);
  });
  window.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const { from, box } = drag;
    drag = null;
    if (!box.isConnected) return;
    box.remove();
    const [[ax, ay], [bx, by]] = [share(from), share(inPlot(event))];
    if (Math.abs(ax - bx) < 0.01 || Math.abs(ay - by) < 0.01) return;
    const part = ([low, high], p, q) => [low + (high - low) * Math.min(p, q), low + (high - low) * Math.max(p, q)];
    state.window = { x: part(view.domain.x, ax, bx), y: part(view.domain.y, ay, by) };
    render();
  });
  svg.addEventListener("dblclick", all);

  const change = (name) => (value) => { state[name] = value; state.window = state.chosen = null; told.textContent = ""; render(); };
  const controls = el("div", { class: "controls" });
  controls.append(select("Work", works.map((work) => [work, WORK_NAMES[work] || work]), state.work, change("work")));
  if (sources.length > 1) controls.append(select("Ceilings", sources.map((s) => [s, s === "empirical" ? "measured" : "theoretical"]), state.source, change("source")));
  controls.append(select("Kernels", [["5", "5 longest"], ["10", "10 longest"], ["50", "50 longest"], ["all", "all"]], state.kernels, change("kernels")));
  controls.append(checks("Levels", levels.map((level) => [level, LEVEL_NAMES[level]]), state.levels, render));
  if (workloads.length > 1) controls.append(checks("Workloads", workloads.map((w, at) => [String(at), w.name]), state.shown, render));
  controls.append(
    el("button", { type: "button", "aria-label": "Zoom in", onclick: () => zoom(0.7) }, "+"),
    el("button", { type: "button", "aria-label": "Zoom out", onclick: () => zoom(1 / 0.7) }, "−"),
    el("button", { type: "button", onclick: all }, "Show all"),
  );
  new ResizeObserver(() => { if (view && Math.max(280, chart.clientWidth) !== view.width) render(); }).observe(chart);
  const made = el("div", {}, controls, chart, key, told, left, el("p", { class: "note noprint" }, "Drag to zoom, double-click to show all; keyboard: arrows, +, −, 0."));
  requestAnimationFrame(render);
  return made;
}
