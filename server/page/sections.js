// The sections of a report, built from the answers of the tools; sections without data are omitted.

const KERNEL_COLUMNS = ["rank", "kernel", "calls", "total_ns", "pct", "mean_ns", "min_ns", "max_ns", "cv_pct", "vgpr", "lds_bytes", "scratch_bytes", "status"];
const LAUNCH_COLUMNS = ["number", "kernel", "configuration", "calls", "total_ns", "pct", "mean_ns", "grid", "workgroup_size", "vgpr", "lds_bytes", "cluster", "status"];
const OCCUPANCY_COLUMNS = ["number", "kernel", "configuration", "time_pct", "waves_per_cu", "occupancy_pct", "achieved_waves_per_cu", "achieved_pct", "limiters", "vgprs", "lds_bytes", "workgroup_size", "status"];
const HOT_COLUMNS = ["line", "source", "pct", "interval", "why", "instruction", "executed", "spills", "loop"];
const METRIC_COLUMNS = ["name", "title", "avg", "unit", "peak", "pct_of_peak", "status"];
const OPEN = 3;
const EXCLUSIVE = { computing: "kernels", exposed_communication: "exposed communication", exposed_copies: "exposed copies" };

// key, title, and content function: (document, workload) -> element or null.
const SECTIONS = [
  ["summary", "Where the time goes", summarySection],
  ["findings", "Findings", findingsSection],
  ["comparison", "Comparison", comparisonSection],
  ["hotspots", "Hot lines", hotspotsSection],
  ["timeline", "Timeline", timelineSection],
  ["roofline", "Roofline", rooflineSection],
  ["kernels", "Kernels", kernelsSection],
  ["launches", "Launch configurations", launchesSection],
  ["speed_of_light", "Speed of light", speedSection],
  ["occupancy", "Occupancy", occupancySection],
  ["warnings", "Warnings", warningsSection],
  ["provenance", "Provenance", provenanceSection],
];

function answerOf(workload, key) {
  return workload.sections[key]?.answer || null;
}

// The content for an answer, or the problem that explains why there is none.
function either(workload, key, shown) {
  const section = workload.sections[key];
  if (!section) return null;
  return section.answer ? shown(section.answer) : problemOf(section.problem);
}

function summarySection(report, workload) {
  const made = el("div");
  const timeline = answerOf(workload, "timeline");
  if (timeline) {
    const { verdict } = timeline;
    const parts = records(timeline.split).filter((row) => row.part in EXCLUSIVE && row.pct >= 0.05).map((row, at) => [EXCLUSIVE[row.part], row.pct, at]);
    const idle = records(timeline.idle).filter((row) => row.pct >= 0.05).map((row, at) => [`idle: ${row.cause.replaceAll("_", " ")}`, row.pct, Math.min(at + 3, PALETTE)]);
    made.append(
      el("h3", {}, `The application: ${verdict.height}`),
      el("p", {}, `${percent(verdict.share_pct)} of ${figure(timeline.wall_ms)} ms (${timeline.window}); confidence ${figure(verdict.confidence)}`, verdict.speedup_bound ? `; at most ${figure(verdict.speedup_bound, 3)} times as fast without it.` : "."),
      stacked([...parts, ...idle], "Wall time"),
    );
  }
  const kernels = answerOf(workload, "kernels");
  const rows = kernels ? records(kernels.table) : [];
  const times = rows.filter((row) => row.pct !== null);
  if (times.length) {
    const top = times.slice(0, PALETTE).map((row, at) => [shortName(row.kernel), row.pct, at]);
    const rest = 100 - top.reduce((sum, part) => sum + part[1], 0);
    if (rest >= 0.05) top.push([`${figure((kernels.table.total_rows ?? times.length) - top.length)} more`, rest, PALETTE]);
    const by = isTimed(kernels.table) ? "time" : "samples or cycles";
    made.append(el("h3", {}, `Kernels by ${by}`), stacked(top, `Kernels by ${by}`));
  }
  const diagnosis = answerOf(workload, "diagnosis");
  const first = diagnosis?.kernels[0];
  if (first) made.append(el("p", {}, el("strong", {}, `#${first.rank} `), nameOf(first.kernel), ` ${percent(first.share_pct)} of the kernel time: ${verdictOf(first.verdict)}`));
  if (!made.childElementCount) made.append(el("p", { class: "soft" }, "The profile contains no times."));
  return made;
}

function verdictOf(verdict) {
  const bound = verdict.speedup_bound ? `, at most ${figure(verdict.speedup_bound, 3)} times as fast` : "";
  return `${verdict.subsystem} (${verdict.bound}), confidence ${figure(verdict.confidence)}${bound}.`;
}

