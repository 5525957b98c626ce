// The published original's own session store, driven from outside.
// node sessions.mjs read <root>: one JSON line a session: its id, events, and fold.
// node sessions.mjs write <root>: make the sessions described by the JSON lines on stdin.
import { createInterface } from "node:readline";
import { Context } from "@deepseek-ai/cordis";
import * as schedule from "@deepseek-ai/dsh-schedule";
import SessionStore from "@deepseek-ai/dsh-session";
import Persistence from "@deepseek-ai/dsh-session-persistence-jsonl";

const [command, root, packChunks] = process.argv.slice(2);
const context = new Context();
await context.plugin(SessionStore);
await context.plugin(Persistence, { root, compression: "none", packChunks: packChunks === "packed" });

function report(id, events, seedLength) {
  const line = { id, events: events.length, seedLength };
  try {
    const fold = schedule.foldScheduleEvents(events, seedLength);
    const records = [...(fold.active.values?.() ?? fold.active)];
    line.active = records.map((record) => record.id ?? record[0]);
    line.seen = [...(fold.seenIds ?? fold.seen)];
  } catch (error) {
    line.error = error.constructor.name;
  }
  console.log(JSON.stringify(line));
}

async function read() {
  for (const header of await context.sessionPersistence.list()) {
    const loaded = await context.sessionPersistence.inspect(header.id);
    report(header.id, loaded.events, loaded.meta.seedLength ?? 0);
  }
}

async function write() {
  for await (const line of createInterface({ input: process.stdin })) {
    const life = JSON.parse(line);
    const session = life.parent
      ? context.sessions.fork(life.parent, undefined, life.id)
      : context.sessions.create(life.id, { meta: {} });
    for (const change of life.changes) {
      session.append("schedule/change", change);
      if (Math.random() < 0.3) await context.sessions.flush(session);
    }
    if (!(await context.sessions.flush(session))) throw new Error("not flushed");
    report(life.id, session.events, session.header.seedLength ?? 0);
  }
}

await (command === "read" ? read() : write());
process.exit(0);
