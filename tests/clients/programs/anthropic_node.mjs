// The Anthropic SDK from npm: messages, its tool runner, and the helpers of its beta.

import assert from "node:assert/strict";

import Anthropic from "@anthropic-ai/sdk";
import { betaZodOutputFormat, betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { z } from "zod";

import * as report from "./report.mjs";
import { ANSWERED, QUESTION, TOLD, TWO_CITIES } from "./report.mjs";

const client = new Anthropic({ baseURL: report.URL, apiKey: "none", maxRetries: 0 });
const WEATHER = z.object({
  city: z.string().describe("the name of the city"),
  day: z.enum(["today", "tomorrow"]),
  unit: z.enum(["celsius", "fahrenheit"]),
});
const DAY = z.object({ city: z.string(), rainy: z.boolean() });
const input_schema = z.toJSONSchema(WEATHER);
const tools = [{ name: "get_weather", description: report.DESCRIPTION, input_schema }];
const user = (content) => [{ role: "user", content }];
const ask = { model: "demo", max_tokens: 300, temperature: 0, messages: user(QUESTION) };
const textOf = (message) => message.content.map((block) => block.text ?? "").join("");
const callsOf = (message) =>
  message.content
    .filter((block) => block.type === "tool_use")
    .map((block) => WEATHER.parse(block.input));

function makeRunner(calls, options = {}) {
  const weather = betaZodTool({
    name: "get_weather",
    description: report.DESCRIPTION,
    inputSchema: WEATHER,
    run: (given) => {
      calls.push(given);
      return [{ type: "text", text: TOLD }];
    },
  });
  return client.beta.messages.toolRunner({ ...ask, tools: [weather], max_iterations: 3, ...options });
}

const scenarios = {
  async plain() {
    const message = await client.messages.create({ ...ask, messages: user(report.GREETING) });
    assert.equal(message.stop_reason, "end_turn");
    assert.ok(textOf(message));
    return textOf(message);
  },
  async plain__counts() {
    const { max_tokens, temperature, ...counted } = ask;
    const { input_tokens } = await client.messages.countTokens({ ...counted, tools });
    const { usage } = await client.messages.create({ ...ask, tools });
    const read = usage.cache_read_input_tokens + usage.cache_creation_input_tokens;
    assert.equal(usage.input_tokens + read, input_tokens);
    const models = [];
    for await (const model of client.models.list()) models.push(model.id);
    assert.deepEqual(models, ["demo"]);
    return [input_tokens, (await client.models.retrieve("demo")).display_name];
  },
  async auto() {
    const message = await client.messages.create({ ...ask, tools });
    assert.equal(message.stop_reason, "tool_use");
    assert.deepEqual(callsOf(message), [ANSWERED]);
    return callsOf(message);
  },
  async required() {
    const message = await client.messages.create({ ...ask, tools, tool_choice: { type: "any" } });
    assert.ok(callsOf(message).length > 0);
    return callsOf(message);
  },
  async named() {
    const tool_choice = { type: "tool", name: "get_weather" };
    const message = await client.messages.create({ ...ask, tools, tool_choice });
    assert.equal(callsOf(message).length, 1);
    return callsOf(message);
  },
  async none() {
    const message = await client.messages.create({ ...ask, tools, tool_choice: { type: "none" } });
    assert.equal(callsOf(message).length, 0);
    return textOf(message);
  },
  async parallel() {
    const two = { ...ask, messages: user(TWO_CITIES), tools };
    const several = await client.messages.create({ ...two, tool_choice: { type: "any" } });
    assert.ok(callsOf(several).length > 1);
    const tool_choice = { type: "any", disable_parallel_tool_use: true };
    const one = await client.messages.create({ ...two, tool_choice });
    assert.equal(callsOf(one).length, 1);
    return callsOf(several);
  },
  async stream() {
    const stream = client.messages.stream({ ...ask, tools });
    let text = "";
    stream.on("inputJson", (part) => (text += part));
    const message = await stream.finalMessage();
    assert.deepEqual(JSON.parse(text), ANSWERED);
    assert.ok(message.usage.output_tokens > 0);
    return callsOf(message);
  },
  async reasoning_on() {
    const thinking = { type: "enabled", budget_tokens: 1024 };
    const { max_tokens, temperature, ...bare } = ask;
    const message = await client.messages.create({ ...bare, max_tokens: 1500, tools, thinking });
    assert.equal(message.content[0].type, "thinking");
    assert.ok(message.content[0].signature);
    return callsOf(message).length > 0;
  },
  async reasoning_off() {
    const message = await client.messages.create({ ...ask, tools, thinking: { type: "disabled" } });
    assert.ok(message.content.every((block) => block.type !== "thinking"));
    return callsOf(message);
  },
  async round_trip() {
    const calls = [];
    const message = await makeRunner(calls);
    assert.deepEqual(calls, [ANSWERED]);
    assert.ok(textOf(message).includes("14"), textOf(message));
    return textOf(message);
  },
  async round_trip__streamed() {
    const calls = [];
    const texts = [];
    for await (const stream of makeRunner(calls, { stream: true })) {
      texts.push(textOf(await stream.finalMessage()));
    }
    assert.deepEqual(calls, [ANSWERED]);
    assert.ok(texts.at(-1).includes("14"), texts.at(-1));
    return texts;
  },
  // Headers and fields of the beta that have no effect here are no error.
  async round_trip__beta() {
    const calls = [];
    const edits = [{ type: "clear_tool_uses_20250919" }];
    const message = await makeRunner(calls, {
      betas: ["context-management-2025-06-27", "fine-grained-tool-streaming-2025-05-14"],
      context_management: { edits },
      metadata: { user_id: "a" },
      service_tier: "auto",
    });
    assert.deepEqual(calls, [ANSWERED]);
    assert.deepEqual(message.constrained.ignored_fields, ["context_management"]);
    return textOf(message);
  },
  async round_trip__typed() {
    const output_format = betaZodOutputFormat(DAY);
    const message = await client.beta.messages.parse({ ...ask, output_format });
    return DAY.parse(message.parsed_output);
  },
  async error() {
    const refused = client.messages.create({ ...ask, tools, tool_choice: { type: "sometimes" } });
    await assert.rejects(refused, { status: 400, type: "invalid_request_error" });
    const absent = client.messages.batches.create({ requests: [] });
    await assert.rejects(absent, (error) => error.status === 404 && /batches/.test(error.message));
    return "refused";
  },
  async cancel() {
    const write = { name: "write_text", input_schema: report.LONG_TEXT };
    await report.cancelling(async () => {
      const stream = client.messages.stream({
        ...ask,
        tools: [write],
        tool_choice: { type: "any" },
        max_tokens: 1500,
      });
      stream.on("inputJson", () => stream.abort());
      await assert.rejects(stream.finalMessage());
    });
    return (await client.messages.create(ask)).stop_reason;
  },
};

await report.report(scenarios);