function findingsSection(report, workload) {
  const made = el("div");
  const timeline = answerOf(workload, "timeline");
  for (const finding of timeline?.findings || []) {
    made.append(el("div", { class: "box" },
      el("h3", {}, `Application: ${finding.height}, ${percent(finding.share_pct)}`), el("p", {}, finding.claim),
      el("ul", { class: "plain" }, ...finding.evidence.map((one) => el("li", {}, one))), adviceOf(finding)));
  }
  const found = either(workload, "diagnosis", (diagnosis) => el("div", {}, ...diagnosis.kernels.map((kernel, at) => diagnosedKernel(kernel, at < OPEN)), notesOf(diagnosis.notes)));
  if (found) made.append(found);
  return made;
}

function adviceOf(finding) {
  const made = el("div");
  if (finding.advice.length) made.append(el("h4", {}, "What to try"), el("ul", { class: "plain" }, ...finding.advice.map((one) => el("li", {}, typeof one === "string" ? one : `${one.do}${one.source ? ` (${one.source})` : ""}`))));
  if (finding.falsify) made.append(el("p", { class: "soft" }, `How to disprove it: ${finding.falsify}`));
  return made;
}

function diagnosedKernel(kernel, open) {
  const head = el("summary", {}, el("strong", { dir: "auto" }, `#${kernel.number} ${briefly(shortName(kernel.kernel), 90)}`), `, ${percent(kernel.share_pct)}: ${kernel.verdict.subsystem}`);
  const made = el("details", { class: "box", open }, head, el("p", { class: "soft" }, nameOf(kernel.kernel)));
  made.append(el("p", {}, verdictOf(kernel.verdict)), kernel.loads ? el("p", { class: "soft" }, kernel.loads) : "");
  if (kernel.verdict.doubt) made.append(el("p", { class: "odd" }, kernel.verdict.doubt));
  for (const finding of kernel.findings) {
    const evidence = [...finding.evidence.map((e) => [...evidenceRow(e), speaks(e)]), ...finding.contradicting.map((e) => [...evidenceRow(e), "against"])];
    const table = { columns: ["metric", "value", "unit", "threshold", "status", "speaks"], units: Array(6).fill(null), rows: evidence, truncated: false };
    made.append(el("details", { open: finding === kernel.findings[0] }, el("summary", {}, `${finding.subsystem}: ${finding.claim}`),
      evidence.length ? tableView(table) : null, adviceOf(finding), finding.then ? el("p", {}, finding.then) : null,
      finding.tried.length ? el("p", {}, `Tried: ${finding.tried.join("; ")}`) : null,
      ...finding.evidence.filter((e) => e.sql).map((e) => el("details", { class: "noprint" }, el("summary", { class: "note" }, `SQL of ${e.metric}`), el("pre", {}, e.sql)))));
  }
  for (const request of kernel.next_counters) made.append(el("p", { class: "note" }, `To decide between ${request.decides.join(", ")}, collect ${request.metrics.join(", ")} (${request.passes} more runs).`));
  if (kernel.undecided.length) made.append(notesOf(kernel.undecided));
  return made;
}

function speaks(evidence) {
  return evidence.met === false ? "threshold not met" : evidence.met === null ? "context" : "for";
}

function evidenceRow(evidence) {
  return [evidence.metric, evidence.value, evidence.unit, evidence.threshold, evidence.status];
}

function comparisonSection(report) {
  if (!report.comparisons.length) return null;
  const called = (id) => report.workloads.find((workload) => workload.id === id)?.name || id;
  return el("div", {}, ...report.comparisons.map((pair) => {
    const made = el("div", { class: "box" }, el("h3", {}, `${called(pair.baseline)} → ${called(pair.candidate)}`));
    if (pair.problem) made.append(problemOf(pair.problem));
    const answer = pair.answer;
    if (!answer) return made;
    const kind = { improved: "good", regressed: "bad" }[answer.verdict] || "odd";
    made.append(el("p", {}, el("strong", { class: kind }, answer.verdict), `, same work: ${answer.same_work}`), el("p", {}, answer.summary));
    if (answer.causes.length) made.append(el("ul", { class: "plain" }, ...answer.causes.map((cause) => el("li", {}, cause))));
    const first = ["kernel", "baseline_ms", "candidate_ms", "speedup", "low", "high", "n", "verdict", "same_work", "status"];
    if (answer.kernels.rows.length) made.append(tableView(answer.kernels, { caption: "Kernels", filter: true, first }));
    for (const [name, caption] of [["groups", "Groups"], ["explanation", "Parts of the time change"], ["work", "Work"], ["launch", "Launches"], ["metrics", "Changed metrics"], ["normalised", "Shares of the ceilings of each device"]]) {
      if (answer[name]?.rows.length) made.append(el("details", { open: name === "explanation" }, el("summary", {}, caption), tableView(answer[name], { filter: true })));
    }
    for (const [name, title] of [["only_in_baseline", "Only before"], ["only_in_candidate", "Only after"]]) {
      if (answer[name].length) made.append(el("p", { class: "note" }, `${title}: ${answer[name].map((kernel) => briefly(shortName(kernel))).join(", ")}`));
    }
    const notes = notesOf(answer.notes);
    if (notes) made.append(notes);
    return made;
  }));
}

