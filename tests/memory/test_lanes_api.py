"""The lanes over REST: shapes, emptiness, errors, and names that lead nowhere."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from coffer import paths
from coffer.models import AuditEntry
from memory.models import Store
from memory.services import facts, journal, rules, stores
from tests.conftest import Api
from tests.factories import StoreFactory

PROJECT = "project-01ARZ3NDEKTSV4RRFFQ69G5FAV"
UNKNOWN = "project-01ARZ3NDEKTSV4RRFFQ69G5FAX"
URL = f"/memory_stores/{PROJECT}"
LANES = ("rules", "journal", "handoff", "consolidation-log", "superseded")


@pytest.fixture
def store() -> Store:
    made: Store = StoreFactory(
        name=PROJECT,
        files={
            "rules/rules.md": "- Never push tags. <!-- from 01A; new -->\n",
            "journal/2026-11-29.md": "# 2026-11-29\n\nQuiet.\n",
            "handoff/main.md": "---\nbranch: main\nupdated_at: 2026-11-30T10:00:00Z\n---\n\nHalfway.\n",
            "consolidation-log.md": "- 2026-11-30T10:00:00Z merged\n",
        },
    )
    journal.append(made, "Busy.", agent="codex", at=datetime(2026, 11, 30, tzinfo=UTC))
    return made


def code(answer: object) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]  # type: ignore[attr-defined]


def test_empty_lanes_are_empty_answers_and_make_nothing(api: Api) -> None:
    folder = str(paths.memory() / "global")
    expected = {
        "rules": {"text": None, "rules": []},
        "journal": {"files": [], "total": 0},
        "handoff": {"scenes": [], "total": 0},
        "consolidation-log": {"text": None, "path": f"{folder}/consolidation-log.md", "folder_path": folder},
        "superseded": {"superseded": [], "total": 0},
    }
    for lane in LANES:
        answer = api.get(f"/memory_stores/global/{lane}")
        assert (answer.status_code, answer.json()) == (200, expected[lane])
    assert not paths.memory().exists()


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("name", [UNKNOWN, "nonsense", PROJECT.lower(), "global%0a"])
def test_a_store_that_is_not_there_is_404(api: Api, lane: str, name: str) -> None:
    assert code(api.get(f"/memory_stores/{name}/{lane}")) == (404, "MEMORY_STORE_NOT_FOUND")
    assert not paths.memory().exists()


def test_rules_are_read_kept_and_removed(api: Api, store: Store) -> None:
    answer = api.get(f"{URL}/rules").json()
    (rule,) = answer["rules"]
    assert answer["text"] == "- Never push tags. <!-- from 01A; new -->"
    assert rule == {
        "id": rule["id"],
        "text": "Never push tags.",
        "path": str(stores.folder(store) / "rules" / "rules.md"),
        "origin": "01A",
        "new": True,
    }
    assert api.post(f"{URL}/rules/{rule['id']}/keep").json() == {**rule, "new": False}
    assert api.delete(f"{URL}/rules/{rule['id']}").status_code == 204
    assert api.get(f"{URL}/rules").json() == {"text": None, "rules": []}
    assert code(api.delete(f"{URL}/rules/{rule['id']}")) == (404, "MEMORY_NOT_FOUND")
    assert set(AuditEntry.objects.filter(event__startswith="rule_").values_list("event", "actor")) == {
        ("rule_kept", "user"),
        ("rule_removed", "user"),
    }


def test_the_journal_is_newest_first_and_a_day_can_be_removed(api: Api, store: Store) -> None:
    answer = api.get(f"{URL}/journal").json()
    folder = stores.folder(store) / "journal"
    assert [file["period"] for file in answer["files"]] == ["2026-11-30", "2026-11-29"]
    assert answer["files"][1] == {
        "period": "2026-11-29",
        "text": "# 2026-11-29\n\nQuiet.",
        "path": str(folder / "2026-11-29.md"),
        "folder_path": str(folder),
    }
    assert api.delete(f"{URL}/journal/2026-11-29").status_code == 204
    assert api.get(f"{URL}/journal").json()["total"] == 1


def test_scenes_are_listed_and_removed(api: Api, store: Store) -> None:
    folder = stores.folder(store) / "handoff"
    assert api.get(f"{URL}/handoff").json() == {
        "scenes": [
            {
                "branch": "main",
                "slug": "main",
                "text": "Halfway.",
                "updated_at": "2026-11-30T10:00:00Z",
                "path": str(folder / "main.md"),
                "folder_path": str(folder),
            }
        ],
        "total": 1,
    }
    assert api.delete(f"{URL}/handoff/main").status_code == 204
    assert api.get(f"{URL}/handoff").json() == {"scenes": [], "total": 0}


def test_what_was_deleted_is_listed_and_restored(api: Api, store: Store) -> None:
    api.delete(f"{URL}/handoff/main")
    (kept,) = api.get(f"{URL}/superseded").json()["superseded"]
    assert {key: kept[key] for key in ("lane", "path", "why")} == {
        "lane": "handoff",
        "path": "handoff/main.md",
        "why": "deleted",
    }
    assert Path(kept["archived_path"]).read_text().endswith("Halfway.\n")
    answer = api.post(f"{URL}/superseded/{kept['file']}/restore", X_Coffer_Actor="agent")
    place = stores.folder(store) / "handoff" / "main.md"
    assert answer.json() == {"path": str(place), "folder_path": str(place.parent)}
    assert AuditEntry.objects.get(event="superseded_restored").actor == "agent"
    assert code(api.post(f"{URL}/superseded/{kept['file']}/restore")) == (404, "MEMORY_NOT_FOUND")


STRANGE = [
    "..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", "....//", "..%5c", "%00", "x%0a", "x" * 10_000, "store.yaml",
    "index.jsonl", "main.md", "%F0%9F%98%80",
]  # fmt: skip


@pytest.mark.parametrize("name", STRANGE)
def test_bc_150_names_in_lane_routes_lead_nowhere(api: Api, store: Store, name: str, home: Path) -> None:
    facts.delete(store, facts.add(store, "Something.").id)
    before = {path: path.read_bytes() for path in paths.memory().rglob("*") if path.is_file()}
    for method, route in (
        ("DELETE", f"rules/{name}"),
        ("POST", f"rules/{name}/keep"),
        ("DELETE", f"journal/{name}"),
        ("DELETE", f"handoff/{name}"),
        ("POST", f"superseded/{name}/restore"),
    ):
        answer = api.call(method, f"{URL}/{route}")
        assert answer.status_code in (404, 405, 422), route
        assert str(home) not in answer.content.decode()
    assert {path: path.read_bytes() for path in paths.memory().rglob("*") if path.is_file()} == before


def test_bc_067_a_link_in_a_lane_is_neither_served_nor_removed(api: Api, store: Store, tmp_path: Path) -> None:
    secret = tmp_path / "config.md"
    secret.write_text("- Host secret.example\n")
    folder = stores.folder(store)
    for relative in ("handoff/evil.md", "rules/evil.md", "journal/2026-01-01.md", "superseded/evil.md"):
        (folder / relative).parent.mkdir(exist_ok=True)
        (folder / relative).symlink_to(secret)
    (folder / "consolidation-log.md").unlink()
    (folder / "consolidation-log.md").symlink_to(secret)
    for lane in LANES:
        assert "secret.example" not in api.get(f"{URL}/{lane}").content.decode()
    for route in ("handoff/evil", "journal/2026-01-01"):
        assert code(api.delete(f"{URL}/{route}")) == (404, "MEMORY_NOT_FOUND")
    assert code(api.post(f"{URL}/superseded/evil.md/restore")) == (404, "MEMORY_NOT_FOUND")
    assert secret.read_text() == "- Host secret.example\n"


def test_bc_056_what_is_no_page_of_a_lane_is_served_by_no_route(api: Api, store: Store) -> None:
    folder = stores.folder(store)
    for name in ("evil.html", "evil.svg", "x.md.html"):
        (folder / "handoff" / name).write_text("<script>alert(1)</script>")
    assert api.get(f"{URL}/handoff").json()["total"] == 1
    for name in ("evil.html", "evil.svg", "x.md.html", "evil", "x.md"):
        assert api.delete(f"{URL}/handoff/{name}").status_code == 404


def test_bc_055_markup_in_names_is_data_in_json_that_no_browser_takes_for_a_page(api: Api, store: Store) -> None:
    evil = '"><img src=x onerror=alert(1)>'
    (stores.folder(store) / "handoff" / "evil.md").write_text(f"---\nbranch: '{evil}'\n---\n{evil}\n")
    rules.append(store, evil)
    for lane in ("handoff", "rules"):
        answer = api.get(f"{URL}/{lane}")
        assert answer.headers["Content-Type"].startswith("application/json")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert evil in str(answer.json())
    refused = api.delete(f"{URL}/handoff/{evil.replace('/', '')}")
    assert refused.headers["Content-Type"].startswith("application/json")
    assert refused.headers["X-Content-Type-Options"] == "nosniff"


def test_lanes_ask_for_the_token(client: object) -> None:
    for lane in LANES:
        assert client.get(f"/api/v1{URL}/{lane}").status_code == 401  # type: ignore[attr-defined]
