"""What holds on every admin page: who gets in, what is text, what is only read."""

import html
import re
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django_q.models import OrmQ, Task
from django_q.tasks import async_task, schedule

from coffer import audit, paths, preferences
from coffer.models import AuditEntry
from gateway.models import Invocation
from memory.files import markdown
from memory.services import facts, journal, rules, stores
from tests.admin.conftest import Admin, shown
from tests.factories import write_files

PROJECT = "project-01ARZ3NDEKTSV4RRFFQ69G5FAV"
XSS = '"><img src=x onerror=alert(1)>'


def test_without_a_session_no_page_tells_anything(home: Path) -> None:
    facts.remember(stores.provision("global"), "A secret conclusion.", actor="agent")
    for name in ("index", "memory_store_changelist", "memory_document_changelist", "coffer_auditentry_changelist"):
        answer = Client().get(reverse(f"admin:{name}"), follow=True)
        assert "secret" not in answer.content.decode()
    sent = Client().post(reverse("admin:memory_document_act", args=["delete"]), {"keys": "[]"})
    assert sent.status_code in (302, 401, 403)


def test_a_user_without_rights_sees_and_does_nothing(home: Path) -> None:
    saved = facts.remember(stores.provision("global"), "A secret conclusion.", actor="agent")
    browser = Client()
    browser.force_login(User.objects.create_user("guest", is_staff=True))
    for name, arguments in (
        ("memory_document_changelist", ()),
        ("memory_document_change", ("global", saved.id)),
        ("memory_store_lane", ("global", "rules")),
        ("coffer_preference_changelist", ()),
    ):
        answer = browser.get(reverse(f"admin:{name}", args=arguments))
        assert (answer.status_code, "secret" in answer.content.decode()) == (403, False)


def test_a_form_without_its_token_is_refused(home: Path) -> None:
    saved = facts.remember(stores.provision("global"), "Kept.", actor="agent")
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(User.objects.create_superuser("owner"))
    for name, arguments, fields in (
        ("memory_document_act", ("delete",), {"keys": f'["global/{saved.id}"]'}),
        ("memory_document_change", ("global", saved.id), {"text": "Forged."}),
        ("memory_store_change", ("global",), {"label": "Forged"}),
        ("memory_store_lane", ("global", "rules"), {"verb": "add", "text": "Forged."}),
        ("coffer_preference_changelist", (), {"preferred_editor": "vim"}),
    ):
        assert browser.post(reverse(f"admin:{name}", args=arguments), fields).status_code == 403
    assert facts.get(stores.get("global"), saved.id).text == "Kept."


def test_the_first_page_begins_with_memory_and_a_search(site: Admin) -> None:
    page = shown(site.get("index"))
    assert page.index("Find a fact or topic") < page.index("Facts and topics") < page.index("Audit entries")
    assert "Recent actions" not in page
    assert "Users" not in page


def test_BC_055_every_field_that_somebody_else_chose_comes_out_as_text(site: Admin) -> None:
    store = stores.provision(PROJECT)
    facts.remember(store, f"Text {XSS}", actor="agent", title=XSS, description=XSS, session=XSS)
    rules.append(store, f"Rule {XSS}", origin=XSS, new=True)
    journal.append(store, f"Entry {XSS}", agent="x", session="y")
    file = XSS.replace("/", "")
    scene = markdown.dump({"branch": XSS, "commit": "", "updated_at": ""}, f"Scene {XSS}")
    write_files(
        paths.store(PROJECT),
        {f"knowledge/{file}.md": f"Topic {XSS}", f"handoff/{file}.md": scene, f"superseded/{file}.md": f"Old {XSS}"},
    )
    audit.record("odd", ref=XSS, store=XSS[:40], actor=XSS[:10])
    Invocation.objects.create(tool=XSS[:40], agent=XSS, outcome=XSS, ms=1)
    stores.set_label(store, XSS)
    fact = next(fact for fact in facts.page(store)[0] if fact.kind == "fact")
    pages = [
        site.get("index"),
        site.get("memory_store_changelist", q=XSS),
        site.get("memory_document_changelist", q=XSS),
        site.get("memory_document_changelist", store=PROJECT, kind=XSS),
        site.get("memory_document_changelist", nonsense=XSS),
        site.get("memory_document_change", PROJECT, fact.id),
        site.get("memory_document_change", PROJECT, file),
        site.get("memory_document_change", PROJECT, XSS),
        site.get("memory_document_add", store=XSS),
        site.post("memory_document_add", fields={"store": XSS, "text": XSS}),
        site.get("memory_store_change", PROJECT),
        site.get("memory_store_change", XSS),
        site.get("memory_store_lane", PROJECT, XSS),
        site.post("memory_store_change", PROJECT, fields={"label": XSS * 10}),
        site.get("coffer_auditentry_changelist", q=XSS),
        site.get("gateway_invocation_changelist", q=XSS, agent__exact=XSS),
        site.get("coffer_auditentry_change", str(AuditEntry.objects.get(event="odd").pk)),
        site.get("gateway_invocation_change", str(Invocation.objects.get().pk)),
        *(site.get("memory_store_lane", PROJECT, lane) for lane in ("rules", "journal", "handoff", "superseded")),
        *(site.get("memory_document_act", verb, key=f"{PROJECT}/{fact.id}") for verb in ("delete", "move", "erase")),
        site.get("memory_document_act", XSS),
        site.get("memory_store_act", "clear", key=PROJECT),
        site.get("memory_store_item", PROJECT, "handoff", key=file),
        site.get("memory_store_item", PROJECT, "superseded", key=f"{file}.md"),
        site.get("memory_store_item", PROJECT, "journal", key=journal.days(store)[0].period),
        site.get("memory_store_item", PROJECT, "journal", key=XSS),
    ]
    assert not [page for page in pages if "<img src=x" in page]
    assert sum(XSS in html.unescape(page) for page in pages) > 20


