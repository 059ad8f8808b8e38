// Building blocks of the page: elements, formatted figures, tables with sorting and filtering.
// Text from a profile is only inserted as a text node or as an inert attribute.

const SVG = "http://www.w3.org/2000/svg";
const PALETTE = 8;
const NONE = "–";
const FEW = 50;
const UNKNOWN = new Set(["not_collected", "not_supported", "undefined", "bypassed"]);

function el(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function draw(tag, given = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(given)) if (value !== null) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function figure(value, digits = 4) {
  if (value === null || value === undefined) return NONE;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) return value.toExponential(digits - 1);
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  const kept = size >= 10 ** digits ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: digits };
  return value.toLocaleString("en-US", kept);
}

function percent(value) {
  return value === null || value === undefined ? NONE : `${figure(value, 3)} %`;
}

// The name of a column without the unit, which is shown next to it.
const HEADS = { speedup_bound: "gain, at most", program_bound: "of all kernels", calls: "launches" };
function headed(name, unit) {
  if (HEADS[name]) return HEADS[name];
  return (unit ? name.replace(/^pct$/, "share").replace(/_(ns|us|ms|pct|bytes)(?=_|$)/, "") : name).replaceAll("_", " ");
}

// Format a time with a suitable unit.
const TIMES = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
function unitOf(ns) {
  return TIMES.find(([, size]) => Math.abs(ns) >= size) || TIMES[3];
}
function duration(ns) {
  if (ns === null || ns === undefined) return NONE;
  const [unit, size] = unitOf(ns);
  return `${figure(ns / size)} ${unit}`;
}

const SHOWN = new Map();
function shortName(full) {
  return SHOWN.get(full) || lastOf(full);
}

// A path of calls as torch.profiler writes it, such as a/b.py(3): f/c.py(7): g, is shown by its last element; so are
// long paths of ranges and files, in the columns that have them.
const CALLS = /\/[^/]*\(\d+\): /;
const PATHS = new Set(["range", "path", "file", "place", "call_site"]);
const LONG = 40;
function lastOf(path, always = false) {
  return always || CALLS.test(path) ? path.replace(/^.+(?=\/[^/])/s, "…") : path;
}
function briefly(text, most = 60) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

// A short name that expands to the full name; both are plain text.
function nameOf(full) {
  const short = briefly(shortName(full), 90);
  if (short === full) return el("span", { class: "name", dir: "auto" }, full);
  const button = el("button", { class: "name", type: "button", dir: "auto", "aria-expanded": "false" }, short);
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    button.textContent = open ? short : full;
  });
  return button;
}

// One tip for the whole page: it explains the element under the pointer or with the focus; Escape hides it.
const TIP = el("div", { class: "tip fixed", role: "tooltip", hidden: true });
function explain(element, text) {
  for (const [name, value] of Object.entries({ "data-tip": text, tabindex: "0", "aria-description": text })) element.setAttribute(name, value);
  return element;
}
for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, (event) => {
  const about = event.target.closest?.("[data-tip]");
  TIP.hidden = !about;
  if (!about) return;
  TIP.textContent = about.dataset.tip;
  const [box, root] = [about.getBoundingClientRect(), document.documentElement];
  TIP.style.left = `${Math.max(4, Math.min(box.left, root.clientWidth - TIP.offsetWidth - 8))}px`;
  TIP.style.top = `${box.bottom + TIP.offsetHeight + 8 < root.clientHeight ? box.bottom + 6 : Math.max(4, box.top - TIP.offsetHeight - 6)}px`;
});
document.addEventListener("keydown", (event) => { if (event.key === "Escape") TIP.hidden = true; });
document.addEventListener("scroll", () => { TIP.hidden = true; }, true);

// The name of a metric, with its meaning from the catalogue: [title, unit, description].
function termOf(text, meaning, name = text) {
  if (!meaning) return document.createTextNode(text);
  const [title, unit, description] = meaning;
  return explain(el("span", { class: "term" }, text), `${title} (${name}, ${unit})\n${description}`);
}

function reasonOf(reason) {
  return typeof reason === "string" ? reason : reason?.text ?? "";
}

// What one figure of the engine is, what it means, and why it has no value or is doubtful.
function meaningOfRow(row, meanings) {
  const value = row.avg === null ? `no value (${row.status.replaceAll("_", " ")})` : `${figure(row.avg)} ${row.unit}`;
  const peak = row.pct_of_peak === null ? "" : `, ${percent(row.pct_of_peak)} of its peak`;
  return `${row.title}: ${value}${peak}${row.reason ? `\n${reasonOf(row.reason)}` : ""}\n${row.name}: ${meanings[row.name]?.[2] || row.unit}`;
}

// A colour for a share from 0 to 1 of the hottest.
function heat(share) {
  return `color-mix(in srgb, var(--c1) ${Math.round(Math.min(Math.max(share, 0), 1) * 55)}%, var(--panel))`;
}

