// The Agents SDK of OpenAI from npm, over Chat Completions and over Responses.

import assert from "node:assert/strict";

import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, tool } from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";

import * as report from "./report.mjs";
import { ANSWERED, QUESTION, TOLD } from "./report.mjs";

const client = new OpenAI({ baseURL: `${report.URL}/v1`, apiKey: "none", maxRetries: 0 });
const MODELS = [
  new OpenAIChatCompletionsModel(client, "demo"),
  new OpenAIResponsesModel(client, "demo"),
];
const runner = new Runner({ tracingDisabled: true });
const WEATHER = z.object({
  city: z.string().describe("the name of the city"),
  day: z.enum(["today", "tomorrow"]),
  unit: z.enum(["celsius", "fahrenheit"]),
});

/** What an agent with each model answers, and the arguments of its calls. */
async function each(question, options = {}, modelSettings = {}, run = {}) {
  const answers = [];
  for (const model of MODELS) {
    const calls = [];
    const weather = tool({
      name: "get_weather",
      description: report.DESCRIPTION,
      parameters: WEATHER,
      execute: (given) => {
        calls.push(given);
        return TOLD;
      },
    });
    const agent = new Agent({
      name: "a",
      model,
      modelSettings: { temperature: 0, maxTokens: 300, ...modelSettings },
      tools: options.outputType ? [] : [weather],
      ...options,
    });
    const result = await runner.run(agent, question, run);
    const kinds = new Set();
    if (run.stream) {
      for await (const event of result) kinds.add(event.name ?? event.type);
      await result.completed;
    }
    answers.push({ output: result.finalOutput, calls, kinds });
  }
  return answers;
}

const scenarios = {
  async plain() {
    const answers = await each(report.GREETING, { tools: [] });
    assert.ok(answers.every(({ output }) => output));
    return answers.map(({ output }) => output);
  },
  async required() {
    const options = { toolUseBehavior: "stop_on_first_tool" };
    const answers = await each(QUESTION, options, { toolChoice: "required" });
    for (const { calls } of answers) assert.deepEqual(calls, [ANSWERED]);
    return answers.map(({ calls }) => calls);
  },
  async named() {
    const options = { toolUseBehavior: "stop_on_first_tool" };
    const answers = await each(QUESTION, options, { toolChoice: "get_weather" });
    for (const { calls } of answers) assert.deepEqual(calls, [ANSWERED]);
    return answers.map(({ calls }) => calls);
  },
  async none() {
    const answers = await each(QUESTION, {}, { toolChoice: "none" });
    for (const { calls, output } of answers) assert.ok(calls.length === 0 && output);
    return answers.map(({ output }) => output);
  },
  async parallel() {
    const options = { toolUseBehavior: "stop_on_first_tool" };
    const answers = await each(report.TWO_CITIES, options, { toolChoice: "required" });
    for (const { calls } of answers) assert.ok(calls.length > 1, JSON.stringify(calls));
    return answers.map(({ calls }) => calls);
  },
  async stream() {
    const answers = await each(QUESTION, {}, {}, { stream: true });
    for (const { calls, output, kinds } of answers) {
      assert.ok(kinds.has("tool_called") && kinds.has("tool_output"), [...kinds].join(" "));
      assert.deepEqual(calls, [ANSWERED]);
      assert.ok(output.includes("14"), output);
    }
    return answers.map(({ output }) => output);
  },
  async reasoning_on() {
    const answers = await each(QUESTION, {}, { reasoning: { effort: "low" } });
    for (const { output } of answers) assert.ok(output.includes("14"), output);
    return answers.map(({ output }) => output);
  },
  async round_trip() {
    const answers = await each(QUESTION);
    for (const { calls, output } of answers) {
      assert.deepEqual(calls, [ANSWERED]);
      assert.ok(output.includes("14"), output);
    }
    return answers.map(({ output }) => output);
  },
  async round_trip__typed() {
    const outputType = z.object({ city: z.string(), rainy: z.boolean() });
    const answers = await each(QUESTION, { outputType });
    return answers.map(({ output }) => outputType.parse(output));
  },
  async error() {
    await assert.rejects(each(QUESTION, {}, { topP: 3 }), { status: 400, param: "/top_p" });
    return "/top_p";
  },
};

await report.report(scenarios);
