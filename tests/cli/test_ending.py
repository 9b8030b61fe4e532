"""The end of the program: neither a thread of a policy's own nor what it does at the exit holds it up."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

RUN = [sys.executable, "-c", "from bayplan.cli.main import main; main()"]
LINGERS = """\
import atexit, threading, time
import bayplan

threading.Thread(target=time.sleep, args=({seconds},), name="lingers").start()

@bayplan.filter
def any_node(pod, node):
    return None
"""
AT_EXIT = LINGERS.replace(
    'threading.Thread(target=time.sleep, args=({seconds},), name="lingers").start()',
    "atexit.register(time.sleep, {seconds})",
)


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        pytest.param(LINGERS, "threads of a policy or a source go on (lingers)", id="a thread"),
        pytest.param(AT_EXIT, "what a policy or a source does at the exit goes on", id="at the exit"),
    ],
)
def test_a_server_that_is_told_to_end_does_so_in_a_moment(tmp_path: Path, policy: str, told: str) -> None:
    lingers = tmp_path / "policy.py"
    lingers.write_text(policy.format(seconds=300))
    listen = ["--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--page-listen", "off"]
    with subprocess.Popen(
        [*RUN, "serve", str(lingers), *listen], stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        try:
            while "policies: " not in server.stderr.readline():
                assert server.poll() is None
            server.send_signal(signal.SIGTERM)
            _, said = server.communicate(timeout=30)
        finally:
            server.kill()

    assert server.returncode == 0
    assert f"{told}; the program ends without" in said


@pytest.mark.parametrize(
    ("policy", "code"),
    [pytest.param(LINGERS, 0, id="yes"), pytest.param(LINGERS + "\n\nbayplan.filter(3)\n", 1, id="no")],
)
def test_the_exit_code_is_that_of_the_command(tmp_path: Path, policy: str, code: int) -> None:
    file = tmp_path / "policy.py"
    file.write_text(policy.format(seconds=300))

    done = subprocess.run([*RUN, "check", str(file)], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == code, done.stdout + done.stderr


def test_a_thread_that_ends_by_itself_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "policy.py"
    file.write_text(LINGERS.format(seconds=0.5))
    began = time.monotonic()

    done = subprocess.run([*RUN, "check", str(file)], capture_output=True, text=True, timeout=60, check=True)

    assert "go on" not in done.stderr
    assert time.monotonic() - began >= 0.5
