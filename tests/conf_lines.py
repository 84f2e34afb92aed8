"""Lines of slurm.conf as slurmctld 26.05 reads them, and some that it dies of.

tests/core/test_slurm_conf.py shows that we read them so; tests/slurm/test_slurm_conf_real.py that slurmctld does.
"""

from __future__ import annotations

NODES = "NodeName=n[1-4] State=CLOUD Feature=f1,f2\nNodeName=m1 State=CLOUD\n"
# What a slurmctld 26.05 made of each line (behind NODES): Nodes of partition p and its Topology.
PARTITION_LINES = {
    "plain": ("PartitionName=p Nodes=n[1-2] Topology=tree", "n1 n2", "tree"),
    "all": ("PartitionName=p Nodes=ALL", "n1 n2 n3 n4 m1", None),
    "all in small letters": ("PartitionName=p Nodes=all", "n1 n2 n3 n4 m1", None),
    "no nodes": ("PartitionName=p", "", None),
    "blank list": ('PartitionName=p Nodes=""', "", None),
    "twice the same node": ("PartitionName=p Nodes=n[1-2],n2", "n1 n2", None),
    "list with blanks": ('PartitionName=p Nodes="n1, n2,,"', "n1 n2", None),
    "quotes": ('PartitionName="p" Nodes="n1,n2" Topology="tree"', "n1 n2", "tree"),
    "blanks around the sign": ("  PartitionName = p Nodes =  n1 \tTopology  = tree", "n1", "tree"),
    "keys in any case": ("PARTITIONNAME=p nodes=n1 TOPOLOGY=tree", "n1", "tree"),
    "the last word wins": ("PartitionName=p Nodes=n1 Nodes=n2 Topology=tree Topology=flat", "n2", "flat"),
    "an operator": ("PartitionName=p Nodes=n1 Topology+=tree", "n1", "tree"),
    "comment": ("PartitionName=p Nodes=n1 # Topology=tree", "n1", None),
    "comment glued on": ("PartitionName=p Nodes=n1 Topology=tree#c", "n1", "tree"),
    "escaped hash": ("PartitionName=p AllowAccounts=x\\#y Nodes=n1 Topology=tree", "n1", "tree"),
    "escaped letter": ("PartitionName=p Nodes=n1 Topology=tr\\ee", "n1", "tree"),
    "continued": ("PartitionName=p \\\n  Nodes=n1 \\\n Topology=tree\nNodeName=z State=CLOUD", "n1", "tree"),
    "continued, blanks behind": ("PartitionName=p \\  \n  Nodes=n1 \\\t\n Topology=tree", "n1", "tree"),
    "continued, CRLF": ("PartitionName=p \\\r\n  Nodes=n1 \\\r\n Topology=tree\r\n", "n1", "tree"),
    "continued, comment behind": ("PartitionName=p \\ # hi\n  Nodes=n1 Topology=tree", "n1", "tree"),
    "continued within words": ("PartitionName=p Nodes=n1\\\n,n2 Topol\\\nogy=tr\\\nee\n", "n1 n2", "tree"),
    "continued to the end of the file": ("PartitionName=p Nodes=n1 \\", "n1", None),
    "continued to an empty line": ("PartitionName=p Nodes=n1\\\n\nNodeName=z State=CLOUD", "n1", None),
    "comments are not continued": ("# foo \\\nPartitionName=p Nodes=n1", "n1", None),
    "vertical tab and form feed": ("PartitionName=p\vNodes=n1\fTopology=tree", "n1", "tree"),
    "CRLF": ("PartitionName=p Nodes=n1 Topology=tree\r\n", "n1", "tree"),
    "inherited": ("PartitionName=DEFAULT Topology=tree Nodes=n1\nPartitionName=p", "n1", "tree"),
    "inherited from Default": ("PartitionName=DefauLt Topology=tree\nPartitionName=p Nodes=n1", "n1", "tree"),
    "own beats inherited": (
        "PartitionName=DEFAULT Topology=tree\nPartitionName=p Nodes=n1 Topology=flat",
        "n1",
        "flat",
    ),
    "defaults add up": (
        "PartitionName=DEFAULT Topology=tree\nPartitionName=DEFAULT Nodes=n3\nPartitionName=p",
        "n3",
        "tree",
    ),
    "later defaults don't count": ("PartitionName=p Nodes=n1\nPartitionName=DEFAULT Topology=tree", "n1", None),
    "node set by feature": ("NodeSet=s Feature=f1\nPartitionName=p Nodes=s", "n1 n2 n3 n4", None),
    "node set listed": ("NodeSet=s Nodes=n1,m1\nPartitionName=p Nodes=s,n2", "n1 m1 n2", None),
    "node set of both": ("NodeSet=s Feature=f2 Nodes=m1\nPartitionName=p Nodes=s", "n1 n2 n3 n4 m1", None),
    "node set of all": ("NodeSet=s Nodes=ALL\nPartitionName=p Nodes=s", "n1 n2 n3 n4 m1", None),
    "node set further down": ("PartitionName=p Nodes=s,m1\nNodeSet=s Feature=f1", "n1 n2 n3 n4 m1", None),
    "node set of an unused feature": ("NodeSet=s Feature=zz\nPartitionName=p Nodes=s", "", None),
    "features are case-sensitive": ("NodeSet=s Feature=F1\nPartitionName=p Nodes=s", "", None),
    "a node set has one feature": ("NodeSet=s Feature=f1,f2\nPartitionName=p Nodes=s", "", None),
    "the first of two node sets": (
        "NodeSet=s Feature=f1\nNodeSet=s Nodes=m1\nPartitionName=p Nodes=s",
        "n1 n2 n3 n4",
        None,
    ),
}
# slurmctld 26.05 did not start with any of these.
FATAL = {
    "partition twice": (
        "PartitionName=p Nodes=n1\nPartitionName=p Nodes=n2\n",
        "slurm.conf:4 partition p stands there twice",
    ),
    "ALL in a list": ("PartitionName=p Nodes=n1,ALL\n", "partition p: unknown node ALL"),
    "unknown node": ("PartitionName=p Nodes=n1,zz\n", "slurm.conf:3 partition p: unknown node zz"),
    "node name in other case": ("PartitionName=p Nodes=N1\n", "unknown node N1"),
    "node set in other case": ("NodeSet=s Nodes=n1\nPartitionName=p Nodes=S\n", "unknown node S"),
    "node set in a node set": (
        "NodeSet=a Nodes=n1\nNodeSet=b Nodes=a\nPartitionName=p Nodes=b\n",
        "unknown node a in NodeSet b",
    ),
    "node set called like a node": ("NodeSet=n1 Nodes=n1\n", "NodeSet n1 has the name of a node"),
    "malformed nodes": ("PartitionName=p Nodes=n[1\n", "partition p: n[1: unbalanced"),
    "empty topology at the end": ("PartitionName=p Nodes=n1 Topology=\n", "partition p: empty Topology="),
    "empty topology before a word": ("PartitionName=p Topology= Nodes=n1\n", "partition p: empty Topology="),
    "empty topology in quotes": ('PartitionName=p Topology="" Nodes=n1\n', "partition p: empty Topology="),
    "word without sign": ("PartitionName=p Nodes=n1 foo\n", "slurmctld cannot parse 'foo'"),
    "name not first": ("Topology=tree PartitionName=p Nodes=n1\n", "cannot parse 'PartitionName=p Nodes=n1'"),
    "two backslashes": ("PartitionName=p Nodes=n1 \\\\\nPartitionName=q Nodes=n1\n", "cannot parse '\\\\'"),
    "comment within a continued line": (
        "PartitionName=p \\\n# x \\\n Nodes n1\n",
        "slurm.conf:5 slurmctld cannot parse",
    ),
    "two parameters on a line": (
        "SchedulerType=sched/backfill ReturnToService=2\n",
        "cannot parse 'ReturnToService=2'",
    ),
    "node twice": ("NodeName=n1\n", "slurm.conf:3 node n1 stands there twice"),
    "node twice in a list": ("NodeName=x,x\n", "node x stands there twice"),
    "node called ALL": ("NodeName=ALL\n", "no node may be called ALL"),
    "open bracket": ("NodeName=x[1-3\n", "NodeName=x[1-3: unbalanced"),
    "descending": ("NodeName=x[3-1]\n", "descending range"),
    "too few addresses": ("NodeName=x[1-3] NodeAddr=10.0.0.[1-2]\n", "NodeAddr gives 2 for 3 nodes"),
    "too many addresses": ("NodeName=x1 NodeAddr=10.0.0.[1-2]\n", "NodeAddr gives 2 for 1 nodes"),
    "two addresses for one": ("NodeName=x1 NodeAddr=10.0.0.1,10.0.0.2\n", "NodeAddr gives 2 for 1 nodes"),
    "junk on a node line": ("NodeName=x foo State=CLOUD\n", "cannot parse 'foo State=CLOUD'"),
    "include that is missing": ("Include gone.conf\n", "Include gone.conf: /opt/slurm/etc/gone.conf cannot be read"),
    "include in quotes": ('Include "gone.conf"\n', 'Include "gone.conf": '),
    "include further in": ("  Include gone.conf\n", "cannot parse 'Include gone.conf'"),
    "include of two": ("Include ok.conf b.conf\n", "cannot parse 'b.conf'"),
    "include of nothing": ("Include \n", "cannot parse 'Include'"),
    "cluster name unknown": ("Include %c.conf\n", "Include %c.conf: no ClusterName stands before it"),
}
