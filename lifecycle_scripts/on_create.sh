#!/bin/bash
# LifeCycleConfig.OnCreate: mounts FSx, installs the topology tool, starts Slurm.
exec bash "$(dirname -- "${BASH_SOURCE[0]}")/hyperpod-topology/entry.sh" on-create
