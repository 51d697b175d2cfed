/* The list of conversations: open one, delete one or all. */

function showConversations() {
  const conversations = listConversations();
  byId("conversations").replaceChildren(...conversations.map(makeConversationItem));
  byId("delete-all").hidden = !conversations.length;
  byId("new").disabled = !conversation.entries.length;
  byId("kept").textContent = describeKeeping(conversations.length);
}

function describeKeeping(count) {
  if (!KEEPS) return "This browser stores nothing: conversations are lost when you close the page.";
  const place = "Stored in this browser only.";
  return count ? place : `Your conversations will be listed here. ${place}`;
}

function makeConversationItem(listed) {
  const title = titleOf(listed);
  const item = make("li");
  const open = makeButton(title, () => openConversation(listed.id));
  const remove = makeButton("\u00d7", () => {
    if (confirm(`Delete the conversation "${title}"?`)) deleteConversations([listed.id]);
  });
  open.className = "title";
  open.title = new Date(listed.changed).toLocaleString();
  if (listed.id === conversation.id) open.setAttribute("aria-current", "true");
  remove.className = "remove";
  remove.setAttribute("aria-label", `Delete "${title}"`);
  item.append(open, remove);
  return item;
}

function deleteConversations(ids) {
  for (const id of ids) forgetConversation(id);
  if (ids.includes(conversation.id)) startConversation();
  else showConversations();
  byId("message").focus();
}

byId("new").addEventListener("click", () => startConversation());
byId("delete-all").addEventListener("click", () => {
  const ids = listConversations().map(({ id }) => id);
  if (confirm(`Delete all ${ids.length} conversations?`)) deleteConversations(ids);
});
window.addEventListener("storage", ({ key }) => { // another tab has changed something
  if (key === null || key.startsWith(CONVERSATION)) showConversations();
});
