// One kernel in depth: what limits it, where its time goes, its memory traffic, its findings, and its hot code.

const BOX = { wide: 156, row: 86, gap: 128, pad: 10 };

// The kernels with a diagnosis or samples: [{ number, kernel, diagnosis, said, hot }], longest first.
function kernelsInDepth(workload) {
  const made = new Map();
  const at = (number, kernel) => {
    if (!made.has(kernel)) made.set(kernel, { number, kernel });
    return made.get(kernel);
  };
  const section = workload.sections.diagnosis;
  (section?.answer?.kernels || []).forEach((diagnosis, n) => Object.assign(at(diagnosis.number, diagnosis.kernel), { diagnosis, said: section.more[n] }));
  for (const hot of workload.hotspots) if (hot.answer) at(hot.answer.number, hot.answer.kernel).hot = hot;
  return [...made.values()];
}

function cardId(number) {
  return `kernel-${String(number).replace(/\W/g, "-")}`;
}

// Of a single kernel, the summary already has the sentence.
function kernelCard(workload, one, open, alone) {
  const { diagnosis, said } = one;
  const head = el("summary", {}, el("strong", { dir: "auto" }, `#${one.number} ${briefly(shortName(one.kernel), 90)}`),
    diagnosis ? `${diagnosis.share_pct === null ? "" : `, ${percent(diagnosis.share_pct)}`}: ${said.limit}` : "");
  const made = el("details", { class: "box", id: cardId(one.number), open }, head);
  const fill = () => {
    if (made.childElementCount > 1) return;
    made.append(...[
      diagnosis ? (alone ? null : el("p", { class: "lead" }, said.sentence)) : el("p", {}, nameOf(one.kernel)),
      diagnosis?.verdict.doubt ? el("p", { class: "odd" }, reasonOf(diagnosis.verdict.doubt)) : null,
      ...(said?.accounts || []).map(accountOf),
      memoryChart(workload, one.kernel),
      diagnosis ? findingsOf(workload, diagnosis) : null,
      one.hot ? hotCode(one.hot) : null,
    ].filter(Boolean));
  };
  made.addEventListener("toggle", () => { if (made.open) fill(); });
  PRINTED.add(fill);
  if (open) fill();
  return made;
}

// A complete division of a time as a stacked bar. A part without a value is named, because it has no width.
function accountOf({ view, parts }) {
  const known = parts.filter((part) => part.pct > 0.05);
  const grey = (part) => (part.name === "not_counted" ? PALETTE : null);
  const bar = stacked(known.map((part, at) => [part.title, part.pct, grey(part) ?? at]), view);
  const odd = parts.filter((part) => part.pct === null).map((part) => part.title);
  return el("div", {}, el("h4", {}, view), known.length ? bar : null, odd.length ? el("p", { class: "odd" }, `Contradictory counters: ${odd.join(", ")}`) : null);
}

// The memory path of a kernel: units coloured by their load, joined by what flows between them.
function memoryChart(workload, kernel) {
  const { memory } = workload;
  if (!memory?.answer) return null;
  const figures = new Map(records(memory.answer.table).filter((row) => row.kernel === kernel).map((row) => [row.name, row]));
  if (!figures.size) return null;
  const links = memory.links.flatMap((link) => ["read", "write", "both"].filter((way) => link[way]).map((way) => ({ ...link, way, row: figures.get(link[way]) })));
  const valued = links.filter((link) => link.row?.avg !== null && link.row !== undefined);
  if (![...figures.values()].some((row) => row.avg !== null)) return el("p", { class: "soft" }, `Memory traffic is not known: ${reasonOf([...figures.values()][0].reason)}.`);
  const place = (unit) => ({ x: BOX.pad + unit.column * (BOX.wide + BOX.gap), y: BOX.pad + unit.rows[0] * BOX.row, h: (unit.rows[1] - unit.rows[0] + 1) * BOX.row - BOX.pad });
  const units = new Map(memory.units.map((unit) => [unit.key, { ...unit, ...place(unit) }]));
  const most = Math.max(...valued.filter((link) => link.row.unit === "GB/s").map((link) => link.row.avg), 1e-9);
  const all = [...units.values()];
  const [width, height] = [Math.max(...all.map((u) => u.x)) + BOX.wide + BOX.pad, Math.max(...all.map((u) => u.y + u.h)) + BOX.pad];
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Memory chart", class: "memory" });
  for (const link of links) svg.append(linkOf(link, units, most, workload.meanings));
  for (const unit of all) svg.append(unitBox(unit, figures, workload.meanings));
  return el("div", {}, el("h4", {}, "Memory traffic"), el("div", { class: "scroll" }, svg),
    el("p", { class: "note" }, "Arrows to the left are reads. A unit is coloured by its load, an arrow is as wide as its share of the largest flow. A dashed arrow has no value; its reason is shown on hover or focus."));
}

