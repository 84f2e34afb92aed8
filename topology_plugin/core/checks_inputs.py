"""Checks of what a pass is fed with: HyperPod's files, who this machine is, the registry and its records, AWS."""

from __future__ import annotations

from topology_plugin.core.checkup import Document, Examination, Patient, Verdict, bad, ok, some, unknown, warn
from topology_plugin.core.settings import unknown_partitions

_LATER = "run `hyperpod-topology register` on them"


def resource_config(patient: Patient) -> Verdict:
    document = patient.documents["resource_config"]
    if patient.config is None:
        return bad(_unusable(document), "HyperPod writes it: is this a HyperPod node, and are you root?")
    count = sum(1 for _ in patient.config.instances())
    found = f"{count} instances in {len(patient.config.groups)} groups"
    if document.issues:
        return warn(
            f"{found}; not all could be used: {some([str(i) for i in document.issues], 3)}", "see the positions"
        )
    if not count:
        return warn("lists no instance: taken as no data, last known positions hold", "is it being rewritten?")
    return ok(found)


def provisioning_parameters(patient: Patient) -> Verdict:
    document = patient.documents["provisioning_parameters"]
    if not document.there:
        return ok("none: roles and partitions of groups come from resource_config, slurm.conf or the SageMaker API")
    if patient.provisioning is None:
        return bad(_unusable(document), "mend it where the lifecycle scripts lie in S3, and here")
    if document.issues:
        return warn(
            some([str(i) for i in document.issues], 3), "mend it where the lifecycle scripts lie in S3, and here"
        )
    return ok(f"{len(patient.provisioning.worker_groups)} worker groups are named for partitions")


def settings(patient: Patient) -> Verdict:
    names = (
        patient.disk.conf.partitions if patient.disk else patient.state.inventory.partitions if patient.state else ()
    )
    wrong = unknown_partitions(patient.settings, names)
    if wrong:
        return warn("; ".join(wrong), "mend the name, or take it out")
    if patient.settings.partitions and not names:
        return unknown("it is not known which partitions there are")
    return ok("every partition that they name exists" if patient.settings.partitions else "they name no partition")


def cluster(patient: Patient) -> Verdict:
    arn = patient.config.cluster_arn if patient.config else None
    if arn is None:
        return unknown("resource_config.json names no ClusterArn", 'set "registry" in /etc/hyperpod-topology.json')
    if patient.written is not None and patient.written.cluster_arn not in (None, arn):
        return bad(
            f"state.json is of {patient.written.cluster_arn}, this is {arn}", "give each cluster its own registry"
        )
    foreign = [i for i in patient.registry.record_issues if "cluster" in i.what.lower()]
    if foreign:
        return warn(
            f"{len(foreign)} records are of another cluster: {foreign[0]}", "give each cluster its own registry"
        )
    return ok(f"{arn.rsplit('/', 1)[-1]}: inputs, records and state agree")


def who_am_i(patient: Patient) -> Verdict:
    if patient.identity:
        return ok(patient.identity)
    remedy = "give it: HYPERPOD_TOPOLOGY_INSTANCE_ID=i-…"
    return (warn if patient.role == "controller" else bad)(patient.identity_error or "not known", remedy)


def root(patient: Patient) -> Verdict:
    if patient.root_user:
        return ok("running as root")
    return warn("not running as root: some files cannot be read or written", "run it with sudo")


def registry_mounted(patient: Patient) -> Verdict:
    registry = patient.registry
    if registry.off:
        return ok("switched off (registry: null): positions come from labels, generations lie in state_dir")
    if registry.path is None:
        return bad("its directory is not known", 'set "registry" in /etc/hyperpod-topology.json')
    if registry.mount:
        return bad(registry.mount, "mount it, or set registry to a directory that all nodes share")
    if registry.exists is False:
        return warn(f"{registry.path} does not exist: no node has registered", "`hyperpod-topology register` makes it")
    return ok(f"{registry.path}{f' on {registry.file_system}' if registry.file_system else ''}")


def registry_readable(patient: Patient) -> Verdict:
    registry = patient.registry
    if registry.off:
        return ok("switched off")
    if registry.records is None:
        return warn(f"cannot be read: {registry.read_error or 'not known why'}", "last known positions hold meanwhile")
    return ok(f"{len(registry.records)} records")


def registry_writable(patient: Patient) -> Verdict:
    registry = patient.registry
    if registry.off or not registry.exists:
        return ok("switched off") if registry.off else unknown("there is no directory to try it in")
    if registry.write_error is None:
        return unknown("not tried")
    if registry.write_error and not patient.root_user:
        return unknown(f"only root can tell, and only root needs to: {registry.write_error}", "run it with sudo")
    if registry.write_error:
        return bad(f"a file cannot be made there: {registry.write_error}", "only root on cluster nodes needs to write")
    return ok("a file was made and removed")


