// The AI SDK (`ai` of npm, with @ai-sdk/openai-compatible) against the scripted model.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Output, embedMany, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

import { MODEL, PERSON, TEXT, equal, run } from "./checks.mjs";

const user = z.object({ name: z.string(), age: z.number().int() });
const provider = (base, options) =>
  createOpenAICompatible({ name: "terrace", baseURL: `${base}/v1`, ...options });
const asked = (base, options) => ({
  model: provider(base, { supportsStructuredOutputs: true, includeUsage: true })(MODEL),
  prompt: "Who is it?", maxRetries: 0, ...options });

await run("ai", {
  async "generateText"(base) {
    const response = await generateText(asked(base));
    equal([response.text, response.finishReason, response.usage.outputTokens > 0], [TEXT, "stop", true]);
  },
  async "streamText"(base) {
    const response = streamText(asked(base));
    let text = "";
    for await (const delta of response.textStream) text += delta;
    equal([text, (await response.usage).outputTokens > 0], [TEXT, true]);
  },
  async "output as an object"(base) {
    const response = await generateText(asked(base, { output: Output.object({ schema: user }) }));
    equal(response.output, PERSON);
  },
  async "output as an object, streamed"(base) {
    const response = streamText(asked(base, { output: Output.object({ schema: user }) }));
    let last = null;
    for await (const object of response.partialOutputStream) last = object;
    equal(last, PERSON);
  },
  async "output as an object without a schema's support"(base) {
    const model = provider(base)(MODEL);
    const options = asked(base, { model, output: Output.object({ schema: user }) });
    equal((await generateText(options)).output, PERSON);
  },
  async "tool call"(base) {
    const response = await generateText(asked(base, { tools: { User: tool({ inputSchema: user }) } }));
    equal(response.toolCalls.map((call) => [call.toolName, call.input]), [["User", PERSON]]);
  },
  async "tool call that must come, streamed"(base) {
    const tools = { User: tool({ inputSchema: user }) };
    const response = streamText(asked(base, { tools, toolChoice: "required" }));
    const calls = await response.toolCalls;
    equal(calls.map((call) => [call.toolName, call.input]), [["User", PERSON]]);
  },
  async "two steps with a tool's result"(base) {
    const tools = { User: tool({ inputSchema: user, execute: async () => "known" }) };
    const response = await generateText(asked(base, { tools, stopWhen: stepCountIs(2) }));
    equal([response.steps.length, response.text], [2, TEXT]);
  },
  async "embedMany"(base) {
    const model = provider(base).embeddingModel(MODEL);
    const response = await embedMany({ model, values: ["a", "b"], maxRetries: 0 });
    equal(response.embeddings.length, 2);
  },
});
