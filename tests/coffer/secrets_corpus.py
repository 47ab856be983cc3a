"""Made-up secrets of every kind that is known, each in a line as people and programs write it, and harmless lines.

No secret stands here whole: it is put together from how its maker begins it and characters drawn by a fixed rule, so
that nothing that looks for leaks takes this file for one.
"""

import base64
import itertools
import random
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ALNUM = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
HEX = "0123456789abcdef"
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_counter = itertools.count(1)


def drawn(length: int, letters: str = ALNUM) -> str:
    """Characters that look drawn by lot, others each time, the same in every run; digits are among them."""
    lot = random.Random(next(_counter) * 7919)
    middle = "".join(lot.choice(letters) for _ in range(length - 2))
    return f"{middle[: length // 2]}7{middle[length // 2 :]}{letters[0]}"


@dataclass(frozen=True)
class Secret:
    """A secret, and the line it stands in."""

    kind: str
    value: str
    line: str


def _in(kind: str, value: str, line: str = "the value is {} here") -> Secret:
    return Secret(kind, value, line.replace("{}", value))


def _tokens() -> list[Secret]:
    uuid = f"{drawn(8, HEX)}-{drawn(4, HEX)}-{drawn(4, HEX)}-{drawn(4, HEX)}-{drawn(12, HEX)}"
    begun = [
        *(("github-token", f"gh{one}_", drawn(36)) for one in "pousr"),
        ("github-token", "github_pat_", f"{drawn(22)}_{drawn(59)}"),
        *(("gitlab-token", f"gl{one}-", drawn(20)) for one in ("pat", "ptt", "dt", "soat", "cbt")),
        ("bitbucket-token", "ATBB", drawn(32)),
        *(("aws-access-key", one, drawn(16, UPPER)) for one in ("AKIA", "ASIA")),
        ("gcp-api-key", "AIza", drawn(35)),
        ("google-oauth", "ya29.", drawn(60)),
        ("google-oauth", "GOCSPX-", drawn(28)),
        ("anthropic-key", "sk-ant-api03-", f"{drawn(93)}AA"),
        ("openrouter-key", "sk-or-v1-", drawn(64, HEX)),
        ("langfuse-key", "sk-lf-", uuid),
        ("openai-key", "sk-", drawn(48)),
        *(("openai-key", f"sk-{one}-", f"{drawn(60)}_{drawn(40)}") for one in ("proj", "svcacct", "admin")),
        ("huggingface-token", "hf_", drawn(34)),
        ("groq-key", "gsk_", drawn(52)),
        ("xai-key", "xai-", drawn(80)),
        ("replicate-token", "r8_", drawn(37)),
        ("perplexity-key", "pplx-", drawn(48)),
        ("nvidia-key", "nvapi-", drawn(64)),
        ("cerebras-key", "csk-", drawn(48, "abcdefghijkmnpqrstuvwxyz23456789")),
        ("langsmith-key", "lsv2_pt_", f"{drawn(32, HEX)}_{drawn(10, HEX)}"),
        ("pinecone-key", "pcsk_", drawn(60)),
        ("npm-token", "npm_", drawn(36)),
        ("pypi-token", "pypi-", f"AgEIcHlwaS5vcmc{drawn(120)}"),
        ("rubygems-key", "rubygems_", drawn(48, HEX)),
        ("docker-hub-token", "dckr_pat_", drawn(27)),
        ("slack-token", "xoxb-", f"{drawn(12, '0123456789')}-{drawn(13, '0123456789')}-{drawn(24)}"),
        ("slack-token", "xoxe.xoxp-1-", drawn(60)),
        ("slack-token", "xapp-1-", f"{drawn(11, UPPER)}-{drawn(13, '0123456789')}-{drawn(64, HEX)}"),
        *(("stripe-key", f"{one}_{mode}_", drawn(24)) for one in ("sk", "rk") for mode in ("live", "test")),
        ("stripe-webhook-secret", "whsec_", drawn(32)),
        ("square-token", "sq0atp-", drawn(22)),
        ("shopify-token", "shpat_", drawn(32, HEX)),
        ("sendgrid-key", "SG.", f"{drawn(22)}.{drawn(43)}"),
        ("mailgun-key", "key-", drawn(32, HEX)),
        ("mailgun-key", "", f"{drawn(32, HEX)}-{drawn(8, HEX)}-{drawn(8, HEX)}"),
        ("mailchimp-key", "", f"{drawn(32, HEX)}-us21"),
        ("twilio-key", "SK", drawn(32, HEX)),
        *(("digitalocean-token", f"do{one}_v1_", drawn(64, HEX)) for one in "opr"),
        ("heroku-key", "HRKU-", drawn(60)),
        ("azure-client-secret", "", f"{drawn(3)}8Q~{drawn(34)}"),
        ("cloudflare-token", "v1.0-", f"{drawn(24, HEX)}-{drawn(146, HEX)}"),
        *(("vault-token", f"hv{one}.", drawn(90)) for one in "sbr"),
        ("terraform-token", "", f"{drawn(14)}.atlasv1.{drawn(67)}"),
        ("pulumi-token", "pul-", drawn(40, HEX)),
        ("doppler-token", "dp.pt.", drawn(43)),
        ("fly-token", "fm2_", drawn(80)),
        ("netlify-token", "nfp_", drawn(36)),
        ("planetscale-token", "pscale_tkn_", drawn(43)),
        ("supabase-key", "sbp_", drawn(40, HEX)),
        ("tailscale-key", "tskey-auth-", f"{drawn(12)}-{drawn(32)}"),
        ("grafana-token", "glsa_", f"{drawn(32)}_{drawn(8, HEX)}"),
        ("newrelic-key", "NRAK-", drawn(27, UPPER)),
        ("sentry-token", "sntrys_", drawn(100)),
        ("sentry-token", "sntryu_", drawn(64, HEX)),
        ("linear-key", "lin_api_", drawn(40)),
        ("notion-token", "ntn_", drawn(46)),
        ("notion-token", "secret_", drawn(43)),
        ("figma-token", "figd_", drawn(40)),
        ("postman-key", "PMAK-", f"{drawn(24, HEX)}-{drawn(34, HEX)}"),
        ("atlassian-token", "ATATT3", f"xFfGF0{drawn(180)}"),
        ("airtable-token", "pat", f"{drawn(14)}.{drawn(64, HEX)}"),
        ("hubspot-token", "pat-na1-", uuid),
        ("databricks-token", "dapi", drawn(32, HEX)),
        ("circleci-token", "CCIPAT_", f"{drawn(22)}_{drawn(40, HEX)}"),
        ("buildkite-token", "bkua_", drawn(40, HEX)),
        ("sourcegraph-token", "sgp_", f"{drawn(16, HEX)}_{drawn(40, HEX)}"),
        ("telegram-token", "", f"{drawn(10, '0123456789').replace('A', '1')}:AA{drawn(33)}"),
        ("discord-token", "M", f"{drawn(25)}.{drawn(6)}.{drawn(38)}"),
        ("alibaba-key", "LTAI", drawn(20)),
        ("age-key", "AGE-SECRET-KEY-1", drawn(58, UPPER)),
        ("mapbox-token", "sk.eyJ", f"{drawn(60)}.{drawn(22)}"),
        ("onepassword-token", "ops_eyJ", drawn(120)),
        ("tavily-key", "tvly-", drawn(32)),
        ("fireworks-key", "fw_", drawn(24)),
        ("elevenlabs-key", "sk_", drawn(48, HEX)),
        ("dropbox-token", "sl.", drawn(130)),
        ("facebook-token", "EAA", drawn(120)),
        ("google-oauth", "1//0", drawn(60)),
        ("dynatrace-token", "dt0c01.", f"{drawn(24, UPPER)}.{drawn(64, UPPER)}"),
        ("contentful-token", "CFPAT-", drawn(43)),
        ("swarm-token", "SWMTKN-1-", f"{drawn(50, HEX)}-{drawn(25, HEX)}"),
        ("clojars-token", "CLOJARS_", drawn(60, "abcdefghijklmnopqrstuvwxyz0123456789")),
        ("prefect-key", "pnu_", drawn(36)),
        ("azure-devops-token", "", f"{drawn(52, 'abcdefghijklmnopqrstuvwxyz0123456789')}AZDO{drawn(4)}"),
        ("braintree-token", "access_token$production$", f"{drawn(16, HEX)}${drawn(32, HEX)}"),
        ("jwt", "eyJ", f"{drawn(33)}.eyJ{drawn(60)}.{drawn(43)}"),
    ]
    return [_in(kind, begin + rest) for kind, begin, rest in begun]


