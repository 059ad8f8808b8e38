// The sections of a report, built from the answers of the tools; sections without data are omitted.

const KERNEL_COLUMNS = ["rank", "kernel", "total_ns", "pct", "limited_by", "speedup_bound", "program_bound", "confidence", "calls", "mean_ns", "status"];
const LAUNCH_COLUMNS = ["number", "kernel", "configuration", "calls", "total_ns", "pct", "mean_ns", "grid", "workgroup_size", "vgpr", "lds_bytes", "cluster", "status"];
const OCCUPANCY_COLUMNS = ["number", "kernel", "configuration", "time_pct", "waves_per_cu", "occupancy_pct", "achieved_waves_per_cu", "achieved_pct", "limiters", "vgprs", "lds_bytes", "workgroup_size", "status"];
const HOT_COLUMNS = ["line", "source", "pct", "interval", "why", "instruction", "executed", "spills", "loop"];
const METRIC_COLUMNS = ["name", "title", "avg", "unit", "peak", "pct_of_peak", "status"];
const TO_TRY = 3;
const EXCLUSIVE = { computing: "kernels", exposed_communication: "exposed communication", exposed_copies: "exposed copies" };
const WORK_WORDS = { yes: "Both did the same work", probably: "Both probably did the same work", probably_not: "They probably did different work", no: "They did different work", unknown: "Whether both did the same work is unknown" };

// key, title, and content function: (document, workload) -> element or null.
const SECTIONS = [
  ["comparison", "Comparison", comparisonSection],
  ["summary", "Summary", summarySection],
  ["timeline", "Timeline", timelineSection],
  ["host_stacks", "Stacks of the host", (report, workload) => workload.host_stacks && hostStacksView(workload.host_stacks)],
  ["kernels", "Kernels", kernelsSection],
  ["details", "Kernel by kernel", detailsSection],
  ["roofline", "Roofline", rooflineSection],
  ["launches", "Launch configurations", launchesSection],
  ["speed_of_light", "Speed of light", speedSection],
  ["occupancy", "Occupancy", occupancySection],
  ["warnings", "Warnings", warningsSection],
  ["provenance", "Provenance", provenanceSection],
];

function answerOf(workload, key) {
  return workload.sections[key]?.answer || null;
}

// What, when, where and for how long; the answer in one sentence; what to try; where the time goes.
function summarySection(report, workload) {
  const [kernels, timeline, diagnosis] = ["kernels", "timeline", "diagnosis"].map((key) => answerOf(workload, key));
  const detail = kernels?.workload;
  const facts = el("dl", { class: "facts" });
  const add = (name, value) => { if (value) facts.append(el("dt", {}, name), el("dd", { dir: "auto" }, value)); };
  const total = kernels && isTimed(kernels.table) && !kernels.table.truncated ? records(kernels.table).reduce((sum, row) => sum + (row.total_ns || 0), 0) : null;
  add("Device", [workload.device, workload.arch].filter(Boolean).join(", "));
  add("Command", detail?.command);
  add("Time", [timeline ? `${duration(timeline.wall_ms * 1e6)} of wall time (${timeline.window})` : "", total ? `${duration(total)} in kernels` : ""].filter(Boolean).join(", "));
  add("Profiler", [detail?.tool, detail?.tool_version].filter(Boolean).join(" "));
  add("Stored", detail?.created.replace("T", " ").replace("Z", " UTC"));
  const made = el("div", {}, el("p", { class: "lead" }, diagnosis?.answer || timeline?.answer || kernels?.answer || "The profile contains no times."));
  const tries = toTry(timeline, diagnosis);
  if (tries.length) made.append(el("h3", {}, "What to try"), el("ol", { class: "plain" }, ...tries.map(([text, gain, whose]) => el("li", {}, text, gain || whose ? el("span", { class: "soft" }, ` ${[whose, gain].filter(Boolean).join(", ")}`) : ""))));
  made.append(facts);
  if (timeline) {
    const parts = records(timeline.split).filter((row) => row.part in EXCLUSIVE && row.pct >= 0.05).map((row, at) => [EXCLUSIVE[row.part], row.pct, at]);
    const idle = records(timeline.idle).filter((row) => row.pct >= 0.05).map((row, at) => [`idle: ${row.cause.replaceAll("_", " ")}`, row.pct, Math.min(at + 3, PALETTE)]);
    made.append(el("h3", {}, "Wall time"), stacked([...parts, ...idle], "Wall time"));
  }
  const times = kernels ? records(kernels.table).filter((row) => row.pct !== null) : [];
  if (times.length > 1) {
    const top = times.slice(0, PALETTE).map((row, at) => [shortName(row.kernel), row.pct, at]);
    const rest = 100 - top.reduce((sum, part) => sum + part[1], 0);
    if (rest >= 0.05) top.push([`${figure((kernels.table.total_rows ?? times.length) - top.length)} more`, rest, PALETTE]);
    made.append(el("h3", {}, `Kernels by ${isTimed(kernels.table) ? "time" : "samples or cycles"}`), stacked(top, "Kernels"));
  }
  return made;
}

