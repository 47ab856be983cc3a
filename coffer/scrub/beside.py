"""Values that are secrets because of a word beside them: assigned, told, given after a flag, or in an address."""

import base64
import binascii
import math
import re
from collections import Counter
from itertools import pairwise

from coffer.scrub.spans import Detector

_WORD_FOR_IT = (
    r"(?:(?<![A-Za-z])|(?<=db)|(?<=user)|(?<=root)|(?<=smtp)|(?<=ftp))pass|pass(?:word|wort|wd|phrase|code)|pwd"
)
_KEY = (
    r"secret|token|api[_\-. ]?key|(?:access|secret|private|encryption|signing|auth|master|account|session|service|app"
    r"|deploy|license|shared)[_\-. ]?key|key[_\-]?base|credentials?|_auth"
)
_NAME = rf"(?i:(?P<key>{_KEY})|(?P<password>{_WORD_FOR_IT}))[_\-]?\d{{0,2}}"
_WORDS = ("pass", "pwd", "secret", "token", "key", "credential", "_auth")
_CHINESE = "密码|密碼|口令|密钥|密鑰|令牌|凭证|憑證"

_REFERENCE = re.compile(
    r"""(?ix) ^[$%@<{*(\\] | ^// | ^\.{2} | ^… | \$\{ | \{\{ | ^(?:env|keyring|file|vault|op|ref|arn|ssm):
    | environ | getenv | process\.env | import\.meta | ^(?:secrets?|config|settings|args|self|this)\.
    | ^[a-z]+://[^@]*$ | ^\[secret- | ^[x*•.\-_#?]+$
    | ^(?:your|example|sample|dummy|placeholder|change_?me|insert|replace|enter_|todo|redacted|removed|masked|hidden)"""
)
_NEUTRAL = frozenset(
    """
    str string bytes bytearray int integer float number bool boolean any object none null nil true false optional
    required undefined void char text varchar secretstr field const readonly
    password passwd pass pwd passphrase secret token key apikey api user username admin root name value
    example test testing default empty missing unset blank expired invalid valid revoked rotated generated stored
    encrypted hashed plain plaintext unknown unused public private basic bearer digest jwt oauth oauth2 saml auth
    refresh refreshed access session csrf opaque disabled enabled present absent same line input prompt ask stdin
    see and not the from for with read write here there this that yes off
    """.split()  # noqa: SIM905 - words, to be read as such
)
_ALGORITHM = re.compile(
    r"(?i)^(?:sha|md)-?\d|^(?:b|s)crypt|^argon2|^pbkdf2|^base\d\d|^hmac|^aes|^rsa|^ed25519|^utf-?\d|^[hrep]s\d{3}|^oauth"
    r"|^https?|^ipv\d|^v\d|^\d+[a-z]{0,2}$|^\d+(?:\.\d+)+|^x\.?509|^pkcs|^tls|^ssl|^ssh|^totp|^u2f|^k8s|^s3$|^\d+[-/:]"
)
_PATH = re.compile(r"[~.]{0,2}/[\w.\-]+(?:/|$)|[A-Za-z]:\\|\\\\|\./")
_ATTRIBUTE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$")
_NAME_LIKE = re.compile(
    r"[a-z]+\d?(?:[_.\-][a-z]{2,}\d?|[_.\-]v?\d{1,2})*$|[A-Z]+(?:_[A-Z0-9]+)+$|[A-Z]?[a-z]+(?:[A-Z][a-z]+)*$"
)
_HASH = re.compile(r"(?i)(?:[0-9a-f]+|sha\d{1,3}[-:_].*|[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f-]{36})$")
_ID = re.compile(
    r"(?:req|msg|toolu|call|chatcmpl|resp|run|step|thread|asst|file|evt|cus|sub|in|price|prod|acct|org|proj|user|conv|item"
    r"|job|task|build|srv|dep)[_-]"
)
_CODE = re.compile(r"[A-Za-z_][([{]|[;,]$|^[\[({]|^[A-Za-z_]+$")
_VARIABLE = re.compile(r"(?=.*_)[A-Za-z_]+$")
_SIGNS = re.compile(r"[+=~!@#%^&*]")
_LONG = 12  # characters from which a value may be a token although it has no digits, or nothing else


def _kind(match: re.Match[str]) -> str:
    """What the word beside a value calls it."""
    groups = match.groupdict()
    if groups.get("password"):
        return "password"
    word = (groups.get("key") or "").lower()
    return "token" if "token" in word else "key" if "key" in word else "secret"


def _plain(value: str) -> bool:
    """Whether a value is no secret by its looks: a reference, a type, a word of prose, a path, an attribute."""
    return (
        value.strip("\"'`.:!?").lower() in _NEUTRAL
        or bool(_REFERENCE.search(value))
        or bool(_PATH.match(value))
        or bool(_ATTRIBUTE.match(value))
    )


def _digits(value: str) -> int:
    return sum(map(str.isdigit, value))


