"""Every acceptance scenario of specification 007-memory, by its name, and where it stands.

``covered``: a test is marked with it. ``open``: not built yet, the reason says what it waits for. ``changed``: covered,
but the program does otherwise than the specification says, for the reason given.
"""

from typing import Literal, NamedTuple

SPEC = "007-memory"


class Scenario(NamedTuple):
    name: str
    status: Literal["covered", "open", "changed"]
    reason: str = ""


SCENARIOS = (
    Scenario("project memory follows the repository across checkout paths", "covered"),
    Scenario("agent remembers a project fact", "covered"),
    Scenario("agent recalls a project fact", "covered"),
    Scenario(
        "recall spans project and global scope",
        "changed",
        "FR-009 joins stores by reciprocal rank fusion; one ranking over one index with a project weight finds more",
    ),
    Scenario("remembered items are stored in the knowledge lane", "covered"),
    Scenario("remember at global scope", "covered"),
    Scenario(
        "project scope resolves from the agent's working directory",
        "changed",
        "the store's folder is made by its first write, never by a session start or a read",
    ),
    Scenario("out-of-band fact-file edits are visible on recall", "covered"),
    Scenario("user adds a fact", "changed", "added over REST or the command line; the viewer is read-only"),
    Scenario("user corrects a fact out-of-band", "covered"),
    Scenario(
        "user deletes a fact", "changed", "the file goes to superseded/ and can be restored, unless asked otherwise"
    ),
    Scenario(
        "read-only viewer offers open/reveal affordances",
        "changed",
        "the path can be copied too; there is no desktop program, the daemon opens and reveals for its pages",
    ),
    Scenario("clear a memory scope", "changed", "the files go to superseded/ and can be restored"),
    Scenario("user renames a memory store", "covered"),
    Scenario("built-in memory tools appear in client tool list", "covered"),
    Scenario("vector recall falls back when embedding is unconfigured", "covered"),
    Scenario(
        "agent saves and resumes a working-state handoff",
        "changed",
        "a scene before that loses a line is archived in superseded/ rather than overwritten without a trace",
    ),
    Scenario("resume reports no handoff for a fresh branch", "covered"),
    Scenario(
        "distill-transcript-to-memory",
        "changed",
        "what memory says already is not written again; sessions of Gemini CLI, Copilot CLI, OpenClaw and Hermes are "
        "read too where they record a working directory, and OpenCode's from its databases",
    ),
    Scenario("browse an agent's transcript history with title, search, and sort", "covered"),
    Scenario("the organizer drains the inbox into a topic document", "covered"),
    Scenario("organizing merges a note into an existing topic without clobbering it", "covered"),
    Scenario("organize is a no-op when no internal model is configured", "covered"),
    Scenario("a topic document recalls at passage granularity", "covered"),
    Scenario("the reorg pass consolidates duplicate topic documents", "covered"),
    Scenario("reorg never destroys content — a superseded topic stays recoverable", "covered"),
    Scenario("reorg is a no-op when no internal model is configured", "covered"),
    Scenario("固化 promotes a recurring journal pattern into a knowledge topic", "covered"),
    Scenario("固化 promotes a recurring imperative pattern into the rules lane", "covered"),
    Scenario("memory is auto-organized after the store goes idle", "covered"),
    Scenario("the organizer routes a rule-shaped note into the rules lane", "covered"),
    Scenario("the rules read surface returns the stored rules", "covered"),
    Scenario("journal lane entries are readable for a store", "covered"),
    Scenario("handoff scenes are listed per branch for a store", "covered"),
    Scenario("the consolidation changelog is readable for a store", "covered"),
    Scenario("rules bundle is injected at session start as context only", "covered"),
    Scenario("the bundle carries the two seeded built-in rules", "covered"),
    Scenario(
        "session-end distils the closed session into the journal",
        "changed",
        "the route queues and answers at once; Codex has an event for the end of a session since 0.145, and uses it",
    ),
    Scenario("a failed or hook-less injection never blocks the agent", "covered"),
    Scenario("disable_native_memory turns native memory off and restores it", "covered"),
    Scenario("merge scan proposes same-project stores", "covered"),
    Scenario("merge scan degrades cleanly without an internal engine", "covered"),
    Scenario(
        "merging two stores consolidates additively and retires the source",
        "changed",
        "entries are joined by time and content, not by time alone; the source is kept in retired/, for an undo",
    ),
    Scenario("a merged identity resolves to the surviving store", "covered"),
)
