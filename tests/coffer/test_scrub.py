"""Secrets leave a text and come back to it; harmless words stay; nothing is lost and nothing takes long."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coffer import scrub
from tests.coffer.secrets_corpus import HARMLESS, SECRETS, TEXTS, Secret, drawn

TOKEN = "gh" + "p_" + drawn(36)
OTHER = "np" + "m_" + drawn(36)
PEM = "-----BEGIN RSA PRIVATE KEY-----"
PEM_END = "-----END RSA PRIVATE KEY-----"

pieces = st.one_of(
    st.text(max_size=40),
    st.sampled_from([one.line for one in SECRETS]),
    st.sampled_from([one.value for one in SECRETS]),
    st.sampled_from(
        [
            *(
                "[secret-1:github-token]",
                "[secret-2:text]",
                "[Secret-1]",
                "[secret-",
                "secret-1:x]",
                "[ secret_7 x]",
                "[",
                "]",
            ),
            *(
                "password=",
                "token: ",
                '"secret": "',
                "Bearer ",
                "\n",
                "\r\n",
                "\\n",
                "\ud800",
                "\0",
                "密码是 ",
                PEM,
                PEM_END,
            ),
        ]
    ),
)
texts = st.lists(pieces, max_size=12).map("".join)


def test_a_secret_of_each_kind_is_masked_whole_and_nothing_beside_it() -> None:
    missed = [(one, scrub.mask(one.line)) for one in SECRETS if scrub.mask(one.line).text != _masked(one)]
    assert missed == []


def test_every_finding_has_the_kind_of_its_secret() -> None:
    found = [[finding.kind for finding in scrub.redact(one.line).found] for one in SECRETS]
    assert found == [[one.kind] for one in SECRETS]


def test_secrets_in_texts_of_all_sorts_are_masked_whole_and_nothing_beside_them() -> None:
    assert [(one.masked, found) for one in TEXTS if (found := scrub.mask(one.text).text) != one.masked] == []


def test_harmless_lines_stay_as_they_are() -> None:
    assert [line for line in HARMLESS if scrub.mask(line).text != line] == []
    assert [line for line in HARMLESS if scrub.redact(line).found] == []


def _masked(secret: Secret) -> str:
    return secret.line.replace(secret.value, f"[secret-1:{secret.kind}]")


def test_the_corpus_holds_hundreds_of_secrets_and_of_harmless_lines() -> None:
    in_texts = [kind for one in TEXTS for kind, _ in one.secrets]
    assert len(SECRETS) > 180
    assert (len(in_texts), len(set(in_texts))) > (200, 80)
    assert len(set(HARMLESS)) > 600


def test_secrets_are_found_in_a_long_text_as_in_a_short_one() -> None:
    lines = itertools.cycle(one.line for one in SECRETS)
    text = "\n\n".join(f"{next(lines)}\n\n{harmless}" for harmless in HARMLESS)
    masked = scrub.mask(text)
    assert {one.value for one in SECRETS} - set(masked.mask.placeholders) == set()
    assert [line for line in HARMLESS if line not in masked.text] == []
    assert scrub.restore(masked.text, masked.mask) == scrub.Restored(text, [])


@settings(max_examples=200, deadline=None)
@given(texts)
def test_what_was_masked_is_restored_to_the_byte(text: str) -> None:
    masked = scrub.mask(text)
    assert scrub.restore(masked.text, masked.mask) == scrub.Restored(text, [])


@settings(max_examples=100, deadline=None)
@given(st.lists(texts, max_size=4))
def test_one_mask_serves_a_whole_conversation(said: list[str]) -> None:
    mask, sent = scrub.Mask(), []
    for text in said:
        masked = scrub.mask(text, mask)
        mask = masked.mask
        sent.append(masked.text)
    assert [scrub.restore(text, mask) for text in sent] == [scrub.Restored(text, []) for text in said]
    assert len(set(mask.originals.values())) == len(mask.originals) == len(mask.placeholders)


def test_the_same_secret_is_the_same_placeholder_everywhere() -> None:
    first = scrub.mask(f"token {TOKEN} and {OTHER}")
    second = scrub.mask(f"again {TOKEN}, then {TOKEN}", first.mask)
    assert first.text == "token [secret-1:github-token] and [secret-2:npm-token]"
    assert second.text == "again [secret-1:github-token], then [secret-1:github-token]"
    assert second.mask == first.mask


def test_a_secret_that_one_place_betrays_is_masked_at_every_place() -> None:
    masked = scrub.mask("password: hunter2-and-more\nThen log in with hunter2-and-more.")
    assert masked.text == "password: [secret-1:password]\nThen log in with [secret-1:password]."


def test_a_known_secret_is_masked_in_a_later_text_that_does_not_betray_it() -> None:
    known = scrub.mask("password: hunter2-and-more").mask
    assert scrub.mask("log in with hunter2-and-more", known).text == "log in with [secret-1:password]"


def test_placeholders_of_others_are_not_taken_for_ours() -> None:
    text = f"they wrote [secret-1:github-token] about {TOKEN}"
    masked = scrub.mask(text)
    assert masked.text == "they wrote [secret-1:text] about [secret-2:github-token]"
    assert [found.kind for found in masked.found] == ["github-token"]
    assert scrub.restore(masked.text, masked.mask).text == text


@pytest.mark.parametrize(
    "invented",
    [
        "[secret-2:github-token]",
        "[secret-1:npm-token]",
        "[secret-1]",
        "[SECRET-1:github-token]",
        "[secret_1:github-token]",
        "[ secret-1 ]",
        "[secret-1: github-token]",
    ],
)
def test_a_placeholder_that_was_not_given_is_told_and_stays(invented: str) -> None:
    mask = scrub.mask(f"token {TOKEN}").mask
    answer = f"use {invented} or [secret-1:github-token]"
    assert scrub.restore(answer, mask) == scrub.Restored(f"use {invented} or {TOKEN}", [invented])


def test_findings_name_the_kind_and_the_line_and_no_more() -> None:
    masked = scrub.mask(f"one\ntwo {TOKEN}\n\nDB_PASSWORD=hunter2\n{PEM}\nMIIE{drawn(60)}\n{PEM_END}\n")
    assert masked.found == [
        scrub.Finding("github-token", 2),
        scrub.Finding("password", 4),
        scrub.Finding("private-key", 5),
    ]
    assert TOKEN not in repr(masked.mask)
    assert TOKEN not in repr(masked)


def test_redacting_takes_secrets_out_for_good() -> None:
    redacted = scrub.redact(f"Deploy token {TOKEN} for staging")
    assert redacted.text == "Deploy token [github-token removed] for staging"
    assert redacted.found == [scrub.Finding("github-token", 1)]


def test_redacting_leaves_placeholders_and_what_is_no_news() -> None:
    answer = f"password: [secret-1:password]\nold: {TOKEN}\nnew: {OTHER}"
    assert scrub.redact(answer, keep=[f"we sent {TOKEN}"]).text == (
        f"password: [secret-1:password]\nold: {TOKEN}\nnew: [npm-token removed]"
    )


def test_private_keys_one_after_the_other_are_masked_each() -> None:
    body = "\n".join(drawn(64) for _ in range(3))
    block = f"{PEM}\n{body}\n{PEM_END}"
    masked = scrub.mask(f"{block}\n{block}\n\n{PEM}\n{body}")
    assert masked.text == "[secret-1:private-key]\n[secret-1:private-key]\n\n[secret-2:private-key]"


def test_what_follows_a_cut_private_key_is_still_read() -> None:
    text = f"{PEM}\n{drawn(64)}\n{drawn(64)}\n\nThe port is 8443 and the service is called widget-api."
    assert scrub.mask(text).text == "[secret-1:private-key]\n\nThe port is 8443 and the service is called widget-api."


def test_a_blank_line_ends_a_cut_private_key_and_one_behind_its_head_does_not() -> None:
    sha = "3f2a9c1b7d8e4f5a6b7c8d9e0f1a2b3c4d5e6f70"
    assert scrub.mask(f"{PEM}\n{drawn(64)}\n{drawn(64)}\n\n{sha}").text == f"[secret-1:private-key]\n\n{sha}"
    head = f"{PEM}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,{drawn(32)}\n\n{drawn(64)}\n{PEM_END}"
    assert scrub.mask(head).text == "[secret-1:private-key]"
    pgp = "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n" + drawn(64) + "\n=7aBc\n-----END PGP PRIVATE KEY BLOCK-----"
    assert scrub.mask(f"{pgp}\n").text == "[secret-1:private-key]\n"


def test_bc044_keys_of_unknown_makers_are_masked_with_their_tails() -> None:
    values = [
        "sk-sp-MADEUP1234567890.abcdefgh1234567890_XYZ-0987654321",
        "50aaedMADEUP1234567890abcdef1234567890abc.ZpSh99MADEUP",
        "m0-MADEUPabcdefghijklmnopqrstuvwxyz012345",
        "MADE+/abc/def+ghi==",
        "MADE~abc.def_ghi-0123456789",
        "MADE up with spaces 99",
        "MADEUPtok.aaa.bbb.ccc",
        "MADEUP-0a1b2c3d-4e5f",
        "MADEUPabcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ==",
        "MADEUPmixedCase.0123456789.tail",
        "MADEUP#hash;semi",
        "MADEUPdockerEnv.1.2.3",
    ]
    lines = [
        "api_key: {}",
        "api_key: {}",
        "TOKEN={}",
        'secret = "{}"',
        '{"client_secret":"{}"}',
        "pwd='{}'",
        "deploy --token {}",
        "//registry.example.org/:_authToken={}",
        "AccountKey={}",
        "Api-Key : {}",
        'password = "{}"',
        "ENV DB_PASSWORD {}",
    ]
    for line, value in zip(lines, values, strict=True):
        masked = scrub.mask(line.replace("{}", value))
        assert list(masked.mask.placeholders) == [value], line
        assert masked.text == line.replace("{}", next(iter(masked.mask.originals)))


def test_bc046_words_about_keys_stay() -> None:
    lines = [
        "No Firebase API key in the build at all.",
        "apiKey: import.meta.env.VITE_FIREBASE_API_KEY,",
        "fixed in commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "request id 123e4567-e89b-12d3-a456-426614174000",
        "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "token bucket limit = 500 per minute",
        "the risk-sk- prefix is part of the class name",
        ".btn-sk-primary { color: red }",
        "see blob/main/src/auth/token_store.py",
        "password policy: at least 12 characters",
        "icon: data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ",
        "AWS account 123456789012 in eu-central-1",
        "Bearer of bad news: the build is red",
        "AKIA is the usual prefix of access key ids",
    ]
    assert [line for line in lines if scrub.mask(line).text != line] == []


# Each repeated to a long text: a pattern that reads every part again for every part would not come to an end.
HOSTILE = [
    *("a", "Aa1", "=", "[", "\n", " ", "\ud800", "\u212a", "密码", "0123456789abcdef", "a.", "-"),
    *(
        "eyJ",
        "eyJaaaaaaaaaa.",
        "sk-",
        "sk-ant-",
        "SG.aaaaaaaaaaaaaaaaaaaaaa.",
        "1234567890:",
        "MAAAAAAAAAAAAAAAAAAAAAAAA.",
    ),
    *("token=", "token='", 'token="\\', "password", "password=\\\\", "password is ", "--token ", "PASS_", "PASSWORD\n"),
    *("://", "://a:", "://a:b", "bearer ", "basic ", "cookie:==", "authorization:", "login a ", " -u a", "-u a:"),
    *(
        "name: token value: ",
        "name=password\nvalue=",
        "<password>",
        "'token', '",
        "password `",
        "password: x\n",
        "key=",
    ),
    *("mysql ", "mysql -p", "sqlcmd ", "login a -p", "ldapsearch ", "smbclient -U a", "net use ", "identified by ' "),
    *("echo a |", "echo a | b ", "requirepass\n", '"kty" "d": "', "seed phrase: abandon ", "Private-Lines: 9\nAA\n"),
    *("secret AAAAAAAAAAAAAAAAAAAAAAAA ", f"token{'-' * 20}", f"password{' ' * 50}", "[secret-1:x]", "[secret-1"),
    *(
        PEM,
        f"{PEM}\n",
        f"{PEM}\nMIIE\n",
        f"{PEM}\nProc-Type: 4\n",
        PEM_END,
        f"{'MIIE' * 6}\n{PEM_END}\n",
        f"{'A' * 64}\n",
    ),
]


def test_hostile_texts_are_read_to_their_ends() -> None:
    for piece in HOSTILE:
        text = piece * (40_000 // len(piece))
        masked = scrub.mask(text)
        assert scrub.restore(masked.text, masked.mask).text == text
