"""Codex's own server, as far as hooks go: it lists those in hooks.json with a hash of each, and answers nothing else.

FAKE_CODEX says how it fails: ``silent`` reads and never answers, ``dies`` ends at once, ``old`` knows no such method.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

HOME = Path(os.environ.get("CODEX_HOME") or Path(os.environ["HOME"]) / ".codex")
NAMES = {"SessionStart": "session_start", "SessionEnd": "session_end", "UserPromptSubmit": "user_prompt_submit"}


def listed() -> list[dict[str, str]]:
    data = json.loads((HOME / "hooks.json").read_text(encoding="utf-8"))
    return [
        {
            "key": f"{HOME}/hooks.json:{NAMES[event]}:{place}:{number}",
            "command": hook["command"],
            "currentHash": f"sha256:{hashlib.sha256(json.dumps([event, hook], sort_keys=True).encode()).hexdigest()}",
        }
        for event, groups in data["hooks"].items()
        for place, group in enumerate(groups)
        for number, hook in enumerate(group["hooks"])
    ]


def main() -> None:
    how = os.environ.get("FAKE_CODEX", "")
    if how == "dies" or sys.argv[1:] != ["app-server"]:
        sys.exit(1)
    for line in sys.stdin:
        message = json.loads(line)
        if how == "silent":
            time.sleep(60)
        if "id" not in message:
            continue
        answer = {"error": {"code": -32601, "message": "method not found"}}
        if message["method"] == "initialize":
            answer = {"result": {"codexHome": str(HOME)}}
        elif message["method"] == "hooks/list" and how != "old":
            answer = {"result": {"data": [{"cwd": message["params"]["cwds"][0], "hooks": listed()}]}}
        sys.stdout.write(json.dumps({"id": message["id"], **answer}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
