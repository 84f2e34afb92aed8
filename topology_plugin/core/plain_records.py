"""Records as `records.dump` writes them, as nearly all are, read by a short way in a third of the time.

Thousands of small files are parsed in every pass of a controller that just started; of 16,384 that is a tenth of it
(benchmarks/bench.py). The short way believes nothing that record_file, which reads every form, would not: where it is
not sure it leaves the file to that one.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

from topology_plugin.core import record_file
from topology_plugin.core.issues import Issue
from topology_plugin.core.json_document import MAX_TEXT
from topology_plugin.core.record_file import Fields, Shared
from topology_plugin.core.records import SCHEMA, SUFFIX, Record
from topology_plugin.core.resource_config import INSTANCE_ID

# The first half: what the instance has to itself. Plain ASCII, so that the text between the quotes is the value. The
# other half is shared with its neighbours, and is read once for all of them.
_TEXT = rf'(?:"([ !#-\[\]-~]{{1,{MAX_TEXT}}})"|null)'
_ID = INSTANCE_ID.pattern.removesuffix(r"\Z")
_OWN = re.compile(
    rf'\{{\n "schema": {SCHEMA},\n "cluster_arn": {_TEXT},\n "instance_id": "({_ID})",\n "instance_name": {_TEXT},\n'
    rf' "addresses": \{{\n  "customer": {_TEXT},\n  "agent": {_TEXT}\n \}},'
)
_SHARED_KEYS = {"group", "instance_type", "partitions", "zone_id", "answers", "fragment"}
_SHARED_BYTES = 4096  # more than that is no ordinary record


def parse(data: bytes, file_name: str, cluster_arn: str | None) -> Record | Issue:
    """As record_file.parse()."""
    return _plain(data, file_name, cluster_arn) or record_file.parse(data, file_name, cluster_arn)


def _plain(data: bytes, file_name: str, cluster_arn: str | None) -> Record | None:
    if not data.isascii():
        return None
    text = data.decode("ascii")
    own = _OWN.match(text)
    if own is None or len(text) - own.end() > _SHARED_BYTES:
        return None
    arn, instance_id, name, customer, agent = own.groups()
    if f"{instance_id}{SUFFIX}" != file_name or arn != (cluster_arn or arn):
        return None
    shared = _shared(text[own.end() :])
    # The ARN that the caller has already: one text for all of them.
    return None if shared is None else Record(cluster_arn or arn, instance_id, name, customer, agent, *shared)


@lru_cache(maxsize=8192)
def _shared(text: str) -> Shared | None:
    """What stands behind the addresses; None: not what is expected there."""
    try:
        found = json.loads("{" + text)
        if not found or not found.keys() <= _SHARED_KEYS:
            return None
        return Fields(found, strict=True).shared()
    except (ValueError, RecursionError):
        return None
