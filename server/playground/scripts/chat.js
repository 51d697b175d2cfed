/* The chat: asks, shows the turn as it streams, takes the results of its calls, asks again. */

const MAX_UNASKED = 40; // messages after a question, of calls whose results nobody sees
let conversation = makeConversation();
let running = null; // the turn under way: {controller, turn, own, began, isCut}
let lastTurn = null; // the view of the last turn of the model
const traces = new WeakMap(); // of entries; gone when the page is left

function startConversation() {
  openConversation(null);
  byId("message").focus();
}

/* Opens one; a new one if there is none of this name. */
function openConversation(id) {
  cutTurn({ isKept: true });
  conversation = (id && readConversation(id)) || makeConversation();
  storedForTab.setItem(OPEN, conversation.id);
  drawConversation();
}

function keepAndList(changed) {
  keepConversation(changed);
  showConversations();
}

/* --- Drawing --- */

function drawConversation() {
  lastTurn = null;
  byId("log").replaceChildren();
  for (const entry of conversation.entries) drawEntry(entry);
  showNext();
  showConversations();
  byId("log").scrollTop = byId("log").scrollHeight;
}

function drawEntry(entry) {
  const { message } = entry;
  if (message.role === "user") addUserTurn(message.content);
  else if (message.role === "assistant") addModelTurn(entry);
  else lastTurn?.calls.find((call) => call.id === message.tool_call_id)?.showResult(message.content);
}

function addUserTurn(text) {
  const element = make("article", "turn user");
  element.append(make("div", "who", "you"), make("div", "content", text));
  byId("log").append(element);
  byId("log").scrollTop = byId("log").scrollHeight;
}

function addModelTurn(entry) {
  lastTurn = new TurnView(readToolsOrNone());
  lastTurn.add(entry.message);
  byId("log").append(lastTurn.element);
  lastTurn.close(entry, makeTurnButtons(entry));
}

function makeTurnButtons(entry) {
  const trace = traces.get(entry);
  return trace ? [makeButton("Trace", () => showTrace(trace))] : [];
}

/* What comes after the last message: an invitation, the results of its calls, another try. */
function showNext(fault = "") {
  for (const old of byId("log").querySelectorAll(".next")) old.remove();
  const last = conversation.entries.at(-1);
  const isEmpty = !last;
  byId("log").classList.toggle("is-empty", isEmpty);
  byId("undo").disabled = isEmpty;
  if (running) return;
  if (isEmpty) byId("log").append(makeInvitation());
  else if (fault || last.isStopped || last.message.role !== "assistant") byId("log").append(makeRetry(fault));
  else if (last.message.tool_calls) byId("log").append(makeResultButtons());
  byId("log").scrollTop = byId("log").scrollHeight;
}

const INVITATION = `Ask something. When the model calls a tool, the arguments appear here as it writes them,
and you enter the result.`;
const ABOUT_DEMO = `This is the demo model. It is tiny: it understands simple English, calls simple tools, and
cannot hold a conversation.`;

function makeInvitation() {
  const names = readToolsOrNone().map(nameOf);
  const invitation = make("div", "next empty");
  invitation.append(make("p", "", INVITATION));
  const isExample = EXAMPLE_TOOLS.every((tool) => names.includes(nameOf(tool)));
  const isDemo = ({ id, meta }) => id === chosenModel() && meta.general_name === "constrained demo";
  if (models.some(isDemo)) invitation.append(make("p", "", ABOUT_DEMO));
  for (const question of isExample ? EXAMPLE_QUESTIONS : []) {
    invitation.append(makeButton(question, () => {
      byId("message").value = question;
      byId("message").focus();
    }));
  }
  return invitation;
}

function makeRetry(fault) {
  const row = make("div", "next row");
  if (fault) row.append(make("p", "fault", fault));
  row.append(makeButton("Ask again", () => {
    if (conversation.entries.at(-1).isStopped) conversation.entries.pop();
    drawConversation();
    answer();
  }));
  return row;
}

function makeResultButtons() {
  const results = readResults();
  for (const call of lastTurn.calls) call.askForResult(results[call.name]);
  const row = make("div", "next row");
  const allow = makeButton("Send results", () => sendResults(true));
  allow.classList.add("primary");
  row.append(allow, makeButton("Do not allow", () => sendResults(false)));
  return row;
}

/* --- Asking --- */

function makeRequest(tools) {
  const system = byId("system").value;
  const body = {
    model: chosenModel() || undefined,
    messages: [...(system ? [{ role: "system", content: system }] : []), ...listMessages()],
    stream: true,
    stream_options: { include_usage: true },
    max_tokens: Number(byId("max-tokens").value) || undefined,
  };
  if (tools.length) {
    const isAnswer = conversation.entries.at(-1).message.role === "tool"; // a call is required once
    body.tools = tools;
    body.tool_choice = isAnswer ? "auto" : readChoice(byId("choice").value, tools);
  }
  const temperature = byId("temperature").value;
  if (temperature !== "") body.temperature = Number(temperature);
  if (byId("effort").value) body.reasoning_effort = byId("effort").value;
  if (byId("trace").checked) body.trace = true;
  return body;
}

