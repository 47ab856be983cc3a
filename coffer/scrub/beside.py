"""Values that are secrets because of a word beside them: assigned, told, given after a flag, or in an address."""

from coffer.scrub import looks
from coffer.scrub.spans import Detector

_WORD_FOR_IT = (
    r"(?:(?<![A-Za-z])|(?<=db)|(?<=user)|(?<=root)|(?<=smtp)|(?<=ftp))pass|pass(?:word|wort|wd|phrase|code)|pwd"
    r"|(?<![A-Za-z])pw(?![A-Za-z])|kennwort|contrase[nñ]a|senha|mot de passe"
)
_KEY = (
    r"secret|token|api[_\-. ]?key|(?:access|secret|private|encryption|signing|auth|master|account|session|service|app"
    r"|deploy|license|shared|unseal)[_\-. ]?key|key[_\-]?base|credentials?|_auth"
)
_NAME = rf"(?i:(?P<key>{_KEY})|(?P<password>{_WORD_FOR_IT}))(?:[_\- ]?\d{{1,2}})?"
_WORDS = ("pass", "pw", "secret", "token", "key", "credential", "_auth", "kennwort", "contrase", "senha")
_FOREIGN = "密码|密碼|口令|密钥|密鑰|令牌|凭证|憑證|パスワード|비밀번호|пароль|Пароль"
_FOREIGN_HINTS = tuple(_FOREIGN.lower().split("|"))