// How many times as fast a kernel can become without the cause of a finding, and all kernels together.
function gainOf(kernel, finding, several) {
  if (!finding.speedup_bound) return "";
  const all = several && finding === kernel.findings[0] && kernel.verdict.program_bound ? ` (all kernels together ${figure(kernel.verdict.program_bound, 3)} times)` : "";
  return `at most ${figure(finding.speedup_bound, 3)} times as fast${all}`;
}

// The first advice, each as [text, gain, whose]: about the application if it has a verdict, then of the kernels.
function toTry(timeline, diagnosis) {
  const whole = timeline && (diagnosis?.application || !diagnosis?.kernels.length) && timeline.verdict.height !== "gpu" ? timeline.findings : [];
  const made = whole.flatMap((finding) => finding.advice.map((text) => [text, "", ""]));
  const kernels = (diagnosis?.kernels || []).filter((kernel) => kernel.findings.length);
  const one = (kernel, finding, advice) => [adviceText(advice), gainOf(kernel, finding, kernels.length > 1), kernels.length > 1 ? `#${kernel.number} ${briefly(shortName(kernel.kernel), 40)}` : ""];
  const first = diagnosis?.kernels[0];
  if (first?.next_counters.length && !first.findings.length) made.push([wantedCounters(first.next_counters[0]), "", `#${first.number}`]);
  for (const kernel of kernels) for (const finding of kernel.findings) for (const advice of finding.advice) made.push(one(kernel, finding, advice));
  const seen = new Set();
  return made.filter(([text]) => !seen.has(text) && seen.add(text)).slice(0, TO_TRY);
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
    const same = { yes: "good", probably: "good", no: "bad", probably_not: "bad" }[answer.same_work] || "odd";
    made.append(el("p", { class: "lead" }, el("strong", { class: same }, WORK_WORDS[answer.same_work]), ": ", el("strong", { class: kind }, answer.verdict.replaceAll("_", " ")), "."), el("p", {}, answer.answer));
    if (answer.causes.length) made.append(el("ul", { class: "plain" }, ...answer.causes.map((cause) => el("li", {}, cause))));
    const first = ["kernel", "baseline_ms", "candidate_ms", "speedup", "low", "high", "n", "verdict", "same_work", "status"];
    if (answer.kernels.rows.length) made.append(tableView(answer.kernels, { caption: "Kernels", filter: true, first }));
    for (const [name, caption] of [["groups", "Groups"], ["explanation", "Parts of the time change"], ["work", "Work"], ["launch", "Launches"], ["metrics", "Changed metrics"], ["normalised", "Shares of the ceilings of each device"]]) {
      if (answer[name]?.rows.length) made.append(el("details", { open: name === (same === "bad" ? "work" : "explanation") }, el("summary", {}, caption), tableView(answer[name], { filter: true, meanings: report.workloads[0].meanings })));
    }
    for (const [name, title] of [["only_in_baseline", "Only before"], ["only_in_candidate", "Only after"]]) {
      if (answer[name].length) made.append(el("p", { class: "note" }, `${title}: ${answer[name].map((kernel) => briefly(shortName(kernel))).join(", ")}`));
    }
    const notes = notesOf(answer.notes);
    if (notes) made.append(notes);
    return made;
  }));
}

