// What the scripts for Node share. A script gives `run` its package and its checks by name; each gets
// the server's address (http://HOST:PORT).

import { isDeepStrictEqual } from "node:util";
import { readFileSync } from "node:fs";

export const MODEL = "scripted";
export const QUESTION = [{ role: "user", content: "Who is it?" }];
export const PERSON = { name: "Ann", age: 7 };
export const TEXT = '{"name":"Ann","age":7}';
export const TOOL = { type: "function", function: { name: "User", parameters: {
  type: "object", properties: { name: { type: "string" }, age: { type: "integer" } },
  required: ["name", "age"] } } };

export async function run(name, checks) {
  const client = `npm ${name} ${version(name)}`;
  let failed = 0;
  for (const [check, body] of Object.entries(checks)) {
    try {
      await body(process.argv[2]);
      console.log(`ok     ${client}: ${check}`);
    } catch (error) {
      failed += 1;
      const reason = String(error.message).replace(/\s+/g, " ").slice(0, 400);
      console.log(`FAILED ${client}: ${check}: ${error.name}: ${reason}`);
      console.error(error);
    }
  }
  process.exit(failed ? 1 : 0);
}

export function equal(got, want) {
  if (!isDeepStrictEqual(got, want)) {
    throw new Error(`got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
  }
}

// From the file: packages need not export it.
function version(name) {
  const file = new URL(`./node_modules/${name}/package.json`, import.meta.url);
  return JSON.parse(readFileSync(file)).version;
}