def _beside() -> list[Secret]:
    basic = base64.b64encode(b"deploy:s3cr3t-for-tests").decode()
    hooks = "https://hooks.slack" + ".com/services/"
    return [
        _in("slack-webhook", f"T{drawn(10, UPPER)}/B{drawn(10, UPPER)}/{drawn(24)}", f"curl -d @- {hooks}{{}}"),
        _in("discord-webhook", f"{'8' * 18}/{drawn(68)}", "https://discord.com/api/webhooks/{}"),
        _in("teams-webhook", f"webhookb2/{drawn(36)}@{drawn(36)}", "POST https://acme.webhook.office.com/{}"),
        _in("azure-storage-key", f"{drawn(86)}==", "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={};"),
        _in("signed-url", drawn(43), "https://x.blob.core.windows.net/c/f?sv=2024-01-01&sig={}"),
        _in("bearer", drawn(40), "curl -H 'Authorization: Bearer {}' https://example.org"),
        _in("bearer", drawn(24), "they send `bearer {}` with each request"),
        _in("basic-auth", basic, "Authorization: Basic {}"),
        _in("basic-auth", basic, '{"auths": {"registry.example.org": {"auth": "{}"}}}'),
        _in("authorization", drawn(32), "Authorization: Token {}"),
        _in("cookie", f"sid={drawn(40)}; theme=dark", "Cookie: {}"),
        _in("url-password", "hunter2hunter", "DATABASE_URL=postgres://app:{}@db.example.org:5432/app"),
        _in("url-password", "p%40ss-w0rd", "redis://:{}@10.0.0.7:6379/0"),
        _in("url-password", "swordfish", "git clone https://deploy:{}@git.example.org/acme/widget.git"),
        _in("url-password", "a@b:c!7", "amqp://guest:{}@queue.example.org/v"),
        _in("url-token", drawn(40), "git clone https://{}@github.example.org/acme/widget"),
        # settings
        _in("password", "swordfish", "DB_PASSWORD={}"),
        _in("password", "p4ss(w0rd)&more;$x", "export PGPASSWORD={}"),
        _in("password", "Tr0ub4dor&3", "  password: {}"),
        _in("password", "correcthorse", "password: {}"),
        _in("password", "it's-7-o'clock", 'password = "{}"'),
        _in("password", "hunter2", "db_password='{}'"),
        _in("password", "hunter2x", '"password": "{}",'),
        _in("password", "hunter2y", '\\"password\\": \\"{}\\"'),
        _in("password", "12345678", "password: {}"),
        _in("password", "correct horse battery staple", 'passphrase: "{}"'),
        _in("password", "Winter2026!", "pwd={}"),
        _in("token", drawn(20), "API_TOKEN={}"),
        _in("token", drawn(32, HEX), "token: {}"),
        _in("token", drawn(40, HEX), 'github_token = "{}"'),
        _in("token", drawn(36), "//registry.npmjs.org/:_authToken={}"),
        _in("token", drawn(30), "https://api.example.org/v1/items?access_token={}&page=2"),
        _in("token", "a1B2-c3D4_e5F6.g7H8", "token := `{}`"),
        _in("key", drawn(32, HEX), "DD_API_KEY={}"),
        _in("key", drawn(40), "aws_secret_access_key = {}"),
        _in("key", drawn(24), '"apiKey": "{}"'),
        _in("key", drawn(24), "X-Api-Key: {}"),
        _in("key", drawn(50), "SECRET_KEY_BASE={}"),
        _in("key", drawn(24), "api key: {}"),
        _in("secret", drawn(32), "client_secret: {}"),
        _in("secret", drawn(32), "{:client_secret => '{}'}"),
        _in("secret", drawn(16, UPPER), "otpauth://totp/acme?secret={}&issuer=acme"),
        _in("secret", "0123abcd-45ef-67ab-89cd-0123456789ab", "HEROKU_SECRET={}"),
        # the command line
        _in("password", "hunter2", "mysql --user=app --password={} app"),
        _in("password", "hunter22", "tool login --password {}"),
        _in("token", drawn(20), "vercel deploy --token {}"),
        _in("key", drawn(20), "tool --api-key {} run"),
        _in("password", "hunter2", "curl -u admin:{} https://example.org"),
        _in("password", "hunter2", "sshpass -p '{}' ssh host"),
        _in("password", "hunter2", "machine example.org login me password {}"),
        # prose, in both languages
        _in("password", "hunter2x", "The staging password is {}."),
        _in("password", "Winter2026!", "The password for the wiki is `{}`, ask Ann before you change it"),
        _in("token", drawn(16), "the deploy token is {}"),
        _in("password", "hunter2x", "测试环境的密码是 {}"),
        _in("password", "Xk29fjQ1", "数据库密码：{}"),
        # nothing but a word near it
        _in("random-string", drawn(32), "Use the staging credentials from Ann ({}) until March"),
        _in("random-string", drawn(44), "secret for the webhook, rotated last week - {}"),
    ]


