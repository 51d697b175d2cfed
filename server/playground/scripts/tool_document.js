/* The JSON of tools, as a form sees it: parameters with a type, allowed values, a description. What
   a form has no field for (bounds, nested objects, references) stays in the JSON as it is. */

const TYPES = {
  string: { type: "string" },
  integer: { type: "integer" },
  number: { type: "number" },
  boolean: { type: "boolean" },
  "list of strings": { type: "array", items: { type: "string" } },
  "list of integers": { type: "array", items: { type: "integer" } },
  "list of numbers": { type: "array", items: { type: "number" } },
  object: { type: "object" },
};
const OTHER = "as in the JSON";
const LISTED = ["string", "integer", "number"]; // types whose allowed values can be listed
const COMPLEX = ["anyOf", "oneOf", "allOf", "not", "$ref", "const", "if", "properties", "prefixItems"];

function makeTool(name) {
  const parameters = { type: "object", properties: {}, required: [] };
  return { type: "function", function: { name, description: "", parameters } };
}

function makeName(stem, taken) {
  let number = 1;
  while (taken.includes(`${stem}_${number}`)) number += 1;
  return `${stem}_${number}`;
}

/* The schema of a tool's arguments, as part of the tool: changes of it change the tool. */
function ownSchema(tool) {
  const body = bodyOf(tool);
  const key = ["parameters", "input_schema", "inputSchema"].find((name) => name in body) || "parameters";
  body[key] ??= { type: "object" };
  body[key].properties ??= {};
  return body[key];
}

function namesOf(tool) {
  return Object.keys(schemaOf(tool).properties || {});
}

/* The schema of a parameter, to be changed: `true` and `false` are written as objects. */
function parameterSchema(tool, name) {
  const { properties } = ownSchema(tool);
  if (typeof properties[name] === "boolean") properties[name] = properties[name] ? {} : { not: {} };
  return properties[name];
}

/* Draft 3 has a boolean there, which names nobody. */
function requiredBy(schema) {
  return Array.isArray(schema.required) ? schema.required : [];
}

function isRequired(tool, name) {
  return requiredBy(schemaOf(tool)).includes(name);
}

function setRequired(tool, name, wanted) {
  const schema = ownSchema(tool);
  const others = requiredBy(schema).filter((one) => one !== name);
  schema.required = wanted ? [...others, name] : others;
}

function addParameter(tool) {
  const { properties } = ownSchema(tool);
  const name = makeName("parameter", Object.keys(properties));
  properties[name] = { ...TYPES.string };
  return name;
}

function removeParameter(tool, name) {
  delete ownSchema(tool).properties[name];
  setRequired(tool, name, false);
}

/* The order of parameters stays. */
function renameParameter(tool, name, next) {
  const schema = ownSchema(tool);
  const pairs = Object.entries(schema.properties);
  schema.properties = Object.fromEntries(pairs.map(([key, value]) => [key === name ? next : key, value]));
  if (isRequired(tool, name)) schema.required = schema.required.map((key) => (key === name ? next : key));
}

function typeOf(schema) {
  if (COMPLEX.some((keyword) => keyword in schema)) return OTHER;
  const isSame = ([, wanted]) => wanted.type === schema.type && sameItems(wanted.items, schema.items);
  return Object.entries(TYPES).find(isSame)?.[0] || OTHER;
}

function sameItems(wanted, given) {
  return JSON.stringify(wanted) === JSON.stringify(given);
}

/* Another type: only what is said about the parameter stays, not about its values. */
function setType(tool, name, type) {
  const { properties } = ownSchema(tool);
  const { description } = parameterSchema(tool, name);
  const told = description === undefined ? {} : { description };
  properties[name] = { ...structuredClone(TYPES[type]), ...told };
}

function setText(object, key, text) {
  if (text) object[key] = text;
  else delete object[key];
}

/* Allowed values in one line: with commas between them, or as a JSON list where that is not clear. */
function writeAllowed(values) {
  if (!Array.isArray(values)) return "";
  const isClear = (value) => typeof value === "string" && /^[^\s,["]([^,]*[^\s,])?$/.test(value);
  const isPlain = values.every(isClear) || values.every((value) => typeof value === "number");
  return isPlain ? values.join(", ") : JSON.stringify(values);
}

/* Throws if the line cannot be read, or does not fit the type. */
function readAllowed(line, type) {
  const text = line.trim();
  if (!text) return undefined;
  const isJson = text.startsWith("[");
  const values = isJson ? JSON.parse(text) : text.split(",").map((part) => part.trim()).filter(Boolean);
  const read = isJson || type === "string" ? values : values.map(Number);
  if (!read.every((value) => isOfType(value, type))) throw new Error(`Not every value is of type ${type}`);
  return read;
}

function isOfType(value, type) {
  if (type === "string") return typeof value === "string";
  return type === "integer" ? Number.isSafeInteger(value) : Number.isFinite(value);
}
