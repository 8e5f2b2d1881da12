# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""Runs examples/with_postgresql beside a server of its own. Arguments: the program, a directory for stores.

Exit code 77: PostgreSQL is not there, has no user to run as, or cannot be started on this machine.
"""
import glob
import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77


def run(*command, **how):
    return subprocess.run([str(c) for c in command], check=True, text=True, stdout=subprocess.PIPE, **how).stdout


def server_user():
    """Servers refuse to run as root: the user that its package has made then."""
    if os.geteuid() != 0:
        return []
    try:
        pwd.getpwnam("postgres")
    except KeyError:
        sys.exit(SKIPPED)
    return ["runuser", "-u", "postgres", "--"]


def main():
    program, stores = sys.argv[1], pathlib.Path(sys.argv[2])
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb")) or glob.glob("/usr/bin/initdb")
    if not found or not shutil.which("psql"):
        sys.exit(SKIPPED)
    tools = pathlib.Path(found[-1]).parent
    user = server_user()
    shutil.rmtree(stores, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="tenure-postgresql-", dir="/tmp") as where:  # paths of sockets are short
        if user:
            shutil.chown(where, "postgres")
        data, log = f"{where}/data", f"{where}/log"
        options = f"-c max_prepared_transactions=5 -c listen_addresses= -c unix_socket_directories={where} -c fsync=off"
        try:
            run(*user, tools / "initdb", "-A", "trust", "-N", "--locale=C", "-D", data, cwd=where)
            run(*user, tools / "pg_ctl", "-D", data, "-l", log, "-o", options, "-w", "start", cwd=where)
        except (OSError, subprocess.CalledProcessError) as e:
            print(f"PostgreSQL cannot be started here: {e}\n{getattr(e, 'stdout', '')}")
            sys.exit(SKIPPED)
        try:
            connection = f"host={where} dbname=postgres" + (" user=postgres" if user else "")
            for stop, expected in (
                (None, "1 here, 1\n"),
                ("prepared", ""),
                (None, "tenure-example/2 was in doubt, and was rolled back\n2 here, 2\n"),
                ("committed", ""),
                (None, "tenure-example/3 was in doubt, and was committed\n4 here, 4\n"),
                (None, "5 here, 5\n"),
            ):
                shown = run(program, stores, connection, *(["--stop", stop] if stop else []))
                if shown != expected:
                    sys.exit(f"with --stop {stop}: {shown!r}, not {expected!r}")
        finally:
            run(*user, tools / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop", cwd=where)


if __name__ == "__main__":
    main()
