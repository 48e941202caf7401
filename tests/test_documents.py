"""The documents tell the truth: paths that they name are there, and generated pages are current."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PATH = re.compile(r"`((?:protocol|trierarch|actors|tests|tools|examples|bench|docs)/[\w/.\-]*|[\w]+\.(?:py|md|toml))`")


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "README.md", "CONFORMANCE.md", "CONTRIBUTING.md"])
def test_paths_in_documents_exist(document):
    """Every path in backquotes is a file or folder of the project."""
    named = sorted({match.group(1) for match in PATH.finditer((ROOT / document).read_text())})
    missing = [
        path for path in named if not (ROOT / path).exists() and not list((ROOT / "trierarch").glob(f"*/{path}"))
    ]
    assert not missing


def test_the_reference_is_current():
    """`docs/reference.md` is what the generator makes of the code now."""
    made = subprocess.run(
        [sys.executable, "tools/generate_docs.py", "--print"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    assert made == (ROOT / "docs" / "reference.md").read_text()
