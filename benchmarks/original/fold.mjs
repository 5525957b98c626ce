// Read one session log to its fold with the published packages; prints seconds and active reminders.
// node fold.mjs <folder of node_modules> <live | full | stream> <log>
//   live    as the product resumes a session: its own load of the log, then its fold
//   full    JSON.parse of each line, every event kept, its fold
//   stream  the least that a reader can keep: the schedule events, its fold
import { createReadStream, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [packages, manner, log] = process.argv.slice(2);
const found = createRequire(join(resolve(packages), "from-here.js"));
const load = async (name) => import(pathToFileURL(found.resolve(`@deepseek-ai/${name}`)).href);
const { foldScheduleEvents } = await load("dsh-schedule");

async function live() {
  const { Context } = await load("cordis");
  const context = new Context();
  await context.plugin((await load("dsh-session")).default);
  const persistence = (await load("dsh-session-persistence-jsonl")).default;
  const folder = dirname(resolve(log));
  await context.plugin(persistence, { root: dirname(dirname(folder)), compression: "none" });
  return async () => (await context.sessionPersistence.load(basename(folder))).events;
}

async function full() {
  const events = [];
  const lines = readFileSync(log, "utf8").split("\n");
  for (let index = 1; index < lines.length; index++) {
    if (lines[index] !== "") events.push(JSON.parse(lines[index]));
  }
  return events;
}

async function stream() {
  const events = [];
  let isHeader = true;
  for await (const line of createInterface({ input: createReadStream(log) })) {
    if (!isHeader && line !== "") {
      const event = JSON.parse(line);
      if (event.type === "schedule/change") events.push(event);
    }
    isHeader = false;
  }
  return events;
}

const read = manner === "live" ? await live() : { full, stream }[manner];
const started = performance.now();
const folded = foldScheduleEvents(await read());
const seconds = (performance.now() - started) / 1000;
console.log(JSON.stringify({ seconds, active: folded.active.size ?? folded.active.length }));
process.exit(0);
