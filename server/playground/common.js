/* What both pages share: elements, requests, JSON in fields. */

const byId = (id) => document.getElementById(id);

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function makeButton(text, act) {
  const button = make("button", "", text);
  button.type = "button";
  button.addEventListener("click", act);
  return button;
}

function headers() {
  const key = byId("key").value;
  const plain = { "Content-Type": "application/json" };
  return key ? { ...plain, Authorization: `Bearer ${key}` } : plain;
}

/* Paths are relative: the server may lie behind a prefix. */
async function send(path, body, signal) {
  const options = { headers: headers(), signal };
  if (body !== undefined) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  const response = await fetch(path, options);
  if (response.ok) return response;
  let message = `status ${response.status}`;
  try {
    const { error } = await response.json();
    message = error.message || String(error);
    if (error.param) message += ` (at ${error.param})`;
  } catch { /* no JSON: the status has to do */ }
  throw new Error(message);
}

/* The JSON of a field; the fallback where it is empty. A mistake is shown beside it, and thrown. */
function readJson(id, fallback, faultId) {
  const text = byId(id).value.trim();
  const fault = faultId && byId(faultId);
  if (fault) fault.textContent = "";
  if (!text) return fallback;
  try {
    return JSON.parse(text);
  } catch (error) {
    const message = `This is no JSON: ${error.message}`;
    if (fault) fault.textContent = message;
    throw new Error(fault ? message : `${id.replace("w-", "")}: ${message}`);
  }
}

function readTools(id, faultId) {
  const given = readJson(id, [], faultId);
  return Array.isArray(given) ? given : given.tools || [given];
}

function nameOf(tool) {
  return (tool.function || tool).name;
}

function schemaOf(tool) {
  const inner = tool.function || tool;
  return inner.parameters || inner.input_schema || inner.inputSchema || {};
}

function readChoice(text, tools) {
  if (["auto", "required", "none", ""].includes(text)) return text || undefined;
  if (tools.some((tool) => nameOf(tool) === text)) return { type: "function", function: { name: text } };
  return text;
}

async function copy(text, done) {
  try {
    await navigator.clipboard.writeText(text);
    byId("copied").textContent = done;
  } catch {
    byId("copied").textContent = "The browser does not allow copying here";
  }
}

const PAGES = ["chat", "workbench"];

function showPage(name) {
  for (const page of PAGES) {
    const isShown = page === name;
    byId(page).hidden = !isShown;
    byId(`tab-${page}`).setAttribute("aria-selected", String(isShown));
    byId(`tab-${page}`).tabIndex = isShown ? 0 : -1;
  }
}

for (const page of PAGES) {
  const tab = byId(`tab-${page}`);
  tab.addEventListener("click", () => showPage(page));
  tab.addEventListener("keydown", (event) => {
    if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    const other = PAGES[1 - PAGES.indexOf(page)];
    showPage(other);
    byId(`tab-${other}`).focus();
  });
}

/* Session storage: the key stays in this tab. */
byId("key").value = sessionStorage.getItem("key") || "";
byId("server").addEventListener("submit", (event) => event.preventDefault());
byId("key").addEventListener("change", () => {
  sessionStorage.setItem("key", byId("key").value);
  listModels();
});

async function listModels() {
  const select = byId("model");
  try {
    const { data } = await (await send("v1/models")).json();
    select.replaceChildren(...data.map((model) => new Option(model.id, model.id)));
  } catch (error) {
    select.replaceChildren(new Option(`(${error.message})`, ""));
  }
}

let tracePage = null;

async function showTrace(trace) {
  if (tracePage === null) tracePage = await (await send("playground/trace")).text();
  const data = JSON.stringify([trace]).replaceAll("<", "\\u003c");
  byId("trace-frame").srcdoc = tracePage.replace("/*TRACES*/[]", () => data);
  byId("trace-dialog").showModal();
}

byId("trace-close").addEventListener("click", () => byId("trace-dialog").close());