TABLE = (
    Detector(
        "url-password",
        ("://",),
        r"""://(?P<user>[^\s/:@"'<>`]{0,100}):(?P<secret>[^\s/"'<>`]{1,200})@(?=[\w\[])""",
        looks.url_password,
    ),
    Detector("url-token", ("://",), r"://(?P<secret>[A-Za-z0-9_\-]{24,200})@", looks.strong),
    Detector(
        "bearer",
        ("bearer",),
        r"(?i)\bbearer\s{1,4}(?P<secret>(?:[A-Za-z0-9_~+/\-]|\.(?=[\w~+/\-])){12,}+=*+)",
        looks.strong,
    ),
    Detector(
        "basic-auth",
        ("basic", '"auth"'),
        r"""(?i)(?:\bbasic\s{1,4}|"auth"\s{0,4}:\s{0,4}")(?P<secret>[A-Za-z0-9+/]{8,}+={0,2})""",
        looks.basic,
    ),
    Detector(
        "authorization",
        ("authorization",),
        r"""(?i)\bauthorization["']?\s{0,4}[:=]\s{0,4}["']?(?:[a-z]{2,12}\s{1,4})?(?P<secret>[^\s"'`,]{12,}+)""",
        looks.header,
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
            r"""[0-9_]{0,3})(?P<space>[ \t]{0,4})[:=][ \t]{0,4}(?P<secret>[^\s"'`#=，；。][^\s，；。]*+)[ \t\r]*+$"""
        ),
        looks.line,
        looks.kind,
    ),
    Detector(
        "",
        _WORDS,
        (
            rf"""{_NAME}\\{{0,3}}["'`\]]{{0,2}}(?P<sign>[ \t]{{0,8}}(?::=|=>|==?|:(?!:))[ \t]{{0,8}})"""
            r"""(?:[rbuf]{0,2}(?P<quote>\\{0,3}["'`]))?"""
            r"""(?P<secret>(?(quote)(?:(?!(?P=quote))(?:\\.|[^\n\\]))++"""
            r"""|[^\s"'`<>,;&|(){}\[\]\\，；。]*[^\s"'`<>,;&|(){}\[\]\\.:，；。]))"""
        ),
        looks.assigned,
        looks.kind,
    ),
    Detector(
        "",
        _WORDS,
        rf"""(?<!\w)--?(?:[a-z]{{1,20}}-){{0,3}}{_NAME}[ \t]{{1,4}}["']?(?P<secret>[^\s"'`|;&\\]{{6,}}+)""",
        looks.flag,
        looks.kind,
    ),
    Detector(
        "",
        _WORDS,
        rf"(?m)^[ \t]{{0,12}}(?i:ENV|ARG)[ \t]{{1,4}}[A-Za-z0-9_]{{0,60}}{_NAME}[ \t]{{1,4}}(?P<secret>\S++)",
        looks.flag,
        looks.kind,
    ),
    Detector(
        "",
        ("value",),
        (
            rf"""(?i:\b(?:name|key))["']?\s{{0,4}}[:=]\s{{0,4}}["']?[A-Za-z0-9_.\-]{{0,60}}?{_NAME}["']?,?\s{{1,60}}"""
            r"""["']?(?i:value)["']?\s{0,4}[:=]\s{0,4}["']?(?P<secret>[^\s"'<>,#]++)"""
        ),
        looks.paired,
        looks.kind,
    ),
    Detector(
        "",
        _WORDS,
        (
            rf"""["':][A-Za-z0-9_.\-]{{0,60}}?{_NAME}["']?\s{{0,4}},\s{{0,4}}"""
            r"""(?P<quote>["'])(?P<secret>(?:(?!(?P=quote))[^\s\\])++)(?P=quote)"""
        ),
        looks.paired,
        looks.kind,
    ),
    Detector(
        "",
        _WORDS,
        rf"<[A-Za-z0-9_.:\-]{{0,60}}?{_NAME}>\s{{0,8}}(?P<secret>[^\s<]++)\s{{0,8}}</",
        looks.paired,
        looks.kind,
    ),
    Detector(
        "",
        _WORDS,
        rf"""(?<![A-Za-z]){_NAME}[ \t]{{1,4}}(?P<quote>[`'"])(?P<secret>(?:(?!(?P=quote))\S)++)(?P=quote)""",
        looks.code_span,
        looks.kind,
    ),
    Detector(
        "password",
        ("pass", "pw"),
        (
            r"(?<![A-Za-z])(?i:pass(?:word|wort)|passwd|pwd)(?:[ \t]{1,4}|:?[ \t]{0,4}\r?\n[ \t>]{0,12})"
            r"""(?P<secret>(?!["'`])[!-~]{8,64})(?!\S)"""
        ),
        looks.bare,
    ),
    Detector(
        "random-string",
        ("key",),
        (
            r"(?<![A-Za-z])(?i:key)\s{0,2}(?:is|was|=|:)\s{0,2}[\"'`]?"
            r"(?P<secret>[A-Za-z0-9+/_\-]{20,}+={0,2})"
        ),
        looks.random,
    ),
    Detector(
        "",
        _WORDS,
        (
            rf"(?<![A-Za-z]){_NAME}(?:[ \t]{{1,4}}(?:for|of|to|on|in)[ \t]{{1,4}}(?:the[ \t]{{1,4}})?[\w.\-]{{1,40}})?"
            r"[ \t]{1,4}(?:(?:is|was|are|were|ist|has been)(?:[ \t]{1,4}(?:now|still|just))?|(?=changed|set|reset))"
            r"(?:[ \t]{0,4}(?:changed|set|reset)[ \t]{1,4}to)?[ \t]{0,2}[:=]?[ \t]{1,4}"
            r"""["'`“]?(?P<secret>[^\s"'`”“]*[^\s"'`”“.,;:)])"""
        ),
        looks.told,
        looks.kind,
    ),
    Detector(
        "",
        (*_FOREIGN_HINTS, "是", "为", "為", "改成", "："),
        (
            rf"(?P<key>{_FOREIGN}|(?i:{_KEY}|{_WORD_FOR_IT}))"
            r"""(?:\s{0,2}(?:是|为|為|叫|改成|：)|(?<=[^\0-\x7f])\s{0,2}[:=])\s{0,2}["'`“「]?(?P<secret>[!-~]{6,}+)"""
        ),
        looks.told,
        looks.kind,
    ),
    Detector(
        "random-string",
        (*_WORDS, "bearer", *_FOREIGN_HINTS),
        (
            r"(?:(?i:secret(?!ar)|token(?!s|iz)|passw|passphrase|(?:api|access|private)[_\- ]?key|credential|bearer)"
            rf"|{_FOREIGN})(?:[^\n]{{0,60}}?|[^\n]{{0,20}}\n[ \t>]{{0,4}})"
            r"(?<![A-Za-z0-9+/=_\-.@:])(?P<secret>[A-Za-z0-9+/_\-]{20,}+={0,2})"
        ),
        looks.random,
    ),
)
