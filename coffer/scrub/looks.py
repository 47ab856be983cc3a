"""What a value that stands beside a telling word must look like to be a secret, place by place."""

import base64
import binascii
import math
import re
from collections import Counter
from itertools import pairwise

_KINDS = {"token": ("token", "牌"), "key": ("key", "钥", "鑰"), "secret": ("secret", "credential", "_auth", "证", "證")}

_REFERENCE = re.compile(
    r"""(?ix) ^[$%@<{*(\\] | ^// | ^\.[.*+] | ^… | \$\{ | \{\{ | ^(?:env|keyring|file|vault|op|ref|arn|ssm):
    | environ | getenv | process\.env | import\.meta | ^(?:secrets?|config|settings|args|self|this)\.
    | ^!(?:vault|secret|env|ref|sub)\b | ^[a-z]+://[^@]*$ | ^\[secret- | ^[x*•.\-_#?:]+$
    | ^[\[(]?(?:your|example|sample|dummy|placeholder|change[_-]?me|insert|replace|enter_|todo
    |redacted|removed|masked|hidden)"""
)
_NEUTRAL = frozenset(
    """
    str string bytes bytearray int integer float number bool boolean any object none null nil true false optional
    required undefined void char text varchar secretstr field const readonly
    password passwd pass pwd passphrase secret token key apikey api user username admin root name value
    example test testing default empty missing unset blank expired invalid valid revoked rotated generated stored
    encrypted hashed plain plaintext unknown unused public private basic bearer digest jwt oauth oauth2 saml auth
    refresh refreshed access session csrf opaque disabled enabled present absent same line input prompt ask stdin
    passwort kennwort passe senha credentials see and not the from for with read write here there this that yes off
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
    r"|[A-Za-z]+-\d\.\d$|[A-Z][A-Za-z]*\d{1,5}(?:[A-Z][a-z]+)+$"
)
_HASH = re.compile(r"(?i)(?:[0-9a-f]+|sha\d{1,3}[-:_].*|[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f-]{36})$")
_ID = re.compile(
    r"(?:req|msg|toolu|call|chatcmpl|resp|run|step|thread|asst|file|evt|cus|sub|in|price|prod|acct|org|proj|user|conv|item"
    r"|job|task|build|srv|dep)[_-]"
)
_CODE = re.compile(r"[A-Za-z_][([{]|[;,]$|^[\[({]|^[A-Za-z_]+$|^[A-Za-z]{1,2}[\"']")
_TYPE = re.compile(r"(?:[A-Z][a-z]+){2,}$")
_ITEM = re.compile(r"\w\[-?\w+\]")
_VARIABLE = re.compile(r"(?=.*_)[A-Za-z_]+$")
_ASSIGNMENT = re.compile(r"[A-Za-z_]{2,20}=\w")
_ADDRESS = re.compile(r"://[^\s/]{0,79}\Z")
_ENDS = ("password", "token", "secret", "key")  # of names in code
_SAYS_SO = re.compile(r"(?i)super[-_]?secret")
_SIGNS = re.compile(r"[+=~!@#%^&*]")
_LONG = 12  # characters from which a value may be a token although it has no digits, or nothing else


def kind(match: re.Match[str]) -> str:
    """What the word beside a value calls it."""
    word = (match.groupdict().get("key") or "").lower()
    return next((kind for kind, parts in _KINDS.items() if any(part in word for part in parts)), "password")


def _plain(value: str) -> bool:
    """Whether a value is no secret by its looks: a reference, a type, a word of prose, a path, an attribute."""
    return _points(value) or bool(_ATTRIBUTE.match(value))


def _points(value: str) -> bool:
    """The same of a value where there is no code, and so no attribute."""
    neutral = value.strip("\"'`.:!?").lower() in _NEUTRAL
    return neutral or bool(_REFERENCE.search(value)) or bool(_PATH.match(value))


def _digits(value: str) -> int:
    return sum(map(str.isdigit, value))


def assigned(match: re.Match[str]) -> bool:
    """``password: value`` and its like; a password need not look random where it is quoted or ends its line."""
    value, quoted, text = match["secret"], bool(match["quote"]), match.string
    called = text[match.end() : match.end() + 1] in ("(", "[", "{")
    if _plain(value) or (not quoted and (called or _VARIABLE.match(value) or _of_another(match))):
        return False
    if quoted and " " in value:
        return bool(match["password"]) and _words(match)
    if value[0] in "[(^" or (value.isalpha() and value.lower().endswith(_ENDS)):
        return False
    if not match["password"]:
        return _key_like(value) or (quoted and len(value) >= _LONG and bool(_SIGNS.search(value)))
    if match["password"].lower() == "pass" and (value.isalpha() or value.isdigit()):
        return False
    marked = quoted or _digits(value) > 0 or bool(_SIGNS.search(value))
    return len(value) >= 4 and (marked or (len(value) >= 6 and not _TYPE.match(value) and _alone(match)))


def _of_another(match: re.Match[str]) -> bool:
    """Whether the value is the next assignment, or what follows the user of an address, which has its own pattern."""
    value, start = match["secret"], match.start()
    if match["sign"][-1] in " \t" and _ASSIGNMENT.match(value):
        return True
    return "@" in value and bool(_ADDRESS.search(match.string, max(0, start - 80), start))


def _words(match: re.Match[str]) -> bool:
    """Whether a quoted value of several words is a password: a passphrase, or an assignment as shells want it."""
    if "phrase" in match["password"].lower():
        return len(match["secret"].split()) > 2
    return match["sign"] == "=" and _digits(match["secret"]) > 0


def _key_like(value: str) -> bool:
    """Whether it can be a token or key: long enough, with digits among letters, and no name."""
    digits, letters = _digits(value), any(map(str.isalpha, value))
    if _SAYS_SO.search(value):
        return True
    return len(value) >= 8 and digits > 0 and (letters or digits >= _LONG) and not _NAME_LIKE.match(value)


def _alone(match: re.Match[str]) -> bool:
    """Whether name and value are all there is on the line, as in a file of settings."""
    text = match.string
    before = text[text.rfind("\n", max(0, match.start() - 80), match.start()) + 1 : match.start()]
    after = text[match.end() : match.end() + 8].lstrip(" \t")
    return not set(before.strip(" \t-*")) & set(" ,") and (not after or after[0] in "\r\n#")


def line(match: re.Match[str]) -> bool:
    """``NAME=value`` on a line of its own; with the name in capitals plain words are passwords too."""
    value, code = match["secret"], match["name"] != match["name"].upper() or match["space"]
    if code and (_plain(value) or _CODE.search(value) or value.isalpha() or match["key"] in ("key", "Key")):
        return False
    if _points(value) or (_ATTRIBUTE.match(value) and not _digits(value)):
        return False
    return len(value) >= 4 if match["password"] else _key_like(value)


def told(match: re.Match[str]) -> bool:
    """``the password is value``: in prose only what no word looks like."""
    value = match["secret"].rstrip("!?")
    mixed = any(map(str.isalpha, value)) and _digits(value) > 0
    return (
        mixed
        and len(value) >= 6
        and not (_plain(value) or _ALGORITHM.match(value) or _NAME_LIKE.match(value) or _ITEM.search(value))
    )


def bare(match: re.Match[str]) -> bool:
    """``password value``: the same, and of many kinds of characters."""
    value = match["secret"]
    kinds = (str.islower, str.isupper, str.isdigit, lambda character: character in "!@#$%^&*+=~")
    return told(match) and len(value) >= 8 and sum(any(map(test, value)) for test in kinds) >= 3


def strong(match: re.Match[str]) -> bool:
    """A value after a flag or in a header: some digit, and nothing that only points elsewhere."""
    value = match["secret"]
    return _digits(value) > 0 and not (_plain(value) or value.isdigit() or _NAME_LIKE.match(value))


def header(match: re.Match[str]) -> bool:
    """The same, and no code."""
    return strong(match) and not _CODE.search(match["secret"])


def flag(match: re.Match[str]) -> bool:
    """A value after a flag may also be long and of both cases; dots in it are no attributes."""
    value = match["secret"]
    mixed = len(value) >= _LONG and any(map(str.isupper, value)) and any(map(str.islower, value))
    return strong(match) or (mixed and not _REFERENCE.search(value) and not _PATH.match(value))


def paired(match: re.Match[str]) -> bool:
    """A value that stands apart from its name, in the next field, argument or element: words and names are none."""
    value = match["secret"]
    if match["password"]:
        marked = _digits(value) > 0 or bool(_SIGNS.search(value))
        return len(value) >= 4 and marked and not (value.isdigit() or _plain(value) or _NAME_LIKE.match(value))
    return (_key_like(value) or (len(value) >= _LONG and bool(_SIGNS.search(value)))) and not _plain(value)


def code_span(match: re.Match[str]) -> bool:
    """``password `value` ``: the same, but much may be named after a token that is none."""
    if match["password"]:
        return match["password"].lower() != "pass" and told(match)
    return paired(match) and len(match["secret"]) >= 16 and not _id(match)


def _id(match: re.Match[str]) -> bool:
    return bool(_HASH.match(match["secret"]) or _ID.match(match["secret"]))


def url_password(match: re.Match[str]) -> bool:
    value = match["secret"]
    known = value.lower() in _NEUTRAL or value == match["user"]
    return len(value) >= 3 and not known and not _REFERENCE.search(value)


def user_password(match: re.Match[str]) -> bool:
    value = match["secret"]
    return len(value) >= 4 and not value.isdigit() and not _plain(value)


def marked(match: re.Match[str]) -> bool:
    """The same where a word may also stand: some digit or sign."""
    return user_password(match) and (_digits(match["secret"]) > 0 or bool(_SIGNS.search(match["secret"])))


def basic(match: re.Match[str]) -> bool:
    """Whether it is base64 of ``user:password``."""
    given = match["secret"]
    try:
        decoded = base64.b64decode(given + "=" * (-len(given) % 4), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return False
    return ":" in decoded and decoded.isprintable()


def random(match: re.Match[str]) -> bool:
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
