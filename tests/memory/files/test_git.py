import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coffer.errors import ScopeUnresolved
from memory.files import git, ulid
from memory.files.git import Repository, normalise_remote

Git = Callable[..., str]
MakeRepo = Callable[..., Path]
Find = Callable[..., Repository | None]
Wrap = Callable[[str], Path]


@pytest.fixture
def find(tmp_path: Path, home: Path) -> Callable[[str | Path], Repository | None]:
    return lambda cwd: git.find(cwd, tmp_path / "person", home)


@pytest.fixture
def known(find: Find) -> Callable[[str | Path], Repository]:
    def known(cwd: str | Path) -> Repository:
        repository = find(cwd)
        assert repository is not None
        return repository

    return known


Known = Callable[[str | Path], Repository]


@pytest.fixture
def calls(tmp_path: Path, wrap_git: Wrap) -> Callable[[], int]:
    """Count the git processes from now on."""
    log = tmp_path / "git-calls"
    wrap_git(f'echo x >> {log}\nexec "$real" "$@"')
    return lambda: len(log.read_text(encoding="utf-8").split()) if log.exists() else 0


# --- identity --------------------------------------------------------------------------------------------------------


def test_a_repository_with_a_remote_is_known_by_it(make_repo: MakeRepo, known: Known) -> None:
    path = make_repo(remote="git@GitHub.com:wyx-sg/Coffer.git")
    (path / "deep/er").mkdir(parents=True)
    found = known(path / "deep/er")
    assert found.root == found.work_tree == path
    assert found.git_dir == found.common_dir == path / ".git"
    assert found.key == "remote:github.com/wyx-sg/coffer"
    assert found.project_id == "556M7HVWHVZ4J22E1DTAEP0PMJ"


def test_a_repository_without_a_remote_is_known_by_its_path(make_repo: MakeRepo, known: Known) -> None:
    path = make_repo()
    found = known(path)
    assert (found.remote, found.key, found.project_id) == (None, str(path), ulid.project_id(str(path)))


