#!/bin/bash
# LifeCycleConfig.OnInitComplete: HyperPod has mounted FSx and started Slurm; installs the topology tool.
exec bash "$(dirname -- "${BASH_SOURCE[0]}")/hyperpod-topology/entry.sh" on-init-complete