def _assigned(match: re.Match[str]) -> bool:
    """``password: value`` and its like; a password need not look random where it is quoted or ends its line."""
    value, quoted, text = match["secret"], bool(match["quote"]), match.string
    called = text[match.end() : match.end() + 1] in ("(", "[", "{")
    if _plain(value) or (not quoted and (called or _VARIABLE.match(value))):
        return False
    if quoted and " " in value:
        return bool(match["password"]) and _words(match)
    if not match["password"]:
        return _key_like(value) or (quoted and len(value) >= _LONG and bool(_SIGNS.search(value)))
    if match["password"].lower() == "pass" and (value.isalpha() or value.isdigit()):
        return False
    marked = quoted or _digits(value) > 0 or bool(_SIGNS.search(value))
    return len(value) >= 4 and (marked or (len(value) >= 6 and _alone(match)))


def _words(match: re.Match[str]) -> bool:
    """Whether a quoted value of several words is a password: a passphrase, or an assignment as shells want it."""
    if "phrase" in match["password"].lower():
        return len(match["secret"].split()) > 2
    return match["sign"] == "=" and _digits(match["secret"]) > 0


def _key_like(value: str) -> bool:
    """Whether it can be a token or key: long enough, with digits among letters, and no name."""
    digits, letters = _digits(value), any(map(str.isalpha, value))
    return len(value) >= 8 and digits > 0 and (letters or digits >= _LONG) and not _NAME_LIKE.match(value)


def _alone(match: re.Match[str]) -> bool:
    """Whether name and value are all there is on the line, as in a file of settings."""
    text = match.string
    before = text[text.rfind("\n", max(0, match.start() - 80), match.start()) + 1 : match.start()]
    after = text[match.end() : match.end() + 8].lstrip(" \t")
    return " " not in before.strip(" \t-*") and (not after or after[0] in "\r\n#")


def _line(match: re.Match[str]) -> bool:
    """``NAME=value`` on a line of its own; with the name in capitals plain words are passwords too."""
    value, code = match["secret"], match["name"] != match["name"].upper() or match["space"]
    if _plain(value) or (code and (_CODE.search(value) or value.isalpha() or match["key"] in ("key", "Key"))):
        return False
    return len(value) >= 4 if match["password"] else _key_like(value)


def _told(match: re.Match[str]) -> bool:
    """``the password is value``: in prose only what no word looks like."""
    value = match["secret"].rstrip("!?")
    mixed = any(map(str.isalpha, value)) and _digits(value) > 0
    return mixed and len(value) >= 6 and not (_plain(value) or _ALGORITHM.match(value) or _NAME_LIKE.match(value))


def _strong(match: re.Match[str]) -> bool:
    """A value after a flag or in a header: some digit, and nothing that only points elsewhere."""
    value = match["secret"]
    return _digits(value) > 0 and not (_plain(value) or value.isdigit() or _NAME_LIKE.match(value))


def _flag(match: re.Match[str]) -> bool:
    """A value after a flag may also be long and of both cases; dots in it are no attributes."""
    value = match["secret"]
    mixed = len(value) >= _LONG and any(map(str.isupper, value)) and any(map(str.islower, value))
    return _strong(match) or (mixed and not _REFERENCE.search(value) and not _PATH.match(value))


def _url_password(match: re.Match[str]) -> bool:
    return len(match["secret"]) >= 3 and not _plain(match["secret"])


def _user_password(match: re.Match[str]) -> bool:
    return len(match["secret"]) >= 4 and not match["secret"].isdigit() and not _plain(match["secret"])


def _basic(match: re.Match[str]) -> bool:
    """Whether it is base64 of ``user:password``."""
    given = match["secret"]
    try:
        decoded = base64.b64decode(given + "=" * (-len(given) % 4), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return False
    return ":" in decoded and decoded.isprintable()


def _random(match: re.Match[str]) -> bool:
    """Whether a long token looks drawn by lot: not a hash, id, path, name in camel case, or words with dashes."""
    value = match["secret"].strip("=")
    kinds = [any(map(test, value)) for test in (str.islower, str.isupper, str.isdigit)]
    if (
        not all(kinds)
        or _HASH.match(value)
        or _ID.match(value)
        or _PATH.match(value)
        or value.count("/") > len(value) / 12
    ):
        return False
    turns = sum(_class(left) != _class(right) for left, right in pairwise(value))
    return turns >= 0.42 * (len(value) - 1) and _entropy(value) >= 3.6


def _class(character: str) -> int:
    return 0 if character.islower() else 1 if character.isupper() else 2 if character.isdigit() else 3


def _entropy(value: str) -> float:
    return -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values())


