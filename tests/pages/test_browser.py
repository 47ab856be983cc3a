"""The pages in a real browser: on two screens, in both schemes, with and without JavaScript, with axe looking on."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from django_q.tasks import schedule

from agents.services import context as contexts
from agents.services import registration
from coffer import asgi, later, signin
from coffer.models import AuditEntry
from memory.services import facts, stores
from tests.factories import write_files
from tests.pages.conftest import Memory
from tests.processes import Machine
from tests.serving import serving
from tests.transcripts import conversations as talk
from transcripts.models import Distilled
from transcripts.services import homes, ledger, listing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

expect = pytest.importorskip("playwright.sync_api").expect
SCREENS: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1280, "height": 800}},
    "phone": {"viewport": {"width": 375, "height": 812}, "has_touch": True, "is_mobile": True},
}
Open = Callable[..., "Page"]


@pytest.fixture
def site() -> Iterator[str]:
    with serving(asgi.build()) as address:
        yield f"http://{address}"


@pytest.fixture
def open_page(browser: "Browser", site: str) -> Iterator[Open]:
    """A signed-in page on a screen; at the end no error was on the console and nothing foreign was asked for."""
    complaints: list[str] = []

    def make(screen: str = "desktop", **options: Any) -> "Page":
        context = browser.new_context(
            base_url=site, locale="en-US", timezone_id="Europe/Berlin", **SCREENS[screen], **options
        )
        opened.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(site) else complaints.append(asked.url))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.goto(f"/sign-in?code={signin.issue()}")
        return page

    opened: list[Any] = []
    yield make
    for context in opened:
        context.close()
    assert [one for one in complaints if "404 (Not Found)" not in one] == []


@pytest.fixture(scope="module")
def axe() -> str:
    base = pytest.importorskip("axe_playwright_python.base")
    return str(base.AXE_SCRIPT)


def violations(page: "Page", *rules: str) -> list[str]:
    """What axe finds, as rule and elements. The driver hands its script in, so no policy stands in the way.

    It is not to load stylesheets once more by itself: that the policy forbids.
    """
    options = {"preload": False, **({"runOnly": list(rules)} if rules else {})}
    found: list[dict[str, Any]] = page.evaluate("options => axe.run(options).then(one => one.violations)", options)
    return [f"{one['id']}: {[node['target'] for node in one['nodes']]}" for one in found]


@pytest.fixture(scope="session")
def keep(tmp_path_factory: pytest.TempPathFactory) -> Callable[["Page", str], None]:
    """Screenshots for people, in COFFER_ARTIFACTS or a temporary folder."""
    folder = Path(os.environ.get("COFFER_ARTIFACTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return lambda page, name: page.screenshot(path=folder / f"{name}.png", full_page=True) and None


def sessions() -> None:
    """Some sessions of an agent, and one that could not be distilled."""
    for number, title in enumerate(("Rename the uploader and its tests", "wide" * 60, "")):
        folder = "/work/a/rather/long/path/of/a/project"
        talk.claude(folder, "prompt", "answer", session=talk.identity(number), title=title)
    found = listing.find(homes.of("claude_code"), talk.identity(1))
    ledger.failed(found, "The model's answer cannot be used: it is empty.")


def everywhere(memory: Memory) -> dict[str, str]:
    registration.ensure("claude_code")
    contexts.session_context("codex", cwd="/", session="s")
    sessions()
    assert later.flush()
    store = f"/stores/{memory.name}"
    archived = next((memory.folder / "superseded").glob("*.md")).name
    return {
        "stores": "/",
        "store": store,
        "filtered": f"{store}?q=zzz",
        "rules": f"{store}/rules",
        "journal": f"{store}/journal",
        "handoff": f"{store}/handoff",
        "changelog": f"{store}/changelog",
        "empty": "/stores/global/journal",
        "fact": f"{store}/knowledge/{memory.fact}",
        "topic": f"{store}/knowledge/build-and-release",
        "day": f"{store}/journal/2026-11-29",
        "scene": f"{store}/handoff/main",
        "delete": f"{store}/knowledge/{memory.fact}/delete",
        "rename": f"{store}/rename",
        "archive": f"{store}/archive",
        "version": f"{store}/archive/{archived}",
        "search": f"/search?q=make&store={memory.name}",
        "nothing": "/search?q=zzz",
        "agents": "/agents",
        "agent": f"/agents/claude_code?store={memory.name}",
        "sessions": "/sessions?days=30",
        "no-sessions": "/sessions?q=zzz",
        "session": f"/session?agent=claude_code&id={talk.identity(1)}",
        "past": "/sessions/distill?agent=claude_code",
        "activity": "/activity",
        "health": "/health",
        "gone": f"{store}/knowledge/nothing",
        "missing": "/nothing",
    }


def everywhere_in_admin(memory: Memory) -> dict[str, str]:
    sessions()
    assert later.flush()
    store, fact = f"/admin/memory/store/{memory.name}", f"/admin/memory/document/{memory.name}/{memory.fact}"
    return {
        "index": "/admin/",
        "facts": "/admin/memory/document/",
        "found": "/admin/memory/document/?q=make&kind=fact",
        "nothing": "/admin/memory/document/?q=zzz",
        "fact": f"{fact}/change/",
        "add": "/admin/memory/document/add/",
        "delete": f"/admin/memory/document/act/delete/?key={memory.name}/{memory.fact}",
        "move": f"/admin/memory/document/act/move/?key={memory.name}/{memory.fact}",
        "stores": "/admin/memory/store/",
        "store": f"{store}/change/",
        "rules": f"{store}/rules/",
        "journal": f"{store}/journal/",
        "superseded": f"{store}/superseded/",
        "audit": "/admin/coffer/auditentry/",
        "entry": f"/admin/coffer/auditentry/{AuditEntry.objects.latest('at').pk}/change/",
        "invocations": "/admin/gateway/invocation/",
        "distilled": "/admin/transcripts/distilled/",
        "again": f"/admin/transcripts/distilled/act/again/?key={Distilled.objects.latest('at').pk}",
        "sweeps": "/admin/transcripts/sweep/",
        "preferences": "/admin/coffer/preference/",
        "schedules": "/admin/django_q/schedule/",
        "failures": "/admin/django_q/failure/",
        "queue": "/admin/django_q/ormq/",
    }


@pytest.mark.parametrize("part", ["pages", "admin"])
@pytest.mark.parametrize("screen", SCREENS)
def test_every_page_is_accessible_and_fits(
    open_page: Open, memory: Memory, axe: str, keep: Callable[["Page", str], None], screen: str, part: str
) -> None:
    write_files(memory.folder, {"knowledge/inbox/wide.md": f"---\ntitle: {'wide' * 60}\n---\n\n{'long' * 200}\n"})
    page = open_page(screen)
    if part == "admin":
        schedule("memory.jobs.organize", memory.name, name="to be looked at", schedule_type="O")
        addresses = {f"admin-{name}": address for name, address in everywhere_in_admin(memory).items()}
    else:
        addresses = {**everywhere(memory), "wide": f"/stores/{memory.name}/knowledge/wide"}
    for name, address in addresses.items():
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        page.goto(address)
        page.evaluate(axe)
        keep(page, f"{name}-{screen}-light")
        assert violations(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} scrolls sideways"
        page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        keep(page, f"{name}-{screen}-dark")
        assert violations(page, "color-contrast") == [], f"{name} in the dark"


@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
@pytest.mark.parametrize("screen", SCREENS)
def test_find_read_delete_restore_rename_search(open_page: Open, memory: Memory, screen: str, script: bool) -> None:
    page = open_page(screen, java_script_enabled=script)
    page.get_by_role("link", name="repo").first.click()
    page.get_by_label("Filter titles").fill("deploy")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="The deploy target").click()
    expect(page.get_by_text("It takes six minutes.")).to_be_visible()

    page.get_by_role("link", name="Delete").click()
    expect(page.get_by_role("heading", name="Delete this?")).to_be_visible()
    expect(page.locator("form.form").get_by_text("The deploy target")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("Deleted: The deploy target")).to_be_visible()
    page.get_by_role("link", name="the-deploy-target").first.click()
    page.get_by_role("button", name="Restore this version").click()
    expect(page.get_by_text("It takes six minutes.")).to_be_visible()

    page.get_by_label("Where").get_by_role("link").first.click()
    page.get_by_role("link", name="Rename").click()
    page.get_by_label("Name").fill("Orders")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="Orders", exact=True)).to_be_visible()

    page.get_by_role("link", name="Search").first.click()
    page.get_by_label("What would an agent ask?").fill("deploy target")
    page.get_by_label("as an agent in").select_option(label="Orders")
    page.get_by_role("button", name="Search").click()
    page.locator("summary").first.click()
    expect(page.get_by_text("Words found").first).to_be_visible()


def test_times_are_local_with_their_zone_and_utc_without_script(open_page: Open, memory: Memory) -> None:
    address = f"/stores/{memory.name}/journal/2026-11-29"
    page = open_page()
    page.goto(address)
    time = page.locator("time").first
    assert re.fullmatch(r"Nov 29, 2026, 11:00\sAM", time.inner_text())
    assert "GMT+1" in (time.get_attribute("title") or "")
    page = open_page(java_script_enabled=False)
    page.goto(address)
    expect(page.locator("time").first).to_have_text("2026-11-29 10:00 UTC")


def test_keys_move_through_a_list(open_page: Open, memory: Memory) -> None:
    page = open_page()
    page.goto(f"/stores/{memory.name}")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert "Build and release" in page.evaluate("document.activeElement.textContent")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.get_by_label("Filter titles").press("j")
    assert page.get_by_label("Filter titles").input_value() == "j"
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


def test_a_path_is_copied_by_its_button(open_page: Open, memory: Memory) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.goto(f"/stores/{memory.name}/knowledge/{memory.fact}")
    page.get_by_role("button", name="Copy path").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == str(facts.get(memory.store, memory.fact).path)


def test_a_change_by_another_hand_changes_the_next_search(open_page: Open, memory: Memory) -> None:
    page = open_page()
    facts.edit(memory.store, memory.fact, text="The deploy target is `make sail`.")
    page.goto(f"/search?q=deploy+target&store={memory.name}")
    expect(page.get_by_text("make sail").first).to_be_visible()


def test_hostile_memory_runs_and_fetches_nothing(open_page: Open, memory: Memory) -> None:
    evil = '"><img src=http://127.0.0.1:9/x onerror=alert(1)><script>alert(2)</script>'
    body = (
        f"{evil}\n\n![x](http://127.0.0.1:9/y.png) [z](javascript:alert(3))\n\n<iframe src=http://127.0.0.1:9></iframe>"
    )
    write_files(memory.folder, {"knowledge/inbox/evil.md": f"---\nid: evil\ntitle: '{evil}'\n---\n\n{body}\n"})
    page = open_page()
    for address in (
        f"/stores/{memory.name}",
        f"/stores/{memory.name}/knowledge/evil",
        f"/stores/{memory.name}/knowledge/evil/delete",
        f"/search?q={quote(evil)}&store={memory.name}",
        f"/{quote(evil)}",
    ):
        page.goto(address)
        assert page.locator("main img, main iframe, main script, [onerror]").count() == 0


def test_were_all_else_to_fail_the_policy_lets_no_script_of_a_page_run(browser: "Browser", site: str) -> None:
    context = browser.new_context(base_url=site)
    page = context.new_page()
    page.goto(f"/sign-in?code={signin.issue()}")
    with page.expect_console_message(lambda said: "Content Security Policy" in said.text):
        page.evaluate("document.body.insertAdjacentHTML('beforeend', '<b onclick=\"document.title=1\" id=bad>x</b>')")
        page.evaluate("document.getElementById('bad').click()")
    assert page.title() == "Stores - Coffer"
    context.close()


def test_admin_and_the_rest_page_work_under_the_same_policy(open_page: Open, memory: Memory) -> None:
    page = open_page()
    for address in ("/admin/", "/admin/memory/document/", "/api/v1/docs"):
        response = page.goto(address)
        assert response is not None
        assert response.status == 200
        page.wait_for_load_state("networkidle")


@contextmanager
def without_session(browser: "Browser") -> Iterator["Page"]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_coffer_open_leads_from_its_file_into_the_pages(
    browser: "Browser", machine: Machine, tmp_path: Path, script: bool
) -> None:
    facts.remember(stores.provision("global"), "Something remembered.", actor="user")
    seen, command = tmp_path / "seen", tmp_path / "browser"
    command.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {seen}\n')
    command.chmod(0o755)
    assert machine.coffer("open", BROWSER=str(command)).returncode == 0
    context = browser.new_context(java_script_enabled=script)
    page = context.new_page()
    page.goto(seen.read_text(), wait_until="commit")
    if not script:
        page.get_by_role("button", name="Continue").click()
    page.wait_for_url(re.compile(r"http://127\.0\.0\.1:\d+/$"))
    expect(page.get_by_role("heading", name="Stores")).to_be_visible()
    assert page.context.cookies()[0]["name"].startswith("coffer-session-")
    assert not Path(seen.read_text().removeprefix("file://")).exists()
    context.close()
    with without_session(browser) as other:
        answer = other.goto(machine.daemon_file()["url"])
        assert answer is not None
        assert answer.status == 401
        expect(other.get_by_text("coffer open")).to_be_visible()
