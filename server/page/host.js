// The page as an MCP App: requests the report for the displayed tool call from its host.

const PROTOCOL = "2026-01-26";
const SECTION_OF = { roofline: "roofline", speed_of_light: "speed_of_light", compare: "comparison", occupancy: "occupancy", timeline: "timeline", host: "host_stacks" };

function openAsApp() {
  const waiting = new Map();
  let next = 1;
  let asked = null;
  let shown = false;
  let canRead = false;
  const tell = (message) => window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const request = (method, params) => new Promise((resolve, reject) => {
    waiting.set(next, { resolve, reject });
    tell({ id: next++, method, params });
  });

  window.addEventListener("message", (event) => {
    const message = event.data;
    if (event.source !== window.parent || message?.jsonrpc !== "2.0") return;
    if (message.method === undefined) {
      const answered = waiting.get(message.id);
      waiting.delete(message.id);
      if (message.error) answered?.reject(new Error(String(message.error.message)));
      else answered?.resolve(message.result);
    } else if (message.method === "ui/notifications/tool-input") asked = message.params?.arguments || {};
    else if (message.method === "ui/notifications/tool-result") result(message.params || {});
    else if (message.method === "ui/notifications/host-context-changed") themed(message.params || {});
    else if (message.method === "ui/resource-teardown" || message.method === "ping") tell({ id: message.id, result: {} });
    else if (message.id !== undefined) tell({ id: message.id, error: { code: -32601, message: "Method not found" } });
  });

  function themed(context) {
    if (context.theme !== "light" && context.theme !== "dark") return;
    recolour(context.theme);
  }

  // The full report if the host can read resources for apps, else the result of the call itself.
  async function result(answer) {
    const whose = answer.structuredContent?.workload || asked?.workload;
    const focus = { section: asked?.kind in SECTION_OF ? SECTION_OF[asked.kind] : "roofline", work: asked?.kind === "instruction" || asked?.roofline_kind === "instruction" ? INSTRUCTIONS : asked?.datatype };
    if (whose && canRead && !shown) {
      try {
        const pair = asked?.candidate ? `/${encodeURIComponent(asked.candidate)}` : "";
        const read = await request("resources/read", { uri: `rooflens://report/${encodeURIComponent(whose)}${pair}` });
        const bytes = Uint8Array.from(atob(read.contents[0].blob), (letter) => letter.charCodeAt(0));
        show(JSON.parse(new TextDecoder().decode(bytes)), focus);
        shown = true;
        return;
      } catch (error) {
        document.getElementById("wait")?.replaceChildren(`The report could not be read: ${error.message}`);
      }
    }
    if (!shown) alone(answer, focus);
  }

  function alone(answer, focus) {
    const content = answer.structuredContent;
    const main = document.getElementById("main");
    if (content?.points && content.ceilings) {
      const key = content.kind === "instruction" ? INSTRUCTIONS : "operations";
      const view = rooflineView([{ name: content.name, rooflines: [{ key, answer: content }] }], focus.work);
      main.replaceChildren(view || el("p", {}, content.answer || "No kernel has a point."), notesOf(content.notes) || "");
      document.getElementById("title").textContent = content.name;
    } else {
      const pictures = (answer.content || []).filter((part) => part.type === "image" && part.mimeType === "image/png" && /^[A-Za-z0-9+/=]+$/.test(part.data));
      const texts = (answer.content || []).filter((part) => part.type === "text");
      main.replaceChildren(...pictures.map((part) => el("img", { src: `data:image/png;base64,${part.data}`, alt: "The plot drawn by the tool" })), ...texts.map((part) => el("pre", {}, part.text)));
    }
    main.dataset.ready = "yes";
  }

  new ResizeObserver(() => tell({ method: "ui/notifications/size-changed", params: { width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight } })).observe(document.body);
  request("ui/initialize", { protocolVersion: PROTOCOL, appInfo: { name: "rooflens", version: "1" }, appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] } }).then((opened) => {
    canRead = Boolean(opened.hostCapabilities?.serverResources);
    themed(opened.hostContext || {});
    tell({ method: "ui/notifications/initialized", params: {} });
  });
}