def registry_squash(patient: Patient) -> Verdict:
    registry = patient.registry
    if registry.off or registry.made_by is None:
        return ok("switched off") if registry.off else unknown("no file could be made to see whose it is")
    if registry.made_by != registry.user:
        what = f"files made by user {registry.user} belong to user {registry.made_by} (root squash)"
        return warn(what, "works as long as all nodes are squashed to the same user; see the next check")
    return ok("root stays root there")


def registry_owner(patient: Patient) -> Verdict:
    registry = patient.registry
    if registry.off or registry.mode is None or registry.owner is None:
        return ok("switched off") if registry.off else unknown("there is no directory of records yet")
    if registry.mode & 0o022:
        return bad(f"others may write there (mode {registry.mode:o}): records could be forged", "chmod 755 it")
    if registry.owner != (registry.made_by if registry.made_by is not None else 0):
        what = f"belongs to user {registry.owner}: records are taken only if they do too"
        return warn(what, "chown it to root (or to the user that root is squashed to)")
    return ok(f"user {registry.owner}, mode {registry.mode:o}")


def registry_locks(patient: Patient) -> Verdict:
    registry = patient.registry
    if registry.off or registry.locks is None:
        if registry.lock_error:
            return warn(f"locks do not work there: {registry.lock_error}", "mount Lustre with -o flock")
        return ok("switched off") if registry.off else unknown("not tried")
    if not registry.locks:
        what = "a second process got a lock that the first one held"
        return warn(what, "mount Lustre with -o flock; nodes write files of their own, only the pass lock is concerned")
    return ok("a lock of one process keeps another out")


def records_usable(patient: Patient) -> Verdict:
    issues = patient.registry.record_issues
    if patient.registry.records is None:
        return unknown("records cannot be read")
    if issues:
        return warn(
            f"{len(issues)} cannot be used: {some([str(i) for i in issues], 3)}", "remove them; nodes register again"
        )
    return ok("every record can be used")


def records_stale(patient: Patient) -> Verdict:
    records, config = patient.registry.records, patient.config
    if records is None or config is None:
        return unknown("records or instances are not known")
    here = {i.instance_id for _, i in config.instances()}
    gone = sorted(set(records) - here)
    if gone:
        return warn(
            f"{len(gone)} records of instances that are gone: {some(gone, 3)}", "`hyperpod-topology prune --apply`"
        )
    return ok("every record is of an instance that is here")


def registered(patient: Patient) -> Verdict:
    records, state = patient.registry.records, patient.state
    if patient.registry.off:
        return ok("switched off")
    if records is None or state is None:
        return unknown("records or nodes are not known")
    named = {n for p in state.inventory.partitions.values() if not p.all_nodes for n in p.nodes}
    missing = [n for n in named if (node := state.inventory.nodes.get(n)) and node.instance_id not in records]
    if missing:
        what = f"{len(missing)} of {len(named)} nodes have no record: {some(sorted(missing), 3)}"
        return warn(what, f"{_LATER}; labels in the controller's resource_config place them meanwhile")
    return ok(f"all {len(named)} nodes of named partitions have a record")


def sagemaker(patient: Patient) -> Verdict:
    return _api(patient, "sagemaker", "sagemaker:ListClusterNodes and DescribeCluster")


def ec2(patient: Patient) -> Verdict:
    return _api(patient, "ec2", "ec2:DescribeInstanceTopology")


def _api(patient: Patient, source: str, actions: str) -> Verdict:
    if source not in patient.settings.sources:
        return ok("not among the sources: not asked")
    problem = patient.aws.get(source)
    if problem is None:
        return unknown("not asked", "`doctor` asks it on the controller, without --no-aws and --root")
    if problem:
        return warn(problem, f"only needed where labels are missing: allow {actions} for the execution role")
    return ok(f"answers ({actions})")


def _unusable(document: Document) -> str:
    return document.error or (f"{document.path} is not there" if not document.there else f"{document.path}: no data")


CHECKS = (
    Examination("resource-config", "resource_config.json", resource_config),
    Examination("provisioning-parameters", "provisioning_parameters.json", provisioning_parameters),
    Examination("partition-settings", "the setting `partitions` names partitions of slurm.conf", settings),
    Examination("cluster", "all inputs are of one cluster", cluster),
    Examination("who-am-i", "this machine knows which instance it is", who_am_i),
    Examination("root", "rights of this process", root),
    Examination("registry-mounted", "the registry is on a shared file system", registry_mounted),
    Examination("registry-readable", "the registry can be read", registry_readable),
    Examination("registry-writable", "the registry can be written", registry_writable),
    Examination("registry-squash", "whose files root makes there", registry_squash),
    Examination("registry-owner", "nobody else can write records", registry_owner),
    Examination("registry-locks", "locks between two processes", registry_locks),
    Examination("records-usable", "every record can be used", records_usable),
    Examination("records-stale", "no records of instances that are gone", records_stale, "controller"),
    Examination("registered", "every node has a record", registered, "controller"),
    Examination("aws-sagemaker", "what the role may ask SageMaker", sagemaker, "controller"),
    Examination("aws-ec2", "what the role may ask EC2", ec2, "controller"),
)