function linkOf({ between, way, row }, units, most, meanings) {
  const [from, to] = between.map((key) => units.get(key));
  const inner = from.h < to.h ? from : to;
  const y = inner.y + inner.h / 2 + { read: -17, write: 21, both: 3 }[way];
  const [left, right] = [from.x + BOX.wide + 6, to.x - 6];
  const known = row?.avg !== null && row !== undefined;
  const wide = known && row.unit === "GB/s" ? 1.5 + 6 * Math.sqrt(Math.max(row.avg, 0) / most) : 1.5;
  const tip = (end, side) => `${end},${y} ${end + side * (6 + wide)},${y - 4 - wide / 2} ${end + side * (6 + wide)},${y + 4 + wide / 2}`;
  const made = draw("g", { class: known ? "flow" : "flow lost" }, draw("line", { x1: way === "write" ? left : left + 7, x2: way === "read" ? right : right - 7, y1: y, y2: y, "stroke-width": wide }));
  if (way !== "write") made.append(draw("polygon", { points: tip(left, 1) }));
  if (way !== "read") made.append(draw("polygon", { points: tip(right, -1) }));
  made.append(draw("text", { x: (left + right) / 2, y: y - 5 - wide / 2, "text-anchor": "middle" }, known ? `${figure(row.avg, 3)} ${row.unit}` : NONE));
  return explain(made, `${from.title} – ${to.title}, ${{ read: "reads", write: "writes", both: "both ways" }[way]}. ${row ? meaningOfRow(row, meanings) : ""}`);
}

function unitBox(unit, figures, meanings) {
  const load = unit.load ? figures.get(unit.load) : null;
  const share = load && load.status !== "impossible" ? load.pct_of_peak ?? (load.unit === "%" ? load.avg : null) : null;
  const box = draw("rect", { x: unit.x, y: unit.y, width: BOX.wide, height: unit.h, rx: 6 });
  if (share !== null) box.style.fill = heat(share / 100);
  const made = draw("g", { class: "unit" }, box);
  const lines = Object.entries(unit.figures || {}).map(([label, name]) => [label, figures.get(name)]);
  const top = unit.y + unit.h / 2 - lines.length * 8.5 + 4;
  made.append(draw("text", { class: "head", x: unit.x + BOX.wide / 2, y: top, "text-anchor": "middle" }, unit.title));
  lines.forEach(([label, row], at) => {
    const known = row?.avg !== null && row !== undefined;
    const value = known ? `${figure(row.avg, 3)} ${row.unit}` : NONE;
    const kind = { suspect: "odd", impossible: "bad" }[row?.status] || (known ? "" : "soft");
    const text = draw("text", { class: kind, x: unit.x + BOX.wide / 2, y: top + 17 * (at + 1), "text-anchor": "middle" }, `${value} ${label}`);
    made.append(row ? explain(text, meaningOfRow(row, meanings)) : text);
  });
  return made;
}

// The findings of one kernel: evidence for and against, what to try, and what would decide open questions.
function findingsOf(workload, kernel) {
  const made = el("div", {}, el("h4", {}, kernel.findings.length ? "Findings" : "Not known"));
  kernel.findings.forEach((finding, at) => {
    const rows = [...finding.evidence.map((e) => [e, speaks(e)]), ...finding.contradicting.map((e) => [e, "against"])];
    const table = { columns: ["metric", "value", "unit", "threshold", "status", "speaks"], units: Array(6).fill(null), rows: rows.map(([e, side]) => [e.metric, e.value, e.unit, e.threshold, e.status, side]), truncated: false };
    const queries = finding.evidence.filter((e) => e.sql).map((e) => `-- ${e.metric}\n${e.sql}`);
    const gain = finding.speedup_bound ? ` (at most ${figure(finding.speedup_bound, 3)} times as fast)` : "";
    made.append(el("details", { open: at === 0 }, el("summary", {}, finding.claim, gain), ...[
      adviceOf(finding), rows.length ? tableView(table, { meanings: workload.meanings }) : null, finding.then ? el("p", {}, finding.then) : null,
      finding.tried.length ? el("p", {}, finding.tried.join("; ")) : null,
      queries.length ? folded("SQL of the evidence", () => el("pre", {}, queries.join("\n\n"))) : null,
    ].filter(Boolean)));
  });
  if (kernel.loads) made.append(el("p", { class: "soft" }, `Loads: ${kernel.loads}`));
  for (const request of kernel.next_counters) made.append(el("p", { class: "note" }, wantedCounters(request)));
  if (kernel.undecided.length) made.append(notesOf(kernel.undecided));
  return made;
}

