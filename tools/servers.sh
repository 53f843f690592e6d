#!/bin/sh
# Installs what tests use and PyPI does not have: MariaDB, Galera and a browser from Debian, a library that the embedded Firebird of PyPI
# leaves out, and mysqlclient, the faster driver, which has to be compiled. Never fails: what is missing is named here in one line, and by the tests.
# Usage: tools/servers.sh PYTHON

python=$1
PATH=$PATH:/usr/sbin
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Runs apt-get without questions; runlevel 1 asks it not to start the servers that it installs.
install_packages() {
    if [ "$(id -u)" -ne 0 ]; then
        echo "not root: $* not installed"
        return 1
    fi
    if ! command -v apt-get >"$log"; then
        echo "no apt-get: $* not installed"
        return 1
    fi
    if ! { apt-get update && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1; then
        echo "apt-get could not install $*: $(tail -n 1 "$log")"
        return 1
    fi
}

if ! command -v mariadbd >"$log" || ! command -v rsync >"$log" || [ ! -e /usr/lib/galera/libgalera_smm.so ]; then
    install_packages mariadb-server galera-4 rsync
fi

if ! command -v chromium >"$log" || ! command -v chromedriver >"$log"; then
    install_packages chromium chromium-driver
fi

if ! "$python" -c 'import ctypes; ctypes.CDLL("libtommath.so.1")' 2>"$log"; then
    install_packages libtommath1
fi

if ! "$python" -c 'import MySQLdb' 2>"$log"; then
    if ! command -v pkg-config >"$log" || ! pkg-config --exists libmariadb; then
        install_packages libmariadb-dev pkg-config gcc libc6-dev || echo "mysqlclient not installed, PyMySQL is used"
    fi
    if pkg-config --exists libmariadb 2>"$log" && ! "$python" -m pip install --quiet mysqlclient >"$log" 2>&1; then
        echo "mysqlclient could not be compiled, PyMySQL is used: $(tail -n 1 "$log")"
    fi
fi
exit 0
