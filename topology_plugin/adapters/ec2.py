"""EC2's DescribeInstanceTopology: network nodes from the top down, and the capacity block of UltraServers.

Optional: for HyperPod's instances, which belong to the service's account, it reportedly finds nothing (field).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from topology_plugin.adapters.asking import Remembered
from topology_plugin.adapters.aws import Calls, OutOfTime, Refused
from topology_plugin.adapters.clock import Clock
from topology_plugin.core.instance_types import capability
from topology_plugin.core.json_document import printable
from topology_plugin.core.labels import is_id
from topology_plugin.core.position import Position
from topology_plugin.core.sources import ApiAnswers

BATCH = 100  # "instance-ids cannot contain over 100 values" (field)
UNKNOWN = frozenset({"InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed", "InvalidInstanceId"})
IDS_IN_MESSAGE = re.compile(r"i-[0-9a-z]+")
FRUITLESS = (
    16  # refusals without a single answer: then EC2 knows none of our instances, and 16,384 more calls say the same
)
NONE_KNOWN = "EC2 knows none of these instances (HyperPod's belong to the service's account)"


class Ec2Topology:
    """Positions from EC2. Kept per instance id; a capacity block that is not filled in yet is asked for again."""

    def __init__(self, calls: Calls, clock: Clock) -> None:
        self._calls = calls
        self._known = Remembered(clock)
        self._answered = 0
        self._refusals = 0

    def answers(self, instance_ids: Sequence[str]) -> ApiAnswers:
        """What EC2 knows of these, within the budget. Never raises for a service that fails."""
        due = self._known.due(instance_ids)
        # One id that is not known fails a whole call: those it did not know last time ask together, and last.
        doubtful = [i for i in due if self._known.doubtful(i)]
        fresh = [i for i in due if not self._known.doubtful(i)]
        self._answered = self._refusals = 0
        self._calls.begin()
        try:
            for ids in (fresh, doubtful):
                for start in range(0, len(ids), BATCH):
                    self._ask(ids[start : start + BATCH])
        except OutOfTime as error:
            self._known.unanswered(f"EC2 gave {error}")
        except Refused as error:
            self._known.refused(_problem(error))
        return self._known.answers(instance_ids)

    def _ask(self, batch: Sequence[str]) -> None:
        """One batch; ids that fail it are split off, by name where the message has them, else by halves."""
        if not batch:
            return
        try:
            self._describe(batch)
        except Refused as error:
            if error.code not in UNKNOWN:
                raise
            self._refusals += 1
            if self._answered == 0 and self._refusals >= FRUITLESS:
                raise Refused("InvalidInstanceID.NotFound", NONE_KNOWN) from None
            named = set(IDS_IN_MESSAGE.findall(error.message)).intersection(batch)
            bad = set(batch) if len(batch) == 1 else named
            for instance_id in bad:
                self._known.unknown(
                    instance_id, "EC2 does not know this instance (just launched, terminated, or not ours)"
                )
            if bad:
                self._ask([i for i in batch if i not in bad])
            else:
                half = len(batch) // 2
                self._ask(batch[:half])
                self._ask(batch[half:])

    def _describe(self, batch: Sequence[str]) -> None:
        """Every page of one batch (MaxResults may not stand beside ids)."""
        missing = set(batch)
        more: dict[str, Any] = {}
        while True:
            answer = self._calls.call("describe_instance_topology", InstanceIds=list(batch), **more)
            for entry in answer.get("Instances") or ():
                if entry.get("InstanceId") in missing:
                    missing.discard(entry["InstanceId"])
                    self._answered += 1
                    self._take(entry["InstanceId"], entry)
            if not answer.get("NextToken"):
                break
            more = {"NextToken": answer["NextToken"]}
        for instance_id in missing:
            self._known.nothing(instance_id, "EC2 has no network data for this instance")

    def _take(self, instance_id: str, entry: dict[str, Any]) -> None:
        zone = entry.get("ZoneId")
        if printable(zone):
            self._known.zones[instance_id] = str(zone)
        nodes = entry.get("NetworkNodes") or ()
        path = tuple(nodes) if all(map(is_id, nodes)) and len(set(nodes)) == len(nodes) else ()
        # Null, or the word "null", just after launch, and filled in later: no block until then.
        block = entry.get("CapacityBlockId")
        position = Position(path, block if is_id(block) else None)
        if position:
            complete = position.ultraserver is not None or capability(entry.get("InstanceType")) != "block"
            self._known.tell(instance_id, position, complete)
        else:
            self._known.nothing(instance_id, "EC2 names no network nodes for this instance")


def _problem(error: Refused) -> str:
    if error.message == NONE_KNOWN:
        return NONE_KNOWN
    if error.code == "UnsupportedOperation":
        return "the region has no DescribeInstanceTopology (UnsupportedOperation)"
    if error.code in ("UnauthorizedOperation", "AccessDenied", "AccessDeniedException"):
        return f"EC2 may not be asked: ec2:DescribeInstanceTopology is not granted ({error.code})"
    return f"EC2 cannot be asked: {error}"
