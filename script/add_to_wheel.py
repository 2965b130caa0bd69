#!/usr/bin/env python3
"""Adds files to a wheel: add_to_wheel.py WHEEL FOLDER FILE..."""

from __future__ import annotations

import base64
import hashlib
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path


def line_of(name: str, content: bytes) -> str:
    """The line of RECORD about a file."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def add(wheel: Path, folder: str, files: list[Path]) -> None:
    """Adds the files to the folder of the wheel, and to its RECORD."""
    with tempfile.TemporaryDirectory(dir=wheel.parent) as temporary:
        made = Path(temporary) / wheel.name
        with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as after:
            (record,) = (info for info in before.infolist() if info.filename.endswith(".dist-info/RECORD"))
            for info in before.infolist():
                if info is not record:
                    after.writestr(info, before.read(info))
            lines = before.read(record).decode()
            for file in files:
                name = f"{folder}/{file.name}"
                after.write(file, name)
                lines += line_of(name, file.read_bytes())
            after.writestr(record, lines)
        shutil.move(made, wheel)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    add(Path(sys.argv[1]), sys.argv[2], [Path(file) for file in sys.argv[3:]])
