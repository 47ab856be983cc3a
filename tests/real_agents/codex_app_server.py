"""What a person does in Codex's ``/hooks``, over Codex's own interface: look at the hooks, and trust them."""

import json
import subprocess
from typing import Any

CLIENT = {"name": "test-client", "title": "test client", "version": "1"}


class AppServer:
    """``codex app-server`` on pipes: requests and answers, one JSON object a line."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen([*command, "app-server"], env=env, text=True, bufsize=1, **pipes)
        self._sent = 0
        self.ask("initialize", clientInfo=CLIENT, capabilities={"experimentalApi": True})
        self._send({"method": "initialized"})

    def ask(self, method: str, **params: Any) -> Any:
        self._sent += 1
        self._send({"id": self._sent, "method": method, "params": params})
        for line in self._process.stdout or ():
            answer = json.loads(line)
            if answer.get("id") == self._sent:
                return answer["result"]
        raise AssertionError(f"codex app-server ended without an answer to {method}")

    def hooks(self, cwd: str) -> list[dict[str, Any]]:
        """Every hook that Codex sees from a folder; nothing about them may be odd to it."""
        (found,) = self.ask("hooks/list", cwds=[cwd])["data"]
        assert found["warnings"] + found["errors"] == []
        return list(found["hooks"])

    def trust(self, hooks: list[dict[str, Any]]) -> None:
        state = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in hooks}
        edit = {"keyPath": "hooks.state", "value": state, "mergeStrategy": "upsert"}
        assert self.ask("config/batchWrite", edits=[edit])["status"] == "ok"

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
