// LangGraph from npm: its agent, with a model of @langchain/openai over both APIs.

import assert from "node:assert/strict";

import { tool } from "@langchain/core/tools";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { ChatOpenAI } from "@langchain/openai";
import { z } from "zod";

import * as report from "./report.mjs";
import { ANSWERED, QUESTION, TOLD, TWO_CITIES } from "./report.mjs";

const APIS = [{ useResponsesApi: false }, { useResponsesApi: true }];
const WEATHER = z.object({
  city: z.string().describe("the name of the city"),
  day: z.enum(["today", "tomorrow"]),
  unit: z.enum(["celsius", "fahrenheit"]),
});
const DAY = z.object({ city: z.string(), rainy: z.boolean() });
const weather = tool(() => TOLD, {
  name: "get_weather",
  description: report.DESCRIPTION,
  schema: WEATHER,
});

/** The model over each of the two APIs. */
const models = (options = {}) =>
  APIS.map(
    (api) =>
      new ChatOpenAI({
        model: "demo",
        apiKey: "none",
        temperature: 0,
        maxTokens: 300,
        maxRetries: 0,
        configuration: { baseURL: `${report.URL}/v1` },
        ...api,
        ...options,
      }),
  );

async function callsOf(question, choice) {
  const found = [];
  for (const model of models()) {
    const reply = await model.bindTools([weather], { tool_choice: choice }).invoke(question);
    assert.equal(reply.invalid_tool_calls.length, 0);
    found.push(reply.tool_calls.map((call) => WEATHER.parse(call.args)));
  }
  return found;
}

const scenarios = {
  async plain() {
    const replies = [];
    for (const model of models()) replies.push((await model.invoke(report.GREETING)).text);
    assert.ok(replies.every(Boolean));
    return replies;
  },
  async auto() {
    const calls = await callsOf(QUESTION, "auto");
    assert.deepEqual(calls, [[ANSWERED], [ANSWERED]]);
    return calls;
  },
  async required() {
    const calls = await callsOf(QUESTION, "required");
    assert.ok(calls.every((some) => some.length));
    return calls;
  },
  async named() {
    const calls = await callsOf(QUESTION, "get_weather");
    assert.ok(calls.every((some) => some.length === 1));
    return calls;
  },
  // Over Responses, the package leaves this choice out.
  async none() {
    const reply = await models()[0].bindTools([weather], { tool_choice: "none" }).invoke(QUESTION);
    assert.equal(reply.tool_calls.length, 0);
    return reply.text;
  },
  async parallel() {
    const calls = await callsOf(TWO_CITIES, "required");
    assert.ok(calls.every((some) => some.length > 1));
    return calls;
  },
  async stream() {
    const found = [];
    for (const llm of models()) {
      const agent = createReactAgent({ llm, tools: [weather] });
      let text = "";
      const messages = [{ role: "user", content: QUESTION }];
      const events = await agent.stream({ messages }, { streamMode: "messages" });
      for await (const [chunk] of events) text += chunk.getType() === "ai" ? chunk.text : "";
      assert.ok(text.includes("14"), text);
      found.push(text);
    }
    return found;
  },
  async round_trip() {
    const found = [];
    for (const llm of models()) {
      const agent = createReactAgent({ llm, tools: [weather] });
      const { messages } = await agent.invoke({ messages: [{ role: "user", content: QUESTION }] });
      assert.deepEqual(messages[1].tool_calls[0].args, ANSWERED);
      assert.ok(messages.at(-1).text.includes("14"), messages.at(-1).text);
      found.push(messages.at(-1).text);
    }
    return found;
  },
  async round_trip__typed() {
    const found = [];
    for (const model of models()) {
      for (const method of ["jsonSchema", "functionCalling"]) {
        const typed = model.withStructuredOutput(DAY, { method, name: "day" });
        found.push(DAY.parse(await typed.invoke(QUESTION)));
      }
    }
    return found;
  },
  async error() {
    for (const model of models({ topP: 3 })) {
      await assert.rejects(model.invoke(QUESTION), { status: 400, param: "/top_p" });
    }
    return "/top_p";
  },
  async cancel() {
    const [llm] = models({ maxTokens: 1500 });
    const schema = report.LONG_TEXT;
    const write = { type: "function", function: { name: "write_text", parameters: schema } };
    await report.cancelling(async () => {
      const leaving = new AbortController();
      const writing = llm.bindTools([write], { tool_choice: "required" });
      const chunks = await writing.stream(QUESTION, { signal: leaving.signal });
      await assert.rejects(async () => {
        for await (const _ of chunks) leaving.abort();
      });
    });
    return (await llm.invoke(report.GREETING)).response_metadata.finish_reason;
  },
};

await report.report(scenarios);
