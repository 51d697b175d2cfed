/* The form for tools, beside their JSON: each change of one is at once in the other. */

let toolDocument = []; // what stands in the JSON
const openTools = new Set([0]); // which tools are unfolded, by their numbers

function writeTools() {
  byId("tools").value = JSON.stringify(toolDocument, null, 2);
  afterTools();
}

function afterTools() {
  listChoices();
  keepSettings();
}

function showToolForm() {
  const form = byId("tool-form");
  try {
    toolDocument = readJson("tools", [], "tools-fault");
    readTools("tools", "tools-fault");
    form.replaceChildren(...ownTools().map(makeToolFields), makeButton("Add a tool", addTool));
  } catch (error) { // also of tools that are none, whose parts are of other types
    form.replaceChildren(make("p", "fault", `${error.message}. Correct the JSON to see the form again.`));
  }
}

/* The list of tools in the document, to be changed; a single tool becomes a list. */
function ownTools() {
  if (!Array.isArray(toolDocument) && !toolDocument.tools) toolDocument = [toolDocument];
  return listTools(toolDocument);
}

/* Draws the form anew, and then goes to a field of it. */
function redrawToolForm(find) {
  writeTools();
  showToolForm();
  const field = find(byId("tool-form"));
  field?.focus();
  field?.select?.();
}

function addTool() {
  const tools = ownTools();
  openTools.clear();
  openTools.add(tools.length);
  tools.push(makeTool(makeName("tool", tools.map(nameOf))));
  redrawToolForm((form) => [...form.querySelectorAll(".tool-name")].at(-1));
}

function removeTool(number) {
  const [tool] = ownTools().splice(number, 1);
  openTools.clear();
  changeResults((results) => { delete results[nameOf(tool)]; });
  redrawToolForm((form) => form.lastElementChild);
}

function makeToolFields(tool, number) {
  const body = bodyOf(tool);
  const details = make("details", "tool");
  const summary = make("summary", "", body.name || "unnamed");
  const fault = make("p", "fault");
  fault.setAttribute("role", "alert");
  details.open = openTools.has(number);
  details.addEventListener("toggle", () => openTools[details.open ? "add" : "delete"](number));
  const name = makeInput(body.name || "");
  name.className = "tool-name";
  details.append(
    summary,
    makeField("Name", name, (field) => renameTool(tool, field.value, { summary, fault })),
    makeField("Description", makeInput(body.description || "", "what the tool does, and when to use it"), (field) => {
      body.description = field.value;
      writeTools();
    }),
    makeParameters(tool, number),
    makeResultField(tool),
    fault,
    makeButton("Remove this tool", () => removeTool(number)),
  );
  return details;
}

function renameTool(tool, name, { summary, fault }) {
  const isTaken = ownTools().some((other) => other !== tool && nameOf(other) === name);
  fault.textContent = isTaken ? "Another tool has this name." : "";
  if (!name) fault.textContent = "A tool needs a name.";
  if (isTaken || !name) return;
  const before = nameOf(tool);
  changeResults((results) => {
    if (before in results) results[name] = results[before];
    delete results[before];
  });
  bodyOf(tool).name = name;
  summary.textContent = name;
  writeTools();
}

function makeParameters(tool, number) {
  const set = make("fieldset");
  set.append(make("legend", "", "Parameters"));
  for (const name of namesOf(tool)) set.append(makeParameter({ tool, number, name }));
  set.append(makeButton("Add a parameter", () => {
    addParameter(tool);
    redrawToolForm((form) => [...form.children[number].querySelectorAll(".parameter-name")].at(-1));
  }));
  return set;
}

/* The fields of one parameter; `at` is `{tool, number, name}`, whose name changes as it is typed. */
function makeParameter(at) {
  const group = make("div", "parameter");
  const fault = make("p", "fault");
  const schema = parameterSchema(at.tool, at.name);
  fault.setAttribute("role", "alert");
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", `Parameter ${at.name}`);
  group.append(makeNameField(at, group, fault), makeTypeField(at), makeRequiredField(at), makeRemoveButton(at));
  group.append(makeField("Description", makeInput(schema.description || ""), (field) => {
    setText(parameterSchema(at.tool, at.name), "description", field.value);
    writeTools();
  }));
  if (LISTED.includes(typeOf(schema))) group.append(makeAllowedField(at, fault));
  group.append(fault);
  return group;
}

