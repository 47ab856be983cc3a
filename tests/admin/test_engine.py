"""Connections to models in the admin: saved through the service, tested with a button; calls only to be read."""

import pytest

from coffer import connections, llm
from coffer.models import AuditEntry, LlmCall, LlmConnection
from tests.admin.conftest import Admin, shown
from tests.fake_llm import FakeLlm, fail

FAR = "https://models.example.org/v1"
FIELDS = {
    "name": "far",
    "base_url": FAR,
    "model": "m",
    "key": "",
    "use_it": "yes",
    "may_organize": "",
    "may_distill": "",
}


def test_a_connection_elsewhere_is_saved_with_nothing_allowed_and_says_what_it_would_send(site: Admin) -> None:
    page = shown(site.post("coffer_llmconnection_add", fields=FIELDS))
    assert "It may not organize until you allow it. To organize it sends new notes" in page
    assert "models.example.org" in page
    row = LlmConnection.objects.get()
    assert (row.is_default, row.allow_organize, row.allow_distill) == (True, False, False)
    assert AuditEntry.objects.get().event == "connection_added"


def test_each_use_is_allowed_by_itself_and_anew_for_another_host(site: Admin) -> None:
    saved = connections.add("far", base_url=FAR, model="m")
    at = str(saved.id)
    site.post("coffer_llmconnection_change", at, fields={**FIELDS, "may_organize": "yes", "may_distill": "no"})
    assert (connections.get(saved.id).allow_organize, connections.get(saved.id).allow_distill) == (True, False)
    moved = {**FIELDS, "base_url": "https://other.example.org/v1", "may_organize": "yes", "may_distill": "no"}
    page = shown(site.post("coffer_llmconnection_change", at, fields=moved))
    assert connections.get(saved.id).allow_organize is False
    assert "to other.example.org" in page


def test_a_model_on_this_machine_may_do_everything_at_once(site: Admin) -> None:
    site.post("coffer_llmconnection_add", fields={**FIELDS, "base_url": "http://localhost:11434/v1"})
    assert llm.model("organize") == llm.model("distill") == "m"


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("base_url", "ftp://x", "must be an http or https address"),
        ("base_url", "https://me:pass@x.example.org", "holds a password"),
        ("key", "a-key-itself", "by reference"),
        ("name", "environment", "printable characters"),
    ],
)
def test_a_wrong_field_is_told_beside_it(site: Admin, field: str, value: str, told: str) -> None:
    page = shown(site.post("coffer_llmconnection_add", fields={**FIELDS, field: value}))
    assert told in page
    assert not LlmConnection.objects.exists()


def test_a_name_that_is_taken_is_told(site: Admin) -> None:
    connections.add("far", base_url=FAR, model="m")
    assert "already exists" in shown(site.post("coffer_llmconnection_add", fields=FIELDS))
    assert LlmConnection.objects.count() == 1


def test_the_button_says_what_answered(site: Admin) -> None:
    with FakeLlm() as fake:
        saved = connections.add("near", base_url=fake.base_url, model="m")
        assert "Test: call it once" in shown(site.get("coffer_llmconnection_change", str(saved.id)))
        fake.answer({"ok": True}, fail(401, message="go away"), {"ok": True})
        assert "Near: 127.0.0.1 answered in" in shown(site.post("coffer_llmconnection_test", str(saved.id), fields={}))
        failed = shown(site.post("coffer_llmconnection_test", str(saved.id), fields={}))
        assert "does not accept" in failed
        assert "It says: go away" in failed
        chosen = {"action": "test_connections", "_selected_action": [str(saved.id)]}
        assert "answered in" in shown(site.post("coffer_llmconnection_changelist", fields=chosen))


def test_removing_goes_through_the_service(site: Admin) -> None:
    saved = connections.add("far", base_url=FAR, model="m")
    site.post("coffer_llmconnection_delete", str(saved.id), fields={"post": "yes"})
    assert not LlmConnection.objects.exists()
    assert AuditEntry.objects.filter(event="connection_removed").count() == 1


def test_the_environments_connection_is_told_above_the_list(site: Admin, fake_llm: FakeLlm) -> None:
    assert "Test-model at 127.0.0.1 may organize and distill" in shown(site.get("coffer_llmconnection_changelist"))


def test_calls_are_only_read(site: Admin, fake_llm: FakeLlm) -> None:
    fake_llm.answer({"text": "x"})
    llm.complete_json("organize", system="", user="walrus", required={}, store="global")
    page = site.get("coffer_llmcall_changelist")
    assert "organize" in shown(page)
    assert "walrus" not in page
    assert LlmCall.objects.count() == 1
