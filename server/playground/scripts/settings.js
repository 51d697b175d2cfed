/* The settings of the chat, which the browser keeps: tools, their example results, options. */

const SETTINGS = "constrained.settings";
const KEPT = ["tools", "mocks", "system", "choice", "temperature", "max-tokens", "effort", "auto", "trace", "model"];
const EXAMPLE_TOOLS = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "The weather of a city",
      parameters: {
        type: "object",
        properties: {
          city: { type: "string", description: "The name of the city" },
          unit: { type: "string", enum: ["celsius", "fahrenheit"] },
          days: { type: "integer", minimum: 1, maximum: 7 },
        },
        required: ["city"],
      },
    },
  },
  {
    type: "function",
    function: {
      name: "order_pizza",
      description: "Order a pizza",
      parameters: {
        type: "object",
        properties: {
          size: { type: "string", enum: ["small", "medium", "large"] },
          toppings: { type: "array", items: { type: "string" } },
        },
        required: ["size"],
      },
    },
  },
];
const EXAMPLE_RESULTS = {
  get_weather: { weather: "light rain", temperature: 14 },
  order_pizza: { price: 12 },
};
const EXAMPLE_QUESTIONS = [
  "What's the weather in Paris?",
  "What is the weather in Tokyo in fahrenheit?",
  "Order a large pizza with ham and olives",
];

function readSetting(field) {
  return field.type === "checkbox" ? field.checked : field.value;
}

function writeSetting(field, value) {
  if (field.type === "checkbox") field.checked = value;
  else field.value = value;
}

function keepSettings() {
  keep(SETTINGS, Object.fromEntries(KEPT.map((id) => [id, readSetting(byId(id))])));
}

function loadExampleTools() {
  byId("tools").value = JSON.stringify(EXAMPLE_TOOLS, null, 2);
  byId("mocks").value = JSON.stringify(EXAMPLE_RESULTS, null, 2);
}

/* The fields as they were left; the choice of a tool needs the list of tools first. */
function loadSettings() {
  loadExampleTools();
  for (const [id, value] of Object.entries(readStored(SETTINGS, {}))) {
    if (KEPT.includes(id)) writeSetting(byId(id), value);
  }
  listChoices();
}

/* The choices of a call: the three words, and each tool by its name. */
function listChoices() {
  const select = byId("choice");
  const chosen = select.value || readStored(SETTINGS, {}).choice;
  const names = readToolsOrNone().map(nameOf).filter(Boolean);
  const choices = ["auto", "required", "none", ...names];
  select.replaceChildren(...choices.map((name) => new Option(name, name)));
  select.value = choices.includes(chosen) ? chosen : "auto";
}

function readToolsOrNone() {
  try {
    return readTools("tools");
  } catch {
    return []; // the mistake is shown beside the field
  }
}

for (const id of KEPT) byId(id).addEventListener("change", keepSettings);
