/* A call as a card: its values with their types, the verdict of its schema, its result. */

const REJECTED = { error: "the user did not allow this call" };

class CallCard {
  constructor(tools) {
    this.tools = tools;
    this.id = "";
    this.name = "";
    this.text = ""; // the arguments, as JSON
    this.isDrawn = false;
    this.element = make("div", "call");
    this.title = make("h2");
    this.verdict = make("span", "verdict");
    this.table = make("table");
    this.foot = make("div");
    const head = make("div", "head");
    head.append(this.title, this.verdict);
    this.element.append(head, this.table, this.foot);
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
    const types = (tool && schemaOf(tool).properties) || {};
    const values = Object.entries(readPartial(this.text));
    this.table.replaceChildren(...values.map(([key, value]) => this.makeRow(key, value, types[key])));
  }

  makeRow(key, value, schema) {
    const row = make("tr");
    const head = make("th", "", key);
    const cell = make("td");
    head.scope = "row";
    cell.append(makeValue(value));
    row.append(head, cell, make("td", "quiet", describeType(schema)));
    return row;
  }

  /* What the server says of the call: `{valid, errors}`; none while it is written. */
  showVerdict(verdict) {
    if (!verdict) return;
    this.verdict.textContent = verdict.valid ? "\u2713 fits its schema" : "\u2717 does not fit its schema";
    this.verdict.classList.add(verdict.valid ? "good" : "bad");
    for (const { pointer, message } of verdict.errors) {
      this.table.after(make("p", "fault", `${message} (at ${pointer})`));
    }
  }

  askForResult(result) {
    const label = make("label", "", `Result of ${this.name}`);
    this.field = make("textarea", "code");
    this.field.rows = 2;
    this.field.value = writeResult(result);
    label.append(this.field);
    this.foot.replaceChildren(label);
  }

  showResult(content) {
    const label = make("div", "quiet", "Result");
    this.foot.replaceChildren(label, make("pre", "result", content));
  }

  /* The message with the result. */
  answer(isAllowed) {
    const content = isAllowed ? this.field.value || "null" : JSON.stringify(REJECTED);
    return { role: "tool", tool_call_id: this.id, name: this.name, content };
  }

  toJson() {
    return { id: this.id, type: "function", function: { name: this.name, arguments: this.text } };
  }
}

/* The verdicts on calls, in their order; null where the server gives none. */
async function judgeCalls(tools, calls) {
  if (!calls.length) return null;
  const written = calls.map((call) => ({ name: call.name, arguments: call.text || "{}" }));
  try {
    const response = await send("playground/verdicts", { tools, calls: written });
    return (await response.json()).verdicts;
  } catch {
    return null; // the server is gone, or cannot read a tool: the calls are shown without
  }
}
