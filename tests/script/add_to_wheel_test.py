"""script/add_to_wheel.py: the wheel holds the new files, and its RECORD names them."""

import base64
import hashlib
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "script" / "add_to_wheel.py"
RECORD = "some-1.0.dist-info/RECORD"


class AddToWheel(unittest.TestCase):
    def test_files_are_added_and_recorded(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            wheel, file = Path(folder) / "some-1.0-py3-none-any.whl", Path(folder) / "made.so"
            with zipfile.ZipFile(wheel, "w") as made:
                made.writestr("some/__init__.py", "")
                made.writestr(RECORD, f"some/__init__.py,,\n{RECORD},,\n")
            file.write_bytes(b"content")
            subprocess.run([sys.executable, SCRIPT, wheel, "some/prebuilt", file], check=True)
            with zipfile.ZipFile(wheel) as made:
                self.assertEqual(sorted(made.namelist()), sorted(["some/__init__.py", "some/prebuilt/made.so", RECORD]))
                self.assertEqual(made.read("some/prebuilt/made.so"), b"content")
                digest = base64.urlsafe_b64encode(hashlib.sha256(b"content").digest()).rstrip(b"=").decode()
                self.assertIn(f"some/prebuilt/made.so,sha256={digest},7", made.read(RECORD).decode().splitlines())

    def test_without_files_it_says_how(self) -> None:
        done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("WHEEL FOLDER FILE", done.stderr)


if __name__ == "__main__":
    unittest.main()
