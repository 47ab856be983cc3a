"""A person who uses the real agents: a scratch home with settings of their own, a repository, a model on loopback."""

import hashlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory.services import stores
from tests.processes import Machine, machine  # noqa: F401
from tests.real_agents import programs
from tests.real_agents.codex_app_server import AppServer
from tests.real_agents.mock_model import MockModel

# What agents write down of their own sessions, and of what they were told there.
RECORDS = (
    *(".claude/projects", ".claude/backups", ".claude/plugins", ".claude/session-env", ".cache", ".npm", ".local"),
    *(".codex/sessions", ".codex/logs", ".codex/tmp", ".config/opencode/node_modules", ".bun"),
)
CLAUDE_STATE = '{\n    "numStartups": 3,\n    "hasCompletedOnboarding": true,\n    "note": "ü"\n}'
CLAUDE_SETTINGS = '{\n   "permissions": {"allow": ["Bash(ls)"]},\n   "hooks": {"Stop": []}\n}'
CODEX_CONFIG = """\
# mine
model = "mock-model"   # the best
model_provider = "mock"

[model_providers.mock]
name = "mock"
base_url = "{url}/v1"
env_key = "MOCK_KEY"
wire_api = "responses"
"""
OPENCODE_CONFIG = """\
{{
  // mine
  "$schema": "https://opencode.ai/config.json",
  "model": "mock/mock-model",
  "autoupdate": false,
  "share": "disabled",
  "provider": {{
    "mock": {{
      "npm": "@ai-sdk/openai-compatible",
      "options": {{"baseURL": "{url}/v1", "apiKey": "mock"}},
      "models": {{"mock-model": {{"name": "Mock"}}}},
    }},
  }},
}}
"""


class Person:
    """Runs agents and ``coffer`` in a scratch home; ``model`` keeps what the agents were sent with."""

    def __init__(self, machine: Machine, model: MockModel, repo: Path, bin_folder: Path) -> None:  # noqa: F811
        self.machine, self.model, self.repo = machine, model, repo
        self.home = Path(machine.env["HOME"])
        machine.env["PATH"] = f"{bin_folder}:{machine.env['PATH']}"
        self.configure("COFFER_PORT=0")
        self._env = {
            "PATH": machine.env["PATH"],
            "HOME": str(self.home),
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "sk-ant-mock0000",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "MOCK_KEY": "mock",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "npm_config_cache": str(bin_folder.parents[1] / "npm"),  # OpenCode fetches a package for every new home
        }
        self._write(".claude.json", CLAUDE_STATE)
        self._write(".claude/settings.json", CLAUDE_SETTINGS)
        self._write(".codex/config.toml", CODEX_CONFIG.format(url=model.url))
        self._write(".config/opencode/opencode.jsonc", OPENCODE_CONFIG.format(url=model.url))
        slug = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in str(repo))
        for name in (
            *(".claude/CLAUDE.md", ".codex/AGENTS.md", ".codex/memories/notes.md", ".config/opencode/AGENTS.md"),
            f".claude/projects/{slug}/memory/MEMORY.md",
        ):
            self._write(name, f"- Words of mine in {name}.\n")
        for name in ("CLAUDE.md", "AGENTS.md"):
            (repo / name).write_text("- Words of ours.\n", encoding="utf-8")

    def run(self, agent: str, prompt: str = "Say hello.") -> float:
        """One session of an agent, which must end well; the seconds until its model was asked first."""
        words = {
            "claude_code": ["claude", "-p", prompt, "--allowedTools", "mcp__coffer__coffer__remember"],
            "codex": ["codex", "exec", "--skip-git-repo-check", prompt],
            "opencode": ["opencode", "run", prompt],
        }[agent]
        self.model.forget()
        began = time.monotonic()
        done = subprocess.run(
            words,
            env=self._env,
            cwd=self.repo,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "A reply of the mock model." in done.stdout
        return self.model.asked_at[0] - began

    def coffer(self, *words: str) -> str:
        """A command of Coffer, which must end well; what it printed."""
        done = self.machine.coffer(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def configure(self, *lines: str) -> None:
        """Write Coffer's config.env."""
        file = self.machine.home / "config.env"
        file.touch(0o600)
        file.write_text("\n".join(lines), encoding="utf-8")

    def trust_hooks(self) -> list[str]:
        """Do what ``/hooks`` does in Codex; the trust of each hook before."""
        server = AppServer(["codex"], self._env)
        try:
            hooks = server.hooks(str(self.repo))
            server.trust(hooks)
            assert {hook["trustStatus"] for hook in server.hooks(str(self.repo))} == {"trusted"}
        finally:
            server.close()
        return [hook["trustStatus"] for hook in hooks]

    def store(self) -> str:
        """The name of the repository's store."""
        project = stores.locate(str(self.repo)).project
        assert project is not None
        return project.store

    def native(self) -> dict[str, str]:
        """The files that are instructions or memory of the agents themselves, with their hashes."""
        places = [self.home / ".claude", self.home / ".codex", self.home / ".config", self.repo]
        files = [file for place in places for file in place.rglob("*.md") if "node_modules" not in file.parts]
        own = [file for file in files if not {"skills", "plugins", "vendor_imports"} & set(file.parts)]
        return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(own)}

    def traces(self) -> list[str]:
        """Files of the home that have to do with Coffer, by name or content, but for the agents' own records."""
        found = []
        for file in sorted(self.home.rglob("*")):
            name = file.relative_to(self.home).as_posix()
            if name.startswith(RECORDS) or not file.is_file():
                continue
            if "coffer" in name.lower() or (not _is_database(file) and b"coffer" in file.read_bytes().lower()):
                found.append(name)
        return found

    def _write(self, name: str, text: str) -> None:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _is_database(file: Path) -> bool:
    return ".sqlite" in file.name


@pytest.fixture(scope="session")
def bin_folder() -> Path:
    return programs.folder()


@pytest.fixture
def model() -> Iterator[MockModel]:
    found = MockModel()
    yield found
    found.close()


@pytest.fixture
def person(
    machine: Machine,  # noqa: F811
    model: MockModel,
    make_repo: Callable[..., Path],
    bin_folder: Path,
) -> Person:
    return Person(machine, model, make_repo("widget", remote="git@git.example.org:acme/widget.git"), bin_folder)
