"""What stands below a --root is another machine: what this one runs is none of its."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from topology_plugin.app.wiring import Wiring


def test_a_slurmctld_that_names_no_file_is_not_the_one_below_a_root(tmp_path: Path) -> None:
    """It reads the machine's own slurm.conf. (Rehearsals of others were taken for a slurmctld under plain -D.)"""
    conf = tmp_path / "root/opt/slurm/etc/slurm.conf"
    conf.parent.mkdir(parents=True)
    conf.write_text("ClusterName=c1\n")
    wiring = Wiring.of(str(tmp_path / "root"), {"slurm_bin": str(tmp_path)}, {})
    stranger = tmp_path / "slurmctld"
    shutil.copy("/bin/sleep", stranger)
    for environment, ours in (({}, False), ({"SLURM_CONF": str(conf)}, True)):
        with subprocess.Popen([stranger, "60"], env=environment) as process:
            try:
                assert wiring.doors().controller.running() is ours
            finally:
                process.kill()