def test_what_reorders_a_line_is_spelled_out_in_lists(site: Admin) -> None:
    facts.remember(stores.provision("global"), "Text.", actor="agent", title="safe\u202egnp.exe")
    page = site.get("memory_document_changelist")
    assert "safe[U+202E]gnp.exe" in page
    assert "\u202e" not in page


@pytest.mark.parametrize("app", ["coffer_auditentry", "gateway_invocation"])
def test_ledgers_are_read_filtered_and_searched_but_never_written(site: Admin, app: str) -> None:
    audit.record("fact_added", store="global", ref="01ARZ", actor="agent", characters=7)
    Invocation.objects.create(tool="coffer__recall", agent="codex", project="global", outcome="ok", items=3, ms=12)
    page = site.get(f"{app}_changelist")
    assert "1 " in shown(page)
    assert "fact_added" in page or "coffer__recall" in page
    assert "_selected_action" not in page
    assert "0 " in shown(site.get(f"{app}_changelist", q="nowhere"))
    browser = site._client
    (row,) = (AuditEntry if app == "coffer_auditentry" else Invocation).objects.all()
    for verb, arguments in (("add", ()), ("delete", (row.pk,))):
        assert browser.post(reverse(f"admin:{app}_{verb}", args=arguments), {"post": "yes"}).status_code == 403
    assert browser.post(reverse(f"admin:{app}_change", args=(row.pk,)), {"event": "x"}).status_code == 403


def test_a_preference_is_chosen_through_its_service(site: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    known = preferences.KNOWN[0]
    value = next(value for value in known.allowed if value != known.default)
    assert "Saved" in shown(site.post("coffer_preference_changelist", fields={known.name: value}))
    assert preferences.get(known.name) == value
    assert AuditEntry.objects.filter(event="preference_set").count() == 1
    assert "Select a valid choice" in shown(site.post("coffer_preference_changelist", fields={known.name: "rm -rf"}))
    monkeypatch.setenv(known.setting, known.default)
    assert "change it there" in shown(site.get("coffer_preference_changelist"))
    site.post("coffer_preference_changelist", fields={known.name: value})
    assert preferences.get(known.name) == known.default
    monkeypatch.setenv(known.setting, "nonsense")
    assert "nonsense" in shown(site.get("coffer_preference_changelist"))


def test_the_task_queue_is_looked_at_and_nobody_names_a_function_to_be_called(site: Admin) -> None:
    planned = schedule("memory.jobs.organize", "global", name="organize global", schedule_type="O")
    async_task("memory.jobs.organize", "global", task_name="waits")
    now = timezone.now()
    done = {"func": "memory.jobs.organize", "started": now, "stopped": now, "args": ("global",)}
    Task.objects.create(id="a" * 32, name="went well", success=True, **done)
    Task.objects.create(id="b" * 32, name="went wrong", success=False, result="Refused: no model", **done)
    waiting = OrmQ.objects.get()
    rows = {"schedule": planned.pk, "success": "a" * 32, "failure": "b" * 32, "ormq": waiting.pk}
    for name, key in rows.items():
        assert "Tasks" in shown(site.get(f"django_q_{name}_changelist"))
        assert "memory.jobs.organize" in shown(site.get(f"django_q_{name}_change", str(key)))
        add, change = reverse(f"admin:django_q_{name}_add"), reverse(f"admin:django_q_{name}_change", args=[key])
        for address in (add, change):
            assert site._client.post(address, {"func": "os.abort", "name": "x"}).status_code == 403
    assert "Refused: no model" in shown(site.get("django_q_failure_changelist"))
    assert (
        site._client.post(reverse("admin:django_q_schedule_delete", args=[planned.pk]), {"post": "yes"}).status_code
        == 403
    )
    for name in ("failure", "ormq"):
        site.post(f"django_q_{name}_delete", str(rows[name]), fields={"post": "yes"})
    assert not OrmQ.objects.exists()
    assert Task.objects.get().name == "went well"


def test_every_cell_of_a_list_names_its_column_for_screens_that_have_no_room_for_a_head(site: Admin) -> None:
    facts.remember(stores.provision("global"), "Run `make test` first.", actor="agent")
    page = site.get("memory_document_changelist")
    assert re.findall(r'<td data-label="([^"]+)"', page) == ["Store", "Kind", "Actor", "Updated"]
    assert page.count("<td data-empty") == 1  # nothing needs a look
    assert "Run <code>make test</code> first." in page
    audit.record("fact_added", store="global", ref="01ARZ", actor="agent")
    for name in ("coffer_auditentry", "memory_store"):
        assert "data-label=" in site.get(f"{name}_changelist")
