#!/bin/bash
# Finds a Python that is new enough and hands over to install.py, which says what happens and in which order.
#   bash entry.sh [stock | on-create | on-init-complete]
# Without an argument: called from somebody else's lifecycle script, which mounts FSx and starts Slurm itself.
set -u
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
way=${1:-stock}
for python in /usr/bin/python3 python3 python3.13 python3.12 python3.11 python3.10; do
    if "$python" -I -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
        exec "$python" -I "$here/install.py" "$way"
    fi
done
echo "[hyperpod-topology] no Python 3.10 or later on this node: nothing installed" |
    tee -a "${HYPERPOD_TOPOLOGY_ROOT:-}/var/log/provision/provisioning.log" >&2
[ "$way" != on-create ] # the whole OnCreate cannot go on without it; another's script can
