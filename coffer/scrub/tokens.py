"""Tokens that say themselves what they are, by how their makers begin them."""

import re
from collections.abc import Callable

from coffer.scrub.spans import Detector

_START = r"(?<![A-Za-z0-9])"  # not in the middle of a word
_RUN = r"(?<![A-Za-z0-9_\-])"  # not in the middle of a run of base64url
_DOTTED = r"(?:[A-Za-z0-9_\-]|\.(?=[A-Za-z0-9_\-]))"  # the full stop after a token is none of it


def _varied(match: re.Match[str]) -> bool:
    """Whether it is more than a beginning with a row of x behind it, as instructions have it."""
    return len(set(match[0][-16:])) > 3


def _token(kind: str, pattern: str, *hints: str, check: Callable[[re.Match[str]], bool] = _varied) -> Detector:
    return Detector(kind, hints, _START + pattern, check)


TABLE = (
    _token("github-token", r"gh[pousr]_[A-Za-z0-9]{30,}+", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    _token("github-token", r"github_pat_[A-Za-z0-9_]{22,}+", "github_pat_"),
    _token("gitlab-token", rf"gl(?:pat|ptt|rt|soat|dt|ft|cbt|imt|agent|oas|ffct)-{_DOTTED}{{16,}}+", "gl"),
    _token("bitbucket-token", r"ATBB[A-Za-z0-9]{28,}+", "atbb"),
    _token("aws-access-key", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])", "akia", "asia", "abia", "acca"),
    _token("gcp-api-key", r"AIza[0-9A-Za-z_\-]{35}", "aiza"),
    _token("google-oauth", r"ya29\.[A-Za-z0-9_\-]{20,}+", "ya29."),
    _token("google-oauth", r"GOCSPX-[A-Za-z0-9_\-]{24,}+", "gocspx-"),
    _token("anthropic-key", r"sk-ant-[A-Za-z0-9_\-]{20,}+", "sk-ant-"),
    _token("openrouter-key", r"sk-or-v1-[0-9a-f]{32,}+", "sk-or-"),
    _token("langfuse-key", r"sk-lf-[0-9a-f\-]{32,}+", "sk-lf-"),
    _token("openai-key", r"sk-(?:proj|svcacct|admin|service)-[A-Za-z0-9_\-]{20,}+", "sk-"),
    _token(
        "openai-key",
        r"sk-[A-Za-z0-9]{20,}+",
        "sk-",
        check=lambda match: any(map(str.isdigit, match[0])) and _varied(match),
    ),
    _token("huggingface-token", r"(?:hf|api_org)_[A-Za-z0-9]{30,}+", "hf_", "api_org_"),
    _token("groq-key", r"gsk_[A-Za-z0-9]{40,}+", "gsk_"),
    _token("xai-key", r"xai-[A-Za-z0-9]{60,}+", "xai-"),
    _token("replicate-token", r"r8_[A-Za-z0-9]{30,}+", "r8_"),
    _token("perplexity-key", r"pplx-[A-Za-z0-9]{40,}+", "pplx-"),
    _token("nvidia-key", r"nvapi-[A-Za-z0-9_\-]{50,}+", "nvapi-"),
    _token("cerebras-key", r"csk-[a-z0-9]{40,}+", "csk-"),
    _token("langsmith-key", r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}", "lsv2_"),
    _token("pinecone-key", r"pcsk_[A-Za-z0-9_]{40,}+", "pcsk_"),
    _token("npm-token", r"npm_[A-Za-z0-9]{36,}+", "npm_"),
    _token("pypi-token", r"pypi-[A-Za-z0-9_\-]{50,}+", "pypi-"),
    _token("rubygems-key", r"rubygems_[0-9a-f]{48}", "rubygems_"),
    _token("clojars-token", r"CLOJARS_[0-9a-z]{60}", "clojars_"),
    _token("docker-hub-token", r"dckr_(?:pat|oat)_[A-Za-z0-9_\-]{20,}+", "dckr_"),
    _token("slack-token", r"xox[abcdeoprs](?:\.xox[bp])?-[0-9A-Za-z\-]{10,}+", "xox"),
    _token("slack-token", r"xapp-\d-[A-Z0-9]{6,}-[0-9A-Za-z\-]{10,}+", "xapp-"),
    _token(
        "slack-webhook",
        r"https://hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/_\-]{20,}+)",
        "hooks.slack.com",
    ),
    _token(
        "discord-webhook", r"https://discord(?:app)?\.com/api/webhooks/(?P<secret>\d{5,25}/[\w\-]{30,}+)", "/webhooks/"
    ),
    _token("discord-token", r"[MNO][A-Za-z\d_\-]{22,27}\.[\w\-]{6}\.[\w\-]{27,}+", "."),
    _token("teams-webhook", r"https://[\w\-]{1,80}\.webhook\.office\.com/(?P<secret>[\w@/\-]{40,}+)", "webhook.office"),
    _token("telegram-token", r"(?:bot)?(?P<secret>\d{8,12}:AA[A-Za-z0-9_\-]{32,}+)", ":aa"),
    _token("stripe-key", r"(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{16,}+", "sk_", "rk_"),
    _token("stripe-webhook-secret", r"whsec_[A-Za-z0-9+/=]{24,}+", "whsec_"),
    _token("square-token", r"sq0[a-z]{3}-[A-Za-z0-9_\-]{22,}+", "sq0"),
    _token("shopify-token", r"shp(?:at|ca|pa|ss|tka)_[0-9a-fA-F]{32}", "shp"),
    _token("braintree-token", r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}", "access_token$"),
    _token("sendgrid-key", r"SG\.[A-Za-z0-9_\-]{16,32}\.[A-Za-z0-9_\-]{32,}+", "sg."),
    _token("mailgun-key", r"key-[0-9a-f]{32}(?![0-9a-f])", "key-"),
    _token("mailgun-key", r"[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}(?![0-9a-f])", "-"),
    _token("mailchimp-key", r"[0-9a-f]{32}-us\d{1,2}(?!\w)", "-us"),
    _token("twilio-key", r"SK[0-9a-f]{32}(?![0-9a-f])", "sk"),
    _token("digitalocean-token", r"do[opr]_v1_[0-9a-f]{64}", "_v1_"),
    _token("heroku-key", r"HRKU-[A-Za-z0-9_\-]{30,}+", "hrku-"),
    _token(
        "azure-storage-key",
        r"(?:Account|SharedAccess)Key=(?P<secret>[A-Za-z0-9+/]{40,}+={0,2})",
        "accountkey",
        "sharedaccesskey",
    ),
    _token("azure-client-secret", r"[A-Za-z0-9_\-~.]{3}[78]Q~[A-Za-z0-9_\-~.]{31,34}", "q~"),
    _token("azure-devops-token", r"[a-z0-9]{52}AZDO[A-Za-z0-9]{4,}", "azdo"),
    _token("signed-url", r"(?:sig|X-Amz-Signature|X-Goog-Signature)=(?P<secret>[A-Za-z0-9%+/_\-]{30,}+=?)", "sig"),
    _token("cloudflare-token", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{100,}+", "v1.0-"),
    _token("vault-token", r"hv[sbr]\.[A-Za-z0-9_\-]{20,}+", "hvs.", "hvb.", "hvr."),
    _token("terraform-token", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=\-]{40,}+", ".atlasv1."),
    _token("pulumi-token", r"pul-[0-9a-f]{40}", "pul-"),
    _token("doppler-token", rf"dp\.(?:pt|st|ct|sa|scim|audit)\.{_DOTTED}{{30,}}+", "dp."),
    _token("fly-token", r"(?:fm[12][ar]?|fo1)_[A-Za-z0-9+/=_\-]{30,}+", "fm1", "fm2", "fo1_"),
    _token("netlify-token", r"nf[pcoub]_[A-Za-z0-9_]{36,}+", "nf"),
    _token("planetscale-token", rf"pscale_(?:tkn|pw|oauth)_{_DOTTED}{{30,}}+", "pscale_"),
    _token("supabase-key", r"sb(?:p_[0-9a-f]{40}|_secret_[A-Za-z0-9_\-]{20,}+)", "sbp_", "sb_secret_"),
    _token("tailscale-key", r"tskey-[a-z]{2,10}-[A-Za-z0-9]{6,}-[A-Za-z0-9]{16,}+", "tskey-"),
    _token("grafana-token", r"gl(?:sa_[A-Za-z0-9]{32}_[0-9a-f]{8}|c_[A-Za-z0-9+/=]{32,}+)", "glsa_", "glc_"),
    _token("newrelic-key", r"NRAK-[A-Z0-9]{27}", "nrak-"),
    _token("sentry-token", r"sntry[us]_[A-Za-z0-9+/=_\-]{40,}+", "sntry"),
    _token("linear-key", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}+", "lin_"),
    _token("notion-token", r"(?:secret_[A-Za-z0-9]{43}|ntn_[A-Za-z0-9]{40,}+)", "secret_", "ntn_"),
    _token("figma-token", r"fig[dou]_[A-Za-z0-9_\-]{36,}+", "fig"),
    _token("postman-key", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}", "pmak-"),
    _token("atlassian-token", r"AT(?:ATT|CTT)3[A-Za-z0-9_=\-]{60,}+", "atatt3", "atctt3"),
    _token("airtable-token", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}", "pat"),
    _token("hubspot-token", r"pat-[a-z]{2,3}\d-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "pat-"),
    _token("databricks-token", r"dapi[0-9a-f]{32}(?:-\d)?", "dapi"),
    _token("circleci-token", r"CCIPAT_[A-Za-z0-9_]{40,}+", "ccipat_"),
    _token("buildkite-token", r"bk(?:ua|aj|et|pi|ct)_[A-Za-z0-9]{38,}+", "bk"),
    _token("sourcegraph-token", r"sgp_(?:[0-9a-f]{16}_|local_)?[0-9a-f]{40}", "sgp_"),
    _token("prefect-key", r"pn[ub]_[A-Za-z0-9]{36}", "pnu_", "pnb_"),
    _token("mapbox-token", r"[sp]k\.eyJ[A-Za-z0-9_\-]{20,}+\.[A-Za-z0-9_\-]{16,}+", "k.eyj"),
    _token("alibaba-key", r"LTAI[A-Za-z0-9]{16,26}(?![A-Za-z0-9])", "ltai"),
    _token("onepassword-token", r"ops_eyJ[A-Za-z0-9_\-+/=]{80,}+", "ops_eyj"),
    _token("tavily-key", r"tvly-(?:dev-|prod-)?[A-Za-z0-9\-]{20,}+", "tvly-"),
    _token("fireworks-key", r"fw_[A-Za-z0-9]{22,}+", "fw_"),
    _token("elevenlabs-key", r"sk_[0-9a-f]{48}(?![0-9a-f])", "sk_"),
    _token("dropbox-token", r"sl\.(?:u\.)?[A-Za-z0-9_\-]{100,}+", "sl."),
    _token("facebook-token", r"EAA[A-Za-z0-9]{80,}+", "eaa"),
    _token("google-oauth", r"1//0[A-Za-z0-9_\-]{40,}+", "1//0"),
    _token("dynatrace-token", r"dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}", "dt0"),
    _token("contentful-token", r"CFPAT-[A-Za-z0-9_\-]{40,}+", "cfpat-"),
    _token("easypost-key", r"EZ[AT]K[A-Za-z0-9]{54}", "ezak", "eztk"),
    _token("shippo-token", r"shippo_(?:live|test)_[0-9a-f]{40}", "shippo_"),
    _token("posthog-key", r"phx_[A-Za-z0-9]{40,}+", "phx_"),
    _token("typeform-token", r"tfp_[A-Za-z0-9_\-]{40,}+", "tfp_"),
    _token("artifactory-key", r"AKCp[A-Za-z0-9]{60,}+", "akcp"),
    _token("swarm-token", r"SWMTKN-1-[a-z0-9]{40,}-[a-z0-9]{20,}+", "swmtkn-"),
    _token(
        "private-key",  # in base64, as Kubernetes keeps it: BEGIN RSA, PRIVATE, EC, OPENSSH, ENCRYPTED
        r"LS0tLS1CRUdJTiB(?:SU0E|QUklW|FQy|PUEVO|FTkNS)[A-Za-z0-9+/]{40,}+={0,2}",
        "ls0tls1crudjtib",
    ),
    _token("age-key", r"AGE-SECRET-KEY-1[A-Z0-9]{50,}+", "age-secret-key-1"),
    Detector("jwt", ("eyj",), _RUN + r"eyJ[A-Za-z0-9_\-]{8,}+\.eyJ[A-Za-z0-9_\-]{8,}+\.[A-Za-z0-9_\-]{10,}+"),
)
