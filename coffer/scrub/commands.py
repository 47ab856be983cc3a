"""Passwords that programs are given in a way of their own: a letter after a dash, a directive, standard input."""

from coffer.scrub import looks
from coffer.scrub.spans import Detector

_VALUE = r"""["']?(?P<secret>[^\s"'|;&]++)"""

TABLE = (
    Detector(
        "password",
        ("login", "redis-cli"),
        (
            r"""\b(?:login\b[^\n|;&]{0,120}?\s-p|redis-cli\b[^\n|;&]{0,120}?\s-a)[ =]{1,2}"""
            r"""["']?(?P<secret>[^\s"'|;&]++)"""
        ),
        looks.flag,
    ),
    Detector(
        "password",
        ("-u", "--user", "sshpass"),
        (
            r"""(?<!\S)(?:(?:-u|--user)[ =]{0,2}["']?[^\s:"'/]{1,80}:|sshpass\s{1,4}-p\s{0,4}["']?)"""
            r"""(?P<secret>[^\s"']++)"""
        ),
        looks.user_password,
    ),
    Detector(
        "password",
        ("login",),
        r"\blogin\s{1,8}\S{1,100}\s{1,8}password\s{1,8}(?P<secret>\S++)",
        looks.user_password,
    ),
    Detector(
        "password",
        ("mysql", "mariadb"),
        rf"\b(?:mysql|mariadb)[a-z]{{0,8}}\b[^\n|;&]{{0,160}}?\s-p(?=[^\s]){_VALUE}",
        looks.marked,
    ),
    Detector("password", ("sqlcmd", "bcp"), rf"\b(?:sqlcmd|bcp)\b[^\n|;&]{{0,160}}?\s-P\s?{_VALUE}", looks.marked),
    Detector("password", ("ldap",), rf"\bldap[a-z]{{2,8}}\b[^\n|;&]{{0,160}}?\s-w\s?{_VALUE}", looks.marked),
    Detector(
        "password",
        ("smbclient", "rpcclient", "mount.cifs"),
        rf"\b(?:smbclient|rpcclient|mount\.cifs)\b[^\n|;&]{{0,160}}?\s-U\s?[\"']?[^\s%\"']{{1,60}}%{_VALUE}",
        looks.marked,
    ),
    Detector(
        "password", ("net use",), rf"(?i)\bnet use\s[^\n]{{0,80}}?\\\\\S{{1,80}}\s{_VALUE}(?=\s/user)", looks.marked
    ),
    Detector(
        "password",
        ("identified by",),
        r"""(?i)\bidentified by\s{1,4}["'](?P<secret>[^\s"']++)""",
        looks.user_password,
    ),
    Detector(
        "password",
        ("requirepass", "masterauth"),
        r"(?m)^[ \t]{0,8}(?:requirepass|masterauth)[ \t]{1,4}(?P<secret>\S++)",
        looks.user_password,
    ),
    Detector(
        "password",
        ("echo ",),
        (
            r"""\becho\s{1,4}(?:-n\s{1,4})?["']?(?P<secret>[^\s"'|]++)["']?\s{0,4}\|\s{0,4}"""
            r"(?:sudo\s{1,4}(?:-\S{1,10}\s{1,4})?-S|[^\n|]{0,120}--password-stdin)"
        ),
        looks.user_password,
    ),
    Detector(
        "private-key",
        ('"kty"',),
        r""""(?:d|k|p|q|dp|dq|qi)"\s{0,4}:\s{0,4}"(?P<secret>[A-Za-z0-9_\-]{20,}+)\"""",
    ),
    Detector(
        "seed-phrase",
        ("mnemonic", "seed phrase", "recovery phrase"),
        (
            r"""(?i:mnemonic|(?:seed|recovery)[ _-]phrase)["']?\s{0,3}(?:[:=]|is)\s{0,3}["']?"""
            r"(?P<secret>(?:[a-z]{3,8} ){11,23}[a-z]{3,8})"
        ),
    ),
    Detector(
        "private-key",
        ("private-lines",),
        r"Private-Lines: \d{1,3}\r?\n(?P<secret>(?:[A-Za-z0-9+/=]{1,80}\r?\n)++)",
    ),
)
