// The `openai` package of npm against the scripted model.

import OpenAI from "openai";

import { MODEL, PERSON, QUESTION, TEXT, TOOL, equal, run } from "./checks.mjs";

const client = (base) => new OpenAI({ baseURL: `${base}/v1`, apiKey: "none", maxRetries: 0 });
const chat = (base, options) =>
  client(base).chat.completions.create({ model: MODEL, messages: QUESTION, ...options });

await run("openai", {
  async "lists models"(base) {
    const models = await client(base).models.list();
    equal(models.data.map((model) => model.id), [MODEL]);
  },
  async "chat"(base) {
    const response = await chat(base, { max_completion_tokens: 64 });
    equal([response.choices[0].message.content, response.choices[0].finish_reason], [TEXT, "stop"]);
  },
  async "streamed chat"(base) {
    const options = { stream: true, stream_options: { include_usage: true } };
    let text = "";
    let usage = null;
    for await (const chunk of await chat(base, options)) {
      text += chunk.choices[0]?.delta.content ?? "";
      usage = chunk.usage ?? usage;
    }
    equal([text, usage.completion_tokens > 0], [TEXT, true]);
  },
  async "stream gathered by its runner"(base) {
    const stream = client(base).chat.completions.stream({ model: MODEL, messages: QUESTION });
    equal(await stream.finalContent(), TEXT);
  },
  async "tool call"(base) {
    const response = await chat(base, { tools: [TOOL], tool_choice: "auto" });
    const [call] = response.choices[0].message.tool_calls;
    equal([call.function.name, JSON.parse(call.function.arguments)], ["User", PERSON]);
  },
  async "runTools"(base) {
    const called = [];
    const known = { type: "function", function: { ...TOOL.function, parse: JSON.parse,
      function: (person) => { called.push(person); return "known"; } } };
    const runner = client(base).chat.completions.runTools(
      { model: MODEL, messages: QUESTION, tools: [known] });
    equal([await runner.finalContent(), called], [TEXT, [PERSON]]);
  },
  async "parse with a JSON schema"(base) {
    const schema = { ...TOOL.function.parameters, additionalProperties: false };
    const response = await client(base).chat.completions.parse({
      model: MODEL, messages: QUESTION,
      response_format: { type: "json_schema", json_schema: { name: "User", strict: true, schema } } });
    equal(JSON.parse(response.choices[0].message.content), PERSON);
  },
  async "completion"(base) {
    const response = await client(base).completions.create(
      { model: MODEL, prompt: "Hello", max_tokens: 4, temperature: 0 });
    equal([response.choices[0].text, response.choices[0].finish_reason], ['""""', "length"]);
  },
  async "embeddings"(base) {
    const response = await client(base).embeddings.create({ model: MODEL, input: ["a", "b"] });
    equal(response.data.length, 2);
    equal(response.data[0].embedding.every(Number.isFinite), true);
  },
  async "responses"(base) {
    const response = await client(base).responses.create({ model: MODEL, input: "Who is it?" });
    equal(response.output_text, TEXT);
  },
  async "unknown model"(base) {
    const error = await chat(base, { model: "other" }).then(() => null, (error) => error);
    equal([error instanceof OpenAI.NotFoundError, error?.status], [true, 404]);
  },
});
