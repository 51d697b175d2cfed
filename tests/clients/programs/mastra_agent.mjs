// Mastra from npm: its agent, with its own model router.

import assert from "node:assert/strict";

import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { z } from "zod";

import * as report from "./report.mjs";
import { ANSWERED, QUESTION, TOLD } from "./report.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;

const WEATHER = z.object({
  city: z.string().describe("the name of the city"),
  day: z.enum(["today", "tomorrow"]),
  unit: z.enum(["celsius", "fahrenheit"]),
});
const DAY = z.object({ city: z.string(), rainy: z.boolean() });
const SETTINGS = { modelSettings: { temperature: 0, maxOutputTokens: 300, maxRetries: 0 } };

/** An agent, and the arguments of the calls that it executes. */
function make() {
  const calls = [];
  const get_weather = createTool({
    id: "get_weather",
    description: report.DESCRIPTION,
    inputSchema: WEATHER,
    execute: async ({ context: given }) => {
      calls.push(given);
      return TOLD;
    },
  });
  const agent = new Agent({
    id: "a",
    name: "a",
    instructions: "Answer.",
    model: { id: "local/demo", url: `${report.URL}/v1`, apiKey: "none" },
    tools: { get_weather },
  });
  return { agent, calls };
}

const scenarios = {
  async plain() {
    const { text } = await make().agent.generate(report.GREETING, SETTINGS);
    assert.ok(text);
    return text;
  },
  async required() {
    const { agent, calls } = make();
    await agent.generate(QUESTION, { ...SETTINGS, toolChoice: "required", maxSteps: 1 });
    assert.deepEqual(calls, [ANSWERED]);
    return calls;
  },
  async named() {
    const { agent, calls } = make();
    const toolChoice = { type: "tool", toolName: "get_weather" };
    await agent.generate(QUESTION, { ...SETTINGS, toolChoice, maxSteps: 1 });
    assert.deepEqual(calls, [ANSWERED]);
    return calls;
  },
  async none() {
    const { agent, calls } = make();
    const { text } = await agent.generate(QUESTION, { ...SETTINGS, toolChoice: "none" });
    assert.ok(text && calls.length === 0);
    return text;
  },
  async stream() {
    const { agent, calls } = make();
    const output = await agent.stream(QUESTION, { ...SETTINGS, maxSteps: 3 });
    const kinds = new Set();
    for await (const chunk of output.fullStream) kinds.add(chunk.type);
    for (const kind of ["tool-call", "tool-result", "finish"]) {
      assert.ok(kinds.has(kind), [...kinds].join(" "));
    }
    assert.deepEqual(calls, [ANSWERED]);
    return await output.text;
  },
  async round_trip() {
    const { agent, calls } = make();
    const { text, totalUsage } = await agent.generate(QUESTION, { ...SETTINGS, maxSteps: 3 });
    assert.deepEqual(calls, [ANSWERED]);
    assert.ok(text);
    assert.ok(totalUsage.outputTokens > 0);
    return text;
  },
  async round_trip__typed() {
    const structuredOutput = { schema: DAY };
    const options = { ...SETTINGS, structuredOutput, toolChoice: "none" };
    return DAY.parse((await make().agent.generate(QUESTION, options)).object);
  },
  async error() {
    const modelSettings = { ...SETTINGS.modelSettings, topP: 3 };
    await assert.rejects(make().agent.generate(QUESTION, { modelSettings }), /top_p/);
    return "top_p";
  },
};

await report.report(scenarios);