// The tables that are declared to be shown with an answer, beside its own.
function furtherTables(answer) {
  return Object.entries(answer?.tables || {}).filter(([, table]) => table.rows.length).map(([name, table]) => folded(name, () => tableView(table, { filter: true })));
}

function timelineSection(report, workload) {
  const answer = answerOf(workload, "timeline");
  if (!workload.events && !answer) return null;
  const made = el("div", {}, workload.events ? timelineView(workload.events, answer?.gaps || null) : "");
  if (!answer) return made;
  for (const [name, caption] of [["split", "Shares of the wall time"], ["idle", "Idle time by cause"], ["copies", "Copies"], ["ranges", "Ranges"], ["ranks", "Ranks, longest computing time first"], ["devices", "Devices"], ["figures", "Figures"], ["gaps", "Longest gaps"]]) {
    if (answer[name].rows.length) made.append(["ranges", "gaps"].includes(name) ? folded(caption, () => tableView(answer[name], { filter: true })) : el("details", { open: name === "idle" }, el("summary", {}, caption), tableView(answer[name])));
  }
  made.append(...furtherTables(answer));
  const notes = notesOf(answer.notes);
  if (notes) made.append(notes);
  return made;
}

function rooflineSection(report, workload, focus) {
  const order = [report.workloads[0], ...report.workloads.slice(1)];
  const view = rooflineView(order, focus);
  if (!view) return null;
  const made = el("div", {}, view);
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

// One row for each kernel: its time, what limits it, and how much it can gain.
function kernelsSection(report, workload) {
  const answer = answerOf(workload, "kernels");
  if (!answer?.table.rows.length) return null;
  const { table } = answer;
  const section = workload.sections.diagnosis;
  const told = new Map((section?.answer?.kernels || []).map((kernel, at) => [kernel.kernel, [section.more[at].limit, kernel.verdict]]));
  const more = (row) => {
    const [limit, verdict] = told.get(row[column(table, "kernel")]) || [];
    return [limit ?? null, verdict?.speedup_bound ?? null, verdict?.program_bound ?? null, verdict ? Number(verdict.confidence.toFixed(2)) : null];
  };
  const added = ["limited_by", "speedup_bound", "program_bound", "confidence"];
  const rows = table.rows.map((row) => [...row, ...more(row)]);
  const merged = { ...table, columns: [...table.columns, ...added], units: [...table.units, null, "times", "times", null], rows };
  const caption = isTimed(table) ? "Kernels by total time; how many times as fast each can become at most, alone and as part of all kernels" : "Kernels by samples or cycles";
  const first = isTimed(table) ? KERNEL_COLUMNS : null;
  const opened = new Map(kernelsInDepth(workload).map((one) => [one.kernel, cardId(one.number)]));
  return tableView(merged, { caption, filter: true, first, words: wordsOfVendor(workload), card: (row) => opened.get(row[column(table, "kernel")]) });
}

function detailsSection(report, workload) {
  const kernels = kernelsInDepth(workload);
  if (!kernels.length) return null;
  const diagnosis = answerOf(workload, "diagnosis");
  const cards = kernels.map((one, at) => kernelCard(workload, one, at === 0, kernels.length === 1));
  return el("div", {}, ...cards, ...furtherTables(diagnosis), notesOf(diagnosis?.notes));
}

function launchesSection(report, workload) {
  const answer = answerOf(workload, "launches");
  if (!answer || answer.table.rows.length <= (answerOf(workload, "kernels")?.table.rows.length || 0)) return null;
  return tableView(answer.table, { caption: "Launches that differ in grid, block, registers or shared memory", filter: true, first: LAUNCH_COLUMNS, words: wordsOfVendor(workload) });
}

function speedSection(report, workload) {
  const whole = answerOf(workload, "speed_of_light");
  if (!whole?.table.rows.some((row) => row[column(whole.table, "pct_of_peak")] !== null)) return null;
  const apart = answerOf(workload, "speed_of_light_of_kernels");
  const before = workload === report.workloads[0] ? null : answerOf(report.workloads[0], "speed_of_light");
  const kernels = apart ? [...new Set(records(apart.table).map((row) => row.kernel))] : [];
  const place = el("div");
  const { meanings } = workload;
  const show = (chosen) => {
    const table = chosen === "" ? whole.table : apart.table;
    const at = column(table, "kernel");
    const rows = chosen === "" ? table.rows : table.rows.filter((row) => row[at] === kernels[Number(chosen)]);
    place.replaceChildren(metersOf({ ...table, rows }, chosen === "" ? before : null, meanings), folded("All figures", () => tableView({ ...table, rows, total_rows: rows.length }, { first: METRIC_COLUMNS, filter: true, meanings })));
  };
  show("");
  const controls = el("div", { class: "controls" });
  if (kernels.length) controls.append(select("Of", [["", "all kernels together"], ...kernels.map((kernel, n) => [String(n), briefly(shortName(kernel))])], "", show));
  return el("div", {}, controls, place, before ? el("p", { class: "note" }, `Narrow bars: ${report.workloads[0].name}.`) : null, notesOf(whole.notes));
}

// Percent of peak as bars; hatched if the figure is doubtful.
function metersOf(table, before, meanings) {
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
    body.append(el("tr", {}, el("td", {}, termOf(row.title, meanings[row.name], row.name)), el("td", {}, meter), el("td", { class: "n" }, percent(row.pct_of_peak)), el("td", { class: "n" }, `${figure(row.avg)} ${row.unit || ""}`), el("td", {}, trust(row.status, row.reason))));
  }
  const head = el("tr", {}, ...["Figure", "of its peak", "%", "Value", "Status"].map((name, at) => el("th", { scope: "col", class: at === 2 || at === 3 ? "n" : null }, name)));
  return el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": "Speed of light" }, el("table", {}, el("thead", {}, head), body));
}

