// The AI SDK from npm over its own providers for Messages, Responses and Chat Completions:
// `@ai-sdk/anthropic` and `@ai-sdk/openai`.

import assert from "node:assert/strict";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, Output, streamText, tool } from "ai";
import { z } from "zod";

import * as report from "./report.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;

const baseURL = `${report.URL}/v1`;
const openai = createOpenAI({ baseURL, apiKey: "none" });
const anthropic = createAnthropic({ baseURL, apiKey: "none" });
const MODELS = {
  messages: anthropic("demo"),
  // By this name the provider asks for `output_config`, by others for a call.
  structured: anthropic("claude-sonnet-4-5"),
  responses: openai.responses("demo"),
  chat: openai.chat("demo"),
};
const TALKING = ["messages", "responses", "chat"];
const WEATHER = z.object({
  city: z.string().describe("the name of the city"),
  day: z.enum(["today", "tomorrow"]),
  unit: z.enum(["celsius", "fahrenheit"]),
});
const PLACE = z.object({ city: z.string(), rainy: z.boolean() });
const TOO_LONG = "word ".repeat(20_000);
const tools = {
  get_weather: tool({
    description: report.DESCRIPTION,
    inputSchema: WEATHER,
    execute: () => report.TOLD,
  }),
};

const DIALECTS = Object.keys(MODELS);

const ask = (dialect) => ({
  model: MODELS[dialect],
  temperature: 0,
  maxOutputTokens: 300,
  maxRetries: 0,
  prompt: report.QUESTION,
});

/** What each of these dialects gives, by its name. */
async function inEach(dialects, run) {
  const results = {};
  for (const dialect of dialects) results[dialect] = await run(dialect);
  return results;
}

function check(steps) {
  assert.equal(steps.length, 2);
  const [call] = steps[0].toolCalls;
  assert.equal(call.toolName, "get_weather");
  assert.ok(!call.invalid);
  assert.equal(WEATHER.parse(call.input).city, "Paris");
  assert.ok(steps[1].text);
  return [call.input, steps[1].text];
}

/** The parts of a stream; a failure in it is raised. */
async function read(result) {
  const parts = [];
  for await (const part of result.fullStream) {
    if (part.type === "error") throw part.error;
    parts.push(part);
  }
  return parts;
}

const scenarios = {
  async plain() {
    return inEach(TALKING, async (dialect) => {
      const result = await generateText({ ...ask(dialect), prompt: report.GREETING });
      assert.equal(result.finishReason, "stop");
      assert.ok(result.usage.inputTokens > 0);
      assert.ok(result.text);
      return result.text;
    });
  },
  async stream() {
    return inEach(TALKING, async (dialect) => {
      const result = streamText({ ...ask(dialect), tools, stopWhen: isStepCount(2) });
      await read(result);
      return check(await result.steps);
    });
  },
  async stream__typed() {
    return inEach(DIALECTS, async (dialect) => {
      const output = Output.object({ schema: PLACE });
      const result = streamText({ ...ask(dialect), output });
      const partial = [];
      for await (const value of result.partialOutputStream) partial.push(value);
      const place = PLACE.parse(await result.output);
      assert.deepEqual(partial.at(-1), place);
      return place;
    });
  },
  async reasoning_on() {
    const thinking = { type: "enabled", budgetTokens: 1024 };
    const result = streamText({
      ...ask("messages"),
      temperature: undefined,
      providerOptions: { anthropic: { thinking } },
    });
    const kinds = new Set((await read(result)).map((part) => part.type));
    assert.ok(kinds.has("reasoning-delta"), [...kinds].join(" "));
    return (await result.reasoningText).length > 0;
  },
  async round_trip() {
    return inEach(TALKING, async (dialect) => {
      const result = await generateText({ ...ask(dialect), tools, stopWhen: isStepCount(2) });
      return check(result.steps);
    });
  },
  async round_trip__typed() {
    return inEach(DIALECTS, async (dialect) => {
      const output = Output.object({ schema: PLACE });
      return PLACE.parse((await generateText({ ...ask(dialect), output })).output);
    });
  },
  async error() {
    return inEach(TALKING, async (dialect) => {
      try {
        await generateText({ ...ask(dialect), prompt: TOO_LONG });
      } catch (refusal) {
        assert.equal(refusal.statusCode, 400);
        assert.ok(refusal.message.includes("tokens"), refusal.message);
        return refusal.message;
      }
      throw new Error("it was not refused");
    });
  },
  async cancel() {
    await report.cancelling(async () => {
      const leaving = new AbortController();
      const result = streamText({
        ...ask("messages"),
        output: Output.object({ schema: z.object({ text: z.string().min(800) }) }),
        maxOutputTokens: 1500,
        abortSignal: leaving.signal,
      });
      for await (const part of result.fullStream) {
        if (part.type.endsWith("-delta")) leaving.abort();
      }
    });
    return (await generateText({ ...ask("messages"), tools })).finishReason;
  },
};

await report.report(scenarios);