// Columns in the words of the vendor.
const NVIDIA = [["workgroup", "block"], ["vgprs", "registers"], ["vgpr", "registers"], ["lds", "shared memory"], ["scratch", "local memory"], ["waves", "warps"], ["per cu", "per SM"]];
function wordsOfVendor(workload) {
  if (workload.vendor !== "nvidia") return (name) => name;
  return (name) => NVIDIA.reduce((text, [ours, theirs]) => text.replace(new RegExp(`\\b${ours}\\b`), theirs), name);
}

function color(index) {
  return `var(--c${index < PALETTE ? index : PALETTE})`;
}

function paint(element, property, value) {
  element.style[property] = value;
  return element;
}

function swatch(index) {
  return paint(el("b", { class: "dot", "aria-hidden": "true" }), "background", color(index));
}

function trust(status, reason) {
  if (!status) return document.createTextNode(NONE);
  const kind = { suspect: "odd", impossible: "bad" }[status] || (UNKNOWN.has(status) ? "soft" : "");
  return el("span", { class: kind, title: reason || null }, status.replaceAll("_", " "));
}

function column(table, name) {
  return table.columns.indexOf(name);
}

// The rows of a table as objects.
function records(table) {
  const made = [];
  for (const row of table.rows) {
    const record = {};
    table.columns.forEach((name, at) => { record[name] = row[at]; });
    made.push(record);
  }
  return made;
}

function labelled(text, control) {
  return el("label", {}, el("span", {}, text), control);
}

function select(text, choices, chosen, changed) {
  const made = el("select", { onchange: () => changed(made.value) });
  for (const [value, shown] of choices) made.append(el("option", { value, selected: value === chosen }, shown));
  return labelled(text, made);
}

function checks(text, choices, chosen, changed) {
  const made = el("fieldset", {}, el("legend", {}, text));
  for (const [value, shown] of choices) {
    const box = el("input", { type: "checkbox", value, checked: chosen.has(value) });
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(value);
      else chosen.delete(value);
      changed();
    });
    made.append(el("label", {}, box, shown));
  }
  return made;
}

const PRINTED = new Set(); // Callbacks that run before printing, to show everything.

// A collapsed section whose content is created when it is first opened; it stays collapsed in print.
function folded(title, make) {
  const made = el("details", { class: "folded" }, el("summary", {}, title));
  made.addEventListener("toggle", () => { if (made.open && made.childElementCount === 1) made.append(make()); });
  return made;
}

// A table of an answer. options: caption, hide (columns), first (columns shown
// initially, in this order), filter, words (of a column), meanings (of metrics), card (row -> id of what its first cell opens).
function tableView(table, options = {}) {
  if (!table.rows.length) return el("p", { class: "soft" }, "No rows.");
  const used = table.columns.map((_, at) => at).filter((at) => {
    return !(options.hide || []).includes(table.columns[at]) && table.rows.some((row) => row[at] !== null);
  });
  // Next to a doubtful value, show the reason.
  const doubted = table.rows.some((row) => row[column(table, "status")] !== "ok");
  const wanted = options.first && (doubted ? [...options.first, "reason"] : options.first);
  const first = wanted ? wanted.map((name) => column(table, name)).filter((at) => used.includes(at)) : used;
  const state = { sort: null, down: true, words: "", all: first.length === 0, most: FEW };
  const body = el("tbody");
  const headers = el("tr");
  const told = el("p", { class: "note", "aria-live": "polite" });
  const more = el("button", { type: "button", class: "noprint", onclick: () => { state.most += 500; fill(); } }, "Show more rows");
  const scales = table.columns.map((_, at) => scaleOf(table, at));
  const texts = [];

  function shown() {
    const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length && !texts.length) for (const row of table.rows) texts.push(row.filter((cell) => typeof cell === "string").map((cell) => `${cell} ${shortName(cell)}`).join(" ").toLowerCase());
    const found = table.rows.map((_, at) => at).filter((at) => words.every((word) => texts[at].includes(word)));
    if (state.sort === null) return found;
    const side = state.down ? -1 : 1;
    return found.sort((a, b) => compared(table.rows[a][state.sort], table.rows[b][state.sort], side) || a - b);
  }

  function head() {
    headers.replaceChildren(...(state.all ? used : first).map((at) => {
      const number = scales[at] !== null;
      const unit = scales[at] ? scales[at][0] : table.units[at];
      const name = (options.words || String)(headed(table.columns[at], unit));
      const sorted = state.sort === at ? (state.down ? "descending" : "ascending") : null;
      const button = el("button", { type: "button" }, name, sorted ? (state.down ? " ▼" : " ▲") : "");
      button.addEventListener("click", () => {
        state.down = state.sort === at ? !state.down : number;
        state.sort = at;
        head();
        fill();
        headers.querySelector(`[data-at="${at}"] button`).focus();
      });
      return el("th", { scope: "col", class: number ? "n" : null, "aria-sort": sorted, "data-at": at }, button, unit && unit !== name ? el("small", {}, ` ${unit}`) : "");
    }));
  }

  function fill() {
    const found = shown();
    const columns = state.all ? used : first;
    body.replaceChildren(...found.slice(0, state.most).map((at) => el("tr", {}, ...columns.map((c) => cellOf(table, at, c, scales[c], options)))));
    more.hidden = found.length <= state.most;
    const total = table.total_rows ?? (table.truncated ? "more" : table.rows.length);
    const count = Math.min(found.length, state.most);
    told.textContent = count === table.rows.length && !table.truncated ? "" : `${count} of ${state.words ? `${found.length} matching rows, ` : ""}${figure(total)} rows`;
  }

  const controls = el("div", { class: "controls" });
  if (options.filter && table.rows.length > 5) {
    const input = el("input", { type: "search", placeholder: "words", oninput: () => { state.words = input.value; fill(); } });
    controls.append(labelled("Filter", input));
  }
  if (first.length && first.length < used.length) {
    const box = el("input", { type: "checkbox", onchange: () => { state.all = box.checked; head(); fill(); } });
    controls.append(el("label", {}, box, "All columns"));
  }
  PRINTED.add(() => { state.most = Infinity; fill(); });
  head();
  fill();
  const region = el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": options.caption || "Table" });
  region.append(el("table", {}, options.caption ? el("caption", {}, options.caption) : "", el("thead", {}, headers), body));
  return el("div", {}, controls.childElementCount ? controls : null, region, told, more);
}