function timelineSection(report, workload) {
  const answer = answerOf(workload, "timeline");
  if (!workload.events && !answer) return null;
  const made = el("div", {}, workload.events ? timelineView(workload.events, answer?.gaps || null) : el("p", { class: "soft" }, "The profile contains launches, but no timeline events."));
  const problem = workload.sections.timeline?.problem;
  if (problem) made.append(problemOf(problem));
  if (!answer) return made;
  for (const [name, caption] of [["split", "Shares of the wall time"], ["idle", "Idle time by cause"], ["copies", "Copies"], ["ranges", "Ranges"], ["ranks", "Ranks, longest computing time first"], ["devices", "Devices"], ["figures", "Figures"], ["gaps", "Longest gaps"]]) {
    if (answer[name].rows.length) made.append(["ranges", "gaps"].includes(name) ? folded(caption, () => tableView(answer[name], { filter: true })) : el("details", { open: name === "split" || name === "idle" }, el("summary", {}, caption), tableView(answer[name])));
  }
  const notes = notesOf(answer.notes);
  if (notes) made.append(notes);
  return made;
}

function rooflineSection(report, workload, focus) {
  const order = [report.workloads[0], ...report.workloads.slice(1)];
  if (!order.some((one) => one.rooflines.length)) return null;
  const made = el("div", {}, rooflineView(order, focus));
  const answer = workload.rooflines.find((one) => one.answer)?.answer;
  if (!answer) return made;
  const first = ["rank", "kernel", "level", "datatype", "intensity", "performance", "unit", "pct_of_attainable", "bound", "limiter", "status"];
  made.append(folded(`Points of ${workload.name} as a table`, () => tableView(answer.points, { filter: true, first })));
  made.append(folded("Ceilings", () => tableView(answer.ceilings)));
  const notes = notesOf(answer.notes);
  if (notes) made.append(notes);
  return made;
}

// A profile with only samples or thread traces lists its kernels without times.
function isTimed(table) {
  return table.columns.includes("total_ns");
}

function kernelsSection(report, workload) {
  return either(workload, "kernels", (answer) => tableView(answer.table, { caption: isTimed(answer.table) ? "Kernels by total time" : "Kernels by samples or cycles", filter: true, first: KERNEL_COLUMNS }));
}

function launchesSection(report, workload) {
  return either(workload, "launches", (answer) => tableView(answer.table, { caption: "Launches by grid, work-group, registers and LDS", filter: true, first: LAUNCH_COLUMNS }));
}

function speedSection(report, workload) {
  const whole = answerOf(workload, "speed_of_light");
  if (!whole) return either(workload, "speed_of_light", () => null);
  const apart = answerOf(workload, "speed_of_light_of_kernels");
  const before = workload === report.workloads[0] ? null : answerOf(report.workloads[0], "speed_of_light");
  const kernels = apart ? [...new Set(records(apart.table).map((row) => row.kernel))] : [];
  const place = el("div");
  const show = (chosen) => {
    const table = chosen === "" ? whole.table : apart.table;
    const at = column(table, "kernel");
    const rows = chosen === "" ? table.rows : table.rows.filter((row) => row[at] === kernels[Number(chosen)]);
    place.replaceChildren(metersOf({ ...table, rows }, chosen === "" ? before : null), folded("All figures", () => tableView({ ...table, rows, total_rows: rows.length }, { first: METRIC_COLUMNS, filter: true })));
  };
  show("");
  const controls = el("div", { class: "controls" });
  if (kernels.length) controls.append(select("Of", [["", "all kernels together"], ...kernels.map((kernel, n) => [String(n), briefly(shortName(kernel))])], "", show));
  return el("div", {}, controls, place, before ? el("p", { class: "note" }, `Narrow bars: ${report.workloads[0].name}.`) : null, notesOf(whole.notes));
}