function occupancySection(report, workload) {
  const answer = answerOf(workload, "occupancy");
  if (!answer?.kernels.rows.length) return null;
  const words = wordsOfVendor(workload);
  const made = el("div", {}, el("p", {}, answer.answer || ""), tableView(answer.kernels, { caption: `Occupancy on ${answer.gpu}`, filter: true, first: OCCUPANCY_COLUMNS, words }));
  for (const [name, caption] of [["limits", `${workload.vendor === "nvidia" ? "Warps" : "Waves"} that each resource allows the first kernel`], ["what_if", `Smallest changes that allow more ${workload.vendor === "nvidia" ? "warps" : "waves"}`]]) {
    if (answer[name].rows.length) made.append(el("h4", {}, caption), tableView(answer[name], { words }));
  }
  const notes = notesOf(answer.notes);
  if (notes) made.append(notes);
  return made;
}

// Doubts of the import, what was cut, and why sections are missing.
function warningsSection(report, workload) {
  const all = [...(answerOf(workload, "kernels")?.notes || []), ...report.cut.map((sentence) => `Cut: ${sentence}`)].map((text) => el("li", {}, text));
  const parts = [...Object.values(workload.sections), ...workload.rooflines.map((one) => ({ ...one, key: `roofline of ${one.key}` })), ...(workload.memory ? [workload.memory] : []), ...workload.hotspots];
  const why = new Map();
  for (const { key, problem } of parts) if (problem) why.set(problemText(problem), (why.get(problemText(problem)) || new Set()).add(key.replaceAll("_", " ")));
  for (const [text, keys] of why) all.push(el("li", {}, el("strong", {}, `No ${[...keys].join(", ")}: `), text));
  return all.length ? el("ul", { class: "plain" }, ...all) : null;
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
