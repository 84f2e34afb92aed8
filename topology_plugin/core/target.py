"""Where a change is to lead: from a configuration, from a kept generation, or to nothing at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from topology_plugin.core import topology_conf, topology_yaml
from topology_plugin.core.disk import DEFAULT_LINE, Disk
from topology_plugin.core.generation import Generation
from topology_plugin.core.plan import NO_PLUGIN, Target, needs_conf
from topology_plugin.core.topology import FLAT_ONLY, Configuration


def of_configuration(
    configuration: Configuration,
    disk: Disk,
    classic: bool = False,
    *,
    conf_ours: bool = False,
    yaml_ours: bool = False,
) -> Target:
    """The files that put `configuration` in force; words of partitions it does not name stay.

    `classic` (Slurm up to 24.11): its default topology as topology.conf and no words. What is not read then goes if it
    is ours: a topology.conf that flat leaves over (`conf_ours`), a topology.yaml, which would take over after an
    upgrade (`yaml_ours`).
    """
    if not classic:
        rendered = topology_yaml.render(configuration).encode()
        return Target(rendered, disk.topology_conf, dict(configuration.words), configuration=configuration)
    default = configuration.default
    plugin = topology_conf.PLUGINS[default.kind]
    no_words = dict.fromkeys((*disk.conf.partitions, DEFAULT_LINE))
    text = None if yaml_ours else disk.topology_yaml
    if default.kind == "flat":
        left = None if conf_ours else disk.topology_conf
        return Target(text, left, no_words, NO_PLUGIN if needs_conf(disk.plugin) else None, configuration)
    return Target(text, topology_conf.render(default).encode(), no_words, plugin, configuration)


def of_generation(generation: Generation, disk: Disk, classic: bool = False) -> Target | None:
    """The same for a kept one; None if it was made for the other side of Slurm 25.05."""
    if classic:
        if generation.topology_yaml is not None:
            return None
        no_words = dict.fromkeys((*disk.conf.partitions, DEFAULT_LINE))
        if generation.topology_conf is None:
            plugin = NO_PLUGIN if needs_conf(disk.plugin) else None
            return Target(disk.topology_yaml, disk.topology_conf, no_words, plugin)
        return Target(disk.topology_yaml, generation.topology_conf, no_words, generation.plugin)
    if generation.topology_yaml is None:
        return None
    # A word we know nothing of stays; one of a partition that this generation left without a word goes.
    then = Disk(disk.conf, generation.topology_yaml)
    loaded = then.configuration()
    words = {partition: generation.words.get(partition) for partition in disk.words if partition in generation.words}
    if loaded is not None:
        loaded = replace(loaded, words=words)
    return Target(generation.topology_yaml, disk.topology_conf, words, configuration=loaded)


def flat(disk: Disk, classic: bool = False) -> Target:
    """What starts always: no `Topology=` word at all, topology.yaml with `flat` alone; up to 24.11 no topology.yaml and
    TopologyPlugin=topology/default. Files that are not read then stay as they are."""
    no_words = dict.fromkeys((*disk.conf.partitions, DEFAULT_LINE))
    if classic:
        return Target(disk.topology_yaml, disk.topology_conf, no_words, NO_PLUGIN)
    text = topology_yaml.render(FLAT_ONLY).encode()
    return Target(text, disk.topology_conf, no_words, configuration=FLAT_ONLY)


def without_us(
    disk: Disk, yaml_ours: bool, conf_ours: bool, plugin: str | None, words: Mapping[str, str | None]
) -> Target:
    """Our files gone, `words` (ours) out. `plugin`: what TopologyPlugin was before us; None: it is not ours.

    Nothing then asks for a topology.conf that goes.
    """
    conf = None if conf_ours else disk.topology_conf
    if conf_ours and needs_conf(disk.plugin if plugin is None else plugin):
        plugin = NO_PLUGIN
    return Target(None if yaml_ours else disk.topology_yaml, conf, dict(words), plugin)


def flat_file(disk: Disk, words: Mapping[str, str | None]) -> Target:
    """topology.yaml with `flat` alone, `words` set, everything else as it is."""
    text = topology_yaml.render(FLAT_ONLY).encode()
    return Target(text, disk.topology_conf, dict(words), configuration=FLAT_ONLY)


def in_place(disk: Disk, target: Target, classic: bool) -> Disk:
    """The disk as it is once `target` stands there."""
    texts = disk.word_edits(target.words)
    then = disk.with_texts(texts) if texts else disk
    if target.plugin is not None and target.plugin != then.plugin:
        then = then.with_texts(then.plugin_edits(target.plugin))
    return replace(then, topology_yaml=target.topology_yaml, topology_conf=target.topology_conf)