function wantedCounters(request) {
  return `To decide between ${request.decides.join(", ")}, collect ${request.metrics.join(", ")} (${request.passes} more ${request.passes === 1 ? "pass" : "passes"}).`;
}

function speaks(evidence) {
  return evidence.met === false ? "threshold not met" : evidence.met === null ? "context" : "for";
}

function adviceText(advice) {
  return typeof advice === "string" ? advice : `${advice.do}${advice.source ? ` (${advice.source})` : ""}`;
}

function adviceOf(finding) {
  return el("div", {}, finding.advice.length ? el("ul", { class: "plain" }, ...finding.advice.map((one) => el("li", {}, adviceText(one)))) : null,
    finding.falsify ? el("p", { class: "soft" }, `How to disprove it: ${finding.falsify}`) : null);
}

// Source lines next to the instructions made of them, both coloured by their share; choosing one marks the others.
function hotCode({ answer, instructions }) {
  const made = el("div", {}, el("h4", {}, "Hot code"), answer.answer ? el("p", {}, answer.answer) : null);
  const lines = records(answer.hotspots);
  const context = lines[0]?.line ? records(answer.source).map((row) => ({ line: `${lines[0].line.replace(/\d+$/, "")}${row.line}`, source: row.text })) : [];
  const known = new Map(context.map((row) => [row.line, row]));
  for (const row of lines) if (row.line) known.set(row.line, { ...known.get(row.line), ...row, source: known.get(row.line)?.source ?? row.source });
  const order = (a, b) => a.line.localeCompare(b.line, "en", { numeric: true });
  const source = [...known.values()].sort(order).map((row) => ({ key: row.line, place: row.line.replace(/^.*\//, ""), text: row.source ?? NONE, pct: row.pct ?? null, why: row.why }));
  const address = (row) => row.instruction.match(/^0x[0-9a-f]+ /)?.[0] ?? "";
  const code = (instructions ? records(instructions) : lines).filter((row) => row.instruction).sort((a, b) => Number(address(a)) - Number(address(b)))
    .map((row) => ({ key: row.line, place: address(row).trim() || (row.line || "").replace(/^.*\//, ""), text: row.instruction.slice(address(row).length), pct: row.pct, why: row.why }));
  const panes = [["Source", source], ["Instructions", code]].filter(([, rows]) => rows.length).map(([caption, rows]) => codePane(caption, rows, mark));
  function mark(key) {
    const same = key !== null && panes.flatMap((pane) => [...pane.querySelectorAll("tbody tr")]).filter((row) => row.dataset.line === key);
    for (const pane of panes) for (const row of pane.querySelectorAll("tr.marked")) row.classList.remove("marked");
    for (const row of same || []) row.classList.add("marked");
    for (const pane of panes) {
      const first = pane.querySelector("tr.marked");
      if (first) pane.scrollTop = first.offsetTop - pane.clientHeight / 3;
    }
  }
  made.append(el("div", { class: panes.length > 1 ? "panes" : "panes alone" }, ...panes));
  requestAnimationFrame(() => panes.forEach((pane) => { const hot = pane.querySelector("tr.hottest"); if (hot) pane.scrollTop = hot.offsetTop - pane.clientHeight / 3; }));
  if (instructions?.truncated) made.append(el("p", { class: "note" }, `The ${figure(instructions.rows.length)} hottest of ${figure(instructions.total_rows)} instructions, by address.`));
  if (answer.loops.rows.length) made.append(folded("Loops", () => tableView(answer.loops)));
  made.append(folded("Hot lines as a table", () => tableView(answer.hotspots, { filter: true, first: HOT_COLUMNS })));
  if (answer.notes.length) made.append(notesOf(answer.notes));
  return made;
}

function codePane(caption, rows, mark) {
  const most = Math.max(...rows.map((row) => row.pct || 0), 1e-9);
  const body = rows.map((row) => {
    const share = paint(el("td", { class: "n" }, row.pct === null ? "" : percent(row.pct)), "background", row.pct ? heat(row.pct / most) : "");
    const place = row.key ? el("button", { class: "name", type: "button", onclick: () => mark(row.key) }, row.place) : row.place;
    return el("tr", { "data-line": row.key, class: row.pct === most ? "hottest" : null }, el("td", { class: "place" }, place), share, el("td", { class: "code" }, row.text), el("td", { class: "soft" }, row.why || ""));
  });
  return el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption }, el("table", {}, el("caption", {}, caption), el("tbody", {}, ...body)));
}
