// openai from npm: Chat Completions and Responses, with its helpers for streams, parsing and tools.

import assert from "node:assert/strict";

import OpenAI from "openai";
import { zodFunction, zodResponseFormat, zodResponsesFunction, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

import * as report from "./report.mjs";
import { ANSWERED, QUESTION, TOLD, TWO_CITIES } from "./report.mjs";

const client = new OpenAI({ baseURL: `${report.URL}/v1`, apiKey: "none", maxRetries: 0 });
const WEATHER = z.object({
  city: z.string().describe("the name of the city"),
  day: z.enum(["today", "tomorrow"]),
  unit: z.enum(["celsius", "fahrenheit"]),
});
const DAY = z.object({ city: z.string(), rainy: z.boolean() });
const weather = { name: "get_weather", description: report.DESCRIPTION, parameters: WEATHER };
const tools = [zodFunction(weather)];
const long = { name: "write_text", description: "Write a long text.", parameters: report.LONG_TEXT };
const say = (text) => [{ role: "user", content: text }];
const ask = { model: "demo", messages: say(QUESTION), temperature: 0, max_tokens: 300 };
const respond = { model: "demo", input: QUESTION, temperature: 0, max_output_tokens: 300 };

const complete = (fields) => client.chat.completions.parse({ ...ask, tools, ...fields });

function callsOf(message) {
  return (message.tool_calls ?? []).map((call) => {
    assert.equal(call.function.name, "get_weather");
    return WEATHER.parse(call.function.parsed_arguments);
  });
}

const scenarios = {
  async plain() {
    const reply = await client.chat.completions.create({ ...ask, messages: say(report.GREETING) });
    assert.equal(reply.choices[0].finish_reason, "stop");
    assert.ok(reply.usage.prompt_tokens > 0);
    assert.ok(reply.choices[0].message.content);
    return reply.choices[0].message.content;
  },
  async plain__responses() {
    const response = await client.responses.create({ ...respond, input: report.GREETING });
    assert.equal(response.status, "completed");
    assert.ok(response.output_text);
    return response.output_text;
  },
  async auto() {
    const reply = await complete();
    assert.equal(reply.choices[0].finish_reason, "tool_calls");
    assert.deepEqual(callsOf(reply.choices[0].message), [ANSWERED]);
    return callsOf(reply.choices[0].message);
  },
  async required() {
    const reply = await complete({ tool_choice: "required" });
    const calls = callsOf(reply.choices[0].message);
    assert.ok(calls.length > 0);
    return calls;
  },
  async named() {
    const choice = { type: "function", function: { name: "get_weather" } };
    const reply = await complete({ tool_choice: choice });
    const calls = callsOf(reply.choices[0].message);
    assert.equal(calls.length, 1);
    return calls;
  },
  async none() {
    const { message } = (await complete({ tool_choice: "none" })).choices[0];
    assert.deepEqual(callsOf(message), []);
    assert.ok(message.content);
    return message.content;
  },
  async parallel() {
    const two = { messages: say(TWO_CITIES), tool_choice: "required" };
    const one = (await complete({ ...two, parallel_tool_calls: false })).choices[0].message;
    assert.equal(callsOf(one).length, 1);
    const several = (await complete(two)).choices[0].message;
    const calls = callsOf(several);
    assert.ok(calls.length > 1, JSON.stringify(calls));
    assert.equal(new Set(several.tool_calls.map((call) => call.id)).size, calls.length);
    return calls;
  },
  async stream() {
    const counts = { chunk: 0, delta: 0, done: 0 };
    const fields = { stream_options: { include_usage: true } };
    const stream = client.chat.completions.stream({ ...ask, tools, ...fields });
    stream.on("chunk", () => counts.chunk++);
    stream.on("tool_calls.function.arguments.delta", () => counts.delta++);
    stream.on("tool_calls.function.arguments.done", () => counts.done++);
    const reply = await stream.finalChatCompletion();
    assert.ok(counts.chunk > 3 && counts.delta > 1, JSON.stringify(counts));
    assert.equal(counts.done, 1);
    assert.ok(reply.usage.completion_tokens > 0);
    assert.deepEqual(callsOf(reply.choices[0].message), [ANSWERED]);
    return callsOf(reply.choices[0].message);
  },
  async stream__text() {
    const stream = client.chat.completions.stream({ ...ask, messages: say(report.GREETING) });
    let text = "";
    stream.on("content", (delta) => (text += delta));
    assert.equal(await stream.finalContent(), text);
    assert.ok(text);
    return text;
  },
  async stream__responses() {
    const kinds = new Set();
    const stream = client.responses.stream({ ...respond, tools: [zodResponsesFunction(weather)] });
    for await (const event of stream) kinds.add(event.type);
    for (const kind of ["created", "function_call_arguments.delta", "completed"]) {
      assert.ok(kinds.has(`response.${kind}`), [...kinds].join(" "));
    }
    const response = await stream.finalResponse();
    const call = response.output.find((item) => item.type === "function_call");
    assert.deepEqual(call.parsed_arguments, ANSWERED);
    return call.parsed_arguments;
  },
  async reasoning_on() {
    const reply = await complete({ reasoning_effort: "low" });
    const { message } = reply.choices[0];
    assert.ok(reply.usage.completion_tokens_details.reasoning_tokens > 0);
    assert.ok(message.reasoning_content);
    return [message.reasoning_content, callsOf(message)];
  },
  async reasoning_off() {
    const reply = await complete({ reasoning_effort: "none" });
    const { message } = reply.choices[0];
    assert.equal(reply.usage.completion_tokens_details.reasoning_tokens, 0);
    assert.ok(!message.reasoning_content);
    return callsOf(message);
  },
  async round_trip() {
    const runner = runTools();
    const answer = await runner.finalContent();
    const results = runner.messages.filter((message) => message.role === "tool");
    assert.deepEqual(results.map((message) => message.content), [TOLD]);
    assert.ok(answer.includes("14"), answer);
    return answer;
  },
  async round_trip__stream() {
    const runner = runTools({ stream: true });
    let text = "";
    runner.on("content", (delta) => (text += delta));
    const answer = await runner.finalContent();
    assert.ok(answer.includes("14"), answer);
    assert.ok(text.includes(answer), text);
    return answer;
  },
  async round_trip__responses() {
    const fields = { ...respond, tools: [zodResponsesFunction(weather)] };
    const asked = await client.responses.parse(fields);
    const call = asked.output.find((item) => item.type === "function_call");
    const told = { type: "function_call_output", call_id: call.call_id, output: TOLD };
    const going = { ...fields, previous_response_id: asked.id, input: [told] };
    const response = await client.responses.parse(going);
    assert.ok(response.output_text.includes("14"), response.output_text);
    return response.output_text;
  },
  async round_trip__typed() {
    const reply = await complete({ tools: [], response_format: zodResponseFormat(DAY, "day") });
    const text = { format: zodTextFormat(DAY, "day") };
    const response = await client.responses.parse({ ...respond, text });
    return [DAY.parse(reply.choices[0].message.parsed), DAY.parse(response.output_parsed)];
  },
  async error() {
    const refused = (refusal) => refusal.status === 400 && refusal.param === "/tool_choice";
    await assert.rejects(complete({ tool_choice: "sometimes" }), refused);
    return "refused";
  },
  async cancel() {
    await report.cancelling(async () => {
      const stream = await client.chat.completions.create({
        ...ask,
        tools: [{ type: "function", function: long }],
        tool_choice: "required",
        max_tokens: 1500,
        stream: true,
      });
      for await (const _ of stream) break;
    });
    return callsOf((await complete()).choices[0].message);
  },
};

/** The package's loop: it runs the tool until the model answers. */
function runTools(fields) {
  const telling = zodFunction({ ...weather, function: () => TOLD });
  const limit = { maxChatCompletions: 4 };
  return client.chat.completions.runTools({ ...ask, tools: [telling], ...fields }, limit);
}

await report.report(scenarios);