// Percent of peak as bars; hatched if the figure is doubtful.
function metersOf(table, before) {
  const rows = records(table).filter((row) => row.pct_of_peak !== null);
  if (!rows.length) return el("p", { class: "soft" }, "No figure has both a value and a peak.");
  const earlier = new Map(before ? records(before.table).map((row) => [row.name, row]) : []);
  const body = el("tbody");
  for (const row of rows) {
    const meter = el("div", { class: "meter", role: "img", "aria-label": percent(row.pct_of_peak) });
    const bar = el("i", { class: row.status === "ok" ? null : "doubt" });
    bar.style.width = `${Math.min(Math.max(row.pct_of_peak, 0), 100)}%`;
    meter.append(bar);
    const was = earlier.get(row.name)?.pct_of_peak;
    if (was !== null && was !== undefined) {
      const thin = el("i", { class: "before" });
      thin.style.width = `${Math.min(Math.max(was, 0), 100)}%`;
      meter.append(thin);
    }
    body.append(el("tr", {}, el("td", { title: row.name }, row.title), el("td", {}, meter), el("td", { class: "n" }, percent(row.pct_of_peak)), el("td", { class: "n" }, `${figure(row.avg)} ${row.unit || ""}`), el("td", {}, trust(row.status, row.reason))));
  }
  const head = el("tr", {}, ...["Figure", "of its peak", "%", "Value", "Status"].map((name, at) => el("th", { scope: "col", class: at === 2 || at === 3 ? "n" : null }, name)));
  return el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": "Speed of light" }, el("table", {}, el("thead", {}, head), body));
}

function occupancySection(report, workload) {
  return either(workload, "occupancy", (answer) => {
    const made = el("div", {}, el("p", {}, answer.answer || ""), tableView(answer.kernels, { caption: `Occupancy on ${answer.gpu}, by ${answer.cu}`, filter: true, first: OCCUPANCY_COLUMNS }));
    for (const [name, caption] of [["limits", "Waves that each resource allows the first kernel"], ["what_if", "Smallest changes that allow more waves"]]) {
      if (answer[name].rows.length) made.append(el("h4", {}, caption), tableView(answer[name]));
    }
    const notes = notesOf(answer.notes);
    if (notes) made.append(notes);
    return made;
  });
}

// The hottest lines of each sampled kernel, if the profile has them.
function hotspotsSection(report, workload) {
  if (!workload.hotspots?.length) return null;
  return el("div", {}, ...workload.hotspots.map((one) => {
    if (one.problem) return problemOf(one.problem);
    const answer = one.answer;
    const made = el("div", { class: "box" }, el("h3", {}, `#${answer.number} `, nameOf(answer.kernel)));
    const lined = answer.with_line_pct === null ? "" : `, ${percent(answer.with_line_pct)} at code with a source line`;
    made.append(el("p", { class: "soft" }, `${answer.samples ? `${figure(answer.samples)} samples` : "No samples"}${lined}`), tableView(answer.hotspots, { filter: true, first: HOT_COLUMNS }));
    if (answer.loops.rows.length) made.append(el("h4", {}, "Loops"), tableView(answer.loops));
    if (answer.source.rows.length) {
      const lines = records(answer.source).map((row) => `${String(row.line).padStart(6)}  ${row.text}`);
      made.append(el("h4", {}, "Source around the hottest line"), el("pre", {}, lines.join("\n")));
    }
    const notes = notesOf(answer.notes);
    if (notes) made.append(notes);
    return made;
  }));
}

function warningsSection(report, workload) {
  const warned = answerOf(workload, "kernels")?.notes || [];
  const all = [...warned, ...report.cut.map((sentence) => `Cut: ${sentence}`)];
  return all.length ? el("ul", { class: "plain" }, ...all.map((text) => el("li", {}, text))) : el("p", { class: "soft" }, "None.");
}

function provenanceSection(report, workload) {
  const detail = answerOf(workload, "kernels")?.workload;
  const list = el("dl");
  const add = (name, value) => { if (value !== null && value !== undefined && value !== "") list.append(el("dt", {}, name), el("dd", { dir: "auto" }, String(value))); };
  for (const [name, key] of [["Workload", "id"], ["Name", "name"], ["Stored", "created"], ["Device", "device"], ["Target", "arch"], ["Host", "host"], ["Command", "command"], ["Profiler", "tool"], ["Profiler version", "tool_version"]]) add(name, detail?.[key]);
  add("Tags", detail?.tags.join(", "));
  add("Report", `rooflens ${report.rooflens}, ${report.created}`);
  const made = el("div", {}, list);
  if (!detail) return made;
  const facts = Object.entries(detail.facts);
  if (facts.length) made.append(folded("Device properties", () => tableView({ columns: ["fact", "value"], units: [null, null], rows: facts, truncated: false })));
  if (detail.passes.rows.length) made.append(folded("Passes", () => tableView(detail.passes)));
  const calls = Object.values(workload.sections).concat(workload.rooflines).map((one) => `rooflens call --full ${one.tool} '${JSON.stringify(one.arguments).replaceAll("'", "'\\''")}'`);
  made.append(folded("Calls that produce these figures", () => el("pre", {}, [...new Set(calls)].join("\n"))));
  return made;
}
