/* JSON in fields, and tools in it. */

/* JSON whose numbers keep their digits, also where JavaScript has no such number (2^53 + 1, 1.0). */
function parseJson(text) {
  if (!JSON.rawJSON) return JSON.parse(text); // an older browser
  return JSON.parse(text, (key, value, { source }) => {
    const isChanged = typeof value === "number" && String(value) !== source;
    return isChanged ? JSON.rawJSON(source) : value;
  });
}

/* The JSON of a field; the fallback where it is empty. A mistake is shown beside it, and thrown. */
function readJson(id, fallback, faultId) {
  const text = byId(id).value.trim();
  const fault = faultId && byId(faultId);
  if (fault) fault.textContent = "";
  if (!text) return fallback;
  try {
    return parseJson(text);
  } catch (error) {
    const message = `This is not JSON: ${error.message}`;
    if (fault) fault.textContent = message;
    throw new Error(message);
  }
}

function readTools(id, faultId) {
  const given = readJson(id, [], faultId);
  try {
    return listTools(given);
  } catch (error) {
    if (faultId) byId(faultId).textContent = error.message;
    throw error;
  }
}

/* Tools may be a list, a reply of an MCP server, or a single tool. */
function listTools(given) {
  const tools = Array.isArray(given) ? given : given?.tools || [given];
  if (!tools.every((tool) => tool && typeof tool === "object")) throw new Error("A tool must be a JSON object");
  return tools;
}

function bodyOf(tool) {
  return tool.function || tool;
}

function nameOf(tool) {
  return bodyOf(tool).name;
}

function schemaOf(tool) {
  const body = bodyOf(tool);
  return body.parameters || body.input_schema || body.inputSchema || {};
}

function readChoice(text, tools) {
  if (["auto", "required", "none", ""].includes(text)) return text || undefined;
  if (tools.some((tool) => nameOf(tool) === text)) return { type: "function", function: { name: text } };
  return text;
}
