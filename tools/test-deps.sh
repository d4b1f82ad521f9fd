#!/usr/bin/env bash
# Installs what the tests use besides Go and npm, where it can: as root on a Debian-like system. Elsewhere the tests fetch a
# package of PostgreSQL 15, and those that need PgBouncer, faketime or a browser say that they were not run.
set -euo pipefail

install() { # program package
  if [ -x "$1" ] || command -v "$(basename "$1")" >/dev/null || ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    return
  fi
  # RUNLEVEL: the package's own service is not wanted, the tests start theirs.
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$2" >/dev/null ||
    echo "no $2 from the distribution"
}

install /usr/lib/postgresql/15/bin/postgres postgresql-15
install /usr/sbin/pgbouncer pgbouncer
install /usr/bin/faketime faketime
install /usr/bin/chromium chromium
