/* The chat: turns that stream, calls as cards, results typed in or filled in. */

const EXAMPLE_TOOLS = [{
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather of a city",
    parameters: {
      type: "object",
      properties: {
        city: { type: "string" },
        unit: { type: "string", enum: ["celsius", "fahrenheit"] },
      },
      required: ["city"],
    },
  },
}];
const EXAMPLE_MOCKS = { get_weather: { weather: "sunny", temperature: 21 } };
const REJECTED = { error: "the user did not allow this call" };
const EXAMPLE_QUESTION = "What's the weather in Paris?";
byId("tools").value = JSON.stringify(EXAMPLE_TOOLS, null, 2);
byId("mocks").value = JSON.stringify(EXAMPLE_MOCKS, null, 2);

let messages = [];
let starts = []; // how many messages there were before each message of the user
let running = null; // the AbortController of the turn under way

/* JSON text that is not complete yet, as a value: what is open is closed where it is. */
function readPartial(text) {
  let at = 0;
  const skip = () => { while (at < text.length && " \n\t\r".includes(text[at])) at += 1; };
  function readString() {
    const start = at;
    at += 1;
    while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
    at += 1;
    const whole = text.slice(start, at);
    if (at <= text.length && whole.endsWith('"') && whole.length > 1) return JSON.parse(whole);
    const cut = text.slice(start).replace(/\\(u[0-9a-fA-F]{0,3})?$/, "");
    return JSON.parse(`${cut}"`);
  }
  function readList() {
    const list = [];
    at += 1;
    for (skip(); at < text.length && text[at] !== "]"; skip()) {
      if (text[at] === ",") { at += 1; continue; }
      list.push(readValue());
    }
    at += 1;
    return list;
  }
  function readObject() {
    const object = {};
    at += 1;
    for (skip(); at < text.length && text[at] !== "}"; skip()) {
      if (text[at] === ",") { at += 1; continue; }
      const key = readString();
      skip();
      if (at >= text.length) break;
      at += 1; // the colon
      skip();
      object[key] = at < text.length ? readValue() : null;
    }
    at += 1;
    return object;
  }
  function readValue() {
    skip();
    if (text[at] === '"') return readString();
    if (text[at] === "{") return readObject();
    if (text[at] === "[") return readList();
    const [word] = text.slice(at).match(/^[^\s,\]}]*/);
    at += Math.max(1, word.length);
    try { return JSON.parse(word); } catch { return word; }
  }
  try { return readValue() ?? {}; } catch { return {}; }
}

function describeType(schema) {
  if (!schema) return "";
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const type = Array.isArray(schema.type) ? schema.type.join(" | ") : schema.type || "";
  return type === "array" && schema.items ? `array of ${describeType(schema.items) || "values"}` : type;
}

/* A call as a card, which fills while its arguments stream. */
class CallCard {
  constructor(tools) {
    this.tools = tools;
    this.id = "";
    this.name = "";
    this.text = "";
    this.isDrawn = false;
    this.element = make("div", "call");
    this.title = make("h2");
    this.table = make("table");
    this.element.append(this.title, this.table);
  }

  add(delta) {
    if (delta.id) this.id = delta.id;
    if (delta.function?.name) this.name = delta.function.name;
    this.text += delta.function?.arguments || "";
    this.isDrawn = false;
  }

  draw() {
    if (this.isDrawn) return;
    this.isDrawn = true;
    this.title.textContent = this.name;
    const tool = this.tools.find((one) => nameOf(one) === this.name);
    const properties = (tool && schemaOf(tool).properties) || {};
    const rows = Object.entries(readPartial(this.text)).map(([key, value]) => {
      const row = make("tr");
      const head = make("th", "", key);
      head.scope = "row";
      const shown = typeof value === "string" ? value : JSON.stringify(value);
      row.append(head, make("td", "", shown), make("td", "quiet", describeType(properties[key])));
      return row;
    });
    this.table.replaceChildren(...rows);
  }

  askForResult(mock) {
    const label = make("label", "", `Result of ${this.name}`);
    const field = make("textarea", "code");
    field.rows = 2;
    field.value = mock === undefined ? "" : JSON.stringify(mock);
    label.append(field);
    this.element.append(label);
    this.result = field;
  }

