/* The models of the server: a list to choose from if there are several. And its API key, if it
   wants one, which stays in this tab. */

const KEY = "constrained.key";
let models = []; // as /v1/models tells them

function chosenModel() {
  return byId("model").value;
}

async function listModels() {
  try {
    ({ data: models } = await (await send("v1/models")).json());
    byId("server-fault").textContent = "";
  } catch (error) {
    models = [];
    byId("server-fault").textContent = describeMissingModels(error);
  }
  const names = models.map((model) => model.id);
  byId("model").replaceChildren(...names.map((name) => new Option(name, name)));
  const { model } = readStored(SETTINGS, {});
  if (names.includes(model)) byId("model").value = model;
  byId("model-choice").hidden = names.length < 2;
  byId("model-name").textContent = names.length === 1 ? names[0] : "";
}

function describeMissingModels(error) {
  if (NEEDS_KEY && !byId("key").value) return "This server needs an API key: enter it above.";
  return error.message;
}

byId("key-field").hidden = !NEEDS_KEY;
byId("key").value = storedForTab.getItem(KEY) || "";
byId("server").addEventListener("submit", (event) => event.preventDefault());
byId("key").addEventListener("change", () => {
  storedForTab.setItem(KEY, byId("key").value);
  listModels();
});