/* The messages for the model. A turn that was stopped has no calls: they may be incomplete. */
function listMessages() {
  const messages = [];
  for (const { message, isStopped } of conversation.entries) {
    if (!isStopped) messages.push(message);
    else if (message.content) messages.push({ ...message, tool_calls: undefined });
  }
  return messages;
}

async function answer() {
  let request;
  try {
    request = makeRequest(readTools("tools", "tools-fault"));
  } catch (error) {
    showNext(`Tools: ${error.message}`);
    return;
  }
  const turn = new TurnView(request.tools || []);
  const run = { controller: new AbortController(), turn, own: conversation, began: performance.now() };
  byId("log").append(turn.element);
  setRunning(run);
  showNext();
  const fault = await stream(turn, request, run.controller.signal);
  const verdicts = turn.finish ? await judgeCalls(turn.tools, turn.calls) : null;
  if (!run.isCut) finishTurn(run, { fault, verdicts });
}

/* Only the conversation on the page can have a turn under way: leaving it cuts the turn. */
function finishTurn({ turn, own, began }, { fault, verdicts }) {
  const entry = makeEntry(turn, began, verdicts);
  setRunning(null);
  if (turn.isEmpty && !turn.finish) {
    turn.element.remove();
  } else {
    own.entries.push(entry);
    lastTurn = turn;
    if (turn.trace) traces.set(entry, turn.trace);
    turn.close(entry, makeTurnButtons(entry));
  }
  keepAndList(own);
  showNext(fault);
  sendKnownResults();
  if (!byId("message").value) byId("log").querySelector(".next .primary")?.focus();
}

/* Ends the turn under way at once. */
function cutTurn({ isKept }) {
  if (!running) return;
  const { controller, turn, own, began } = running;
  running.isCut = true;
  controller.abort();
  setRunning(null);
  if (!isKept || turn.isEmpty) return;
  own.entries.push({ ...makeEntry(turn, began, null), isStopped: true });
  keepConversation(own);
}

/* Returns what went wrong; "" if nothing did, or if the user has stopped it. */
async function stream(turn, request, signal) {
  try {
    const response = await send("v1/chat/completions", request, signal);
    await readEvents(response, (chunk) => turn.take(chunk));
    return "";
  } catch (error) {
    return error.name === "AbortError" ? "" : error.message;
  }
}

function makeEntry(turn, began, verdicts) {
  const facts = turn.describe((performance.now() - began) / 1000);
  return { message: turn.message(), facts, verdicts, isStopped: !turn.finish };
}

/* Shows the button to stop in the place of the one to send, with the focus if that had it. */
function setRunning(next) {
  const [shown, hidden] = next ? ["stop", "send"] : ["send", "stop"];
  const hadFocus = document.activeElement === byId(hidden);
  running = next;
  byId(shown).hidden = false;
  if (hadFocus) byId(next ? shown : "message").focus();
  byId(hidden).hidden = true;
  byId("state").textContent = next ? "The model is writing \u2026" : "";
}

/* --- Results --- */

function waitsForResults() {
  const last = conversation.entries.at(-1);
  return !running && Boolean(last?.message.tool_calls) && !last.isStopped;
}

function findLastQuestion() {
  return conversation.entries.findLastIndex(({ message }) => message.role === "user");
}

function sendResults(isAllowed) {
  addResults(isAllowed);
  showNext();
  answer();
}

function addResults(isAllowed) {
  for (const call of lastTurn.calls) {
    const message = call.answer(isAllowed);
    conversation.entries.push({ message });
    call.showResult(message.content);
  }
  keepAndList(conversation);
}

/* A model that calls on and on is left waiting: the user is asked then. */
function sendKnownResults() {
  const sinceQuestion = conversation.entries.length - findLastQuestion();
  if (!byId("auto").checked || !waitsForResults() || sinceQuestion > MAX_UNASKED) return;
  const results = readResults();
  if (lastTurn.calls.every((call) => results[call.name] !== undefined)) sendResults(true);
}

/* --- What the user does --- */

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = byId("message").value.trim();
  if (!text || running) return;
  if (waitsForResults()) addResults(false); // each call needs one
  byId("message").value = "";
  conversation.entries.push({ message: { role: "user", content: text } });
  addUserTurn(text);
  keepAndList(conversation);
  showNext();
  answer();
});

byId("message").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("ask").requestSubmit();
});

byId("stop").addEventListener("click", () => running?.controller.abort());
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") running?.controller.abort();
});

/* Takes back the last question and all that came of it. */
byId("undo").addEventListener("click", () => {
  const at = findLastQuestion();
  if (at < 0) return;
  cutTurn({ isKept: false });
  byId("message").value = conversation.entries[at].message.content;
  conversation.entries = conversation.entries.slice(0, at);
  keepAndList(conversation);
  drawConversation();
  byId("message").focus();
});

/* A reload in the middle of a turn keeps what is there. */
window.addEventListener("pagehide", () => cutTurn({ isKept: true }));
window.addEventListener("pageshow", ({ persisted }) => persisted && drawConversation());