function compared(a, b, side) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === "number" && typeof b === "number") return side * (a - b);
  return side * String(a).localeCompare(String(b), "en", { numeric: true });
}

// Unit and divisor for a column of numbers; null if it contains none.
function scaleOf(table, at) {
  let most = null;
  for (const row of table.rows) {
    if (typeof row[at] === "number") most = Math.max(most ?? 0, Math.abs(row[at]));
    else if (row[at] !== null) return null;
  }
  if (most === null) return null;
  return table.units[at] === "ns" ? unitOf(most) : [table.units[at], 1];
}

function cellOf(table, row, at, scale, options) {
  const value = table.rows[row][at];
  const name = table.columns[at];
  const card = at === 0 && options.card?.(table.rows[row]);
  if (card) return el("td", { class: "n" }, el("a", { href: `#${card}`, onclick: () => openAround(card) }, `#${value}`));
  if (options.meanings && (name === "name" || name === "metric") && value) return el("td", {}, termOf(value, options.meanings[value.replace(/^pct_of_peak\./, "")]));
  if (scale) return el("td", { class: "n" }, figure(value === null ? null : value / scale[1]));
  if (value === null) return el("td", {}, NONE);
  if (name === "kernel") return el("td", {}, nameOf(value));
  if (name === "limited_by") return el("td", { class: "whole" }, value);
  if (name === "status") return el("td", {}, trust(value, null));
  const text = Array.isArray(value) ? value.join(", ") : figure(value);
  const short = lastOf(text, PATHS.has(name) && text.length > LONG);
  if (short !== text) return el("td", { dir: "auto" }, explain(el("span", { class: "term" }, briefly(short, 90)), text));
  return el("td", { class: text.length > LONG ? "long" : null, dir: "auto" }, text);
}

function openAround(id) {
  for (let at = document.getElementById(id); at; at = at.parentElement) if (at.localName === "details") at.open = true;
}

function notesOf(notes) {
  return notes && notes.length ? el("ul", { class: "plain note" }, ...notes.map((note) => el("li", {}, note))) : null;
}

// A problem as sentences; one that begins with the name of a tool keeps its first letter.
function problemText(problem) {
  const begun = (part) => (/^\w+_/.test(part) ? part : part[0].toUpperCase() + part.slice(1));
  return [problem.what, problem.why, problem.fix].filter(Boolean).map((part) => begun(part).replace(/\.?$/, ".")).join(" ");
}

function problemOf(problem) {
  return el("p", { class: "soft" }, problemText(problem));
}

// A stacked bar; parts: [name, share in %, palette index].
function stacked(parts, label) {
  const told = parts.map(([name, share]) => `${name} ${percent(share)}`).join(", ");
  const bar = el("div", { class: "bar", role: "img", "aria-label": `${label}: ${told}` });
  const key = el("ul", { class: "key" });
  for (const [name, share, index] of parts) {
    const piece = el("i", { title: `${name} ${percent(share)}` });
    piece.style.width = `${share}%`;
    if (share >= 12) piece.append(el("span", {}, briefly(`${name} ${percent(share)}`, Math.round(share * 1.2))));
    piece.style.background = color(index);
    bar.append(piece);
    key.append(el("li", { dir: "auto" }, swatch(index), `${briefly(name, 90)} ${percent(share)}`));
  }
  return el("div", {}, bar, key);
}