  message(isAllowed) {
    const content = isAllowed ? this.result.value || "null" : JSON.stringify(REJECTED);
    return { role: "tool", tool_call_id: this.id, name: this.name, content };
  }

  toJson() {
    return { id: this.id, type: "function", function: { name: this.name, arguments: this.text } };
  }
}

/* One turn of the model, drawn once a frame however fast its tokens come. */
class TurnView {
  constructor(tools, request) {
    this.tools = tools;
    this.request = request;
    this.content = "";
    this.reasoning = "";
    this.calls = [];
    this.finish = null;
    this.usage = null;
    this.timings = null;
    this.trace = null;
    this.element = make("article", "turn");
    this.element.append(make("div", "who", "model"));
    this.isScheduled = false;
    this.drawn = { content: 0, reasoning: 0 };
  }

  take(chunk) {
    if (chunk.usage) this.usage = chunk.usage;
    if (chunk.timings) this.timings = chunk.timings;
    if (chunk.trace) this.trace = chunk.trace;
    for (const { delta, finish_reason: finish } of chunk.choices || []) {
      if (finish) this.finish = finish;
      this.reasoning += delta?.reasoning_content || delta?.reasoning || "";
      this.content += delta?.content || "";
      for (const call of delta?.tool_calls || []) {
        while (this.calls.length <= call.index) this.calls.push(new CallCard(this.tools));
        this.calls[call.index].add(call);
      }
    }
    this.schedule();
  }

  schedule() {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => { this.isScheduled = false; this.draw(); });
  }

  draw() {
    const log = byId("log");
    const follows = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
    if (this.reasoning && !this.reasoningText) {
      const details = make("details", "reasoning");
      details.append(make("summary", "", "Reasoning"), this.reasoningText = make("div"));
      this.element.append(details);
    }
    if (this.content && !this.contentText) this.element.append(this.contentText = make("div", "content"));
    for (const part of ["reasoning", "content"]) { // what is there stays: only the rest is added
      const rest = this[part].slice(this.drawn[part]);
      if (!rest) continue;
      const target = this[`${part}Text`];
      if (target.lastChild) target.lastChild.appendData(rest);
      else target.append(rest);
      this.drawn[part] = this[part].length;
    }
    for (const call of this.calls) {
      call.draw();
      if (!call.element.isConnected) this.element.append(call.element);
    }
    if (follows) log.scrollTop = log.scrollHeight;
  }

  close(seconds) {
    this.draw();
    const parts = [this.finish || "stopped"];
    const usage = this.usage;
    if (usage) {
      const cached = usage.prompt_tokens_details?.cached_tokens || 0;
      parts.push(`prompt ${usage.prompt_tokens} tokens (${cached} from the cache)`);
      parts.push(`reply ${usage.completion_tokens} tokens`);
    }
    const rate = this.timings?.predicted_per_second;
    parts.push(`${seconds.toFixed(2)} s${rate ? `, ${rate.toFixed(1)} tokens/s` : ""}`);
    const footer = make("div", "row");
    footer.append(make("span", "quiet", parts.join(" · ")));
    if (this.trace) {
      footer.append(makeButton("Trace", () => showTrace(this.trace)));
      footer.append(makeButton("To the workbench", () => openInWorkbench(this.trace, this.request)));
    }
    this.element.append(footer);
  }

  message() {
    const message = { role: "assistant", content: this.content };
    if (this.reasoning) message.reasoning_content = this.reasoning;
    if (this.calls.length) message.tool_calls = this.calls.map((call) => call.toJson());
    return message;
  }
}

/* What stands in the log while nobody has asked, and which buttons have something to do. */
function showEmpty() {
  const isEmpty = !byId("log").querySelector(".turn");
  byId("undo").disabled = !starts.length;
  byId("clear").disabled = isEmpty;
  byId("log").classList.toggle("is-empty", isEmpty);
  if (!isEmpty) byId("log").querySelector(".empty")?.remove();
  if (!isEmpty || byId("log").querySelector(".empty")) return;
  const empty = make("div", "empty");
  empty.append(make("p", "", "Ask something. Calls of tools appear as cards that fill while the model writes."));
  empty.append(makeButton(EXAMPLE_QUESTION, () => {
    byId("message").value = EXAMPLE_QUESTION;
    byId("message").focus();
  }));
  byId("log").append(empty);
}