function makeNameField(at, group, fault) {
  const input = makeInput(at.name);
  input.className = "parameter-name";
  return makeField("Name", input, ({ value }) => {
    fault.textContent = findNameFault(at, value);
    if (fault.textContent) return;
    renameParameter(at.tool, at.name, value);
    at.name = value;
    group.setAttribute("aria-label", `Parameter ${value}`);
    writeTools();
  });
}

function findNameFault({ tool, name }, next) {
  if (!next) return "A parameter needs a name.";
  const isTaken = next !== name && namesOf(tool).includes(next);
  return isTaken ? "Another parameter has this name." : "";
}

function makeTypeField(at) {
  const type = typeOf(parameterSchema(at.tool, at.name));
  const others = type === OTHER ? [OTHER] : [];
  return makeField("Type", makeSelect([...others, ...Object.keys(TYPES)], type), ({ value }) => {
    if (value === OTHER) return;
    const position = namesOf(at.tool).indexOf(at.name);
    setType(at.tool, at.name, value);
    redrawToolForm((form) => form.children[at.number].querySelectorAll(".parameter")[position].querySelector("select"));
  });
}

function makeRequiredField(at) {
  const box = make("input");
  const label = make("label", "inline");
  box.type = "checkbox";
  box.checked = isRequired(at.tool, at.name);
  box.addEventListener("input", () => {
    setRequired(at.tool, at.name, box.checked);
    writeTools();
  });
  label.append(box, "required");
  return label;
}

function makeRemoveButton(at) {
  const button = makeButton("\u00d7", () => {
    removeParameter(at.tool, at.name);
    redrawToolForm((form) => form.children[at.number].querySelector("fieldset > button"));
  });
  button.className = "remove";
  button.setAttribute("aria-label", `Remove ${at.name}`);
  return button;
}

function makeAllowedField(at, fault) {
  const input = makeInput(writeAllowed(parameterSchema(at.tool, at.name).enum), "any, or: a, b, c");
  return makeField("Allowed values", input, ({ value }) => {
    const schema = parameterSchema(at.tool, at.name);
    try {
      schema.enum = readAllowed(value, schema.type);
      if (!schema.enum?.length) delete schema.enum;
      fault.textContent = "";
      writeTools();
    } catch (error) {
      fault.textContent = error.message;
    }
  });
}

/* The example result of a tool: JSON, or plain text. */
function makeResultField(tool) {
  const area = make("textarea", "code");
  area.rows = 2;
  area.spellcheck = false;
  area.placeholder = "none: you enter it when asked";
  area.value = writeResult(readResults()[nameOf(tool)]);
  return makeField("Example result", area, (field) => changeResults((results) => {
    if (field.value) results[nameOf(tool)] = readResult(field.value);
    else delete results[nameOf(tool)];
  }));
}

function writeResult(value) {
  if (value === undefined) return "";
  return typeof value === "string" ? value : writeJson(value);
}

function readResult(text) {
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}

function readResults() {
  try {
    return readJson("mocks", {}, "mocks-fault");
  } catch {
    return {}; // the mistake is shown beside the field
  }
}

function changeResults(change) {
  const results = readResults();
  if (byId("mocks-fault").textContent) return; // it cannot be read: nothing of it is overwritten
  change(results);
  byId("mocks").value = JSON.stringify(results, null, 2);
  keepSettings();
}

for (const id of ["tools", "mocks"]) {
  byId(id).addEventListener("input", () => {
    showToolForm();
    readResults();
    afterTools();
  });
}

byId("example-tools").addEventListener("click", () => {
  loadExampleTools();
  showToolForm();
  afterTools();
});