def test_bc_066_every_spelling_of_a_folder_is_one_project(
    make_repo: MakeRepo, known: Known, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_repo()
    alias = tmp_path / "alias"
    alias.symlink_to(path.parent)
    monkeypatch.setenv("PWD", str(alias / "repo"))
    for cwd in (path, alias / "repo", f"{path}/", f"{path}/./../repo"):
        assert known(cwd).root == path


def test_bc_074_folders_of_a_monorepo_share_it_and_two_monorepos_do_not(make_repo: MakeRepo, known: Known) -> None:
    one, two = make_repo("one"), make_repo("two")
    for path in (one / "packages/api", one / "packages/web", two / "packages/api"):
        path.mkdir(parents=True)
    assert known(one / "packages/api").key == known(one / "packages/web").key
    assert known(one / "packages/api").key != known(two / "packages/api").key


def test_bc_011_variables_that_git_sets_for_its_hooks_do_not_mix_two_repositories(
    make_repo: MakeRepo, known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = make_repo("a", remote="https://git.example.org/acme/a.git", branch="work-a")
    other = make_repo("b", remote="https://git.example.org/acme/b.git", branch="work-b")
    for name in ("GIT_DIR", "GIT_COMMON_DIR"):
        monkeypatch.setenv(name, str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "broken")
    found = known(ours)
    assert (found.root, found.remote) == (ours, "git.example.org/acme/a")
    assert git.branch(found).name == "work-a"
    assert counted(found, git.branch(found).commit) == (0, 0)


@pytest.mark.parametrize(
    "cwd", ["", ".", "repo", "C:\\Users\\dev\\app", "c:/Users/dev/app", "/c/Users/dev/app", "/nul\0byte"]
)
def test_bc_064_a_path_that_is_not_on_this_machine_is_no_project(
    cwd: str, make_repo: MakeRepo, find: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(make_repo())
    assert find(cwd) is None


def test_a_file_or_a_plain_folder_is_no_project(make_repo: MakeRepo, find: Find, tmp_path: Path) -> None:
    (make_repo() / "file").write_text("x", encoding="utf-8")
    assert find(tmp_path / "work/repo/file") is None
    assert find(tmp_path) is None


def test_an_empty_git_folder_is_no_repository(find: Find, tmp_path: Path) -> None:
    (tmp_path / "plain/.git").mkdir(parents=True)
    assert find(tmp_path / "plain") is None


def test_bc_070_linked_work_trees_collapse_to_the_main_one(make_repo: MakeRepo, known: Known, git: Git) -> None:
    for remote in (None, "https://git.example.org/acme/wt.git"):
        main = make_repo("remote" if remote else "noremote", remote=remote)
        git(main, "config", "extensions.worktreeConfig", "true")
        linked = main.parent / f"{main.name}-wt"
        git(main, "worktree", "add", "-q", str(linked), "-b", "feature/x")
        git(main, "worktree", "add", "-q", str(main / ".claude/worktrees/f"), "-b", "f")
        git(main, "worktree", "add", "-q", str(linked) + "-tmp", "-b", "moved")
        git(main, "worktree", "move", str(linked) + "-tmp", str(linked) + "-moved")
        (linked / "deep").mkdir()
        for path in (linked / "deep", main / ".claude/worktrees/f", Path(f"{linked}-moved")):
            found = known(path)
            assert (found.root, found.key) == (main, known(main).key)
            assert found.common_dir == main / ".git"
        assert known(linked / "deep").work_tree == linked


def test_bc_070_branches_of_linked_work_trees_stay_apart(make_repo: MakeRepo, known: Known, git: Git) -> None:
    main = make_repo()
    git(main, "worktree", "add", "-q", str(main) + "-wt", "-b", "feature/x")
    from memory.files.git import branch

    assert branch(known(main)).name == "main"
    assert branch(known(f"{main}-wt")).name == "feature/x"


@pytest.mark.parametrize("name", ["hub-07", "repo.git", ".bare"])
def test_bc_077_work_trees_of_a_bare_hub_share_its_common_dir(
    name: str, make_repo: MakeRepo, known: Known, find: Find, git: Git, tmp_path: Path
) -> None:
    source = make_repo()
    hubs = tmp_path / "hubs"
    hubs.mkdir()
    for hub in (hubs / name, hubs / f"{name}-2"):
        git(hubs, "clone", "-q", "--bare", str(source), str(hub))
        git(hub, "remote", "remove", "origin")
        git(hub, "worktree", "add", "-q", f"../{hub.name}-wt", "-b", "beside")
        git(hub, "worktree", "add", "-q", "child", "-b", "inside")
    for hub in (hubs / name, hubs / f"{name}-2"):
        assert known(hubs / f"{hub.name}-wt").root == known(hub / "child").root == hub
    assert find(hubs) is None


def test_bc_077_a_hub_is_recognised_when_discovery_of_bare_repositories_is_forbidden(
    make_repo: MakeRepo, known: Known, git: Git, tmp_path: Path
) -> None:
    git(make_repo(), "clone", "-q", "--bare", ".", str(tmp_path / "hub"))
    git(tmp_path / "hub", "worktree", "add", "-q", str(tmp_path / "wt"), "-b", "w")
    git(tmp_path / "hub", "remote", "remove", "origin")
    (tmp_path / "person/.gitconfig").write_text("[safe]\n\tbareRepository = explicit\n", encoding="utf-8")
    assert known(tmp_path / "wt").root == tmp_path / "hub"


def test_bc_078_inside_a_bare_repository_or_a_git_folder_there_is_no_project(
    make_repo: MakeRepo, find: Find, git: Git, tmp_path: Path
) -> None:
    path = make_repo()
    git(path, "init", "-q", "--bare", "repo.git")
    for cwd in (path / "repo.git", path / "repo.git/hooks", path / ".git", path / ".git/refs"):
        assert find(cwd) is None


def test_bc_079_a_home_that_is_a_repository_is_no_project(find: Find, known: Known, git: Git, tmp_path: Path) -> None:
    person = tmp_path / "person"
    git(person, "init", "-q")
    git(person, "remote", "add", "origin", "https://git.example.org/dev/dotfiles")
    for cwd in (person / "Documents/notes", person / "code/app"):
        cwd.mkdir(parents=True)
    git(person / "code/app", "init", "-q")
    assert find(person) is None
    assert find(person / "Documents/notes") is None
    assert known(person / "code/app").root == person / "code/app"


def test_bc_079_a_linked_work_tree_of_the_home_is_no_project(find: Find, git: Git, tmp_path: Path) -> None:
    person = tmp_path / "person"
    git(person, "init", "-q")
    git(person, "commit", "-q", "--allow-empty", "-m", "x")
    git(person, "worktree", "add", "-q", str(tmp_path / "elsewhere"), "-b", "w")
    assert find(tmp_path / "elsewhere") is None


def test_bc_079_our_own_data_folder_is_no_project(make_repo: MakeRepo, git: Git, tmp_path: Path) -> None:
    path = make_repo()
    (path / "coffer/memory").mkdir(parents=True)
    (path / "coffer-notes").mkdir()
    from memory.files.git import find

    assert find(path / "coffer/memory", tmp_path, path / "coffer") is None
    assert find(path / "coffer-notes", tmp_path, path / "coffer") is not None


def test_bc_073_a_submodule_keeps_its_own_identity(make_repo: MakeRepo, known: Known, git: Git, tmp_path: Path) -> None:
    keys = []
    for name in ("app", "other"):
        core, app = make_repo(f"{name}-src/core"), make_repo(f"{name}-src/app")
        git(app, "remote", "add", "origin", f"https://git.example.org/acme/{name}")
        git(app, "submodule", "--quiet", "add", str(core), "libs/core")
        git(app / "libs/core", "remote", "set-url", "origin", "../core")
        (app / "libs/core/src").mkdir()
        found = known(app / "libs/core/src")
        assert (found.root, found.remote, found.key) == (app / "libs/core", None, str(app / "libs/core"))
        git(app / "libs/core", "worktree", "add", "-q", str(tmp_path / f"{name}-wt"), "-b", "w")
        assert known(tmp_path / f"{name}-wt").root == app / "libs/core"
        git(app / "libs/core", "remote", "remove", "origin")
        keys.append(known(app / "libs/core/src").key)
        git(app / "libs/core", "remote", "add", "origin", "git@git.example.org:acme/core.git")
        assert known(app / "libs/core/src").key == "remote:git.example.org/acme/core"
    assert keys[0] != keys[1]


def test_a_separate_git_dir_is_found_through_its_work_tree(known: Known, find: Find, git: Git, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--separate-git-dir", str(tmp_path / "store"), str(tmp_path / "tree"))
    found = known(tmp_path / "tree")
    assert (found.root, found.git_dir) == (tmp_path / "tree", tmp_path / "store")
    assert find(tmp_path / "store") is None


def test_a_folder_whose_name_has_a_line_end_is_found(known: Known, git: Git, tmp_path: Path) -> None:
    path = tmp_path / "two\nlines"
    path.mkdir()
    git(path, "init", "-q")
    assert known(path).root == path


def test_a_folder_whose_name_is_no_utf_8_is_found(known: Known, tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    path.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=path, check=True)
    assert known(path).root == path
    assert ulid.is_ulid(known(path).project_id)


# --- remotes ---------------------------------------------------------------------------------------------------------


def test_bc_081_no_token_survives_and_every_spelling_is_one_project(
    make_repo: MakeRepo, known: Known, git: Git
) -> None:
    path = make_repo(remote="x")
    keys = set()
    for url in (
        "https://oauth2:FAKEtok_9f8e7d@git.example.org/acme/widget.git",
        "https://FAKEtok_9f8e7d@git.example.org/acme/widget",
        "https://git.example.org/acme/widget?private_token=FAKEtok_9f8e7d",
        "ssh://dev:FAKEtok_9f8e7d@git.example.org/acme/widget",
        "https://git.example.org/acme/widget",
    ):
        git(path, "remote", "set-url", "origin", url)
        found = known(path)
        assert "FAKE" not in repr(found)
        keys.add(found.key)
    assert keys == {"remote:git.example.org/acme/widget"}


UNCERTAIN = [
    "https://dev:FAKEp@ss/w0rd@git.example.org:99999/acme/x.git",
    "https://dev:FAKEpw%40%2f@[::1/acme",
    "https://dev:FAKEpw@h/x\ny",
    "https://dev:FAKEpw@h/x\\0y",
    "https://dev:FAKEpw@h/" + "x" * 5000,
    "https://dev:FAKEpw#x@h/y",
    "https://dev:FAKEpw?x@h/y",
    "https://FAKEtok/en@h/y",
    "https://dev:FAKEpw/y",
    "dev:FAKEpw@h:y",
    "dev:FAKEpw@h/y",
    "https://h:99999/FAKE",
    "https://h/a%40FAKE",
    "https://h/x:FAKE",
    "ext::sh -c FAKE",
    "codecommit::us-east-1://FAKE@x",
]


@pytest.mark.parametrize("url", UNCERTAIN)
def test_bc_082_a_url_that_cannot_be_parsed_with_certainty_is_no_identity(
    url: str, make_repo: MakeRepo, known: Known, git: Git
) -> None:
    assert normalise_remote(url) is None
    path = make_repo()
    git(path, "config", "remote.origin.url", url)
    found = known(path)
    assert found.key == str(path)
    assert "FAKE" not in repr(found)


@pytest.mark.parametrize(
    "url",
    [
        "/srv/x.git", "../core", "./x", "x", "", "file:///srv/x", "file://host/x", "C:\\x", "c:/x", "https://h/",
        "h:", "h:.git", "https://h/../x", "https:///x", "https://h..x/y", "ssh://git@github.com:org/repo",
    ],
)  # fmt: skip
def test_a_remote_without_a_host_and_a_path_is_no_identity(url: str) -> None:
    assert normalise_remote(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "git@git.example.org:Acme/Widget.git",
        "git.example.org:acme/widget",
        "dev@git.example.org:/acme/widget/",
        "ssh://git@git.example.org:22/acme/widget.git/",
        "git+ssh://git.example.org/acme/widget",
        "HTTPS://GIT.example.org:443//acme//widget.git",
        "http://u:p@git.example.org:80/acme/widget#readme",
        "https://u:p@ss@git.example.org./acme/widget",
        "https://git.example.org/acme/%77idget",
        "git://git.example.org:9418/acme/./widget",
        "ssh://git.example.org/acme/widget/.git",
    ],
)
def test_every_way_to_write_a_remote_is_one_identity(url: str) -> None:
    assert normalise_remote(url) == "git.example.org/acme/widget"


@pytest.mark.parametrize(
    ("url", "identity"),
    [
        ("ssh://git@h.example:2222/a/b", "h.example:2222/a/b"),
        ("ssh://git@[::1]:2222/a", "[::1]:2222/a"),
        ("git@[fe80::1]:a/b", "[fe80::1]/a/b"),
        ("https://h.example/~me/x", "h.example/~me/x"),
        ("https://dev.azure.com/org/my%20project/_git/x", "dev.azure.com/org/my project/_git/x"),
        ("git@github.com-work:acme/widget", "github.com-work/acme/widget"),
    ],
)
def test_what_tells_two_repositories_apart_is_kept(url: str, identity: str) -> None:
    assert normalise_remote(url) == identity


@given(st.text(alphabet="ab:/@?#[].%41\\ \n", max_size=40), st.sampled_from(["https://", "ssh://", "", "git@"]))
def test_a_normalised_remote_has_no_room_for_a_credential(rest: str, start: str) -> None:
    identity = normalise_remote(start + rest)
    if identity is not None:
        assert "@" not in identity
        assert normalise_remote(f"https://{identity}") in (identity, None) or identity.endswith(".git")


@given(
    st.text(alphabet="abcXYZ019", min_size=1, max_size=20).map("FAKE".__add__),
    st.sampled_from(["https", "ssh", "http"]),
    st.lists(st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True), min_size=1, max_size=4),
)
def test_a_token_in_the_user_part_never_shows(token: str, scheme: str, path: list[str]) -> None:
    identity = normalise_remote(f"{scheme}://user:{token}@git.example.org/{'/'.join(path)}")
    assert identity == "/".join(["git.example.org", *path])


def test_bc_084_an_ssh_alias_is_kept_literally_and_ssh_is_never_asked(
    make_repo: MakeRepo, known: Known, tmp_path: Path
) -> None:
    (tmp_path / "person/.ssh").mkdir()
    pwned = tmp_path / "pwned-ssh"
    (tmp_path / "person/.ssh/config").write_text(f'Match exec "touch {pwned}"\n', encoding="utf-8")
    found = known(make_repo(remote="git@github.com-work:acme/widget"))
    assert found.remote == "github.com-work/acme/widget"
    assert not pwned.exists()


def test_bc_087_only_origin_counts(make_repo: MakeRepo, known: Known, git: Git) -> None:
    template = "https://git.example.org/template"
    one = make_repo("one", remote="https://git.example.org/acme/one")
    two = make_repo("two", remote="https://git.example.org/acme/two")
    upstream_only, neither = make_repo("upstream"), make_repo("neither")
    for path in (one, two, upstream_only):
        git(path, "remote", "add", "upstream", template)
    for name in ("a", "b"):
        git(neither, "remote", "add", name, template)
    git(one, "remote", "set-url", "--add", "origin", "https://git.example.org/acme/mirror")
    git(one, "config", "remote.pushDefault", "upstream")
    assert known(one).remote == "git.example.org/acme/one"
    assert known(two).remote == "git.example.org/acme/two"
    assert known(upstream_only).key == str(upstream_only)
    assert known(neither).key == str(neither)


def test_instead_of_is_applied_as_git_applies_it(make_repo: MakeRepo, known: Known, tmp_path: Path) -> None:
    path = make_repo(remote="work:acme/widget")
    assert known(path).remote == "work/acme/widget"
    (tmp_path / "person/.gitconfig").write_text(
        '[url "https://git.example.org/"]\n\tinsteadOf = work:\n', encoding="utf-8"
    )
    assert known(path).remote == "git.example.org/acme/widget"


# --- git itself ------------------------------------------------------------------------------------------------------


def test_without_git_a_repository_is_refused_with_advice_and_a_plain_folder_is_none(
    make_repo: MakeRepo, find: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_repo()
    monkeypatch.setenv("PATH", f".:{tmp_path}/nowhere:")
    (path / "git").write_text("#!/bin/sh\ntouch pwned\n", encoding="utf-8")
    (path / "git").chmod(0o755)
    monkeypatch.chdir(path)
    with pytest.raises(ScopeUnresolved, match="install git"):
        find(path)
    assert find(tmp_path) is None
    assert not (path / "pwned").exists()


def test_bc_082_what_git_prints_when_it_fails_is_in_no_message(
    make_repo: MakeRepo, find: Find, wrap_git: Wrap, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    path = make_repo()
    wrap_git('echo "fatal: https://dev:FAKEpw@git.example.org/x" >&2\nexit 128')
    with pytest.raises(ScopeUnresolved, match="git cannot read the repository") as caught:
        find(path)
    captured = capfd.readouterr()
    assert "FAKE" not in f"{caught.value.message}{caught.value.details}{caplog.text}{captured.out}{captured.err}"
    assert caught.value.__cause__ is None


def test_bc_082_an_origin_that_git_cannot_tell_is_an_error_and_never_another_identity(
    make_repo: MakeRepo, find: Find, wrap_git: Wrap
) -> None:
    path = make_repo(remote="https://git.example.org/acme/x")
    wrap_git('case "$*" in *get-url*) echo "fatal: FAKEpw" >&2; exit 128;; esac\nexec "$real" "$@"')
    with pytest.raises(ScopeUnresolved, match="git remote get-url origin"):
        find(path)


def test_bc_082_a_git_that_hangs_is_ended_with_all_it_started(
    make_repo: MakeRepo, find: Find, wrap_git: Wrap, tmp_path: Path
) -> None:
    path, pipe = make_repo(), tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    wrap_git(f"exec 3> {pipe}\nsleep 60 &\nwait")
    started = time.monotonic()
    with pytest.raises(ScopeUnresolved, match="did not answer within 1 s"):
        find(path)
    assert time.monotonic() - started < 5
    # The pipe hangs up when the last process that inherited it has ended.
    watch = select.poll()
    watch.register(reader, select.POLLHUP)
    assert watch.poll(5000)
    os.close(reader)


def test_git_is_asked_without_prompt_network_or_the_callers_variables(
    make_repo: MakeRepo, known: Known, wrap_git: Wrap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_repo()
    monkeypatch.setenv("GIT_TRACE", "1")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    wrap_git(f'env | grep -E "^(GIT_|LC_ALL)" | sort > {tmp_path}/env\nexec "$real" "$@"')
    known(path)
    assert (tmp_path / "env").read_text(encoding="utf-8").split() == [
        "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
    ]  # fmt: skip


def test_a_repository_of_another_owner_is_refused_with_the_command_that_trusts_it(
    make_repo: MakeRepo, find: Find, wrap_git: Wrap
) -> None:
    path = make_repo()
    wrap_git("echo \"fatal: detected dubious ownership in repository at 'x'\" >&2\nexit 128")
    with pytest.raises(ScopeUnresolved, match=r"safe\.directory") as caught:
        find(path)
    assert str(path) in caught.value.message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_real_git_refuses_a_repository_of_another_owner(make_repo: MakeRepo, find: Find) -> None:
    path = make_repo()
    for entry in (path, path / ".git"):
        os.chown(entry, 65534, 65534)
    with pytest.raises(ScopeUnresolved, match="belongs to another user"):
        find(path)


def test_a_link_to_a_repository_that_is_gone_is_refused(make_repo: MakeRepo, find: Find, git: Git) -> None:
    path = make_repo()
    git(path, "worktree", "add", "-q", str(path) + "-wt", "-b", "w")
    shutil.move(path, path.parent / "moved-away")
    with pytest.raises(ScopeUnresolved, match="git status"):
        find(f"{path}-wt")


# --- the cache -------------------------------------------------------------------------------------------------------


def test_a_second_look_costs_no_process(make_repo: MakeRepo, known: Known, calls: Callable[[], int], git: Git) -> None:
    path = make_repo(remote="https://git.example.org/acme/x")
    before = calls()
    first = known(path)
    assert calls() - before == 1
    git(path, "commit", "-q", "--allow-empty", "-m", "another")
    between = calls()
    assert known(path) == first
    assert calls() == between


def test_a_plain_folder_costs_no_process_at_all(find: Find, calls: Callable[[], int], tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    assert find(tmp_path / "plain") is None
    assert calls() == 0


def test_a_linked_work_tree_costs_one_process_once(
    make_repo: MakeRepo, known: Known, calls: Callable[[], int], git: Git
) -> None:
    path = make_repo()
    git(path, "worktree", "add", "-q", str(path) + "-wt", "-b", "w")
    before = calls()
    for _ in range(3):
        known(f"{path}-wt")
    assert calls() - before == 1


@pytest.mark.parametrize(
    ("name", "value", "root"),
    [("core.worktree", "../..", "."), ("core.bare", "true", None), ("include.path", "more", "repo")],
)
def test_an_unusual_repository_is_asked_about_step_by_step(
    name: str, value: str, root: str | None, make_repo: MakeRepo, find: Find, git: Git, calls: Callable[[], int]
) -> None:
    path = make_repo()
    git(path, "config", name, value)
    before = calls()
    found = find(path)
    assert calls() - before >= 1
    assert (found and found.root) == (root and path.parent / root)


def test_a_changed_remote_is_noticed(make_repo: MakeRepo, known: Known, git: Git) -> None:
    path = make_repo()
    assert known(path).remote is None
    git(path, "remote", "add", "origin", "https://git.example.org/acme/x")
    assert known(path).remote == "git.example.org/acme/x"
    git(path, "remote", "set-url", "origin", "https://git.example.org/acme/y")
    assert known(path).remote == "git.example.org/acme/y"


def test_a_new_repository_further_down_is_noticed(make_repo: MakeRepo, known: Known, find: Find, git: Git) -> None:
    outer = make_repo()
    inner = outer / "vendor/lib"
    (inner / "src").mkdir(parents=True)
    assert known(inner / "src").root == outer
    git(inner, "init", "-q")
    assert known(inner / "src").root == inner
    shutil.rmtree(inner / ".git")
    assert known(inner / "src").root == outer
    git(inner, "init", "-q", "--bare", ".")
    assert find(inner / "refs") is None


def test_a_plain_folder_that_becomes_a_repository_is_noticed(
    find: Find, known: Known, git: Git, tmp_path: Path
) -> None:
    path = tmp_path / "plain"
    path.mkdir()
    assert find(path) is None
    git(path, "init", "-q")
    assert known(path).root == path
    shutil.rmtree(path / ".git")
    assert find(path) is None


def test_a_git_folder_that_is_filled_later_is_noticed(find: Find, known: Known, git: Git, tmp_path: Path) -> None:
    path = tmp_path / "plain"
    (path / ".git").mkdir(parents=True)
    assert find(path) is None
    git(path, "init", "-q")
    assert known(path).root == path


def test_a_moved_work_tree_is_noticed(make_repo: MakeRepo, known: Known, find: Find, git: Git) -> None:
    path = make_repo()
    git(path, "worktree", "add", "-q", str(path) + "-wt", "-b", "w")
    assert known(f"{path}-wt").root == path
    git(path, "worktree", "move", str(path) + "-wt", str(path) + "-new")
    assert known(f"{path}-new").work_tree == Path(f"{path}-new")
    assert find(f"{path}-wt") is None


def test_the_cache_stays_small(tmp_path: Path, find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git, "_CACHE_SIZE", 3)
    for number in range(10):
        (tmp_path / str(number)).mkdir()
        find(tmp_path / str(number))
    assert len(git._cache) <= 3


def test_an_old_answer_is_asked_for_anew(
    make_repo: MakeRepo, known: Known, calls: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_repo()
    before = calls()
    known(path)
    monkeypatch.setattr(git, "_CACHE_SECONDS", 0.0)
    known(path)
    assert calls() - before == 2


# --- branches --------------------------------------------------------------------------------------------------------


def test_a_branch_has_its_name_and_commit(make_repo: MakeRepo, known: Known) -> None:
    path = make_repo(branch="feature/ümlaut")
    found = git.branch(known(path))
    assert (found.name, found.detached) == ("feature/ümlaut", False)
    assert found.commit
    assert len(found.commit) == 40
    assert found.slug == git.branch_slug("feature/ümlaut")


def test_bc_092_an_unborn_branch_works_by_name(known: Known, tmp_path: Path) -> None:
    path = tmp_path / "unborn"
    path.mkdir()
    run(path, "init", "-q", "-b", "main")
    assert git.branch(known(path)) == git.Branch("main", None, False, "main")
    run(path, "symbolic-ref", "HEAD", "refs/heads/fresh")
    assert git.branch(known(path)).name == "fresh"
    assert counted(known(path), "0" * 40) == (None, 0)


def test_a_detached_head_is_named_after_its_work_tree(make_repo: MakeRepo, known: Known) -> None:
    path = make_repo()
    run(path, "checkout", "-q", "--detach")
    run(path, "worktree", "add", "-q", "--detach", f"{path}-wt")
    here, there = git.branch(known(path)), git.branch(known(f"{path}-wt"))
    assert here.detached
    assert (here.name, here.commit) == ("HEAD", run(path, "rev-parse", "HEAD"))
    assert here.slug == f"detached-{sha256(str(path).encode()).hexdigest()[:10]}"
    assert here.slug != there.slug


@pytest.mark.parametrize("head", ["", "garbage\n", None])
def test_bc_092_a_broken_head_keeps_the_identity_and_has_no_branch(
    head: str | None, make_repo: MakeRepo, known: Known
) -> None:
    path = make_repo(remote="https://git.example.org/acme/x")
    whole = known(path)
    git._cache.clear()
    break_head(path / ".git/HEAD", head)
    assert known(path) == whole
    with pytest.raises(ScopeUnresolved, match="HEAD"):
        git.branch(known(path))
    assert counted(known(path), "0" * 40) == (None, None)


@pytest.mark.parametrize("head", ["", None])
def test_bc_092_a_broken_head_inside_another_repository_is_not_taken_for_the_outer_one(
    head: str | None, make_repo: MakeRepo, known: Known
) -> None:
    outer = make_repo(remote="https://git.example.org/acme/outer")
    inner = outer / "inner"
    inner.mkdir()
    run(inner, "init", "-q")
    break_head(inner / ".git/HEAD", head)
    assert known(inner).root == inner
    with pytest.raises(ScopeUnresolved):
        git.branch(known(inner))


def test_bc_092_a_broken_head_of_a_linked_work_tree_or_of_its_main_one(make_repo: MakeRepo, known: Known) -> None:
    path = make_repo(remote="https://git.example.org/acme/x")
    linked = f"{path}-wt"
    run(path, "worktree", "add", "-q", linked, "-b", "w")
    break_head(path / ".git/worktrees/repo-wt/HEAD", "")
    assert (known(linked).root, known(linked).remote) == (path, "git.example.org/acme/x")
    run(path, "symbolic-ref", "HEAD", "refs/heads/main")
    break_head(path / ".git/worktrees/repo-wt/HEAD", "ref: refs/heads/w\n")
    break_head(path / ".git/HEAD", "")
    git._cache.clear()
    assert (known(linked).root, git.branch(known(linked)).name) == (path, "w")


@pytest.mark.parametrize("head", ["ref: refs/heads/a b..c\n", f"{'01' * 20}\n"])
def test_bc_092_a_head_that_names_nothing_sound_has_no_branch(head: str, make_repo: MakeRepo, known: Known) -> None:
    path = make_repo()
    break_head(path / ".git/HEAD", head)
    with pytest.raises(ScopeUnresolved, match="cannot be read"):
        git.branch(known(path))


def break_head(path: Path, text: str | None) -> None:
    path.unlink()
    if text is not None:
        path.write_text(text, encoding="utf-8")


def run(path: Path, *arguments: str) -> str:
    who = ["-c", "user.name=dev", "-c", "user.email=dev@example.org", "-c", "protocol.file.allow=always"]
    return subprocess.run(
        ["git", *who, *arguments], cwd=path, check=True, capture_output=True, text=True
    ).stdout.strip()


# --- what changed since ----------------------------------------------------------------------------------------------


def commit_file(path: Path, name: str, text: str = "x") -> str:
    (path / name).write_text(text, encoding="utf-8")
    run(path, "add", name)
    run(path, "commit", "-q", "-m", name)
    return run(path, "rev-parse", "HEAD")


def test_commits_and_dirty_files_since_a_commit_are_counted(make_repo: MakeRepo, known: Known) -> None:
    path = make_repo()
    start = commit_file(path, "a.txt")
    commit_file(path, "b.txt")
    commit_file(path, "ü c.txt")
    (path / "a.txt").write_text("changed", encoding="utf-8")
    (path / "ü c.txt").unlink()
    (path / "untracked").write_text("x", encoding="utf-8")
    assert counted(known(path), start) == (2, 2)


@pytest.mark.parametrize("commit", [None, "", "f" * 40, "--all", "HEAD", "main", "xyz"])
def test_a_commit_that_git_does_not_know_gives_no_count(commit: str | None, make_repo: MakeRepo, known: Known) -> None:
    assert counted(known(make_repo()), commit)[0] is None


def test_dirty_files_are_counted_in_the_work_tree_of_the_caller(make_repo: MakeRepo, known: Known) -> None:
    path = make_repo()
    commit_file(path, "a.txt")
    run(path, "worktree", "add", "-q", f"{path}-wt", "-b", "w")
    Path(f"{path}-wt/a.txt").write_text("changed", encoding="utf-8")
    assert counted(known(path), None) == (None, 0)
    assert counted(known(f"{path}-wt"), None) == (None, 1)


PROGRAMS = [
    "filter.evil.clean", "filter.evil.process", "diff.evil.command", "diff.evil.textconv", "diff.external",
    "core.fsmonitor", "core.pager", "core.sshCommand", "core.hooksPath", "pager.rev-list",
]  # fmt: skip


def counted(repository: git.Repository, commit: str | None) -> tuple[int | None, int | None]:
    """What changed since, asked again when git took more than its second: that is a loaded machine's doing."""
    for _ in range(10):
        found = git.changes_since(repository, commit)
        if None not in found:
            break
    return found


def test_counting_runs_nothing_that_the_repository_configures(
    make_repo: MakeRepo, known: Known, tmp_path: Path
) -> None:
    path, pwned = make_repo(), tmp_path / "pwned"
    core = make_repo("core")
    commit_file(core, "a.txt")
    run(path, "submodule", "--quiet", "add", str(core), "core")
    commit_file(path, ".gitattributes", "*.txt filter=evil diff=evil\n")
    commit_file(path, "a.txt")
    program = f"touch {pwned}; cat"
    for place in (path, path / "core"):
        for key in PROGRAMS:
            run(place, "config", key, program)
    (path / "core/a.txt").write_text("y", encoding="utf-8")
    # As young as the index, and rewritten in the second of its commit: git compares the content to be sure, through the
    # clean filter. A second may end in between, so it is tried again.
    for attempt in range(20):
        commit_file(path, "a.txt", f"{attempt:02}")
        pwned.unlink(missing_ok=True)
        (path / "a.txt").write_text("yy", encoding="utf-8")
        index = os.stat(path / ".git/index")
        os.utime(path / "a.txt", ns=(index.st_mtime_ns, index.st_mtime_ns))
        run(path, "-c", "core.fsmonitor=false", "diff-files", "--name-only")
        if pwned.exists():
            break
    assert pwned.exists(), "the trap does not work"
    (path / ".gitattributes").write_text("*.txt filter=evil diff=evil\n\n", encoding="utf-8")
    pwned.unlink()
    found = known(path)
    assert counted(found, git.branch(found).commit) == (0, 1)
    assert not pwned.exists()


def test_counting_leaves_the_index_as_it_is(make_repo: MakeRepo, known: Known) -> None:
    path = make_repo()
    commit_file(path, "a.txt")
    os.utime(path / "a.txt", (1, 1))
    before = (path / ".git/index").read_bytes(), os.stat(path / ".git/index").st_mtime_ns
    counted(known(path), None)
    assert ((path / ".git/index").read_bytes(), os.stat(path / ".git/index").st_mtime_ns) == before
    assert not (path / ".git/index.lock").exists()
