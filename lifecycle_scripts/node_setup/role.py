"""What this node is in the cluster, told from its instance group, never from the daemons that happen to run."""

from __future__ import annotations

from topology_plugin.core.inventory import Role
from topology_plugin.core.provisioning import ProvisioningParameters
from topology_plugin.core.resource_config import Instance, InstanceGroup, ResourceConfig


def role_of(
    config: ResourceConfig, parameters: ProvisioningParameters, group: InstanceGroup, instance: Instance
) -> Role:
    """Controller if the group is controller_group, or Controller by API, or the address is a controller's; login and
    compute likewise; "unknown" where nothing says (such a node registers and is left alone otherwise)."""
    if group.name == parameters.controller_group or group.role == "controller":
        return "controller"
    if instance.customer_address is not None and instance.customer_address in config.controller_addresses:
        return "controller"
    if group.name == parameters.login_group or group.role == "login":
        return "login"
    if parameters.partitions(group.name) is not None or group.role == "compute":
        return "compute"
    return "unknown"


def controller_addresses(config: ResourceConfig, parameters: ProvisioningParameters) -> tuple[str, ...]:
    """Where slurmd finds its slurmctld: what resource_config says, else the addresses of the controller's group."""
    if config.controller_addresses:
        return config.controller_addresses
    return tuple(
        instance.customer_address
        for group, instance in config.instances()
        if (group.name == parameters.controller_group or group.role == "controller") and instance.customer_address
    )
