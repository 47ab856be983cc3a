// Written by `coffer connect`; `coffer disconnect` removes it.
// Adds what Coffer remembers to the system prompt of each session; it stays silent whenever anything goes wrong.
import { spawn } from "node:child_process"

const COMMAND = __COMMAND__
const LIMIT = 2500 // milliseconds; the command itself ends within 2 s

function ask(sessionID, cwd) {
  return new Promise((resolve) => {
    let out = ""
    const child = spawn(COMMAND[0], COMMAND.slice(1), { cwd, stdio: ["pipe", "pipe", "ignore"] })
    const timer = setTimeout(() => child.kill("SIGKILL"), LIMIT)
    const done = (text) => {
      clearTimeout(timer)
      resolve(text)
    }
    child.on("error", () => done(""))
    child.on("close", () => {
      try {
        done(JSON.parse(out).hookSpecificOutput.additionalContext || "")
      } catch {
        done("")
      }
    })
    child.stdout.on("data", (data) => (out += data))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify({ session_id: sessionID, cwd, hook_event_name: "SessionStart" }))
  })
}

export const CofferPlugin = async ({ directory }) => {
  const answers = new Map() // one question for each session, as its system prompt is built anew at every request
  return {
    "experimental.chat.system.transform": async (input, output) => {
      const id = (input && input.sessionID) || ""
      if (!answers.has(id)) answers.set(id, ask(id, directory))
      const text = await answers.get(id)
      if (text) output.system.push(text)
    },
  }
}
