/* The workbench: from a template, tools and the text of a model to the prompt, the format, the
   grammar, what is enforced of each schema, and the place where the grammar refuses the text. */

const FIELDS = ["template", "tools", "messages", "kwargs", "choice", "markers", "format", "text"];
const WAIT = 400; // milliseconds after the last key
const STARTS = {
  plain: "the reply begins with text or a call",
  open: "the prompt opens the reasoning",
  closed: "the prompt closes the reasoning",
};
const ORIGINS = {
  inferred: "inferred from the template",
  registered: "recognised by its markers",
  shown: "taken from an example in the prompt",
  generic: "the template knows no tools, so the prompt explains this format",
  chosen: "chosen",
  "named by the row": "as named",
};
const STATES = {
  enforced: "enforced while the model writes",
  checked: "checked when the call is complete",
  repaired: "repaired",
  narrowed: "narrowed",
  ignored: "ignored",
};
let timer = 0;
let asked = 0; // the number of the last request: answers of earlier ones are dropped

function readRow() {
  const field = (name) => byId(`w-${name}`).value;
  const tools = readTools("w-tools");
  const row = { tools, tool_choice: readChoice(field("choice").trim(), tools) };
  if (field("format")) row.format = field("format");
  else row.template = field("template");
  const given = readJson("w-messages", null);
  if (given) row.messages = given;
  const kwargs = readJson("w-kwargs", null);
  if (kwargs) row.chat_template_kwargs = kwargs;
  row.markers = field("markers");
  if (field("text")) row.text = field("text");
  return row;
}

async function inspect() {
  const number = (asked += 1);
  const fault = byId("w-fault");
  if (!byId("w-template").value && !byId("w-format").value) {
    fault.textContent = "";
    byId("w-result").replaceChildren(make("p", "quiet", "Paste a chat template, or name a format."));
    return;
  }
  try {
    const found = await (await send(withModel("playground/inspect"), readRow())).json();
    if (number !== asked) return;
    fault.textContent = "";
    showFound(found);
  } catch (error) {
    if (number === asked) fault.textContent = error.message;
  }
}

function scheduleInspect() {
  clearTimeout(timer);
  timer = setTimeout(inspect, WAIT);
}

function addSection(parts, title, ...content) {
  parts.push(make("h2", "", title), ...content);
}

function makePanel(text) {
  const panel = make("div", "panel");
  panel.tabIndex = 0;
  panel.append(make("pre", "", text));
  return panel;
}

function showFound(found) {
  const parts = [];
  if (found.check) addSection(parts, "What the model wrote", ...describeText(found), ...describeReading(found.check));
  const origin = ORIGINS[found.origin] || found.origin;
  const format = make("p", "", `${found.format} (${origin}); ${STARTS[found.start_state]}.`);
  addSection(parts, "Format", format);
  if (found.notice) parts.push(make("p", "quiet", found.notice));
  addSection(parts, "Schemas of the tools", makeReport(found.tools));
  if (found.prompt !== null) addSection(parts, "Prompt", makePanel(found.prompt));
  addSection(parts, "Grammar", makePanel(found.grammar));
  byId("w-result").replaceChildren(...parts);
}

function describeText({ check, refusal }) {
  const text = byId("w-text").value;
  const panel = make("div", "panel");
  const pre = make("pre");
  panel.tabIndex = 0;
  panel.append(pre);
  if (!refusal) {
    pre.append(make("span", "accepted", text));
    return [make("p", "", "The grammar accepts the text as a whole turn."), panel];
  }
  const bytes = new TextEncoder().encode(text);
  const decode = (part) => new TextDecoder().decode(part);
  pre.append(make("span", "accepted", decode(bytes.slice(0, refusal.offset))));
  pre.append(make("span", "rest", decode(bytes.slice(refusal.offset)) || "\u2038"));
  const what = check.accepted ? "The text ends too early" : "The grammar refuses the text";
  const place = make("p", "", `${what}, at byte ${refusal.offset}. Expected there: `);
  place.append(make("code", "", describeExpected(refusal)), ".");
  return [place, panel];
}

/* What may come next; blanks and line breaks as JSON writes them. */
function describeExpected({ forced, expected }) {
  if (!forced) return expected.join(", ") || "nothing";
  return /\s/.test(forced) ? JSON.stringify(forced) : forced;
}

function describeReading(check) {
  const parts = [];
  if (check.error) parts.push(make("p", "fault", check.error));
  if (check.reasoning_content) parts.push(make("p", "quiet read", `Reasoning: ${check.reasoning_content}`));
  if (check.content) parts.push(make("p", "read", `Read as text: ${check.content}`));
  const tools = readToolsOfWorkbench();
  for (const call of check.tool_calls) parts.push(makeReadCall(call, tools));
  return parts;
}

