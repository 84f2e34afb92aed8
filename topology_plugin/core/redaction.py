"""Takes account ids, addresses and secrets out of text that leaves the cluster, the same one always by the same name.

Networks are replaced, last octets stay: `10.1.1.11` and `ip-10-1-1-[11-14]` become `net1.11` and `ip-net1-[11-14]`, so
that nodes can still be told apart and node lists can still be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_NET = rf"{_OCTET}(?P<dot>[.-]){_OCTET}(?P=dot){_OCTET}"
# Three octets of an address, followed by the fourth or by a node list of fourth ones. The lookbehind keeps versions
# (26.05.5) and ids out: an address begins a word.
_ADDRESS = re.compile(rf"(?<![\w.])(?P<ip>ip-)?(?P<net>{_NET})(?=(?P=dot)(?:\d|\[))")
# slurmctld may fold an earlier octet: ip-10-1-[1-2]-5.
_FOLDED = re.compile(r"(?<![\w.])ip-(\d{1,3}(?:-\d{1,3})?)-(?=\[)")
# With `::` or all eight parts; a time of day has neither.
_IPV6 = re.compile(r"(?i)(?<![\w:])(?=[0-9a-f:]*::|(?:[0-9a-f]{1,4}:){7})[0-9a-f:]{3,39}(?![\w:])")
_ACCOUNT = re.compile(r"(?<!\d)(?<!i-)(?<![0-9a-f]{4})\d{12}(?![0-9a-f])")
_FILE_SYSTEM = re.compile(r"\bfs-[0-9a-f]{8,17}\b")
_SECRET_LINE = re.compile(
    r"(?im)^(\s*\"?[\w.]*(?:pass(?:word|wd)?|secret|token|key|credential)[\w.]*\"?\s*[=:]\s*)(\"?)([^\s\",]+)"
)
_INLINE_SECRET = re.compile(r"(?i)\b(\w*(?:pass(?:word|wd)?|secret|token)\w*=)([^\s,\"]+)")
_ACCESS_KEY = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")


@dataclass
class Redaction:
    """Keeps its names across texts; one for a whole bundle."""

    _known: dict[str, dict[str, str]] = field(default_factory=dict)

    def text(self, text: str) -> str:
        text = _ACCESS_KEY.sub("ACCESS-KEY", text)
        text = _SECRET_LINE.sub(lambda m: f"{m[1]}{m[2]}REDACTED", text)
        text = _INLINE_SECRET.sub(lambda m: f"{m[1]}REDACTED", text)
        text = _ADDRESS.sub(lambda m: (m["ip"] or "") + self._name("net", m["net"].replace("-", ".")), text)
        text = _FOLDED.sub(lambda m: f"ip-{self._name('part', m[1])}-", text)
        text = _IPV6.sub(self._named("ipv6-"), text)
        text = _FILE_SYSTEM.sub(self._named("fs-"), text)
        return _ACCOUNT.sub(self._named("ACCOUNT-"), text)

    def _named(self, kind: str) -> Callable[[re.Match[str]], str]:
        return lambda match: self._name(kind, match[0])

    def _name(self, kind: str, found: str) -> str:
        names = self._known.setdefault(kind, {})
        return names.setdefault(found, f"{kind}{len(names) + 1}")
