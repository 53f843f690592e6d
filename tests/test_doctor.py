"""``isolde doctor`` says what is there and how to get what is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from test_cli import ENVIRONMENT, isolde


def test_everything_is_looked_at_and_nothing_is_started() -> None:
    found = isolde("doctor")
    assert found.status == 0
    for word in ("isolde", "z3-solver", "postgresql", "servers to start", "_ISOLDE_COMPLETE"):
        assert word in found.out
    checks = json.loads(isolde("doctor", "--json").out)["checks"]
    assert {"program", "packages", "databases", "servers to start"} <= {one["about"] for one in checks}


def test_what_is_missing_comes_with_the_command_that_gets_it() -> None:
    """A path without programs, and a driver that cannot be imported."""
    code = "import sys; sys.modules['pymysql'] = None; sys.modules['MySQLdb'] = None\nfrom isolde.cli import program; program()"
    environment = {**ENVIRONMENT, "PATH": "/nonexistent", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, "doctor"], capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    missing = [line for line in done.stdout.splitlines() if line.startswith("  --") and line.split()[1] == "mariadb"]
    driver, server = missing
    assert "pip install" in driver
    assert "no program" in server


def test_the_shell_completes_verbs() -> None:
    environment = {**os.environ, "_ISOLDE_COMPLETE": "bash_complete", "COMP_WORDS": "isolde che", "COMP_CWORD": "1"}
    code = "from isolde.cli import program; program()"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.argv[0] = 'isolde'\n{code}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    assert "check" in done.stdout
