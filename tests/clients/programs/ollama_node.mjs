// The ollama package from npm.

import assert from "node:assert/strict";

import { Ollama } from "ollama";

import * as report from "./report.mjs";
import { ANSWERED, QUESTION, TOLD, TWO_CITIES } from "./report.mjs";

const client = new Ollama({ host: report.URL });
const parameters = {
  type: "object",
  properties: {
    city: { type: "string", description: "the name of the city" },
    day: { type: "string", enum: ["today", "tomorrow"] },
    unit: { type: "string", enum: ["celsius", "fahrenheit"] },
  },
  required: ["city", "day", "unit"],
};
const makeTool = (name, description, parameters) => ({
  type: "function",
  function: { name, description, parameters },
});
const tools = [makeTool("get_weather", report.DESCRIPTION, parameters)];
const user = (content) => [{ role: "user", content }];
const ask = { model: "demo", options: { temperature: 0, num_predict: 300 } };
const callsOf = (message) => (message.tool_calls ?? []).map((call) => call.function.arguments);

const scenarios = {
  async plain() {
    const { message } = await client.chat({ ...ask, messages: user(report.GREETING) });
    const { response } = await client.generate({ ...ask, prompt: report.GREETING });
    assert.ok(message.content);
    assert.equal(response, message.content);
    return response;
  },
  async plain__models() {
    const { models } = await client.list();
    const { capabilities, model_info } = await client.show({ model: "demo" });
    assert.ok(capabilities.includes("tools"));
    assert.ok(model_info[`${model_info["general.architecture"]}.context_length`] > 0);
    assert.equal((await client.ps()).models.length, 1);
    return models.map(({ name }) => name);
  },
  async auto() {
    const { message } = await client.chat({ ...ask, messages: user(QUESTION), tools });
    assert.deepEqual(callsOf(message), [ANSWERED]);
    return callsOf(message);
  },
  async parallel() {
    const { message } = await client.chat({ ...ask, messages: user(TWO_CITIES), tools });
    assert.ok(callsOf(message).length > 1);
    return callsOf(message);
  },
  async stream() {
    const calls = [];
    let last;
    const chunks = await client.chat({ ...ask, messages: user(QUESTION), tools, stream: true });
    for await (const chunk of chunks) {
      calls.push(...callsOf(chunk.message));
      last = chunk;
    }
    assert.deepEqual(calls, [ANSWERED]);
    assert.ok(last.done && last.eval_count > 0);
    return calls;
  },
  async reasoning_on() {
    const { message } = await client.chat({ ...ask, messages: user(QUESTION), think: "low" });
    assert.ok(message.thinking);
    return message;
  },
  async reasoning_off() {
    const { message } = await client.chat({ ...ask, messages: user(QUESTION), tools, think: false });
    assert.ok(!message.thinking);
    return callsOf(message);
  },
  async round_trip() {
    const first = await client.chat({ ...ask, messages: user(QUESTION), tools });
    const result = { role: "tool", tool_name: "get_weather", content: TOLD };
    const messages = [...user(QUESTION), first.message, result];
    const { message } = await client.chat({ ...ask, messages, tools });
    assert.ok(message.content.includes("14"), message.content);
    return message.content;
  },
  async round_trip__typed() {
    const { message } = await client.chat({ ...ask, messages: user(QUESTION), format: parameters });
    const { city, day, unit } = JSON.parse(message.content);
    return [city, day, unit];
  },
  async error() {
    const options = { temperature: -1 };
    const refused = client.chat({ ...ask, messages: user(QUESTION), options });
    await assert.rejects(refused, (error) => error.status_code === 400);
    return "refused";
  },
  async cancel() {
    const options = { ...ask.options, num_predict: 1500 };
    await report.cancelling(async () => {
      // Ollama's API has whole calls only; an answer is streamed.
      const request = { ...ask, options, messages: user(QUESTION), format: report.LONG_TEXT };
      const chunks = await client.chat({ ...request, stream: true });
      await assert.rejects(async () => {
        for await (const _ of chunks) chunks.abort();
      });
    });
    return (await client.chat({ ...ask, messages: user(report.GREETING) })).done_reason;
  },
};

await report.report(scenarios);
