// The AI SDK from npm: `ai` with `@ai-sdk/openai-compatible`.

import assert from "node:assert/strict";

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, isStepCount, jsonSchema, Output, streamText, tool } from "ai";
import { z } from "zod";

import * as report from "./report.mjs";
import { ANSWERED, QUESTION, TOLD, TWO_CITIES } from "./report.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;

const provider = createOpenAICompatible({
  name: "demo",
  baseURL: `${report.URL}/v1`,
  apiKey: "none",
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const WEATHER = z.object({
  city: z.string().describe("the name of the city"),
  day: z.enum(["today", "tomorrow"]),
  unit: z.enum(["celsius", "fahrenheit"]),
});
const description = report.DESCRIPTION;
const tools = { get_weather: tool({ description, inputSchema: WEATHER }) };
const telling = { get_weather: tool({ description, inputSchema: WEATHER, execute: () => TOLD }) };
const LONG = jsonSchema(report.LONG_TEXT);
const ask = {
  model: provider("demo"),
  temperature: 0,
  maxOutputTokens: 300,
  maxRetries: 0,
  prompt: QUESTION,
};

function callsOf(result) {
  return result.toolCalls.map((call) => {
    assert.equal(call.toolName, "get_weather");
    assert.ok(!call.invalid, JSON.stringify(call));
    return WEATHER.parse(call.input);
  });
}

const think = (reasoningEffort) => ({ providerOptions: { demo: { reasoningEffort } } });

const scenarios = {
  async plain() {
    const result = await generateText({ ...ask, prompt: report.GREETING });
    assert.equal(result.finishReason, "stop");
    assert.ok(result.usage.inputTokens > 0);
    assert.ok(result.text);
    return result.text;
  },
  async auto() {
    const result = await generateText({ ...ask, tools });
    assert.equal(result.finishReason, "tool-calls");
    assert.deepEqual(callsOf(result), [ANSWERED]);
    return callsOf(result);
  },
  async required() {
    const calls = callsOf(await generateText({ ...ask, tools, toolChoice: "required" }));
    assert.ok(calls.length > 0);
    return calls;
  },
  async named() {
    const toolChoice = { type: "tool", toolName: "get_weather" };
    const calls = callsOf(await generateText({ ...ask, tools, toolChoice }));
    assert.equal(calls.length, 1);
    return calls;
  },
  async none() {
    const result = await generateText({ ...ask, tools, toolChoice: "none" });
    assert.equal(result.toolCalls.length, 0);
    assert.ok(result.text);
    return result.text;
  },
  // The package has no option for `parallel_tool_calls`: only several calls at once are tried.
  async parallel() {
    const two = { ...ask, prompt: TWO_CITIES, tools, toolChoice: "required" };
    const result = await generateText(two);
    const calls = callsOf(result);
    assert.ok(calls.length > 1, JSON.stringify(calls));
    assert.equal(new Set(result.toolCalls.map((call) => call.toolCallId)).size, calls.length);
    return calls;
  },
  async stream() {
    const result = streamText({ ...ask, tools });
    const kinds = new Set();
    for await (const part of result.fullStream) kinds.add(part.type);
    for (const kind of ["tool-input-start", "tool-input-delta", "tool-call", "finish"]) {
      assert.ok(kinds.has(kind), [...kinds].join(" "));
    }
    const calls = callsOf({ toolCalls: await result.toolCalls });
    assert.deepEqual(calls, [ANSWERED]);
    assert.ok((await result.usage).outputTokens > 0);
    return calls;
  },
  async stream__text() {
    const result = streamText({ ...ask, prompt: report.GREETING });
    let text = "";
    for await (const piece of result.textStream) text += piece;
    assert.equal(text, await result.text);
    assert.ok(text);
    return text;
  },
  async reasoning_on() {
    const result = await generateText({ ...ask, tools, ...think("low") });
    assert.ok(result.reasoningText);
    assert.ok(!result.text.includes("<think>"));
    assert.ok(result.usage.outputTokenDetails.reasoningTokens > 0);
    return [result.reasoningText, callsOf(result)];
  },
  async reasoning_on__stream() {
    const result = streamText({ ...ask, tools, ...think("low") });
    let text = "";
    for await (const part of result.fullStream) {
      if (part.type === "reasoning-delta") text += part.text;
    }
    assert.ok(text);
    return text;
  },
  async reasoning_off() {
    const result = await generateText({ ...ask, tools, ...think("none") });
    assert.ok(!result.reasoningText);
    return callsOf(result);
  },
  async round_trip() {
    const result = await generateText({ ...ask, tools: telling, stopWhen: isStepCount(4) });
    assert.equal(result.steps.length, 2);
    assert.ok(result.text.includes("14"), result.text);
    assert.ok(result.steps[1].usage.inputTokenDetails.cacheReadTokens > 50);
    return result.text;
  },
  async round_trip__reasoning() {
    const stopWhen = isStepCount(4);
    const result = await generateText({ ...ask, tools: telling, stopWhen, ...think("low") });
    assert.ok(result.text.includes("14"), result.text);
    return result.text;
  },
  async round_trip__typed() {
    const schema = z.object({ city: z.string(), rainy: z.boolean() });
    const result = await generateText({ ...ask, output: Output.object({ schema }) });
    return schema.parse(result.output);
  },
  async error() {
    try {
      await generateText({ ...ask, tools, topP: 3 });
    } catch (refusal) {
      assert.equal(refusal.statusCode, 400);
      const { error } = JSON.parse(refusal.responseBody);
      assert.equal(error.param, "/top_p");
      return error.type;
    }
    throw new Error("it was not refused");
  },
  async cancel() {
    await report.cancelling(async () => {
      const leaving = new AbortController();
      const result = streamText({
        ...ask,
        tools: { write_text: tool({ description: "Write a long text.", inputSchema: LONG }) },
        toolChoice: "required",
        maxOutputTokens: 1500,
        abortSignal: leaving.signal,
      });
      for await (const part of result.fullStream) {
        if (part.type === "tool-input-delta") leaving.abort();
      }
    });
    return (await generateText({ ...ask, tools })).finishReason;
  },
};

await report.report(scenarios);
