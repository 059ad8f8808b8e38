// Starts the page: reads the embedded document, or as an app requests one from its host.

const FORMAT = 2;
const INTERNED = "\u0001";

// Repeated texts are stored once; a cell then contains the index of its text.
function unpack(report) {
  const texts = report.texts || [];
  const visit = (value) => {
    if (Array.isArray(value)) return value.forEach(visit);
    if (!value || typeof value !== "object") return;
    if (Array.isArray(value.columns) && Array.isArray(value.rows)) {
      for (const row of value.rows) row.forEach((cell, at) => { if (typeof cell === "string" && cell[0] === INTERNED) row[at] = texts[Number(cell.slice(1))]; });
      return;
    }
    Object.values(value).forEach(visit);
  };
  for (const part of [report.workloads, report.comparisons]) visit(part);
  return report;
}

function show(report, focus = null) {
  const main = document.getElementById("main");
  if (report.format !== FORMAT) {
    main.replaceChildren(el("p", {}, `This page supports report format ${FORMAT}, but the report has format ${report.format}.`));
    return;
  }
  unpack(report);
  for (const [full, short] of report.short_names || []) SHOWN.set(full, short);
  const title = report.workloads.map((workload) => workload.name).join(" → ");
  document.title = `${title} · rooflens`;
  document.getElementById("title").textContent = title;
  let chosen = report.workloads[report.workloads.length - 1];
  const head = document.getElementById("head");
  head.querySelector(".controls")?.remove();
  const controls = el("div", { class: "controls noprint" });
  if (report.workloads.length > 1) {
    controls.append(select("Workload", report.workloads.map((w) => [w.id, w.name]), chosen.id, (id) => {
      chosen = report.workloads.find((w) => w.id === id);
      fill();
    }));
  }
  controls.append(select("Colours", [["light dark", "system"], ["light", "light"], ["dark", "dark"]], document.documentElement.style.colorScheme || "light dark", recolour));
  head.append(controls);
  document.body.append(TIP);

  function fill() {
    PRINTED.clear();
    const links = el("ul");
    const made = [];
    for (const [key, name, content] of SECTIONS) {
      const inside = content(report, chosen, focus?.work);
      if (!inside) continue;
      const open = !focus || focus.section === key;
      const section = el("details", { class: "section", id: key, open }, el("summary", {}, el("h2", {}, name), report.workloads.length > 1 && !["comparison", "roofline"].includes(key) ? el("span", { class: "count" }, chosen.name) : ""), inside);
      const link = el("a", { href: `#${key}`, onclick: () => { section.open = true; } }, name);
      links.append(el("li", {}, link));
      if (focus?.section === key) made.unshift(section);
      else made.push(section);
    }
    document.getElementById("contents").replaceChildren(links);
    main.replaceChildren(...made);
  }
  fill();
  main.dataset.ready = "yes";
}

const paper = { scheme: "" };
function recolour(scheme) {
  document.documentElement.style.colorScheme = scheme;
  document.dispatchEvent(new Event("themed"));
}

window.addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("main details:not(.noprint, .folded)")) each.open = true;
  for (const each of PRINTED) each();
  paper.scheme = document.documentElement.style.colorScheme;
  recolour("light");
});
window.addEventListener("afterprint", () => recolour(paper.scheme));

const held = JSON.parse(document.getElementById("document").textContent);
if (held) show(held);
else if (window.parent !== window) openAsApp();
else document.getElementById("wait").textContent = "This page shows a report inside an MCP client; `rooflens report` writes one for a browser.";