function readToolsOfWorkbench() {
  try {
    return readTools("w-tools");
  } catch {
    return []; // the text has been read with tools that are edited now
  }
}

function makeReadCall({ name, arguments: values, valid, errors = [] }, tools) {
  const card = new CallCard(tools);
  card.add({ function: { name, arguments: JSON.stringify(values) } });
  card.draw();
  card.showVerdict({ valid, errors });
  return card.element;
}

function makeReport(tools) {
  if (!tools.length) return make("p", "quiet", "No tools.");
  const table = make("table");
  for (const tool of tools) {
    for (const [state, words] of Object.entries(STATES)) {
      if (!tool[state]?.length) continue;
      const row = table.insertRow();
      const head = make("th", "", tool.name);
      head.scope = "row";
      row.append(head, make("td", "", words), make("td", "", summarise(tool[state], state)));
    }
    if (tool.refused) {
      const row = table.insertRow();
      row.append(make("th", "", tool.name), make("td", "fault", "refused"), make("td", "", tool.refused.reason));
    }
  }
  return table;
}

function summarise(findings, state) {
  if (state === "enforced") return `${findings.length} ${findings.length === 1 ? "keyword" : "keywords"}`;
  return findings.map(({ pointer, keyword, reason }) => `${keyword} at ${pointer || "the root"}: ${reason}`).join("; ");
}

/* The state as a fragment of the address: nothing of it reaches a server's log. */
async function pack() {
  const values = Object.fromEntries(FIELDS.map((name) => [name, byId(`w-${name}`).value]));
  const stream = new Blob([JSON.stringify(values)]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function unpack(fragment) {
  const text = atob(fragment.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(text, (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  fill(JSON.parse(await new Response(stream).text()));
}

function setFields(values) {
  for (const name of FIELDS) if (typeof values[name] === "string") byId(`w-${name}`).value = values[name];
}

function fill(values) {
  setFields(values);
  showTab(byId("tab-workbench"));
  inspect();
}

async function readOwnTemplate() {
  return (await (await send("api/show", { model: chosenModel() })).json()).template;
}

/* A turn of the chat: its text stands in the trace, as the model wrote it. */
async function openInWorkbench(trace, request) {
  const isPart = (token) => !token.discarded && !token.end;
  const text = trace.tokens.filter(isPart).map((token) => token.text).join("");
  const tools = trace.tools.map((tool) => ({ type: "function", function: tool }));
  try {
    fill({
      template: await readOwnTemplate(),
      format: "",
      tools: JSON.stringify(tools, null, 2),
      messages: JSON.stringify(request.messages),
      choice: typeof request.tool_choice === "string" ? request.tool_choice : "auto",
      text,
    });
  } catch (error) {
    byId("w-fault").textContent = error.message;
  }
}

async function copy(text, done) {
  try {
    await navigator.clipboard.writeText(text);
    byId("copied").textContent = done;
  } catch {
    byId("copied").textContent = "The browser does not allow copying";
  }
}

byId("share").addEventListener("click", async () => {
  location.hash = `w=${await pack()}`;
  await copy(location.href, "The link is copied");
});

byId("export").addEventListener("click", async () => {
  try {
    await copy(JSON.stringify({ id: "playground", ...readRow() }), "The row is copied");
  } catch (error) {
    byId("w-fault").textContent = error.message;
  }
});

byId("own-template").addEventListener("click", async () => {
  try {
    const tools = byId("w-tools").value || byId("tools").value;
    fill({ template: await readOwnTemplate(), format: "", tools });
  } catch (error) {
    byId("w-fault").textContent = error.message;
  }
});

for (const name of FIELDS) byId(`w-${name}`).addEventListener("input", scheduleInspect);
byId("workbench").addEventListener("shown", () => { if (!asked) inspect(); });
for (const [title, changes] of Object.entries(WORKBENCH_EXAMPLES)) {
  byId("w-examples").append(makeButton(title, () => fill(makeExample(changes))));
}

/* Opens with what a link holds; without one, it waits with the first example. */
async function openWorkbench(hash) {
  setFields(makeExample(Object.values(WORKBENCH_EXAMPLES)[0]));
  if (!hash.startsWith("#w=")) return;
  try {
    await unpack(hash.slice("#w=".length));
  } catch {
    showTab(byId("tab-workbench"));
    byId("w-fault").textContent = "The link is damaged.";
  }
}
