/* Starts the page: what was left, and the models. */

/* On a narrow page, what stands beside the conversation is folded at first. */
const UNFOLDED_FROM = { "list-panel": "72rem", "settings-panel": "54rem" };

async function start() {
  loadSettings();
  showToolForm();
  for (const [id, width] of Object.entries(UNFOLDED_FROM)) byId(id).open = matchMedia(`(min-width: ${width})`).matches;
  openConversation(storedForTab.getItem(OPEN));
  await listModels();
  if (!conversation.entries.length) showNext(); // it names the demo model
}

start();