function addTurn(who, text) {
  byId("log").querySelector(".empty")?.remove();
  const element = make("article", `turn ${who}`);
  element.append(make("div", "who", who), make("div", "content", text));
  byId("log").append(element);
  byId("log").scrollTop = byId("log").scrollHeight;
  return element;
}

function makeRequest(tools) {
  const system = byId("system").value;
  const body = {
    model: byId("model").value || undefined,
    messages: [...(system ? [{ role: "system", content: system }] : []), ...messages],
    stream: true,
    stream_options: { include_usage: true },
    max_tokens: Number(byId("most").value) || undefined,
  };
  if (tools.length) {
    const isAnswer = messages.at(-1)?.role === "tool"; // a call is required once
    body.tools = tools;
    body.tool_choice = isAnswer ? "auto" : readChoice(byId("choice").value.trim(), tools);
  }
  const temperature = byId("temperature").value;
  if (temperature !== "") body.temperature = Number(temperature);
  if (byId("effort").value) body.reasoning_effort = byId("effort").value;
  if (byId("trace").checked) body.trace = true;
  return body;
}

async function readEvents(response, take) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    buffer += value;
    const lines = buffer.split("\n");
    buffer = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
      const chunk = JSON.parse(line.slice("data: ".length));
      if (chunk.error) throw new Error(chunk.error.message);
      take(chunk);
    }
  }
}

function setRunning(controller) {
  running = controller;
  byId("send").disabled = controller !== null;
  byId("stop").disabled = controller === null;
  byId("state").textContent = controller ? "the model writes ..." : "";
}

async function answer() {
  let tools, mocks;
  try {
    tools = readTools("tools", "tools-fault");
    mocks = readJson("mocks", {}, "mocks-fault");
  } catch (error) {
    addTurn("error", error.message).classList.add("fault");
    return;
  }
  const request = makeRequest(tools);
  const turn = new TurnView(tools, request);
  byId("log").append(turn.element);
  const began = performance.now();
  setRunning(new AbortController());
  try {
    const response = await send("v1/chat/completions", request, running.signal);
    await readEvents(response, (chunk) => turn.take(chunk));
  } catch (error) {
    if (error.name !== "AbortError") turn.element.append(make("p", "fault", error.message));
    else turn.finish = "stopped";
  } finally {
    setRunning(null);
    turn.close((performance.now() - began) / 1000);
  }
  if (!turn.finish || turn.finish === "stopped") return;
  messages.push(turn.message());
  if (turn.calls.length) await takeResults(turn, mocks);
}

async function takeResults(turn, mocks) {
  for (const call of turn.calls) call.askForResult(mocks[call.name]);
  const isKnown = turn.calls.every((call) => mocks[call.name] !== undefined);
  if (byId("auto").checked && isKnown) {
    messages.push(...turn.calls.map((call) => call.message(true)));
    await answer();
    return;
  }
  const row = make("div", "row");
  const finish = async (isAllowed) => {
    row.remove();
    for (const call of turn.calls) call.result.readOnly = true;
    messages.push(...turn.calls.map((call) => call.message(isAllowed)));
    await answer();
  };
  const allow = makeButton("Send results", () => finish(true));
  allow.classList.add("primary");
  row.append(allow, makeButton("Do not allow", () => finish(false)));
  turn.element.append(row);
  allow.focus();
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = byId("message").value.trim();
  if (!text || running) return;
  byId("message").value = "";
  starts.push([messages.length, byId("log").querySelectorAll(".turn").length]);
  messages.push({ role: "user", content: text });
  addTurn("user", text);
  showEmpty();
  answer();
});

byId("message").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("ask").requestSubmit();
});

byId("stop").addEventListener("click", () => running?.abort());

byId("clear").addEventListener("click", () => {
  running?.abort();
  messages = [];
  starts = [];
  byId("log").replaceChildren();
  showEmpty();
  byId("message").focus();
});

byId("undo").addEventListener("click", () => {
  running?.abort();
  const start = starts.pop();
  if (!start) return;
  const [count, elements] = start;
  byId("message").value = messages[count].content;
  messages = messages.slice(0, count);
  while (byId("log").childElementCount > elements) byId("log").lastElementChild.remove();
  showEmpty();
  byId("message").focus();
});

showEmpty();
