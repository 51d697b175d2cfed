/* Requests to the server. Paths are relative: it may lie behind a prefix. */

const NEEDS_KEY = document.body.dataset.needsKey === "true";

function headers() {
  const key = byId("key").value;
  const plain = { "Content-Type": "application/json" };
  return NEEDS_KEY && key ? { ...plain, Authorization: `Bearer ${key}` } : plain;
}

async function send(path, body, signal) {
  const options = { headers: headers(), signal };
  if (body !== undefined) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  const response = await fetch(path, options);
  if (response.ok) return response;
  throw new Error(await readFault(response));
}

async function readFault(response) {
  try {
    const { error } = await response.json();
    const message = error.message || String(error);
    return error.param ? `${message} (at ${error.param})` : message;
  } catch {
    return `status ${response.status}`; // no JSON: something between the page and the server
  }
}

/* The data of a stream of events; `take` gets each as it comes. */
async function readEvents(response, take) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    buffer += value;
    const lines = buffer.split("\n");
    buffer = lines.pop();
    for (const line of lines) takeLine(line, take);
  }
}

function takeLine(line, take) {
  if (!line.startsWith("data: ") || line === "data: [DONE]") return;
  const chunk = JSON.parse(line.slice("data: ".length));
  if (chunk.error) throw new Error(chunk.error.message);
  take(chunk);
}