def _private_keys() -> list[Secret]:
    body = "\n".join([drawn(64) for _ in range(5)] + [drawn(20) + "=="])
    found = []
    for label in ("RSA ", "EC ", "OPENSSH ", "", "ENCRYPTED "):
        begin, end = f"-----BEGIN {label}PRIVATE KEY-----", f"-----END {label}PRIVATE KEY-----"
        found += [
            _in("private-key", f"{begin}\n{body}\n{end}", "key:\n{}\nand then prose follows"),
            _in("private-key", f"{begin}\n{body}", "cut off at the end:\n{}"),
            _in("private-key", f"{body}\n{end}", "cut off at the beginning.\n\n{}\nand then"),
            _in("private-key", f"{begin}\\n{body}\\n{end}".replace("\n", "\\n"), '"private_key": "{}\\n"'),
            _in("private-key", f"{begin}\n{body}\n{end}".replace("\n", "\n> "), "quoted:\n> {}\n\nend"),
        ]
    encoded = base64.b64encode(f"-----BEGIN RSA PRIVATE KEY-----\n{body}".encode()).decode()
    found.append(_in("private-key", encoded, "client-key-data: {}"))
    found.append(_in("private-key", f"{drawn(64)}\n", "Private-Lines: 1\n{}Private-MAC: 0"))
    return found


