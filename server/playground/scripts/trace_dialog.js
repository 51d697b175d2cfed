/* The page of a trace, in a frame that runs its script and nothing else. */

let tracePage = null;

async function showTrace(trace) {
  if (tracePage === null) tracePage = await (await send("playground/trace")).text();
  const data = JSON.stringify(trace).replaceAll("<", "\\u003c");
  byId("trace-frame").srcdoc = tracePage.replace("/*TRACE*/null", () => data);
  byId("trace-dialog").showModal();
}

byId("trace-close").addEventListener("click", () => byId("trace-dialog").close());
