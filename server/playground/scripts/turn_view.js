/* One turn of the model, drawn once a frame however fast its tokens come. */

const ENDINGS = { length: "cut off: the tokens ran out", content_filter: "filtered" };

class TurnView {
  constructor(tools) {
    this.tools = tools;
    this.content = "";
    this.reasoning = "";
    this.calls = [];
    this.finish = null;
    this.usage = null;
    this.timings = null;
    this.trace = null;
    this.element = make("article", "turn model");
    this.element.append(make("div", "who", "model"));
    this.isScheduled = false;
    this.drawn = { content: 0, reasoning: 0 };
  }

  get isEmpty() {
    return !this.content && !this.reasoning && !this.calls.length;
  }

  take(chunk) {
    if (chunk.usage) this.usage = chunk.usage;
    if (chunk.timings) this.timings = chunk.timings;
    if (chunk.trace) this.trace = chunk.trace;
    for (const { delta, finish_reason: finish } of chunk.choices || []) {
      if (finish) this.finish = finish;
      this.add(delta || {});
    }
    this.schedule();
  }

  /* A delta of a stream, or a whole message. */
  add(delta) {
    this.reasoning += delta.reasoning_content || delta.reasoning || "";
    this.content += delta.content || "";
    for (const [at, call] of (delta.tool_calls || []).entries()) {
      const index = call.index ?? at;
      while (this.calls.length <= index) this.calls.push(new CallCard(this.tools));
      this.calls[index].add(call);
    }
  }

  schedule() {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => { this.isScheduled = false; this.draw(); });
  }

  draw() {
    const log = byId("log");
    const follows = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
    if (this.reasoning && !this.reasoningText) {
      const details = make("details", "reasoning");
      details.append(make("summary", "", "Reasoning"), this.reasoningText = make("div"));
      this.element.append(details);
    }
    if (this.content && !this.contentText) this.element.append(this.contentText = make("div", "content"));
    for (const part of ["reasoning", "content"]) this.drawRest(part);
    for (const call of this.calls) {
      call.draw();
      if (!call.element.isConnected) this.element.append(call.element);
    }
    if (follows) log.scrollTop = log.scrollHeight;
  }

  /* What is there stays: only the rest is added. */
  drawRest(part) {
    const rest = this[part].slice(this.drawn[part]);
    if (!rest) return;
    const target = this[`${part}Text`];
    if (target.lastChild) target.lastChild.appendData(rest);
    else target.append(rest);
    this.drawn[part] = this[part].length;
  }

  /* The line below: how the turn ended, its tokens, its time. */
  describe(seconds) {
    const parts = [this.finish ? ENDINGS[this.finish] : "stopped"];
    if (this.usage) {
      const { prompt_tokens: prompt, completion_tokens: reply, prompt_tokens_details: details } = this.usage;
      parts.push(`prompt ${prompt} tokens (${details?.cached_tokens || 0} from the cache), reply ${reply}`);
    }
    const rate = this.timings?.predicted_per_second;
    parts.push(`${seconds.toFixed(2)} s${rate ? `, ${rate.toFixed(0)} tokens/s` : ""}`);
    return parts.filter(Boolean).join(" \u00b7 ");
  }

  /* Draws what belongs to a complete turn: the verdicts, and the line with its buttons. */
  close({ facts, verdicts }, buttons) {
    this.draw();
    for (const [at, call] of this.calls.entries()) call.showVerdict(verdicts?.[at]);
    const footer = make("div", "row facts");
    footer.append(make("span", "quiet", facts), ...buttons);
    this.element.append(footer);
  }

  message() {
    const message = { role: "assistant", content: this.content };
    if (this.reasoning) message.reasoning_content = this.reasoning;
    if (this.calls.length) message.tool_calls = this.calls.map((call) => call.toJson());
    return message;
  }
}