SECRETS = [*_tokens(), *_beside(), *_private_keys()]


@dataclass(frozen=True)
class Text:
    """A text as people and programs write it, the secrets in it in order, and what it is without them."""

    text: str
    secrets: list[tuple[str, str]]
    masked: str


_HERE = Path(__file__).parent / "corpus"
_MARK = re.compile(r"«(?P<kind>[a-z-]+)(?:\.(?P<which>\d+)|~(?P<hex>hex)?(?P<length>\d+)|=(?P<value>[^»]+))?»")


def _texts() -> list[Text]:
    """The texts of secrets.txt, its marks filled in: a kind's own form, characters drawn by lot, or a plain word."""
    forms: dict[str, list[str]] = defaultdict(list)
    for one in SECRETS:
        forms[one.kind].append(one.value)
    whole = (_HERE / "secrets.txt").read_text("utf-8")
    return [_filled(text, forms) for text in whole.split("====\n")]


def _filled(text: str, forms: dict[str, list[str]]) -> Text:
    secrets: list[tuple[str, str]] = []

    def fill(mark: re.Match[str]) -> str:
        if mark["length"]:
            value = drawn(int(mark["length"]), HEX if mark["hex"] else ALNUM)
        else:
            value = mark["value"] or forms[mark["kind"]][int(mark["which"] or 1) - 1]
        secrets.append((mark["kind"], value))
        return value

    filled = _MARK.sub(fill, text)
    known: dict[str, str] = {}
    for kind, value in secrets:
        known.setdefault(value, f"[secret-{len(known) + 1}:{kind}]")
    values = iter(secrets)
    return Text(filled, secrets, _MARK.sub(lambda mark: known[next(values)[1]], text))


TEXTS = _texts()
HARMLESS = (_HERE / "harmless.txt").read_text("utf-8").splitlines()
