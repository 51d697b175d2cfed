// What the scenarios of the clients from npm share: report.py's questions and lines, in JavaScript.

const URL_ = process.argv[2] ?? "http://127.0.0.1:8080";
const PATIENCE = 60; // seconds

export { URL_ as URL };
export const GREETING = "Hello!";
export const QUESTION = "What's the weather in Paris tomorrow, in celsius?";
export const TWO_CITIES = "What's the weather in Rome today and in Oslo tomorrow, in celsius?";
export const ANSWERED = { city: "Paris", day: "tomorrow", unit: "celsius" };
export const TOLD =
  '{"city": "Paris", "day": "tomorrow", "forecast": "light rain", "temperature": 14}';
export const DESCRIPTION = "Get the weather forecast for a city.";
// A call with these arguments takes many tokens: there is time to cancel it.
export const LONG_TEXT = {
  type: "object",
  properties: { text: { type: "string", minLength: 800 } },
  required: ["text"],
  additionalProperties: false,
};

/** Runs what leaves a turn, and waits until the server has ended it. */
export async function cancelling(leave) {
  const before = await count("unfinished_total");
  await leave();
  for (let look = 0; look < PATIENCE * 20; look++) {
    if ((await count("unfinished_total")) > before && (await count("running")) === 0) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error("the server has not ended the turn");
}

async function count(name) {
  const metrics = await (await fetch(`${URL_}/metrics`)).text();
  return Number(metrics.match(new RegExp(`^constrained_${name} (\\d+)`, "m"))[1]);
}

/** Runs all scenarios; a line of JSON for each. */
export async function report(scenarios) {
  for (const [scenario, run] of Object.entries(scenarios)) {
    let line;
    try {
      line = { scenario, ok: true, result: await run() };
    } catch (error) {
      const place = String(error.stack).split("\n").slice(1, 2).join("").trim();
      line = { scenario, ok: false, error: `${error}`.slice(0, 500), line: place };
    }
    console.log(JSON.stringify(line));
  }
}
