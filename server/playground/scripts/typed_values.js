/* Values of calls: read while they are still written, and shown with the type of their schema. */

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
    try { return parseJson(word); } catch { return word; }
  }
  try { return readValue() ?? {}; } catch { return {}; }
}

function kindOf(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "list";
  return JSON.isRawJSON?.(value) ? "number" : typeof value;
}

/* JSON in one line, with the blanks that most tools write and people read. Line breaks of a string
   are escaped, so those of the text are all between values. */
function writeJson(value) {
  const lines = JSON.stringify(value, null, 1);
  return lines.replace(/([{[])\n\s*/g, "$1").replace(/\n\s*([}\]])/g, "$1").replace(/\n\s*/g, " ");
}

/* A value as JSON, coloured by its kind; long ones in several lines. */
function makeValue(value) {
  const short = writeJson(value);
  const text = short.length > 60 && typeof value === "object" ? JSON.stringify(value, null, 2) : short;
  return make("code", `value ${kindOf(value)}`, text);
}

function describeType(schema) {
  if (!schema) return "";
  if (schema.enum) return `one of ${schema.enum.map((value) => JSON.stringify(value)).join(", ")}`;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const type = Array.isArray(schema.type) ? schema.type.join(" or ") : schema.type || "";
  if (type === "array") return `list of ${describeType(schema.items) || "values"}`;
  return [type, schema.format, describeBounds(schema)].filter(Boolean).join(", ");
}

function describeBounds({ minimum, maximum }) {
  const [least, most] = [minimum, maximum].map((bound) => JSON.stringify(bound));
  if (least && most) return `${least} to ${most}`;
  if (least) return `from ${least}`;
  return most ? `up to ${most}` : "";
}
