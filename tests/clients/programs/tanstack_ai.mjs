// TanStack AI from npm, over Chat Completions and over Responses.

import assert from "node:assert/strict";

import { chat, maxIterations, toolDefinition } from "@tanstack/ai";
import { openaiCompatible } from "@tanstack/ai-openai/compatible";
import { z } from "zod";

import * as report from "./report.mjs";
import { ANSWERED, QUESTION, TOLD } from "./report.mjs";

const ADAPTERS = ["chat-completions", "responses"].map((api) => {
  const baseURL = `${report.URL}/v1`;
  const make = openaiCompatible({ name: "local", baseURL, apiKey: "none", models: ["demo"], api });
  return make("demo");
});
const WEATHER = z.object({
  city: z.string().describe("the name of the city"),
  day: z.enum(["today", "tomorrow"]),
  unit: z.enum(["celsius", "fahrenheit"]),
});
const DAY = z.object({ city: z.string(), rainy: z.boolean() });

/** What each adapter answers, the arguments of its calls, and the kinds of its events. */
async function each(question, options = {}, withTools = true) {
  const answers = [];
  for (const adapter of ADAPTERS) {
    const calls = [];
    const weather = toolDefinition({
      name: "get_weather",
      description: report.DESCRIPTION,
      inputSchema: WEATHER,
    }).server((given) => {
      calls.push(given);
      return `The weather: ${TOLD}`; // the package rewrites a result that is JSON
    });
    const kinds = new Set();
    let text = "";
    const events = chat({
      adapter,
      messages: [{ role: "user", content: question }],
      tools: withTools ? [weather] : [],
      agentLoopStrategy: maxIterations(3),
      ...options,
    });
    for await (const event of events) {
      kinds.add(event.type);
      if (event.type === "TEXT_MESSAGE_CONTENT") text += event.delta;
      if (event.type === "RUN_ERROR") throw new Error(event.message ?? event.error?.message);
    }
    answers.push({ text, calls, kinds });
  }
  return answers;
}

const scenarios = {
  async plain() {
    const answers = await each(report.GREETING, {}, false);
    assert.ok(answers.every(({ text }) => text));
    return answers.map(({ text }) => text);
  },
  async stream() {
    const answers = await each(QUESTION);
    for (const { calls, kinds } of answers) {
      assert.ok(kinds.has("TOOL_CALL_START") && kinds.has("TOOL_CALL_END"), [...kinds].join(" "));
      assert.deepEqual(calls, [ANSWERED]);
    }
    return answers.map(({ calls }) => calls);
  },
  async round_trip() {
    const answers = await each(QUESTION);
    for (const { calls, text } of answers) {
      assert.deepEqual(calls, [ANSWERED]);
      assert.ok(text);
    }
    return answers.map(({ text }) => text);
  },
  async round_trip__typed() {
    const found = [];
    for (const adapter of ADAPTERS) {
      const messages = [{ role: "user", content: QUESTION }];
      found.push(DAY.parse(await chat({ adapter, messages, outputSchema: DAY })));
    }
    return found;
  },
  async error() {
    await assert.rejects(each(QUESTION, { modelOptions: { top_p: 3 } }), /top_p/);
    return "top_p";
  },
};

await report.report(scenarios);