TABLE = (
    Detector(
        "url-password",
        ("://",),
        r"""://[^\s/:@"'<>`]{0,100}:(?P<secret>[^\s/"'<>`]{1,200})@(?=[\w\[])""",
        _url_password,
    ),
    Detector("url-token", ("://",), r"://(?P<secret>[A-Za-z0-9_\-]{24,200})@", _strong),
    Detector("bearer", ("bearer",), r"(?i)\bbearer\s{1,4}(?P<secret>[A-Za-z0-9._~+/\-]{12,}+=*+)", _strong),
    Detector(
        "basic-auth",
        ("basic", '"auth"'),
        r"""(?i)(?:\bbasic\s{1,4}|"auth"\s{0,4}:\s{0,4}")(?P<secret>[A-Za-z0-9+/]{8,}+={0,2})""",
        _basic,
    ),
    Detector(
        "authorization",
        ("authorization",),
        r"""(?i)\bauthorization["']?\s{0,4}[:=]\s{0,4}["']?(?:[a-z]{2,12}\s{1,4})?(?P<secret>[^\s"',]{12,}+)""",
        _strong,
    ),
    Detector(
        "cookie",
        ("cookie:",),
        r"""(?i)\bcookie:\s{0,4}(?P<secret>[^\n\r"']{0,60}=[a-z0-9%._\-]{16,}+[^\n\r"']*+)""",
    ),
    Detector(
        "",
        _WORDS,
        (
            r"(?m)^[ \t]{0,12}(?:(?:export|set|ENV|-)[ \t]{1,4})?(?P<name>[A-Za-z0-9_.\-]{0,60}"
            r"(?i:(?P<password>password|passwd|passphrase|pass|pwd)|(?P<key>secret|token|key|key_base|credentials?|auth))"
            r"""[0-9_]{0,3})(?P<space>[ \t]{0,4})[:=][ \t]{0,4}(?P<secret>[^\s"'`#=]\S*+)[ \t\r]*+$"""
        ),
        _line,
        _kind,
    ),
    Detector(
        "",
        _WORDS,
        (
            rf"""{_NAME}\\{{0,3}}["'`\]]{{0,2}}(?P<sign>[ \t]{{0,8}}(?::=|=>|==?|:(?!:))[ \t]{{0,8}})"""
            r"""(?:[rbuf]{0,2}(?P<quote>\\{0,3}["'`]))?"""
            r"""(?P<secret>(?(quote)(?:(?!(?P=quote))(?:\\.|[^\n\\]))++"""
            r"""|[^\s"'`<>,;&|(){}\[\]\\]*[^\s"'`<>,;&|(){}\[\]\\.:]))"""
        ),
        _assigned,
        _kind,
    ),
    Detector(
        "",
        _WORDS,
        rf"""(?<!\w)--?(?:[a-z]{{1,20}}-){{0,3}}{_NAME}[ \t]{{1,4}}["']?(?P<secret>[^\s"'`|;&\\]{{6,}}+)""",
        _flag,
        _kind,
    ),
    Detector(
        "",
        _WORDS,
        rf"(?m)^[ \t]{{0,12}}(?i:ENV|ARG)[ \t]{{1,4}}[A-Za-z0-9_]{{0,60}}{_NAME}[ \t]{{1,4}}(?P<secret>\S++)",
        _flag,
        _kind,
    ),
    Detector(
        "password",
        ("-u", "--user", "sshpass"),
        (
            r"""(?<!\S)(?:(?:-u|--user)[ =]{0,2}["']?[^\s:"'/]{1,80}:|sshpass\s{1,4}-p\s{0,4}["']?)"""
            r"""(?P<secret>[^\s"']++)"""
        ),
        _user_password,
    ),
    Detector(
        "password",
        ("login",),
        r"\blogin\s{1,8}\S{1,100}\s{1,8}password\s{1,8}(?P<secret>\S++)",
        _user_password,
    ),
    Detector(
        "",
        _WORDS,
        (
            rf"(?<![A-Za-z]){_NAME}(?:[ \t]{{1,4}}(?:for|of|to|on|in)[ \t]{{1,4}}(?:the[ \t]{{1,4}})?[\w.\-]{{1,40}})?"
            r"[ \t]{1,4}(?:is|was|are|changed to|set to)(?:[ \t]{1,4}(?:now|still))?[ \t]{0,2}[:=]?[ \t]{1,4}"
            r"""["'`“]?(?P<secret>[^\s"'`”“]*[^\s"'`”“.,;:)])"""
        ),
        _told,
        _kind,
    ),
    Detector(
        "password",
        tuple(_CHINESE.split("|")),
        rf"""(?:{_CHINESE})\s{{0,2}}(?:是|为|為|叫|改成|:|：|=)\s{{0,2}}["'`“「]?(?P<secret>[!-~]{{6,}}+)""",
        _told,
    ),
    Detector(
        "random-string",
        (*_WORDS, "bearer", *_CHINESE.split("|")),
        (
            r"(?:(?i:secret(?!ar)|token(?!s|iz)|passw|passphrase|(?:api|access|private)[_\- ]?key|credential|bearer)"
            rf"|{_CHINESE})[^\n]{{0,60}}?(?<![A-Za-z0-9+/=_\-.@:])(?P<secret>[A-Za-z0-9+/_\-]{{20,}}+={{0,2}})"
        ),
        _random,
    ),
)
