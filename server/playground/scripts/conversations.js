/* Conversations, which the browser keeps: each under a key of its own, so that two tabs do not
   overwrite each other's.

   A conversation is `{id, changed, entries}`. An entry is a message with what the page shows beside
   it: `{message, facts, verdicts, isStopped}`. */

const CONVERSATION = "constrained.conversation.";
const OPEN = "constrained.open"; // the conversation of this tab
const MAX_TITLE = 60;
const deleted = new Set(); // a turn that still runs does not bring its conversation back

function makeConversation() {
  return { id: crypto.randomUUID?.() || String(Date.now()), changed: 0, entries: [] };
}

/* The one of this name; null if there is none. */
function readConversation(id) {
  const found = readStored(CONVERSATION + id, null);
  return Array.isArray(found?.entries) ? found : null;
}

/* All of them, the last one first. */
function listConversations() {
  const ids = listStored(CONVERSATION).map((key) => key.slice(CONVERSATION.length));
  const found = ids.map(readConversation).filter(Boolean);
  return found.sort((a, b) => b.changed - a.changed);
}

function titleOf({ entries }) {
  const first = entries.find(({ message }) => message.role === "user");
  const text = first?.message.content || "New chat";
  return text.length > MAX_TITLE ? `${text.slice(0, MAX_TITLE)}\u2026` : text;
}

/* One without messages is not kept. */
function keepConversation(conversation) {
  if (deleted.has(conversation.id)) return;
  conversation.changed = Date.now();
  if (conversation.entries.length) keep(CONVERSATION + conversation.id, conversation);
  else stored.removeItem(CONVERSATION + conversation.id);
}

function forgetConversation(id) {
  deleted.add(id);
  stored.removeItem(CONVERSATION + id);
}
