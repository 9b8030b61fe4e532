"""Become another program, one that the kernel kills when the process that started it is gone.

Run as a script: ``python die_with_parent.py PARENT_PID PROGRAM ARGUMENT...``. It is a script
and no ``preexec_fn``, because Python 3.12 warns when that is used beside running threads, and
tests have threads. The setting survives exec, and so does the process id.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask for the signal, make sure that it did not come too late, exec."""
    parent, *argv = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(parent):
            sys.exit("the starting process is gone already")
    os.execv(argv[0], argv)


if __name__ == "__main__":
    main()
