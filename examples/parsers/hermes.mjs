// A parser of Hermes JSON behind a pipe: constrained suite --cmd "node hermes.mjs" --format hermes
import { createInterface } from "node:readline";

const CALL = /<tool_call>(.*?)<\/tool_call>/gs;

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  const answer = { id: request.id };
  if (request.hello) {
    answer.can = ["content"];
  } else {
    answer.content = request.text.replace(CALL, "");
    answer.calls = [...request.text.matchAll(CALL)].map((call) => JSON.parse(call[1]));
  }
  console.log(JSON.stringify(answer));
}
